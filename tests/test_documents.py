"""Links in documents lead to files, all chapters are listed, and commands parse with their options."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from onnxlab.cli import _parser

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "labs").glob("*.md")])
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@every_document
def test_every_link_to_a_file_leads_to_one(document):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_every_chapter_is_in_the_map_of_the_course(chapter):
    assert f"](notebooks/{chapter.name})" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"](notebooks/zh/{chapter.name})" in (ROOT / "README.zh.md").read_text(encoding="utf-8")


def fenced(document: Path) -> list[str]:
    """The lines in fences that begin with our command, complete and without comments."""
    text = "\n".join(FENCE.findall(document.read_text(encoding="utf-8"))).replace("\\\n", " ")
    lines = (line.partition(" #")[0].strip().removeprefix("$ ") for line in text.splitlines())
    return [re.split(r"\s{3,}", line)[0] for line in lines if line.startswith("onnxlab ")]


def inline(document: Path) -> list[str]:
    """Code within sentences that begins with our command."""
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    return [" ".join(code.split()) for code in re.findall(r"`(onnxlab [^`]+)`", text) if "..." not in code]


def unknown(command: str) -> str:
    """The first word of a command that does not exist; arguments may be missing."""
    parser = _parser()
    for word in shlex.split(command)[1:]:
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
            _parser().parse_args(shlex.split(command)[1:])
        except SystemExit:
            refused.append(f"{command}: {capsys.readouterr().err.splitlines()[0]}")
    assert not refused


def test_a_command_that_does_not_exist_is_recognised():
    assert unknown("onnxlab author nothing") == "nothing"
    assert unknown("onnxlab grade --nothing") == "--nothing"
    assert unknown("onnxlab grade SUBMISSIONS --out DIR --seed 7") == ""
