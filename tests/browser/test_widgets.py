"""Predictions, the operator atlas and the text box of chapter 17, as a learner uses them.

They are clicked or typed into, revealed, and read without a kernel.
"""

import nbformat
import onnx
import pytest
from playwright.sync_api import Browser, Page, expect

from onnxlab.course.fresh import METADATA
from tests.support.jupyterlab import JupyterServer
from tests.support.notebook_page import HIGH, Notebook, WatchedPage
from tests.support.small_decoder import decoder

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
PREDICTIONS = [QUESTION, GRID.strip(), 'guess.reveal("twice")', ANSWERS.strip()]
ATLAS = "from onnxlab import atlas\natlas(opset=20)"
COMPLETION = 'from onnxlab import completion\ncompletion({"one": "decoder.onnx"}, "ab", 6)'


@pytest.fixture
def questions(scratch: Notebook, request: pytest.FixtureRequest) -> Notebook:
    """A notebook whose first two cells have run: this test's own questions, as the kernel keeps choices."""
    questions = [cell.replace("How often", request.node.name) for cell in PREDICTIONS]
    scratch.fill([cell.replace("Who runs", request.node.name) for cell in questions])
    scratch.run(0, until=".onnxlab-predict.live")
    scratch.run(1, until=".onnxlab-predict.live table")
    expect(options(scratch.page)).to_have_count(3)
    return scratch


@pytest.fixture
def page(scratch: Notebook) -> Page:
    """The page of the notebook."""
    return scratch.page


def options(page: Page):
    return page.locator(".onnxlab-predict.live").get_by_role("radio")


def grid_cell(page: Page, row: int, column: int):
    return page.locator(".onnxlab-predict.live tbody tr").nth(row).locator("button").nth(column)


def answer(page: Page, number: int):
    return page.locator(".onnxlab-predict.answer").nth(number)


def test_a_click_is_shown_and_told_at_the_reveal(questions: Notebook, page: Page):
    options(page).nth(1).click()
    expect(options(page).nth(1)).to_have_attribute("aria-checked", "true")
    options(page).nth(0).click()  # another thought, before the answer is out
    questions.run(2)
    expect(answer(page, 0)).to_contain_text("You said: never. It is: twice")
    expect(options(page).nth(2)).to_have_class("good")
    expect(options(page).nth(0)).to_have_class("bad")
    options(page).nth(2).click(force=True)  # too late
    expect(options(page).nth(0)).to_have_attribute("aria-checked", "true")


def test_without_a_click_only_the_answer_is_told(questions: Notebook, page: Page):
    questions.run(2)
    questions.run(3)
    expect(answer(page, 0)).to_have_text("Answer: twice")
    expect(answer(page, 1)).not_to_contain_text("predictions right")
    expect(page.locator(".onnxlab-predict.live .bad")).to_have_count(0)


def test_a_grid_cell_goes_through_the_choices_and_back_to_none(questions: Notebook, page: Page):
    cell = grid_cell(page, 0, 0)
    for text in ("?", "runs", "fails", "?"):
        expect(cell).to_have_text(text)
        cell.click()


def test_the_grid_counts_what_was_predicted(questions: Notebook, page: Page):
    grid_cell(page, 0, 0).click()  # runs: right
    grid_cell(page, 0, 1).click()  # runs: wrong
    questions.run(3)
    expect(answer(page, 0)).to_contain_text("1 of 2 predictions right.")
    expect(answer(page, 0).locator("td.good")).to_have_text("\u2713 runs")
    expect(answer(page, 0).locator("td.bad")).to_have_text("\u2717 fails (you said runs)")
    expect(page.locator(".onnxlab-predict.live .hint").nth(1)).to_have_text("1 of 2 predictions right.")


def test_a_cell_run_at_once_knows_the_last_click(questions: Notebook, page: Page):
    page.evaluate(
        """async () => {
          const [first, second] = document.querySelectorAll('.onnxlab-predict.live td button');
          for (const button of [first, second, second, first, first, first]) button.click();
          window.jupyterapp.shell.currentWidget.content.activeCellIndex = 3;
          await window.jupyterapp.commands.execute('notebook:run-cell');
        }"""
    )
    expect(answer(page, 0)).to_contain_text("2 of 2 predictions right.")


def test_a_prediction_survives_shift_enter(questions: Notebook, page: Page, request):
    """The click makes the question's own cell the active one, so the key runs the question again."""
    options(page).nth(1).click()
    page.keyboard.press("Shift+Enter")
    expect(options(page).nth(1)).to_have_attribute("aria-checked", "true")
    grid_cell(page, 0, 0).click()
    page.keyboard.press("Shift+Enter")
    expect(grid_cell(page, 0, 0)).to_have_text("runs")
    page.keyboard.press("Shift+Enter")  # the next cells, which reveal
    expect(answer(page, 0)).to_contain_text("You said: once. It is: twice")
    page.keyboard.press("Shift+Enter")
    expect(answer(page, 1)).to_contain_text("1 of 1 predictions right.")
    expect(options(page).nth(1)).to_have_class("bad")
    changed = QUESTION.replace("How often?", request.node.name + "?").replace('"never"', '"always"')
    questions.fill([changed]).run(0, until=".onnxlab-predict.live")
    expect(options(page)).to_have_text(["always", "once", "twice"])
    expect(page.locator("[aria-checked=true]")).to_have_count(0)


def test_everything_works_from_the_keyboard_and_the_focus_is_seen(questions: Notebook, page: Page):
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


def test_tab_stops_once_in_each_question(questions: Notebook, page: Page):
    for stops in (options(page), page.locator(".onnxlab-predict.live td button")):
        assert [button.get_attribute("tabindex") for button in stops.all()].count("0") == 1


# Questions of chapter 02, so that they count; the answers are given, so that nothing has to be exported.
CHAPTER = [
    "from onnxlab import ask_again, predict",
    "options = ['if', 'for', '.item()']\n"
    'still = predict("Recorded with [3, 4, 5]: which is right for [-3, -4, -5], too?", options)',
    'still.reveal("for")',
    'seven = predict("Traced with 4 rows, run with 7. The answer is ...", ["right", "wrong", "error"])',
    'seven.reveal("wrong")',
    "ask_again()",
]


def test_answers_are_counted_and_there_at_the_next_visit_by_keyboard_alone(lab: JupyterServer, page: Page):
    page = page.context.new_page()  # the other one has a notebook to save
    page.set_viewport_size(HIGH)
    book = lab.new(page, CHAPTER, "counted.ipynb")
    live = page.locator(".onnxlab-predict.live")
    book.run(0)
    book.run(1, until=".live .score")
    expect(live.first.locator(".score")).to_contain_text("0 of 4 right, 0 wrong, 4 open.")
    options(page).first.focus()
    page.keyboard.press("Space")  # "if", which is wrong
    book.run(2)
    expect(answer(page, 0)).to_contain_text("You said: if. It is: for")
    expect(live.first.locator(".score")).to_contain_text("0 of 4 right, 1 wrong, 3 open.")
    book.run(3, until=".live .score")
    live.nth(1).get_by_role("radio").nth(1).focus()
    page.keyboard.press("Space")
    book.run(4)
    expect(answer(page, 1)).to_contain_text("You said: wrong. That is right.")
    for question in live.all():  # also the one above
        expect(question.locator(".score")).to_contain_text("1 of 4 right, 1 wrong, 2 open.")

    book.restart()
    page = page.context.new_page()  # the next visit
    page.set_viewport_size(HIGH)
    book = lab.open(page, "counted.ipynb")
    live = page.locator(".onnxlab-predict.live")
    book.run(0)
    book.run(1, until=".live .score")
    expect(options(page).first).to_have_attribute("aria-checked", "true")
    expect(options(page).first).to_have_class("chosen")
    book.run(2)
    expect(options(page).first).to_have_class("bad")
    again = live.first.get_by_role("button", name="Ask me again")
    again.focus()
    page.keyboard.press("Enter")
    expect(options(page).first).to_be_focused()
    expect(again).to_be_hidden()
    expect(page.locator(".live .good, .live .bad")).to_have_count(0)
    page.keyboard.press("ArrowUp")  # around to the last one, which is wrong, too
    page.keyboard.press("Space")
    expect(live.first.locator(".hint")).to_have_text("You said .item(). It is for.")
    expect(live.first.locator(".score")).to_contain_text("1 of 4 right, 1 wrong, 2 open.")

    book.run(5, until=".live .score")
    asked = book.cells.nth(5).locator(".onnxlab-predict.live")
    expect(asked).to_have_count(1)
    asked.get_by_role("radio").nth(1).focus()
    page.keyboard.press("Enter")
    expect(asked.locator(".hint")).to_have_text("You were right.")
    expect(asked.locator(".score")).to_contain_text("2 of 4 right, 0 wrong, 2 open.")


def row(page: Page, operator: str, exporter: str):
    lines = page.locator(".onnxlab-atlas.live tbody tr")
    name = page.locator(f"td:text-is('{operator}')")
    return lines.filter(has=name).filter(has=page.locator(f"td:text-is('{exporter}')")).first


def slide(page: Page, opset: int):
    page.locator(".onnxlab-atlas.live").get_by_label("Opset").fill(str(opset))


def test_the_atlas_answers_while_it_is_searched_and_filtered(scratch: Notebook, page: Page):
    scratch.fill([ATLAS]).run(0, until=".onnxlab-atlas.live table")
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
    cells = scratch.cells.count()
    live.get_by_label("Search").press_sequentially("bdd")
    expect(live.get_by_label("Search")).to_have_value("bdd")
    assert scratch.cells.count() == cells


def test_a_typed_text_is_continued(lab: JupyterServer, scratch: Notebook, page: Page):
    onnx.save(decoder(), lab.folder / "decoder.onnx")
    scratch.fill([COMPLETION]).run(0, until=".onnxlab-completion.live pre")
    live, saved = (page.locator(f".onnxlab-completion.{form}") for form in ("live", "saved"))
    expect(live.locator("pre")).to_have_text("ab<ab<ab")
    expect(saved).to_be_hidden()
    box = page.get_by_label("Begin with")
    box.fill("b<")
    box.press("Enter")
    expect(live.locator("pre")).to_have_text("b<ab<ab<")
    expect(live).to_contain_text("last step: 1 token in; cache: 1 x (1, 2, 7, 3)")


SLIDER = """
from PIL import Image
from onnxlab.notebook.slider import slider
slider(lambda n: (f"40 by {n} become {40 * n}", Image.new("RGB", (40 * n, 100))), 3, 1, 8)
"""


def test_a_slider_shows_what_its_function_returns(scratch: Notebook, page: Page):
    scratch.fill([SLIDER.strip()]).run(0, until=".onnxlab-slider.live img")
    live = page.locator(".onnxlab-slider.live")
    expect(live).to_contain_text("40 by 3 become 120")
    expect(page.locator(".onnxlab-slider.saved")).to_be_hidden()
    page.locator(".widget-slider [role=slider]").press("ArrowRight")
    expect(live).to_contain_text("40 by 4 become 160")
    size = "image => image.decode().then(() => [image.clientHeight, image.clientWidth])"
    assert live.locator("img").evaluate(size) == [100, 160], "the image is stretched"


def test_without_a_kernel_the_saved_forms_are_there(lab: JupyterServer, scratch: Notebook, browser: Browser):
    """Of predictions, the atlas and a completion; the last of them as it is committed, without its widget."""
    onnx.save(decoder(), lab.folder / "decoder.onnx")
    scratch.fill([QUESTION, GRID.strip(), ATLAS, COMPLETION])
    scratch.run_all()
    *cells, committed = scratch.contents()
    committed["outputs"] = [output for output in committed["outputs"] if "text/html" in output["data"]]
    saved = nbformat.v4.new_notebook(cells=[*cells, committed], metadata=METADATA)
    nbformat.write(nbformat.from_dict(saved), lab.folder / "reopened.ipynb")
    watched = WatchedPage.open(browser, height=2600)
    page = watched.page
    lab.open(page, "reopened.ipynb")
    for kind, says in (
        ("predict", "How often?"),
        ("atlas", "upsample_bicubic2d"),
        ("completion", "With a running kernel"),
    ):
        form = page.locator(f".onnxlab-{kind}.saved").first
        expect(form).to_be_visible()
        expect(form).to_contain_text(says)
        expect(page.locator(f".onnxlab-{kind}.live")).to_have_count(0)
    expect(page.locator(".onnxlab-completion.saved pre")).to_have_text("ab<ab<ab")
    expect(page.get_by_text("Error displaying widget").and_(page.locator(":visible"))).to_have_count(0)
    page.context.close()
    watched.require_nothing_foreign(lab.url)
