"""The installed nbgrader parses every nbgrader command in the documents; none is run."""

import re
import shlex
from pathlib import Path

import pytest
from nbgrader.apps.nbgraderapp import NbGraderApp

ROOT = Path(__file__).parents[5]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/docs/*.md")])
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*nbgrader ([a-z_]+\b.*)")


def commands(text: str) -> list[str]:
    """The arguments of the nbgrader commands in a text, in fences and within sentences."""
    lines = "\n".join(FENCE.findall(text)).splitlines()
    codes = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", FENCE.sub("", text))]
    return [match[1] for line in [*lines, *codes] if (match := COMMAND.fullmatch(line.strip()))]


def refused(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Why nbgrader refuses a command, or ""; required arguments may be missing."""
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
    lines = commands(document.read_text(encoding="utf-8"))
    assert {command: why for command in lines if (why := refused(command, capsys))} == {}
