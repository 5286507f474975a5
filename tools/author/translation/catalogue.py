"""Catalogues: a .po file for each notebook, one for texts in tables and options, one for the package."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polib

from onnxlab.language import is_pattern
from onnxlab.message import GAP
from tools.author.translation.units import Kind, units

GAPS = "python-brace-format"
"""The flag of an entry whose text has gaps."""

_ALIKE = 0.55  # similarity from which a changed text keeps its translation, marked as fuzzy


@dataclass(frozen=True)
class Source:
    """A text to translate.

    Attributes:
        text: The English.
        kind: Its kind, as "title".
        place: The id of its cell, or its file in the package: for people, not for matching.
        context: Of a word that stands alone: what it stands among, see `onnxlab.language.context`.
    """

    text: str
    kind: str
    place: str
    context: str = ""

    @property
    def has_gaps(self) -> bool:
        """Whether it is a pattern; in a notebook's own text, braces have no meaning."""
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

    Texts are matched, not places, so a text that moved keeps its translation; so does one in which only the
    names of the gaps have changed, with the variables they come from. A text with other words keeps it, too,
    marked as fuzzy; the translation of a text that is gone becomes obsolete.
    """
    new = polib.POFile(wrapwidth=0)
    new.metadata = {
        "Language": language,
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Transfer-Encoding": "8bit",
    }
    entries: dict[tuple[str, str], polib.POEntry] = {}
    for source in sources:
        entry = entries.get((source.context, source.text))
        if entry is None:
            flags = [GAPS] if source.has_gaps else []
            entry = polib.POEntry(msgid=source.text, comment=source.kind, flags=flags)
            entry.msgctxt = source.context or None
            entries[source.context, source.text] = entry
            new.append(entry)
        if (source.place, "") not in entry.occurrences:
            entry.occurrences.append((source.place, ""))
    before = {
        (entry.msgctxt or "", entry.msgid): entry
        for entry in sorted(old, key=lambda entry: not entry.obsolete)
    }
    changed = []
    for entry in entries.values():
        old_entry = before.pop((entry.msgctxt or "", entry.msgid), None)
        if old_entry is None and not entry.msgctxt:
            changed.append(entry)
        elif old_entry is None:  # a word alone: no other one is like it
            continue
        else:
            entry.msgstr, entry.tcomment = old_entry.msgstr, old_entry.tcomment
            if old_entry.fuzzy:
                entry.flags, entry.previous_msgid = [*entry.flags, "fuzzy"], old_entry.previous_msgid
    gone = {text: entry for (where, text), entry in before.items() if entry.msgstr and not where}
    words = {GAP.sub("{}", text): text for text in gone}
    for entry in changed:
        same = words.pop(GAP.sub("{}", entry.msgid), None)
        if same in gone:
            names = dict(zip(GAP.findall(same), GAP.findall(entry.msgid), strict=True))
            parts = GAP.split(gone.pop(same).msgstr)  # every second one is the name of a gap
            parts[1::2] = [f"{{{names.get(name, name)}}}" for name in parts[1::2]]
            entry.msgstr = "".join(parts)
        elif near := difflib.get_close_matches(entry.msgid, gone, 1, _ALIKE):
            old_entry = gone.pop(near[0])
            entry.msgstr, entry.previous_msgid = old_entry.msgstr, old_entry.msgid
            entry.flags = [*entry.flags, "fuzzy"]
    for entry in gone.values():
        new.append(
            polib.POEntry(msgid=entry.msgid, msgstr=entry.msgstr, comment=entry.comment, obsolete=True)
        )
    return new
