"""The operator atlas as a learner uses it: searched, filtered, and read without a kernel."""

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.support.jupyterlab import PATIENCE, Lab

CELL = "from onnxlab import atlas\natlas(opset=20)"


@pytest.fixture
def opened(lab: Lab, page: Page):
    """A notebook whose only cell shows the atlas."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    new = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)], metadata=kernel)
    nbformat.write(new, lab.folder / "atlas.ipynb")
    page.set_default_timeout(3 * PATIENCE)  # the registries are read at the first call
    notebook = lab.open(page, "atlas.ipynb")
    notebook.run_all()
    page.locator(".onnxlab-atlas.live table").wait_for()
    page.set_default_timeout(PATIENCE)
    return notebook


def row(page: Page, operator: str, exporter: str):
    lines = page.locator(".onnxlab-atlas.live tbody tr")
    name = page.locator(f"td:text-is('{operator}')")
    return lines.filter(has=name).filter(has=page.locator(f"td:text-is('{exporter}')")).first


def slide(page: Page, opset: int):
    page.locator(".onnxlab-atlas.live").get_by_label("Opset").fill(str(opset))


def test_the_atlas_answers_while_it_is_searched_and_filtered(opened, lab: Lab, page: Page):
    live = page.locator(".onnxlab-atlas.live")
    expect(page.locator(".onnxlab-atlas.saved")).to_be_hidden()

    live.get_by_label("Search").fill("asinh")
    expect(row(page, "asinh", "TorchScript")).to_contain_text("\u2717 rule")
    expect(row(page, "asinh", "torch.export")).to_contain_text("own rule")
    slide(page, 8)
    expect(live.locator("output")).to_have_text("8")
    expect(row(page, "asinh", "TorchScript")).to_contain_text("Asinh only since 9")
    slide(page, 20)

    live.get_by_label("Exporter").select_option("TorchScript")
    expect(live.locator("td:text-is('torch.export')")).to_have_count(0)
    live.get_by_label("Missing").select_option("none")
    expect(live.locator(".count")).to_contain_text("0 rows")
    live.get_by_label("Search").fill("tanh")
    expect(row(page, "tanh", "TorchScript")).to_be_visible()
    expect(live.locator("tbody tr td:last-child").first).not_to_contain_text("\u2717")
    expect(live.locator("td:text-is('atanh')")).to_have_count(0)

    live.get_by_label("Missing").select_option("")
    live.get_by_label("Exporter").select_option("torch.export")
    live.get_by_label("Search").fill("BitShift")  # an ONNX operator: every rule whose source names it
    shift = row(page, "bitwise_right_shift", "torch.export")
    expect(shift).not_to_contain_text("\u2717")
    live.get_by_label("Element type").select_option("int16")
    expect(shift).to_contain_text("no kernel for int16: BitShift")

    live.get_by_label("Search").fill("no such operator")
    expect(live.locator(".count")).to_contain_text("0 rows")

    # Keys belong to the search box: "b" and "d", "d" would be commands of the notebook.
    live.get_by_label("Search").fill("")
    live.get_by_label("Search").press_sequentially("bdd")
    expect(live.get_by_label("Search")).to_have_value("bdd")
    assert len(opened.cells()) == 1

    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    (lab.folder / "atlas_reopened.ipynb").write_bytes((lab.folder / "atlas.ipynb").read_bytes())
    lab.open(page, "atlas_reopened.ipynb")
    expect(page.locator(".onnxlab-atlas.live")).to_have_count(0)
    expect(page.locator(".onnxlab-atlas.saved")).to_contain_text("upsample_bicubic2d")
