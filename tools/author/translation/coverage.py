"""docs/coverage.md in another language: its prose, and its tables with the translated chapters' headings."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from onnxlab.language import LANGUAGES
from tools.author.translation.catalogue import Source
from tools.author.translation.units import Kind

DOCUMENT = PurePosixPath("docs", "coverage.md")
STATEMENT = "statement"
"""The kind of a statement and of a title: what was Chinese at first is quoted in its own words and marks."""

_ITEM = re.compile(r"(?P<mark>#+ |- |\d\. )?(?P<text>.+)", re.DOTALL)
_VERDICT = re.compile(
    r"(?P<word>confirmed|wrong|not tested here|outdated since)"
    r"(?P<release> [\w ]*?[\d.]+)?(?: (?P<limit>at the latest))?(?:: (?P<comment>.+))?"
)
_SECTION = re.compile(r"(?P<chapter>\d\d[a-z]?): (?P<headings>\*.+?\*)(?:; |$)")
_NUMBER = re.compile(r"\d+\. ")


def coverage_sources(document: str) -> Iterator[Source]:
    """Yield the texts to translate, in reading order."""
    for block in _blocks(document):
        yield from (Source(text, kind, str(DOCUMENT)) for text, kind in _texts(block))


def translated_coverage(
    document: str,
    words: Mapping[str, str],
    chapters: Mapping[str, Mapping[str, str]],
    language: str,
    mark: str,
) -> str:
    """Return the document in another language; a text without a translation stays English, and is marked.

    The mark follows such a text; a heading would have it in its anchor.
    """
    headings = {
        (number, text[found.end() :]): _NUMBER.sub("", translation, count=1)
        for number, texts in chapters.items()
        for text, translation in texts.items()
        if (found := _NUMBER.match(text))
    }
    blocks = [_translated(block, words, headings, mark) for block in _blocks(document)]
    text = "\n".join(blocks).replace("](../notebooks/", f"](../notebooks/{language}/")
    other = DOCUMENT.with_suffix(f".{language}.md").name
    return text.replace(f"[{LANGUAGES[language]}]({other})", f"[English]({DOCUMENT.name})")


def _blocks(document: str) -> list[str]:
    """Return the document's lines; those of one paragraph or one item stand together."""
    blocks: list[str] = []
    for line in document.split("\n"):
        apart = not line or not blocks or not blocks[-1] or re.match(r"[#|\[-]|\d\. ", line)
        if apart or blocks[-1].startswith(("#", "|", "[")):
            blocks.append(line)
        else:
            blocks[-1] += f"\n{line}"
    return blocks


def _columns(row: str) -> list[str]:
    return [column.strip() for column in row.strip("|").split(" | ")]


def _texts(block: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a block, each with its kind."""
    if not block or block.startswith("[") or not set(block) - set("|-"):
        return
    if not block.startswith("|"):
        item = _ITEM.fullmatch(block)
        assert item
        yield _joined(item["text"]), STATEMENT if re.match(r"#|\d", block) else Kind.TEXT
        return
    columns = _columns(block)
    verdict = _VERDICT.fullmatch(columns[2])
    if verdict is None:
        yield from ((column, STATEMENT) for column in columns)
        return
    yield columns[0], STATEMENT
    yield from ((word, STATEMENT) for word in (verdict["word"], verdict["limit"]) if word)
    if verdict["comment"]:
        yield verdict["comment"], Kind.TEXT


def _translated(
    block: str, words: Mapping[str, str], headings: Mapping[tuple[str, str], str], mark: str
) -> str:
    def of(text: str) -> str:
        return words.get(text) or text + mark * (not block.startswith("#"))

    if not block or block.startswith("[") or not set(block) - set("|-"):
        return block
    if not block.startswith("|"):
        item = _ITEM.fullmatch(block)
        assert item
        return f"{item['mark'] or ''}{of(_joined(item['text']))}"
    columns = _columns(block)
    verdict = _VERDICT.fullmatch(columns[2])
    if verdict is None:
        return f"| {' | '.join(map(of, columns))} |"
    word = f"{of(verdict['word'])}{verdict['release'] or ''}"
    limit = of(verdict["limit"]) if verdict["limit"] else ""
    comment = f"\uff1a{of(verdict['comment'])}" if verdict["comment"] else ""
    where = _SECTION.sub(lambda section: _section(section, headings, mark), columns[1]).rstrip("\uff1b")
    return f"| {of(columns[0])} | {where} | {word}{limit}{comment} | {columns[3]} |"


def _section(section: re.Match[str], headings: Mapping[tuple[str, str], str], mark: str) -> str:
    english = re.findall(r"\*(.+?)\*(?:, |$)", section["headings"])
    names = "\u3001".join(f"*{headings.get((section['chapter'], name), name + mark)}*" for name in english)
    return f"{section['chapter']}\uff1a{names}\uff1b"


def _joined(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text)
