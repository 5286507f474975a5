"""The text box of chapter 17 as a learner uses it: typed into, and read without a kernel."""

import nbformat
import onnx
from playwright.sync_api import Page, expect

from tests.support.jupyterlab import Lab
from tests.support.small_decoder import decoder


def test_a_typed_text_is_continued(lab: Lab, page: Page):
    onnx.save(decoder(), lab.folder / "decoder.onnx")
    opened = lab.open(page, write(lab, "completion.ipynb"))
    opened.run_all()
    live, saved = (page.locator(f".onnxlab-completion.{form}") for form in ("live", "saved"))
    expect(live.locator("pre")).to_have_text("ab<ab<ab")
    expect(saved).to_be_hidden()
    box = page.get_by_label("Begin with")
    box.fill("b<")
    box.press("Enter")
    expect(live.locator("pre")).to_have_text("b<ab<ab<")
    expect(live).to_contain_text("last step: 1 token in; cache: 1 x (1, 2, 7, 3)")


def test_without_a_kernel_the_first_answer_is_there(lab: Lab, page: Page):
    """A committed notebook has the saved form only."""
    onnx.save(decoder(), lab.folder / "decoder.onnx")
    opened = lab.open(page, write(lab, "completion.ipynb"))
    opened.run_all()
    (cell,) = opened.cells()
    committed = nbformat.from_dict(
        cell | {"outputs": [out for out in cell["outputs"] if "text/html" in out["data"]]}
    )
    lab.open(page, write(lab, "committed.ipynb", committed))
    saved = page.locator(".onnxlab-completion.saved")
    expect(saved).to_contain_text("With a running kernel")
    expect(saved.locator("pre")).to_have_text("ab<ab<ab")


def write(lab: Lab, name: str, cell: nbformat.NotebookNode | None = None) -> str:
    """Put a notebook of one cell into the root; return its path there."""
    code = 'from onnxlab import completion\ncompletion({"one": "decoder.onnx"}, "ab", 6)'
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    new = nbformat.v4.new_notebook(cells=[cell or nbformat.v4.new_code_cell(code)], metadata=kernel)
    nbformat.write(new, lab.folder / name)
    return name
