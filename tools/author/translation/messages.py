"""Extracts the package's messages for learners from its source, where they are not marked.

An f-string becomes a pattern with named gaps, as "{name} is missing.". At run time
`onnxlab.language` finds the pattern that a finished English message was made from.
"""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnxlab.diagnosis.messages import sentences
from onnxlab.kit.status import Status
from onnxlab.language import AROUND, GAP, context, letters

_CLASS = "../../packages/onnxlab-class/src/onnxlab_class"
MODULES = (
    "kit",
    "labs",
    "judges",
    "notebook",
    "model",
    "runtime",
    "exporters",
    "patients",
    "diagnosis",
    "cli/__init__.py",
    "cli/files.py",
    "../../measurements/atlas",  # computes the texts that the atlas ships
    "machine.py",
    "history.py",
    "language.py",
    "cli/learner.py",
    "course/colab.py",
    "course/learner_folder.py",
    "course/workbook.py",
    "../../starter",
    "course/lab_check.py",
    "course/lab_release.py",
    "course/notebooks.py",
    *(f"{_CLASS}/{part}" for part in ("commands", "grading", "classroom", "sandbox")),
)
"""The modules with messages for learners and instructors."""

PAGES = tuple(
    f"{_CLASS}/{folder}" for folder in ("grading/templates", "classroom/room", "classroom/hub/templates")
)
"""The folders with the pages of a class, in HTML and JavaScript."""

# The arguments that a learner reads, by the name of the function.
_CALLS: dict[str, tuple[int | str, ...]] = {
    "Wrong": (0, 1, "message", "look_at"),
    "Difference": (0, 1, 2, "given", "expected", "got"),
    "Patient": ("symptom", "hints"),
    "Symptom": (1, 2, 3, "what", "why", "then"),
    "progress": (0,),
    "_Kind": (0,),  # of a drawn model: a learner reads which one the answer is wrong for
    **dict.fromkeys(("Scenario", "Container", "draw", "_module"), ("where",)),  # so, too
    "Outcome": (1,),  # of a patient
    "_Scene": (0,),  # what a detector finds
    "Link": (1,),  # a link of the operator atlas
    "tr": (0,),
    "step": (1,),  # of course.py, in the terminal
    **dict.fromkeys(("show_line", "show"), (0,)),
    "table": ("caption",),
    "add_parser": ("help", "description"),
    "add_argument": ("help",),
    "add_argument_group": (0, 1),
    "HTTPError": (1,),  # on the sign-in page of a class
    "_require_marker": (4,),
    "_require_as_before": (4,),
}
_ERROR = (0, 1, 2, "what", "why", "then")
_MESSAGE = {
    "where",
    "msg",
    "reason",
    "why",
    "then",
    "message",
    "text",
    "look_at",
    "what",
    "caption",
    "fact",
    "other",
    "shown_input",
    "shown_inputs",
    "HELP",  # of course.py
    "expected",
    "got",
}
_SENTENCE = re.compile(r"\S+( \S+){3,}[.?!:]", re.DOTALL)
_MODEL_KIND = re.compile(r"[A-Z]\S*( [^ {}()]+)+[^.?!:]")  # the kind of a drawn model, first in its row
# Composed at run time: the differences between two models, and the states of an exercise.
_COMPOSED = (
    *(
        f"{kind} {{name}} {{before}} -> {{after}}"
        for kind in ("attribute", "input", "output", "opset", "subgraph", "function")
    ),
    *(f"{kind} {{name}} differs" for kind in ("attribute", "subgraph", "weight")),
    *(f"{kind} {{name}} differs by up to {{number}}" for kind in ("attribute", "weight")),
    "operator {before} -> {after}",
    "weight {name}",
    "all of them: {names}",
    "none for {names}",
    "equal",
    "transposed",
    "{name} with indices",
    "{name} in mode {mode}",
    "{name} by {mode}",
    "{operator} after {name}",
    "Erf, of a Gelu",
    "{name} in float32 between quantised values",
    "{names} and {number} more",
    "nothing to install",
    "installed",
    "installed from the folder wheelhouse",
    # course.py, whose texts any Python since 2.7 has to parse
    "This is Python {version}, which is too old for the course.",
    "This is Python {version}, which is newer than the course.",
    "This is a 32-bit Python.",
    "This is a Python for Intel Macs.",
    "PyTorch and ONNX need Python {versions}.",
    "It is tested with Python {versions}; the packages it pins may not exist for a newer one.",
    "PyTorch exists for 64-bit Python only.",
    "PyTorch exists for Macs with Apple silicon only; on one, take the native Python.",
    "Install Python {version} (64 bit), from python.org for instance, and run this again.",
    "This machine has one that will do. Run: {command} course.py",
    "weight {name} {before} -> {after}",
    "No difference.",
    "renamed: {pairs}",
    "... and {number} more",
    "? unknown",
    "line {number}: {name}",
    "removed (red)",
    "added (green)",
    "changed (orange)",
    "the answer can be used",
    "not missing",
    "a picture of shape {shape}, scales {factors}",
    "{value} in picture {picture}, channel {channel}, at row {row}, column {column}",
    "output {name} at {place}",
    "output at {place}",
    "quantised, for x of shape {shape}",
    "input {name} of shape {shape}",
    "{name}, made by node {number}",
    "{a} and {b} at {place}, {count} of {size} elements",
    "axis {axis}: got {got}, expected {expected}",
    "got {got}, expected {expected}",
    "element {index}",
    "element {index} of output {name}",
    "row {row}, column {column}",
    "row {row}, column {column} of output {name}",
    "at {front}, row {row}, column {column}",
    "at {front}, row {row}, column {column} of output {name}",
    "x from {low} to {high}, {shape}",
    "row {row} is {numbers}",
    "gain {gain} in column {column}: {result}",
    "passed",
    "tried",
    "open",
    "{value} in picture {number}, channel {channel}, at row {row}, column {column}",
    # argparse's own words
    "options",
    "positional arguments",
    "commands",
    "show this help message and exit",
    "show program's version number and exit",
    "the following arguments are required: {names}",
    "unrecognized arguments: {names}",
    "argument {name}: expected one argument",
    "argument {name}: invalid choice: {name_chosen} (choose from {names})",
    "argument {name}: invalid {name_type} value: {name_value}",
    # The counts of a class
    *(
        f"{{whole}} {what}{end}"
        for what in ("submission", "student", "learner", "lab", "file", "exercise", "other")
        for end in ("", "s")
    ),
    *(f"{{whole}} {status}" for status in Status),
    "exercises: {counts}",
    # How a text is read in pieces, and what a network or a detector was drawn as
    *(
        f"{{whole}} new token{end} {cache}, batch of {{batch}}"
        for end in ("", "s")
        for cache in ("and an empty cache", "after a cache of {size}")
    ),
    "one token at a time from the start",
    "the whole text at once",
    "some tokens, then one at a time",
    "several tokens at a time",
    "as many new tokens as there are cached",
    "a cache up to the last position",
    "the longest text at once",
    "In PyTorch, {reading}",
    "The file, {reading}",
    "A network for {side} x {side2} {kind}",
    "A detector with one class. {scene}",
    "A detector with {count} classes. {scene}",
    "not graded, as the grader failed: {number}",
    # The feedback of a class
    "The notebook took longer than {wall} seconds.",
    "The notebook took more than {memory} MB of memory.",
    "The notebook wrote more than {disk} MB.",
    "The notebook ended its process (a crash in native code, or exit()).",
    "The notebook ended before this exercise was reached.",
    "What was made crashes ONNX Runtime or onnx ({why}).",
    "The judge could not make sense of what was handed in ({why}).",
    "Your model",
    "What was expected",
    "This graph is too large to be drawn.",
    "This graph could not be drawn.",
    "risk",  # the weight of a symptom, as "wrong" and "note" are
)
_IN_GAPS = tuple((gap, word) for gap in ("{before}", "{after}") for word in ("nothing", "present"))
_WORDS = ("labs", "judges", "exporters")  # their enumerations are shown, as the stages of an export
_EXPORTER = re.compile(r"^(TorchScript|torch\.export): ")
_IN_SCRIPT = re.compile(r"""\btr\(\s*(["'])(.+?)\1""")


def messages(package: Path) -> Iterator[tuple[str, ...]]:
    """Yield the messages for learners: the pattern, its kind (title, part, hint, message), and the file.

    A word in a gap that stands for something absent has a context, too.

    Args:
        package: The folder of the package `onnxlab`.
    """
    yield from ((text, "message", "put together at run time") for text in _COMPOSED)
    yield from ((word, "message", "put together at run time", gap) for gap, word in _IN_GAPS)
    for path in sorted((package / "labs").glob("lab*.toml")):
        for text, kind in _in_lab(tomllib.loads(path.read_text("utf-8"))):
            if letters(text):
                yield _escaped(text), kind, path.relative_to(package).as_posix()
    known = tomllib.loads((package / "assets" / "messages.toml").read_text("utf-8"))
    texts = [kind[part] for kind in known["kind"] for part in ("cause", "cure")]
    texts += [text for stage in known["stage"] for text in (stage["title"], stage["what"], *stage["steps"])]
    for text in texts:
        # A sentence with a gap that a message does not fill is left out: each is a text of its own.
        parts = [form for forms in sentences(text) for form in forms] if GAP.search(text) else [text]
        yield from ((part, "message", "assets/messages.toml") for part in parts)
    for module in MODULES:
        path = package / module
        for source in [path] if path.is_file() else sorted(path.rglob("*.py")):
            where = source.relative_to(package).as_posix().removeprefix("../../")
            for text, kind, *among in _in_module(
                ast.parse(source.read_text("utf-8")),
                words=module in _WORDS,
                returned=module.endswith("atlas"),
            ):
                # No markup, no regular expression, no option of a command.
                if letters(text) and not re.search(r"</?[a-z]+[ >]|\\\w|^-\S+$", text):
                    yield text.strip(AROUND), kind, where, *among
        for script in sorted(path.rglob("*.js")) if path.is_dir() else ():
            for match in _IN_SCRIPT.finditer(script.read_text("utf-8")):
                yield match[2].strip(AROUND), "message", script.relative_to(package).as_posix()
    for folder in PAGES:
        for page in sorted((package / folder).resolve().glob("*.[hj]*")):
            for match in _IN_SCRIPT.finditer(page.read_text("utf-8")):
                yield match[2].strip(AROUND), "message", page.name


def _in_lab(lab: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a lab's TOML file; a part's title without the exporter that it is asked of."""
    yield lab["title"], "title"
    for exercise in lab["exercise"]:
        yield exercise["title"], "title"
        yield from ((_EXPORTER.sub("", part), "part") for part in exercise["parts"])
        yield from ((hint, "hint") for hint in exercise["hints"])


def _in_module(tree: ast.Module, *, words: bool, returned: bool) -> Iterator[tuple[str, ...]]:
    for node in ast.walk(tree):  # docstrings, those of attributes too, are for developers
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            node.body = [statement for statement in node.body if not _is_docstring(statement)] or [ast.Pass()]
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, (ast.JoinedStr, ast.BinOp))
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if words and isinstance(node, ast.ClassDef) and "StrEnum" in map(ast.unparse, node.bases):
            values = (statement.value for statement in node.body if isinstance(statement, ast.Assign))
            yield from ((text, "message") for value in values for text in templates(value))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [getattr(target, "id", getattr(target, "attr", "")) for target in targets]
            if "columns" in names and isinstance(node.value, ast.Tuple):  # a table's headings
                texts = [text for heading in node.value.elts for text in templates(heading)]
                yield from ((text, "message", context(texts)) for text in texts)
            if "models" in names and isinstance(node.value, ast.List):  # drawn, the kind first in its row
                kinds = [row.elts[0] for row in node.value.elts if isinstance(row, ast.Tuple)]
                yield from ((text, "message") for kind in kinds for text in templates(kind))
            if "_REASONS" in names and isinstance(node.value, ast.Tuple):  # a pattern, the reason, the cure
                reasons = [row.elts[1:] for row in node.value.elts if isinstance(row, ast.Tuple)]
                yield from ((text, "message") for row in reasons for part in row for text in templates(part))
            if _MESSAGE & set(names):
                yield from ((text, "message") for text in templates(node.value))
        elif returned and isinstance(node, ast.Return) and node.value is not None:
            yield from ((text, "message") for text in templates(node.value))
        elif isinstance(node, ast.Call):
            yield from ((text, "message") for text in _from_call(node))
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[1], ast.Name):
            # What a learner reads beside what it names: the exceptions that may end a block.
            yield from ((text, "message") for text in templates(node.elts[0]) if " " in text)
        elif words and isinstance(node, ast.Tuple) and len(node.elts) > 2:
            yield from ((text, "message") for text in templates(node.elts[0]) if _MODEL_KIND.fullmatch(text))
        elif isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)) and (
            id(node) not in parts or isinstance(node, ast.JoinedStr)
        ):
            yield from ((text, "message") for text in templates(node) if _SENTENCE.fullmatch(text))


def _from_call(call: ast.Call) -> Iterator[str]:
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    is_error = name.endswith("Error") or name in _OWN_ERRORS
    arguments: dict[int | str | None, ast.expr] = dict(enumerate(call.args))
    arguments |= {word.arg: word.value for word in call.keywords}
    for key in _ERROR if is_error else _CALLS.get(name, ()):
        if key in arguments:
            yield from templates(arguments[key])


_OWN_ERRORS = {
    "AccountsUnreadable",
    "AddressRefused",
    "CannotServe",
    "ClassRefused",
    "ClassroomMissing",
    "ClusterFailed",
    "CourseUnusable",
    "HomesNotFound",
    "HubFailed",
    "JudgeBroken",
    "JudgeFailed",
    "JudgesRefused",
    "LedgerRefused",
    "NoIsolation",
    "NoRoom",
    "NoSubmissions",
    "PortTaken",
    "SandboxFailed",
    "WeakPassword",
    "WheelhouseRefused",
    "WorkerDied",
    "ClaimBroken",
    "ExportFailed",
    "InputMismatch",
    "LabNotInSync",
    "ModelNotReadable",
    "NotPassed",
    "NotebookUnreadable",
    "UnknownExercise",
    "UnknownRecord",
    "UnknownValue",
    "CannotWrite",
    "Stop",
    "InstallFailed",
}


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def template(node: ast.expr) -> str | None:
    """Return a text of the source as a pattern; None if it is not one text.

    Braces of a text without gaps stay as they are, unless they look like a gap.

    >>> template(ast.parse('f"{len(names)} of {total} " + "names"', mode="eval").body)
    '{len_names} of {total} names'
    """
    counts: Counter[str] = Counter()

    def written(part: ast.expr) -> str | None:
        if isinstance(part, ast.Constant):
            return part.value.replace("{", "{{").replace("}", "}}") if isinstance(part.value, str) else None
        if isinstance(part, ast.FormattedValue):
            name = re.sub(r"\W+", "_", ast.unparse(part.value)).strip("_")[-24:].strip("_") or "value"
            name = f"n{name}" if name[0].isdigit() else name
            counts[name] += 1
            return "{" + name + (str(counts[name]) if counts[name] > 1 else "") + "}"
        if isinstance(part, ast.JoinedStr):
            return "".join(written(value) or "" for value in part.values)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            left, right = written(part.left), written(part.right)
            return None if left is None or right is None else left + right
        return None

    pattern = written(node)
    if pattern is None or GAP.search(pattern):
        return pattern
    return _escaped(pattern.replace("{{", "{").replace("}}", "}"))


def _escaped(text: str) -> str:
    """Return a text without gaps as a pattern: its braces are doubled if they look like a gap."""
    return text.replace("{", "{{").replace("}", "}}") if GAP.search(text) else text


def templates(node: ast.expr) -> Iterator[str]:
    """Yield the patterns of an expression: both arms of `a if b else c`, each element of a list."""
    pattern = template(node)
    if pattern is not None:
        yield pattern
    elif isinstance(node, ast.IfExp):
        yield from (*templates(node.body), *templates(node.orelse))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):  # a sentence, and a name for another
        yield from (*templates(node.left), *templates(node.right))
    elif isinstance(node, ast.BoolOp):
        yield from (text for value in node.values for text in templates(value))
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from (text for element in node.elts for text in templates(element))
