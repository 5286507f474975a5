"""Links in documents lead to files, all chapters are listed, and commands parse with their options."""

import argparse
import re
import shlex
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from onnxlab.cli import _parser
from onnxlab.language import chosen_language
from tools.author.__main__ import parser as author_parser

ROOT = Path(__file__).parents[1]
CLASS_GUIDES = ROOT / "packages/onnxlab-class/docs"
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("labs/*.md"), *CLASS_GUIDES.glob("*.md")]
)
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)
COMMANDS = ("onnxlab ", "python -m tools.author ")
PRINTED = re.compile(r"^  (?:learners:|学员地址)", re.MULTILINE)
"""What `class serve` prints, in the reader's language."""
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@every_document
def test_every_link_to_a_file_leads_to_one(document):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_every_chapter_is_in_the_map_of_the_course(chapter):
    assert f"](../notebooks/{chapter.name})" in (ROOT / "docs/course.md").read_text(encoding="utf-8")
    assert f"](../notebooks/zh/{chapter.name})" in (ROOT / "docs/course.zh.md").read_text(encoding="utf-8")


def fenced(document: Path) -> list[str]:
    """The lines in fences that begin with our command, complete and without comments."""
    text = "\n".join(FENCE.findall(document.read_text(encoding="utf-8"))).replace("\\\n", " ")
    lines = (line.partition(" #")[0].strip().removeprefix("$ ") for line in text.splitlines())
    return [re.split(r"\s{3,}", line)[0] for line in lines if line.startswith(COMMANDS)]


def inline(document: Path) -> list[str]:
    """Code within sentences that begins with our command."""
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    commands = re.findall(r"`((?:onnxlab|python -m tools\.author) [^`]+)`", text)
    return [" ".join(code.split()) for code in commands if "..." not in code]


@pytest.mark.release
@pytest.mark.parametrize("name", ["grading", "instructor"])
def test_the_chinese_guide_has_the_commands_code_and_tables_of_the_english_one(name):
    english, chinese = (CLASS_GUIDES / f"{name}{edition}.md" for edition in ("", ".zh"))
    texts = [document.read_text(encoding="utf-8") for document in (english, chinese)]
    blocks = [[block for block in FENCE.findall(text) if not PRINTED.search(block)] for text in texts]
    blocks = [[re.sub("<[^>]+>", "<>", block) for block in edition] for edition in blocks]  # what to put in
    assert blocks[0] == blocks[1]
    texts = [FENCE.sub("", text) for text in texts]
    codes = [Counter(" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)) for text in texts]
    assert codes[0] == codes[1]
    lines = [re.findall(r"^(?:#+ |- |\|(?=.*\|))", text, re.MULTILINE) for text in texts]
    assert lines[0] == lines[1]  # headings, items of lists, rows of tables, in their order
    assert f"[English]({english.name})" in texts[1]
    assert f"({chinese.name})" in texts[0]


@pytest.mark.parametrize("document", ["grading.zh.md", "instructor.zh.md"])
def test_a_link_to_a_section_of_a_chinese_guide_leads_to_one(document):
    path = CLASS_GUIDES / document
    for file, section in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text(encoding="utf-8")):
        headings = re.findall(
            r"^#+ (.+)$", (path.parent / (file or path.name)).read_text("utf-8"), re.MULTILINE
        )
        sections = [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings]
        assert section in sections


onnxlab_parser, tools_parser = cache(_parser), cache(author_parser)


def parsed(command: str) -> tuple[argparse.ArgumentParser, list[str]]:
    """The parser of a command, and the words that it parses."""
    if command.startswith("onnxlab "):
        return onnxlab_parser(), chosen_language(shlex.split(command)[1:])[1]
    return tools_parser(), shlex.split(command)[3:]


def unknown(command: str) -> str:
    """The first word of a command that does not exist; arguments may be missing."""
    parser, words = parsed(command)
    for word in words:
        choices = next(
            (a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)), None
        )
        if choices is not None and not word.startswith("-"):
            if word not in choices:
                return word
            parser = choices[word]
        elif word.startswith("-") and word.partition("=")[0] not in parser._option_string_actions:
            return word
    return ""


@every_document
def test_every_command_of_a_document_exists(document, capsys):
    refused = [f"{command}: {word}" for command in inline(document) if (word := unknown(command))]
    for command in fenced(document):
        try:
            parser, words = parsed(command)
            parser.parse_args(words)
        except SystemExit:
            refused.append(f"{command}: {capsys.readouterr().err.splitlines()[0]}")
    assert not refused


def test_a_command_that_does_not_exist_is_recognised():
    assert unknown("onnxlab class nothing") == "nothing"
    assert unknown("python -m tools.author nothing") == "nothing"
    assert unknown("onnxlab grade --nothing") == "--nothing"
    assert unknown("onnxlab grade SUBMISSIONS --out DIR --seed 7") == ""
