"""Rules for an entry of a catalogue: what its translation must keep, and its punctuation and terms."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import polib

from onnxlab.message import GAP
from tools.author.translation.units import MARKDOWN

_CJK = r"\u3400-\u9fff"
_HALF_WIDTH = re.compile(rf"[{_CJK}][,;:?!()]|[,;:?!()][{_CJK}]|[{_CJK}]\.(?!\w)")
_CLOSE = re.compile(rf"[{_CJK}][A-Za-z0-9]|[A-Za-z0-9%][{_CJK}]")
_STOP = "\u3002\uff1a\uff0c\uff1b\uff01\uff1f"
_PLAIN_WORD = re.compile(r"(?<![\w.`])[a-z]{2,}(?![\w.`(])")
_NAMES = 3  # up to so many words in lower case, a text may consist of names, which stay English
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MARKDOWN = ("text",)
_MARKED = ("shown", "message", "title", "part", "hint", "caption")  # their only markup is `code`
_QUOTED = re.compile("“[^”]*”|《[^》]*》")
_ENDING = re.compile(r"s\d*$|s_.*|.*_else.*|ending\d*")  # a gap for the ending of an English word


class Glossary:
    """The table of `glossary.md`: the terms of a translation, and words that it must not use."""

    def __init__(self, path: Path) -> None:
        self._rows: list[tuple[re.Pattern[str], tuple[str, ...]]] = []
        self._never: list[str] = []
        for line in path.read_text("utf-8").splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not line.startswith("|") or len(cells) < 4 or cells[0] in ("English", "---"):
                continue
            english, chinese, never = (tuple(filter(None, cell.split(", "))) for cell in cells[:3])
            self._never += never
            if cells[3] == "✓":
                words = "|".join(map(re.escape, english))
                pattern = re.compile(rf"\b(?:{words})(?:s|ed|d|ing)?\b", re.IGNORECASE)
                self._rows.append((pattern, (*chinese, *english)))

    def unwanted(self, text: str) -> Iterator[str]:
        """Yield the words that no text must use."""
        text = text.replace("\u7b14\u8bb0\u672c\u7535\u8111", "laptop")
        yield from (f"the word {word}" for word in self._never if word in text)

    def faults(self, english: str, translation: str) -> Iterator[str]:
        """Yield the terms that a translation lacks, and the words that it must not use."""
        for pattern, terms in self._rows:
            match = pattern.search(english)
            if match and not any(word.lower() in translation.lower() for word in (*terms, match[0])):
                yield f"{match[0]!r} without {' or '.join(terms[:2])}"
        yield from self.unwanted(translation)


def faults(entry: polib.POEntry, glossary: Glossary, shown: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the faults of a translation, which may quote what tables show for an English word."""
    english, translation, kind = entry.msgid, entry.msgstr, entry.comment
    if kind == "drawing":
        if len(english.split("\n")) != len(translation.split("\n")):
            yield "another number of lines"
        return
    if kind == "statement":  # of a text that was Chinese: what is quoted keeps its words and its marks
        yield from _typography(_QUOTED.sub("", translation))
        return
    if ("\n" in translation) > ("\n" in english) or (
        translation != translation.strip(" ") and english == english.strip(" ")
    ):
        yield "a line break, or white space around it"
    english_parts, translated_parts = _parts(english, kind), _parts(translation, kind)
    for what in english_parts:
        lost = english_parts[what] - translated_parts[what]
        added = translated_parts[what] - english_parts[what]
        if what == "code":
            for word in [word for word in lost if (shown or {}).get(word) in added]:
                added[(shown or {})[word]] -= lost.pop(word)
            added = +added
        differences = lost if what == "numbers" else lost | added
        if differences:
            yield f"{what} differ: {', '.join(map(str, differences))}"
    if unknown := set(GAP.findall(translation)) - set(GAP.findall(english)):
        yield f"unknown gaps: {', '.join(unknown)}"
    if translation == english:
        if (
            kind in ("text", "message", "hint")
            and len(_PLAIN_WORD.findall(GAP.sub("", _without_code(english)))) > _NAMES
        ):
            yield "still English"
        return
    yield from _typography(translation, "".join(_visible(translation, kind)))
    if kind in _MARKDOWN:
        yield from stops_within_emphasis(translation)
    if "您" in translation:
        yield "the word 您"
    if not entry.msgctxt:  # there a word may mean something else, as the weight of a symptom
        yield from glossary.faults(_without_code(english), translation)


def page_faults(text: str, glossary: Glossary) -> Iterator[str]:
    """Yield the faults of a text that was written in the language, as a page of Markdown."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    for line in text.splitlines():
        bare = re.sub(r"<[^>]*>|\]\([^)]*\)|:::.*", "]", line)
        found = [*_typography(bare), *stops_within_emphasis(line), *glossary.unwanted(_without_code(bare))]
        yield from (f"{fault}: {line.strip()[:40]}" for fault in found)


def stops_within_emphasis(text: str) -> Iterator[str]:
    """Yield where bold ends with a stop, which closes it only before a space, and where it is not closed."""
    tokens = MARKDOWN.parseInline(text)[0].children or []
    for before, token in itertools.pairwise(tokens):
        if token.type == "strong_close" and before.content.endswith(tuple(_STOP)):
            yield f"a stop within emphasis: {before.content}"
    yield from (
        f"bold that is not bold: {token.content}"
        for token in tokens
        if token.type == "text" and "**" in token.content
    )


def _typography(translation: str, visible: str = "") -> Iterator[str]:
    """Yield half-width punctuation, and Chinese that touches Latin letters where it can be seen."""
    outside = re.sub(r"`[^`]*`", "`", _without_code(translation))
    plain = visible or GAP.sub("", translation.replace("`", ""))
    for what, text, pattern in (
        ("half-width punctuation", outside, _HALF_WIDTH),
        ("no space", plain, _CLOSE),
    ):
        if match := pattern.search(text):
            yield f"{what}: {match[0]}"
    if match := re.search(r"\d %(?!\w)", outside):
        yield f"a space before the sign: {match[0]}"


def _parts(text: str, kind: str) -> dict[str, Counter[str]]:
    """Return the parts of a text that its translation must have, too, by their kind."""
    parts: dict[str, Counter[str]] = {
        what: Counter() for what in ("code", "links", "emphasis", "gaps", "numbers")
    }
    if kind in _MARKDOWN:
        for token in MARKDOWN.parseInline(text)[0].children or ():
            if token.type == "code_inline":
                parts["code"][token.content] += 1
            elif token.type == "link_open":
                parts["links"][str(token.attrs["href"])] += 1
            elif token.type in ("strong_open", "em_open"):
                parts["emphasis"][token.type.removesuffix("_open")] += 1
    elif kind in _MARKED:
        parts["code"] = Counter(re.findall(r"`[^`]+`", text))
        parts["gaps"] = Counter(name for name in GAP.findall(text) if not _ENDING.fullmatch(name))
    outside = _without_code(GAP.sub("", text))
    parts["numbers"] = Counter(_NUMBER.findall(re.sub(r"\]\([^)]*\)", "]", outside)))
    return parts


def _visible(text: str, kind: str) -> Iterator[str]:
    """Yield the text as it is visible on the page."""
    if kind not in _MARKDOWN:
        yield GAP.sub("", text.replace("`", ""))
        return
    for token in MARKDOWN.parseInline(text)[0].children or ():
        if token.type in ("text", "code_inline"):
            yield token.content


def _without_code(text: str) -> str:
    return re.sub(r"`[^`]*`", "` `", text)
