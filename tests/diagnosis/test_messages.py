"""`onnxlab why`: messages of public threads, of the saved notebooks, and of no kind."""

import io
import re
import sys
import traceback
from pathlib import Path

import nbformat
import pytest
import torch

from onnxlab.cli import main
from onnxlab.diagnosis.messages import answers, explain
from onnxlab.patients.ward import patients

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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch warns about its own GRU and its tree specifications
def test_a_failed_decomposition_is_not_taken_for_a_failed_capture():
    class Pixels(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = torch.nn.GRU(8, 16, batch_first=True)

        def forward(self, image):
            return self.gru(image.flatten(2).transpose(1, 2))[0]

    image, auto = torch.randn(2, 8, 4, 6), torch.export.Dim.AUTO
    with pytest.raises(torch.onnx.errors.OnnxExporterError) as raised:
        torch.onnx.export(Pixels().eval(), (image,), dynamic_shapes=({2: auto, 3: auto},), verbose=False)
    first, *_ = explain("".join(traceback.format_exception(raised.value)))
    assert "step 2/3" in first.texts[0]
    # What the cure says.
    torch.onnx.export(Pixels().eval(), (image,), dynamic_shapes=({2: auto},), verbose=False)


def test_two_words_of_three_are_not_enough():
    assert explain("Deserialize failed: the size of the tensor is not known") == []


def test_each_text_finds_its_own_answer_first():
    assert [t for a in answers() for t in a.texts if explain(t)[0] != a] == []


_MESSAGE = re.compile(
    r"\b([A-Z]\w*(?:Error|Fail|InvalidArgument|NotImplemented|InvalidGraph|Warning|RuntimeException)): .{20,}"
)
_OWN_WORDS = ("AssertionError", "TypeError", "ValueError", "AttributeError", "IndexError")
"""What a recipe asserts, and what Python or NumPy say: each has words of its own."""


def messages_of(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the error messages and warnings among a notebook's saved outputs."""
    texts = [
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    ]
    found = [match for text in texts for match in _MESSAGE.finditer(re.sub(r"\x1b\[[0-9;]*m", "", text))]
    return [match[0] for match in found if match[1] not in _OWN_WORDS]


def test_messages_of_the_saved_notebooks_have_an_answer():
    pairs = [
        (path.name, text)
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        for text in messages_of(nbformat.read(path, 4))
    ]
    unknown = [(name, text[:120]) for name, text in pairs if not explain(text)]
    assert len(pairs) > 50
    assert unknown == []


def test_a_message_of_a_notebook_without_an_answer_is_found():
    text = "RuntimeError: the flux capacitor of node 12 is not connected"
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("stream", text=text)])
    assert [explain(text) for text in messages_of(nbformat.v4.new_notebook(cells=[cell]))] == [[]]


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
        assert answer.section in headings, f"{answer.chapter}: {answer.section}"
        assert not answer.patient or answer.patient in patients()


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
