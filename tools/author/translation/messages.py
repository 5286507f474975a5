"""Extracts the package's messages for learners from its source.

A text that a learner reads is an argument of a call of `KEYWORDS` (an error, `Wrong`, `tr`, `Message`), or
a whole sentence in a module for learners. Only constants count. Babel's extractor has such keywords, too, but
leaves the rest of a call at the first keyword in its arguments, and joins both texts of `a if b else c`.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from onnxlab.diagnosis.messages import sentences
from onnxlab.language import AROUND, context, letters
from onnxlab.message import GAP

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
    "cli",
    "networks",
    "files.py",
    "machine.py",
    "history.py",
    "language.py",
    "course",
    "../../starter",
    "../../measurements/atlas",  # computes the texts that the atlas ships
    *(
        f"{_CLASS}/{part}"
        for part in (
            "grading/marking.py",
            "grading/reports.py",
            "grading/run.py",
            "grading/submissions.py",
            "grading/worker",
            "sandbox/watcher.py",
            "classroom/hub/authenticator.py",
            "classroom/hub/visitors.py",
            "classroom/room",
        )
    ),
)
"""The modules with messages for learners; of a class, what feedback, a sign-in page or the room shows."""

PAGES = tuple(
    f"{_CLASS}/{folder}" for folder in ("grading/templates", "classroom/room", "classroom/hub/templates")
)
"""The folders with the pages of a class, in HTML and JavaScript."""

_ELSEWHERE = (
    # said by the recorded atlas, and by a grader to a learner
    "all of them: {names}",
    "none for {names}",
    "What was made crashes ONNX Runtime or onnx ({why}).",
    "The judge could not make sense of what was handed in ({why}).",
    "risk",
    "{operator} {name} output {number}",  # finished, as the maker of a value in a saved comparison of graphs
    *(
        f"{{number}} {noun}{{s}}"  # of `pluralise`
        for noun in ("array", "byte", "comparison", "input", "node", "note", "risk", "row", "set")
    ),
    "{count} wrong, {number} risk{s}, {more} note{s2}.",  # finished, in a saved output
    # chapter 14's `live_note`s, whose gaps are filled in other cells
    "faster",
    "slower",
    "p50 {p50}, p99 {p99}, per second {rate}",
    # the table of a comparison, whose code chapter 01 shows
    "largest difference",
    "wrong: {problem}",
    "below {bound}",
    "{count} of {total} elements, most at {where}: {value} instead of {expected}",
    "nothing was compared",
    "number of outputs",
    "cannot be loaded: {reason}",
    "asked for {names}, got {other_names}",
    # course.py, which any Python since 2.7 has to parse
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
    # two lines of the learner's help: the commands themselves are English
    "a class: hand out the labs, serve the course, watch, collect",
    "grade a class's labs",
    # argparse
    "Example: {code}",
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
)
_IN_GAPS = tuple((gap, word) for gap in ("{before}", "{after}") for word in ("nothing", "present"))
_THREE = (0, 1, 2, "what", "why", "then")  # of an error
KEYWORDS: dict[str, tuple[int | str, ...]] = {
    "tr": (0,),
    "Message": (0,),
    "Wrong": (0, 1, "message", "look_at"),
    "OnnxLabError": _THREE,
    "Stop": _THREE,  # of course.py
    "Symptom": (1, 2, 3, "what", "why", "then"),
    "finding": (2, 3),
    "Patient": ("symptom", "hints"),
    "HTTPError": (1,),  # on the sign-in page of a class
    "progress": (0,),
    "step": (1,),
    "Link": (1,),  # of the operator atlas
    **dict.fromkeys(("show_line", "show"), (0,)),
    "table": ("caption",),
    "add_parser": ("help", "description"),
    "add_argument": ("help",),
    "add_argument_group": (0, 1),
}
"""The arguments that a learner reads, by the name of the function; a subclass has those of its class."""

_WORDS = ("labs", "judges", "exporters", "kit/outcome")  # whose enumerations are shown, as an export's stages
_SENTENCE = re.compile(r"\S+( \S+){3,}[.?!:]\Z", re.DOTALL)
_NO_TEXT = re.compile(r"</?[a-z]+[ >]|\\\w|^-\S+$")  # markup, a regular expression, an option of a command
_EXPORTER = re.compile(r"^(TorchScript|torch\.export): ")
_IN_SCRIPT = re.compile(r"""\btr\(\s*(["'])(.+?)\1""")


def messages(package: Path) -> Iterator[tuple[str, ...]]:
    """Yield the messages for learners: the template, its kind (title, part, hint, message), and the file.

    A word that stands alone has a context, too.
    """
    yield from ((text, "message", "elsewhere") for text in _ELSEWHERE)
    yield from ((word, "message", "model/diff", gap) for gap, word in _IN_GAPS)
    for path in sorted((package / "labs").glob("lab*.toml")):
        for text, kind in _in_lab(tomllib.loads(path.read_text("utf-8"))):
            if letters(text):
                yield text, kind, path.relative_to(package).as_posix()
    known = tomllib.loads((package / "assets" / "messages.toml").read_text("utf-8"))
    texts = [kind[part] for kind in known["kind"] for part in ("cause", "fix")]
    texts += [text for stage in known["stage"] for text in (stage["title"], stage["what"], *stage["steps"])]
    for text in texts:
        # A sentence with a gap that a message does not fill is left out: each is a text of its own.
        parts = [form for forms in sentences(text) for form in forms] if GAP.search(text) else [text]
        yield from ((part, "message", "assets/messages.toml") for part in parts)
    sources = {
        source: ast.parse(source.read_text("utf-8"))
        for path in (package / module for module in MODULES)
        for source in ([path] if path.is_file() else sorted(path.rglob("*.py")))
    }
    keywords = _with_subclasses(sources.values())
    for source, tree in sources.items():
        where = source.relative_to(package).as_posix().removeprefix("../../")
        for text, *among in _in_module(tree, keywords, words=where.startswith(_WORDS)):
            if letters(text) and not _NO_TEXT.search(text):
                yield text.strip(AROUND), "message", where, *among
    scripts = [script for module in MODULES for script in sorted((package / module).rglob("*.js"))]
    pages = [page for folder in PAGES for page in sorted((package / folder).resolve().glob("*.[hj]*"))]
    for page in dict.fromkeys([*scripts, *pages]):
        for match in _IN_SCRIPT.finditer(page.read_text("utf-8")):
            yield match[2].strip(AROUND), "message", page.name


def _in_lab(lab: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a lab's TOML file; a part's title without the exporter that it is asked of."""
    yield lab["title"], "title"
    for exercise in lab["exercise"]:
        yield exercise["title"], "title"
        yield from ((_EXPORTER.sub("", part), "part") for part in exercise["parts"])
        yield from ((hint, "hint") for hint in exercise["hints"])


def _with_subclasses(trees: Iterable[ast.Module]) -> dict[str, tuple[int | str, ...]]:
    """Return the keywords, with every class that is made from one of them."""
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    keywords = dict(KEYWORDS)
    for _ in classes:
        more = {
            node.name: keywords[name]
            for node in classes
            for base in node.bases
            if node.name not in keywords and (name := _name(base)) in keywords
        }
        if not more:
            break
        keywords |= more
    return keywords


def _in_module(
    tree: ast.Module, keywords: Mapping[str, tuple[int | str, ...]], *, words: bool
) -> Iterator[tuple[str, ...]]:
    """Yield a module's texts, each with the context in which it stands, if it has one."""
    no_text = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # a docstring
    no_text |= {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            arguments: dict[int | str | None, ast.expr] = dict(enumerate(node.args))
            arguments |= {keyword.arg: keyword.value for keyword in node.keywords}
            for key in keywords.get(_name(node.func), ()):
                if key in arguments:
                    yield from ((text,) for text in texts(arguments[key]))
        elif words and isinstance(node, ast.ClassDef) and "StrEnum" in map(_name, node.bases):
            values = (statement.value for statement in node.body if isinstance(statement, ast.Assign))
            yield from ((text,) for value in values for text in texts(value))
        elif isinstance(node, ast.AnnAssign | ast.Assign) and isinstance(node.value, ast.Tuple):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if "columns" in map(_name, targets):  # a table's headings
                headings = list(texts(node.value))
                yield from ((text, context(headings)) for text in headings)
        elif isinstance(node, ast.Constant) and id(node) not in no_text and _SENTENCE.match(str(node.value)):
            yield (str(node.value),)


def _name(node: ast.expr) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def texts(node: ast.expr) -> Iterator[str]:
    """Yield the constant texts of an expression: both of `a if b else c`, each element of a list.

    >>> list(texts(ast.parse('"a" if b else ("c", f(d), "e" + f)', mode="eval").body))
    ['a', 'c', 'e']
    """
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp():
            yield from (*texts(node.body), *texts(node.orelse))
        case ast.BinOp():
            yield from (*texts(node.left), *texts(node.right))
        case ast.BoolOp(values=elements) | ast.Tuple(elts=elements) | ast.List(elts=elements):
            yield from (text for element in elements for text in texts(element))
