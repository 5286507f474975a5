"""From an English notebook and a catalogue to the notebook in another language."""

import copy
import json
import os.path
import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from onnxlab.authoring.notebooks import Notebook
from onnxlab.authoring.translation.outputs import retell
from onnxlab.authoring.translation.units import Kind, Unit, units
from onnxlab.notebook.language import LANGUAGES

__all__ = ["generated", "other_language"]

_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)]*)?\))")


def other_language(path: PurePosixPath, language: str) -> str:
    """Return the line of an English page that leads to the same page in another language.

    It is the same in a lab and in the solution that the lab is made from.

    >>> other_language(PurePosixPath("labs/lab05_bitshift.ipynb"), "zh")
    '[Chinese \u00b7 \u4e2d\u6587](../labs/zh/lab05_bitshift.ipynb)'
    """
    return f"[{LANGUAGES[language]}](../{path.parent}/{language}/{path.name})"


def generated(
    notebook: Notebook,
    path: PurePosixPath,
    words: Mapping[str, str],
    language: str,
    exists: Callable[[str], bool],
) -> Notebook:
    """Return a notebook in another language; what has no translation stays English.

    `onnxlab.notebook.language` has to speak the language: outputs get the words that it says.

    Args:
        notebook: The English notebook.
        path: Where it lies in the course, as "notebooks/02_trace_and_script.ipynb".
        words: The translations of its texts.
        language: As "zh".
        exists: Tells whether the course has a file.
    """
    result = copy.deepcopy(notebook)
    spoken = False
    for cell in result["cells"]:
        found = units(cell)
        edits = [(unit, _written(unit, words[unit.text])) for unit in found if unit.text in words]
        for unit, text in reversed(edits):
            cell["source"] = cell["source"][: unit.start] + text + cell["source"][unit.end :]
        if cell["cell_type"] == "markdown":
            back = f"[{LANGUAGES['en']}](../{path.name})"
            cell["source"] = cell["source"].replace(other_language(path, language), back)
            cell["source"] = _LINK.sub(lambda link: _moved(link, path, language, exists), cell["source"])
        elif cell["cell_type"] == "code":
            for output in cell["outputs"]:
                retell(output, cell["source"])
            if not spoken:
                spoken = True
                cell["source"] = f'import onnxlab\n\nonnxlab.speak("{language}")\n\n{cell["source"]}'
    return result


def _written(unit: Unit, text: str) -> str:
    """A translation as it stands in the source."""
    match unit.kind:
        case Kind.QUESTION | Kind.CAPTION:
            return json.dumps(text, ensure_ascii=False)
        case Kind.DOCSTRING:
            lines = text.split("\n")
            end = f"\n{unit.indent}" if len(lines) > 1 else ""
            return '"""' + f"\n{unit.indent}".join(lines) + end + '"""'
        case Kind.COMMENT:
            return f"# {text}"
        case Kind.DRAWING:
            return f"{text}\n"
    return text


def _moved(link: re.Match[str], path: PurePosixPath, language: str, exists: Callable[[str], bool]) -> str:
    """A link that still leads there from a folder further down; to the translated page where there is one."""
    target = link[2]
    if re.match(r"\w+:|/", target) or target == f"../{path.name}":
        return link[0]
    full = posixpath.normpath(posixpath.join(str(path.parent), target))
    folder, name = os.path.split(full)
    for translated in (f"{folder}/{language}/{name}", re.sub(r"\.md$", f".{language}.md", full)):
        if translated != full and exists(translated):
            full = translated
            break
    return link[1] + posixpath.relpath(full, str(path.parent / language)) + link[3]
