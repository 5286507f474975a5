"""Predictions as a learner uses them: clicked or typed, revealed, and read without a kernel."""

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.support.jupyterlab import KERNEL, Lab

QUESTION = (
    'from onnxlab import predict, predict_grid\nguess = predict("How often?", ["never", "once", "twice"])'
)
GRID = """
sizes = ["batch of 1", "batch of 2"]
grid = predict_grid(["static", "dynamic"], sizes, ["runs", "fails"], question="Who runs?")
"""
ANSWERS = """
answers = dict.fromkeys([(row, column) for row in grid.rows for column in grid.columns], "runs")
grid.reveal(answers | {("static", "batch of 2"): "fails"})
"""
CELLS = [QUESTION, GRID.strip(), 'guess.reveal("twice")', ANSWERS.strip()]


@pytest.fixture
def notebook(lab: Lab, page: Page):
    """A fresh notebook whose first two cells, the questions, have run."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    new = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    nbformat.write(new, lab.folder / "predictions.ipynb")
    opened = lab.open(page, "predictions.ipynb")
    run_cells(page, 0, 1)
    expect(options(page)).to_have_count(3)
    page.locator(".onnxlab-predict.live table").wait_for()
    return opened


def run_cells(page: Page, *indices: int) -> None:
    for index in indices:
        page.evaluate(
            """async (index) => {
              window.jupyterapp.shell.currentWidget.content.activeCellIndex = index;
              await window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            index,
        )
    page.wait_for_function(f"() => {KERNEL}?.status === 'idle'")


def options(page: Page):
    return page.locator(".onnxlab-predict.live").get_by_role("radio")


def grid_cell(page: Page, row: int, column: int):
    return page.locator(".onnxlab-predict.live tbody tr").nth(row).locator("button").nth(column)


def answer(page: Page, number: int):
    return page.locator(".onnxlab-predict.answer").nth(number)


def test_the_saved_form_steps_aside_for_the_live_one(notebook, page: Page):
    expect(page.locator(".onnxlab-predict.live")).to_have_count(2)
    for saved in page.locator(".onnxlab-predict.saved").all():
        expect(saved).to_be_hidden()


def test_a_click_is_shown_and_told_at_the_reveal(notebook, page: Page):
    options(page).nth(1).click()
    expect(options(page).nth(1)).to_have_attribute("aria-checked", "true")
    options(page).nth(0).click()  # another thought, before the answer is out
    run_cells(page, 2)
    expect(answer(page, 0)).to_contain_text("You said: never. It is: twice")
    expect(options(page).nth(2)).to_have_class("good")
    expect(options(page).nth(0)).to_have_class("bad")
    options(page).nth(2).click(force=True)  # too late
    expect(options(page).nth(0)).to_have_attribute("aria-checked", "true")


def test_without_a_click_only_the_answer_is_told(notebook, page: Page):
    run_cells(page, 2, 3)
    expect(answer(page, 0)).to_have_text("Answer: twice")
    expect(answer(page, 1)).not_to_contain_text("predictions right")
    expect(page.locator(".onnxlab-predict.live .bad")).to_have_count(0)


def test_a_grid_cell_goes_through_the_choices_and_back_to_none(notebook, page: Page):
    cell = grid_cell(page, 0, 0)
    for text in ("?", "runs", "fails", "?"):
        expect(cell).to_have_text(text)
        cell.click()


def test_the_grid_counts_what_was_predicted(notebook, page: Page):
    grid_cell(page, 0, 0).click()  # runs: right
    grid_cell(page, 0, 1).click()  # runs: wrong
    run_cells(page, 3)
    expect(answer(page, 0)).to_contain_text("1 of 2 predictions right.")
    expect(answer(page, 0).locator("td.good")).to_have_text("\u2713 runs")
    expect(answer(page, 0).locator("td.bad")).to_have_text("\u2717 fails (you said runs)")
    expect(page.locator(".onnxlab-predict.live .hint").nth(1)).to_have_text("1 of 2 predictions right.")


def test_a_cell_run_at_once_knows_the_last_click(notebook, page: Page):
    page.evaluate(
        """async () => {
          const [first, second] = document.querySelectorAll('.onnxlab-predict.live td button');
          for (const button of [first, second, second, first, first, first]) button.click();
          window.jupyterapp.shell.currentWidget.content.activeCellIndex = 3;
          await window.jupyterapp.commands.execute('notebook:run-cell');
        }"""
    )
    expect(answer(page, 0)).to_contain_text("2 of 2 predictions right.")


def test_everything_works_from_the_keyboard_and_the_focus_is_seen(notebook, page: Page):
    options(page).first.focus()
    page.keyboard.press("ArrowDown")
    expect(options(page).nth(1)).to_be_focused()
    page.keyboard.press("Space")
    expect(options(page).nth(1)).to_have_attribute("aria-checked", "true")

    grid_cell(page, 0, 0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    here = grid_cell(page, 1, 1)
    expect(here).to_be_focused()
    assert here.evaluate("button => getComputedStyle(button).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(here).to_have_text("runs")
    expect(here).to_be_focused()
    expect(here).to_have_attribute("aria-label", "dynamic, batch of 2: runs")


def test_tab_stops_once_in_each_question(notebook, page: Page):
    for stops in (options(page), page.locator(".onnxlab-predict.live td button")):
        assert [button.get_attribute("tabindex") for button in stops.all()].count("0") == 1


def test_without_a_kernel_the_saved_form_is_there(notebook, lab: Lab, page: Page):
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    (lab.folder / "reopened.ipynb").write_bytes((lab.folder / "predictions.ipynb").read_bytes())
    lab.open(page, "reopened.ipynb")
    expect(page.locator(".onnxlab-predict.live")).to_have_count(0)
    expect(page.locator(".onnxlab-predict.saved").first).to_be_visible()
    expect(page.locator(".onnxlab-predict.saved").first).to_contain_text("How often?")
    expect(page.get_by_text("Error displaying widget")).to_be_hidden()
