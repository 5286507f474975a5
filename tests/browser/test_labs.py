"""The labs as a learner meets them: untouched, then a wrong answer, then a right one."""

import re

import nbformat
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from onnxlab.kit.exercise import LABS
from onnxlab.kit.exercise import exercise as find
from onnxlab.kit.exercise import lab as lab_record
from tests.support.jupyterlab import ROOT, JupyterServer
from tests.support.notebook_page import Notebook, WatchedPage, wait_until

# For one exercise of each lab, how the solution becomes a wrong answer that looks right.
MISTAKES = {
    "loop-count-as-input": ("range(n)", "range(2)"),
    "dynamic-axes-for": ("> 1", "> 0"),
    "untangle": (".clamp(min=0.001)", ".clamp(min=0.001).item()"),
    "asinh-symbolic": ('g.op("Asinh", x)', 'g.op("Log", g.op("Add", x, g.op("Sqrt", g.op("Mul", x, x))))'),
    "uint8-shift-translation": ('direction="LEFT"', 'direction="RIGHT"'),
    "scales-input": ("return number, ", "return 1, "),
    "to-global-indices": ("torch.arange(n * c).reshape(n, c, 1, 1)", "torch.arange(c).reshape(1, c, 1, 1)"),
    "fold-batchnorm": ("(sum(old) - mean)", "(sum(old) + mean)"),
}
# nbval runs every lab, tests/labs/test_contract.py gives wrong answers to each exercise, and a report looks
# the same in all; with --all all of them.
EXERCISES = [
    pytest.param(exercise, marks=() if exercise == "fold-batchnorm" else pytest.mark.release)
    for exercise in MISTAKES
]


@pytest.mark.release
@pytest.mark.parametrize("name", sorted({*LABS} - {find(exercise)[0].name for exercise in MISTAKES}))
def test_untouched_lab_runs_and_nothing_is_attempted(lab: JupyterServer, page: Page, name: str):
    require_not_attempted(lab.open(page, f"labs/{name}.ipynb"), name)


def require_not_attempted(notebook: Notebook, name: str) -> None:
    """Run all cells of a lab as it is handed out."""
    notebook.run_all()
    outputs = [output for cell in notebook.contents() for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output["output_type"] == "error"]
    reports = str(outputs)
    for exercise in lab_record(name).exercises:
        assert f"{exercise.id}: not attempted, 0 of {exercise.points} points" in reports


def write_answer(page: Page, notebook: Notebook, function: str, source: str) -> Locator:
    """Type over the cell that holds a function, run it and the check below it; return the check's cell."""
    index = next(i for i, cell in enumerate(notebook.contents()) if f"def {function}(" in cell["source"])
    notebook.scroll_to(index).locator(".cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(source)
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Shift+Enter")
    notebook.wait_for_kernel()
    return page.locator(f".jp-Cell[data-windowed-list-index='{index + 1}']")


def solution_of(exercise: str) -> tuple[str, str]:
    """The lab of an exercise, and the cell that solves it."""
    record, _ = find(exercise)
    book = nbformat.read(ROOT / "solutions" / f"{record.name}.ipynb", 4)
    solved = next(
        cell for cell in book.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == exercise
    )
    return record.name, re.sub(r"^ *### (BEGIN|END) SOLUTION\n?", "", solved.source, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_wrong_answer_is_red_and_a_right_one_green(lab: JupyterServer, page: Page, exercise: str):
    page.set_viewport_size({"width": 1280, "height": 1100})
    name, right = solution_of(exercise)
    good, bad = MISTAKES[exercise]
    assert good in right
    function = exercise.replace("-", "_")
    notebook = lab.open(page, f"labs/{name}.ipynb")
    require_not_attempted(notebook, name)
    cell = write_answer(page, notebook, function, right.replace(good, bad))
    report, frames = cell.locator(".onnxlab-report"), cell.locator("iframe.onnxlab-graph")
    expect(report).to_contain_text(f"{exercise}: incorrect, 0 of")
    expect(report).to_contain_text("\u2717")
    expect(report).to_contain_text(f'hint("{exercise}")')
    for frame in frames.all():
        expect(frame).to_have_attribute("data-status", "ready")
    report.scroll_into_view_if_needed()
    write_answer(page, notebook, function, right)
    expect(report).to_contain_text(f"{exercise}: passed")
    expect(report).to_contain_text("Checked for torch")
    expect(frames).to_have_count(0)


STEPS = (
    "import os, tempfile\n"
    'os.environ["ONNXLAB_STATE"] = tempfile.mkdtemp() + "/progress.json"  # a learner who begins\n'
    "from onnxlab import check, progress\n",
    'check("asinh-symbolic", lambda g, x: g.op("Atan", x))',
    'check("asinh-symbolic", lambda g, x: g.op("Asinh", x))',
    "progress()",
)


@pytest.mark.slow
def test_a_check_leads_on_and_nothing_of_it_is_saved(lab: JupyterServer, page: Page):
    """By keyboard and by a link; opened again without its kernel, no message stands in its place."""
    notebook = lab.new(page, STEPS, "labs/steps.ipynb")
    notebook.run_all()
    expect(page.locator(".onnxlab-way")).to_have_count(2)
    notebook.save()
    path = lab.folder / "labs" / "steps.ipynb"
    wait_until(page, lambda: "widget-view" in path.read_text("utf-8"))
    saved = path.read_text("utf-8")
    assert "onnxlab-way" not in saved

    failed, passed, shown_map = (notebook.cells.nth(index) for index in range(1, 4))
    failed.get_by_role("button", name="Hint", exact=True).focus()
    page.keyboard.press("Enter")
    expect(failed).to_contain_text("Hint 1 of 3: ")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(failed).to_contain_text("inputs: (float32")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(failed.locator("iframe.onnxlab-graph")).to_have_count(3)
    expect(failed).to_contain_text("Hint 1 of 3: ")
    expect(failed).to_contain_text("inputs: (float32")
    expect(passed.get_by_role("button", name="Hint", exact=True)).to_have_count(0)
    expect(shown_map).to_contain_text("Go on: lab04_asinh")
    expect(shown_map.locator(".onnxlab-progress.saved")).to_be_hidden()
    passed.get_by_role("link", name="Go on: lab04_asinh, Translate asinh").click()
    wait_for_tab(page, "lab04_asinh.ipynb")
    heading = page.get_by_role("heading", name="A translation for the other exporter")
    # JupyterLab scrolls to the heading's cell; what is drawn late above it may hide its first line.
    expect(page.locator(".jp-MarkdownCell").filter(has=heading).last).to_be_in_viewport()

    lab.end_kernels()
    path.with_name("saved.ipynb").write_text(saved, "utf-8")
    page = page.context.new_page()
    page.goto(lab.address("labs/saved.ipynb"))
    dead = page.locator(".jupyter-widgets")
    expect(dead).to_have_count(4)
    for index in range(4):
        expect(dead.nth(index)).to_be_hidden()


def run_cell(notebook: Notebook, source: str) -> Locator:
    """Put a cell of one's own at the top of an open notebook and run it; return it."""
    notebook.fill([source])
    notebook.run(0)
    notebook.wait_for_kernel()
    return notebook.cells.nth(0)


def wait_for_tab(page: Page, name: str) -> None:
    page.wait_for_function("(name) => window.jupyterapp.shell.currentWidget.title.label === name", arg=name)


# Cells are looked for in the whole page.
CLOSE_OTHERS = """() => {
  const { shell } = window.jupyterapp;
  for (const tab of [...shell.widgets('main')]) if (tab !== shell.currentWidget) tab.dispose();
}"""
WRONG = """
from onnxlab.notebook.predict import answers
entry = {"question": "Will it run?", "options": ["yes", "no"], "chosen": "yes", "actual": "no"}
answers.keep(answers._questions()["00_start_here"][0], entry | {"right": False})
"""


@pytest.mark.slow
def test_in_the_workbook_everything_leads_on(workbook: JupyterServer, browser: Browser):
    """The map, a pass, progress, a prediction to ask again, and a pasted message, from the first chapter."""
    watched = WatchedPage.open(browser)
    page = watched.page
    notebook = workbook.open(page, "notebooks/00_start_here.ipynb")

    def come_back() -> None:
        page.get_by_role("tab", name="00_start_here.ipynb").click()
        wait_for_tab(page, "00_start_here.ipynb")
        page.evaluate(CLOSE_OTHERS)

    page.get_by_role("link", name="course's map").click()
    page.locator(".jp-MarkdownViewer").get_by_role("link", name="02 Trace and script").click()
    wait_for_tab(page, "02_trace_and_script.ipynb")
    come_back()

    chdir = "import os, tempfile\nos.chdir(tempfile.mkdtemp())\n"  # as every chapter does
    cell = run_cell(notebook, chdir + STEPS[0] + STEPS[3])
    links = cell.locator(".onnxlab-progress.live").get_by_role("link")
    expect(links.first).to_have_text("Go on: 01_first_deployment")
    links.filter(has_text="lab01_control_flow").click()
    wait_for_tab(page, "lab01_control_flow.ipynb")
    come_back()
    page.locator(".onnxlab-progress.live .go").click()
    wait_for_tab(page, "01_first_deployment.ipynb")
    come_back()

    cell = run_cell(notebook, STEPS[2])
    solved, button = cell.locator(".jp-RenderedMarkdown"), "Compare with a solution"
    expect(cell).to_contain_text("asinh-symbolic: passed")
    expect(solved).to_have_count(0)
    cell.get_by_role("button", name=button).click()
    expect(solved).to_contain_text('return g.op("Asinh", x)')
    expect(solved).to_be_in_viewport()
    cell = run_cell(notebook, STEPS[1])
    expect(cell).to_contain_text("asinh-symbolic: incorrect")
    expect(cell.get_by_role("button", name=button)).to_have_count(0)

    cell = run_cell(notebook, WRONG + STEPS[3])
    expect(cell).to_contain_text("1 of 1 predictions answered, 0 right")
    cell.get_by_role("button", name="Ask me again what I predicted wrongly").click()
    question = cell.locator(".onnxlab-predict.live")
    expect(question).to_be_in_viewport()
    question.get_by_role("radio", name="no").click()
    expect(question).to_contain_text("You were right.")
    expect(cell.locator(".onnxlab-predict.saved")).to_be_hidden()

    cell = run_cell(notebook, "from onnxlab import why\nwhy()")
    field = cell.locator("textarea")
    field.fill("Fail: [ONNXRuntimeError]\nUnsupported model IR version: 12, max supported IR version: 9")
    field.press("Tab")
    page.keyboard.press("Enter")
    expect(cell).to_contain_text("newer than the installed ONNX Runtime")
    cell.get_by_role("link", name=re.compile("13_ship_it")).click()
    wait_for_tab(page, "13_ship_it.ipynb")
    page.context.close()
    workbook.end_kernels()
    watched.require_nothing_foreign(workbook.url)
