"""`onnxlab why`: messages of public threads, of the saved notebooks, and of no kind."""

import io
import re
import sys
from pathlib import Path

import nbformat
import pytest

from onnxlab.cli import main
from onnxlab.diagnosis.messages import answers, explain

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

THREADS = [
    tuple(line.split("\t"))
    for line in Path(__file__).with_name("threads.tsv").read_text("utf-8").splitlines()
]
"""A public thread, the chapter that answers it, and its message as torch or the runtime words it."""


@pytest.mark.parametrize(("chapter", "text"), [row[1:] for row in THREADS], ids=[row[0] for row in THREADS])
def test_a_message_of_a_public_thread_leads_to_its_chapter(chapter, text):
    assert any(answer.chapter.startswith(chapter) for answer in explain(text))


def test_a_whole_traceback_leads_to_the_same_answer():
    text = "\n".join(
        ["Traceback (most recent call last):", '  File "a.py", line 3, in <module>', "    f()", THREADS[1][2]]
    )
    assert explain(text)[0] == explain(THREADS[1][2])[0]


def test_each_text_finds_its_own_answer_first():
    assert [t for a in answers() for t in a.texts if explain(t)[0] != a] == []


_MESSAGE = re.compile(
    r"\b([A-Z]\w*(?:Error|Fail|InvalidArgument|NotImplemented|InvalidGraph|Warning|RuntimeException)): .{20,}"
)


def test_messages_of_the_saved_notebooks_have_an_answer():
    """Four of five: what a recipe asserts, and what Python or NumPy say, have words of their own."""
    unknown, known = [], 0
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            for output in cell.get("outputs", []):
                text = output.get("text") or output.get("data", {}).get("text/plain", "")
                for match in _MESSAGE.finditer(re.sub(r"\x1b\[[0-9;]*m", "", text)):
                    if match[1] in (
                        "AssertionError",
                        "TypeError",
                        "ValueError",
                        "AttributeError",
                        "IndexError",
                    ):
                        continue
                    if explain(match[0]):
                        known += 1
                    else:
                        unknown.append((path.name, match[0][:120]))
    assert known > 40
    assert len(unknown) <= known / 5, unknown


def test_every_answer_leads_to_a_section():
    for answer in answers():
        notebook = nbformat.read(NOTEBOOKS / f"{answer.chapter}.ipynb", 4)
        headings = {
            line.lstrip("# ")
            for cell in notebook.cells
            if cell.cell_type == "markdown"
            for line in cell.source.splitlines()
            if line.startswith("#")
        }
        assert not answer.section or answer.section in headings, f"{answer.chapter}: {answer.section}"


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (THREADS[11][2], 0, "Explained in chapter 07_operator_support"),
        ("the cat sat on the mat", 1, "torch.export.export"),
    ],
)
def test_the_command_answers_an_argument_and_a_pipe(capsys, monkeypatch, text, code, says):
    assert main(["why", text]) == code
    shown = capsys.readouterr().out
    assert says in shown
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["why"]) == code
    assert capsys.readouterr().out == shown
