"""Find the sentences of the chapters that claim something in general."""

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
GENERAL = re.compile(r"\b(every|all|only|must|never|nothing|always)\b", re.IGNORECASE)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
END = re.compile(r"(?<=[.!?])[*_\")]*\s+(?=[*_\"(`]*[A-Z0-9`])|\n\n+|\n(?=[-|#>])")
EXPLAIN = re.compile(r"\*\*Explain[^*]*\*\*(.*?)(?=\n\n\*\*[A-Z]|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Sentence:
    """A sentence that a probe might refute.

    Attributes:
        notebook: The chapter's file name without its suffix.
        heading: The heading above it, without the hashes.
        text: The sentence as it stands in the notebook, on one line.
        is_explain: Whether it belongs to an Explain.
        is_general: Whether it has one of the words every, all, only, must, never, nothing, always.
    """

    notebook: str
    heading: str
    text: str
    is_explain: bool
    is_general: bool


def chapters() -> list[Path]:
    """The English notebooks, in the order of their numbers."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]*.ipynb"))


def one_line(text: str) -> str:
    """Return a text with every run of white space as one space."""
    return " ".join(text.split())


def prose(notebook: Path) -> list[tuple[str, str]]:
    """Return (heading, source) of each Markdown cell."""
    cells = nbformat.read(notebook, as_version=4).cells
    heading, found = "", []
    for cell in cells:
        if cell.cell_type == "markdown":
            heading = [heading, *HEADING.findall(cell.source)][-1]
            found.append((heading, cell.source))
    return found


def sentences(notebook: Path) -> list[Sentence]:
    """Return each sentence of an Explain, and each general sentence elsewhere."""
    found = []
    for heading, source in prose(notebook):
        explains = [one_line(text) for text in EXPLAIN.findall(source)]
        for part in END.split(re.sub(r"^#+ .*$", "", source, flags=re.MULTILINE)):
            text = one_line(part.replace("**Explain.**", ""))
            inside = bool(text) and any(text in explain for explain in explains)
            general = bool(GENERAL.search(text))
            if text and (inside or general):
                found.append(Sentence(notebook.stem, heading, text, inside, general))
    return found


def count_by_proof() -> dict[str, int]:
    """Count the sentences of all chapters, and those whose section has a folded proof."""
    counts = {"all": 0, "explain": 0, "general": 0, "proved": 0}
    for path in chapters():
        heading, proved = "", set()
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                heading = [heading, *HEADING.findall(cell.source)][-1]
            elif "proof" in cell.metadata.get("tags", ()):
                proved.add(heading)
        for one in sentences(path):
            counts["all"] += 1
            counts["explain"] += one.is_explain
            counts["general"] += one.is_general
            counts["proved"] += one.heading in proved
    return counts
