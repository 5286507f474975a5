"""Catalogues: a .po file for each notebook, one for words in tables and options, one for the package's."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polib

from onnxlab.authoring.translation.units import Kind, units
from onnxlab.notebook.language import is_pattern

__all__ = [
    "GAPS",
    "Source",
    "merged",
    "notebook_sources",
    "open_catalogue",
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
    """

    text: str
    kind: str
    place: str

    @property
    def has_gaps(self) -> bool:
        """Whether it is a pattern; in a notebook's own text, braces are only braces."""
        return self.kind not in list(Kind) and is_pattern(self.text)


def notebook_sources(notebook: dict[str, Any]) -> Iterator[Source]:
    """Yield the texts of a notebook in reading order."""
    for cell in notebook["cells"]:
        for unit in units(cell):
            yield Source(unit.text, unit.kind, cell["id"])


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
            flags = [GAPS] if source.has_gaps else []
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
