"""The labs as a learner meets them: untouched, then a wrong answer, then a right one."""

from pathlib import Path

import pytest
from lab import KERNEL, ROOT, Lab, OpenNotebook
from playwright.sync_api import Locator, Page, expect

from onnxlab.labs.exercise import lab as lab_record

LABS = sorted((ROOT / "labs").glob("*.ipynb"))

OVERFLOWS = """def asinh_symbolic(g, x):
    one = g.op("Constant", value_t=torch.tensor(1.0))
    root = g.op("Sqrt", g.op("Add", g.op("Mul", x, x), one))
    return g.op("Log", g.op("Add", x, root))
"""
RIGHT = """def asinh_symbolic(g, x):
    return g.op("Asinh", x)
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_untouched_lab_runs_and_nothing_is_attempted(lab: Lab, page: Page, path: Path):
    notebook = lab.open(page, f"labs/{path.name}")
    notebook.run_all()
    outputs = [output for cell in notebook.cells() for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output["output_type"] == "error"]
    reports = str(outputs)
    for exercise in lab_record(path.stem).exercises:
        assert f"{exercise.id}: not attempted, 0 of {exercise.points} points" in reports


def write_answer(page: Page, notebook: OpenNotebook, function: str, source: str) -> Locator:
    """Type over the cell that holds a function, run it and the check below it; return the check's cell."""
    index = next(i for i, cell in enumerate(notebook.cells()) if f"def {function}(" in cell["source"])
    page.evaluate(
        """async (index) => {
          const notebook = window.jupyterapp.shell.currentWidget.content;
          notebook.activeCellIndex = index;
          await notebook.scrollToItem(index, 'start');
        }""",
        index,
    )
    page.locator(f".jp-Cell[data-windowed-list-index='{index}'] .cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(source)
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Shift+Enter")
    page.wait_for_function(f"() => {KERNEL}?.status === 'idle'")
    return page.locator(f".jp-Cell[data-windowed-list-index='{index + 1}']")


@pytest.mark.slow
def test_a_wrong_answer_is_red_with_a_counterexample_and_a_right_one_green(lab: Lab, page: Page, tmp_path):
    page.set_viewport_size({"width": 1280, "height": 1100})
    notebook = lab.open(page, "labs/lab04_asinh.ipynb")
    notebook.run_all()
    cell = write_answer(page, notebook, "asinh_symbolic", OVERFLOWS)
    report, frames = cell.locator(".onnxlab-report"), cell.locator("iframe.onnxlab-graph[data-status=ready]")
    expect(report).to_contain_text("asinh-symbolic: incorrect, 0 of 4 points")
    expect(report.locator("dt")).to_have_text(["for", "right is", "yours gives"])
    expect(frames).to_have_count(2, timeout=60_000)
    report.scroll_into_view_if_needed()
    page.screenshot(path=tmp_path / "red.png")
    cell = write_answer(page, notebook, "asinh_symbolic", RIGHT)
    expect(report).to_contain_text("asinh-symbolic: passed, 4 of 4 points")
    expect(report).to_contain_text("Compare with solutions/lab04_asinh.ipynb")
    expect(frames).to_have_count(0)
    page.screenshot(path=tmp_path / "green.png")
