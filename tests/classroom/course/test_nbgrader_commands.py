"""Every command of nbgrader that a document gives is one: the installed nbgrader parses it; none is run."""

import re
import shlex
from pathlib import Path

import pytest
from nbgrader.apps.nbgraderapp import NbGraderApp

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*nbgrader ([a-z_]+\b.*)")


def commands(text: str) -> list[str]:
    """The lines in fences, and the code within sentences, that are commands of nbgrader, without its name."""
    lines = "\n".join(FENCE.findall(text)).splitlines()
    codes = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", FENCE.sub("", text))]
    return [found[1] for each in [*lines, *codes] if (found := COMMAND.fullmatch(each.strip()))]


def refused(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What nbgrader has against a command; not all of its arguments need be there."""
    name, *rest = shlex.split(command)
    if name not in NbGraderApp.subcommands:
        return f"there is no {name}"
    app = NbGraderApp.subcommands[name][0]()
    unknown = [
        word
        for word in rest
        if word.startswith("-") and word.partition("=")[0].lstrip("-") not in {*app.flags, *app.aliases}
    ]
    if unknown:
        return f"{name} has no {unknown[0]}"
    try:
        app.parse_command_line(rest)
    except SystemExit:
        return capsys.readouterr().err.splitlines()[-1]
    return ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nbgrader_takes_every_command_of_a_document(document, capsys):
    found = commands(document.read_text(encoding="utf-8"))
    assert {each: why for each in found if (why := refused(each, capsys))} == {}


def test_a_command_that_nbgrader_does_not_take_would_be_found(capsys):
    assert commands("`nbgrader's API`, `LATE=1 nbgrader collect lab`\n\n```\nnbgrader list\n```\n") == [
        "list",
        "collect lab",
    ]
    assert refused("release_feedback lab04_asinh --force", capsys) == "release_feedback has no --force"
    assert refused("give_back lab04_asinh", capsys) == "there is no give_back"
    assert "expected one argument" in refused("collect lab04_asinh --student", capsys)
    assert refused("collect lab04_asinh --update --student=ada", capsys) == ""
