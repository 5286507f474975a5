"""What the course's tables and questions show and no cell gives them as a text of its own: headings, options.

They are read from the saved outputs. A text counts that a cell's code has as a string: whatever else is shown
was computed by PyTorch or ONNX, and is the same in every language.
"""

import ast
import html
import re
from collections.abc import Collection, Iterator
from typing import Any

from onnxlab.authoring.translation.templates import template, templates
from onnxlab.notebook.language import letters, regular

__all__ = ["shown_texts"]

_BOX = re.compile(
    r'<(?:div class="onnxlab-(?:predict|slider)|table class="onnxlab-table|figure)(.*)', re.DOTALL
)
_TEXT = re.compile(r"<(p(?=>)|th|td|li|caption|figcaption)\b[^>]*>(?!<)(.*?)</\1>", re.DOTALL)
_NAME = re.compile(r"\w*[A-Z]\w*")  # of an operator, a class, a program
_CODE = re.compile(r"[_(){}\[\]=<>\\]|\w\.\w|::|\d\.\d")


def shown_texts(notebook: dict[str, Any], recorded: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the id of a cell and a text that it shows, with gaps where the text was put together.

    What `live_note` says, and what a slider calls its number, is in no saved output: the code has it.

    Args:
        notebook: The notebook, with its outputs.
        recorded: Texts that it may show without having them in its code: those of recorded facts.
    """
    literals, patterns = _strings(notebook)
    literals |= set(recorded)
    for cell in notebook["cells"]:
        yield from ((cell["id"], text) for text in _notes(cell))
        for output in cell.get("outputs", ()):
            markup = output.get("data", {}).get("text/html", "")
            box = _BOX.search(markup)
            for tag, inner in _TEXT.findall(box[1]) if box else ():
                text = html.unescape(re.sub(r"</?code>", "`", inner))
                if tag == "caption" and text in literals:
                    continue  # translated in the code
                for line in text.split("\n"):
                    yield from ((cell["id"], found) for found in _known(line, literals, patterns))


def _is_prose(text: str) -> bool:
    """Tell a text from a name, a list of names, and code."""
    bare = re.sub(r"`[^`]*`", "", text)
    if not _CODE.search(bare):
        return bool(letters(bare)) and not _NAME.fullmatch(bare)
    parts = [part.split() for part in bare.split(", ")]
    return any(len(part) > 1 and any(re.fullmatch(r"[a-z]{2,}", word) for word in part) for part in parts)


def _notes(cell: dict[str, Any]) -> Iterator[str]:
    if cell["cell_type"] == "code" and re.search(r"\b(?:live_note|slider)\(", cell["source"]):
        for node in ast.walk(ast.parse(cell["source"])):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "live_note":
                yield from templates(node.args[0])
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "slider":
                names = [word.value for word in node.keywords if word.arg == "name"]
                yield from (text for name in names for text in templates(name) if letters(text))


def _strings(notebook: dict[str, Any]) -> tuple[set[str], list[tuple[re.Pattern[str], str]]]:
    literals, patterns = set(), {}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        try:
            tree = ast.parse(cell["source"])
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                literals.add(node.value)
            elif isinstance(node, ast.JoinedStr) and (text := template(node)) and letters(text):
                patterns[text] = regular(text)
            elif isinstance(node, ast.keyword) and node.arg and isinstance(node.value, ast.Constant):
                literals.add(node.arg)  # dict(input="x"): a heading
    ranked = sorted(patterns.items(), key=lambda pair: -letters(pair[0]))
    return literals, [(pattern, text) for text, pattern in ranked]


def _known(text: str, literals: set[str], patterns: list[tuple[re.Pattern[str], str]]) -> Iterator[str]:
    if text in literals:
        if _is_prose(text):
            yield text
        return
    for pattern, found in patterns:
        if match := pattern.fullmatch(text):
            yield found
            for gap in match.groups():
                yield from _known(gap, literals, patterns)
            return
