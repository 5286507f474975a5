"""Catalogues: a .po file for each notebook, one for words in tables and options, one for the package's."""

import difflib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polib

from onnxlab.authoring.translation.messages import messages
from onnxlab.authoring.translation.outputs import shown_texts
from onnxlab.authoring.translation.units import units
from onnxlab.notebook.language import is_pattern

__all__ = [
    "GAPS",
    "Source",
    "merged",
    "message_sources",
    "notebook_sources",
    "open_catalogue",
    "shown_sources",
]

GAPS = "python-brace-format"
"""The flag of an entry whose text has gaps."""

_ALIKE = 0.55  # from here on, a changed text keeps its translation, marked as fuzzy


@dataclass(frozen=True)
class Source:
    """A text to translate.

    Attributes:
        text: The English.
        kind: What it is.
        place: The id of its cell, or its file in the package: for people, not for matching.
        gaps: Whether it is a pattern.
    """

    text: str
    kind: str
    place: str
    gaps: bool = False


def notebook_sources(notebook: dict[str, Any]) -> Iterator[Source]:
    """Yield the texts of a notebook in reading order."""
    for cell in notebook["cells"]:
        for unit in units(cell):
            yield Source(unit.text, unit.kind, cell["id"])


def shown_sources(
    notebooks: Iterable[tuple[str, dict[str, Any]]], recorded: Collection[str]
) -> Iterator[Source]:
    """Yield what tables and options of the notebooks show, each given with its name."""
    for name, notebook in notebooks:
        for cell, text in shown_texts(notebook, recorded):
            yield Source(text, "shown", f"{name}#{cell}", is_pattern(text))


def message_sources(package: Path) -> Iterator[Source]:
    """Yield the package's words for learners."""
    for text, kind, place in messages(package):
        yield Source(text, kind, place, is_pattern(text))


def open_catalogue(path: Path) -> polib.POFile:
    """Read a catalogue; an empty one where there is none yet."""
    return polib.pofile(str(path), wrapwidth=0) if path.exists() else polib.POFile(wrapwidth=0)


def merged(old: polib.POFile, sources: Iterable[Source], language: str) -> polib.POFile:
    """Return a catalogue of the sources with the translations of an older one.

    Texts are matched, not places: a text that moved keeps its translation. A changed one keeps it, too, and
    is marked fuzzy; the translation of one that is gone becomes obsolete.
    """
    new = polib.POFile(wrapwidth=0)
    new.metadata = {
        "Language": language,
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Transfer-Encoding": "8bit",
    }
    entries: dict[str, polib.POEntry] = {}
    for source in sources:
        entry = entries.get(source.text)
        if entry is None:
            flags = [GAPS] if source.gaps else []
            entry = polib.POEntry(msgid=source.text, comment=source.kind, flags=flags)
            entries[source.text] = entry
            new.append(entry)
        if (source.place, "") not in entry.occurrences:
            entry.occurrences.append((source.place, ""))
    before = {entry.msgid: entry for entry in sorted(old, key=lambda entry: not entry.obsolete)}
    changed = []
    for entry in entries.values():
        known = before.pop(entry.msgid, None)
        if known is None:
            changed.append(entry)
        else:
            entry.msgstr, entry.tcomment = known.msgstr, known.tcomment
            if known.fuzzy:
                entry.flags, entry.previous_msgid = [*entry.flags, "fuzzy"], known.previous_msgid
    gone = {text: entry for text, entry in before.items() if entry.msgstr}
    for entry in changed:
        near = difflib.get_close_matches(entry.msgid, gone, 1, _ALIKE)
        if near:
            known = gone.pop(near[0])
            entry.msgstr, entry.previous_msgid = known.msgstr, known.msgid
            entry.flags = [*entry.flags, "fuzzy"]
    for known in gone.values():
        new.append(
            polib.POEntry(msgid=known.msgid, msgstr=known.msgstr, comment=known.comment, obsolete=True)
        )
    return new
