"""The web site, built as a user builds it, in a real browser: live graphs, search, links, from a disk."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import magika as magika_package
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx.parser import parse_model
from onnxruntime.datasets import get_example
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, Route, expect

from onnxlab.diagnosis.messages import answers, explain
from onnxlab.diagnosis.model_file import read_model_file
from onnxlab.diagnosis.structure import STRUCTURE as RULES
from onnxlab.exporters.export import Exporter
from onnxlab.exporters.silence import silenced
from onnxlab.patients.ward import patients
from onnxlab.plain_text import plain
from starter.website import page_server
from tests.diagnosis.test_symptoms import STRUCTURE as CASES

pytestmark = pytest.mark.timeout(900)  # the first test waits for the site; a new clone makes .venv-site, too

ROOT = Path(__file__).parents[2]
ADDRESS = "https://owner.github.io/onnx-lab/"
LANGUAGES = ("en", "zh")
# What a script does is the same in each language.
ENGLISH_FIRST = pytest.mark.parametrize("language", ["en", pytest.param("zh", marks=pytest.mark.release)])
LIVING = ".output:has(> script.onnxlab-structure)"
TYPED = {
    "en": {
        "dynamic batch": "04_dynamic_shapes.",
        "dynamic shape": "04_dynamic_shapes.html#",
        "TracerWarning": "06_trace_breakers.",
        "KV cache": "17_decoder_with_cache.html#",
        "quantization": "15_quantise.html#",
        "fp16": "16_half_precision.html#",
        "YOLO": "19_detection.",
    },
    "zh": {
        "动态维度": "04_dynamic_shapes.html#",
        "动态shape": "04_dynamic_shapes.",
        "符号表": "07_operator_support.",
        "映射": "08_custom_operators.",
        "算子不支持": "08_custom_operators.html#",
        "放缩系数": "09_dynamic_resize.",
        "KV Cache": "17_decoder_with_cache.html#",
        "置信度": "19_detection.",
        "后处理": "05_export_only_code.",
        "训练后量化": "15_quantise.",
        "量化感知训练": "15b_quantise_a_transformer.",
        "半精度": "16_half_precision.html#",
        "中间表示": "01_first_deployment.",
        "昇腾": "10_backends_differ.",
        "RKNN": "10_backends_differ.",
        "onnxsim": "06_trace_breakers.",
        "精度对齐": "10c_wrong_output.",
        "静态图": "02_trace_and_script.",
    },
}
"""What people type, and a chapter whose last line has the words, or a section of one."""

WAYS = {"en": ("Run it yourself", "Download"), "zh": ("自己运行", "下载")}
PASTED = (
    'Traceback (most recent call last):\n  File "run.py", line 2, in <module>\n    session.run(None, feeds)\n'
    "onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument: [ONNXRuntimeError] : 2 : "
    "INVALID_ARGUMENT : Got invalid dimensions for input: x for the following indices\n"
    " index: 0 Got: 3 Expected: 1\n"
    " Please fix either the inputs/outputs or the model."
)
STRUCTURE = "application/vnd.onnxlab.graph+json"
DEMOS = tomllib.loads((ROOT / "site" / "models.toml").read_text("utf-8"))["model"]
MODELS = sorted(path.name for path in (ROOT / "site" / "models").glob("*.onnx"))


@dataclass(frozen=True)
class Server:
    """The built site on a loopback address, below a path as a project's pages on GitHub are."""

    out: Path
    url: str

    def pages(self, language: str) -> list[str]:
        """The pages of a language, as paths below the site's root."""
        return sorted(path.relative_to(self.out).as_posix() for path in (self.out / language).rglob("*.html"))


@pytest.fixture(scope="module")
def server(browser: Browser, tmp_path_factory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("site")
    out = folder / "onnx-lab"
    variables = {name: value for name, value in os.environ.items() if name != "ONNXLAB_ENVIRONMENT"}
    command = [sys.executable, "course.py", "site", "--build", str(out), "--repository", "owner/onnx-lab"]
    built = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=800)
    assert built.returncode == 0, built.stdout + built.stderr
    with page_server(folder) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield Server(out, f"http://127.0.0.1:{listener.server_port}/onnx-lab/")
        listener.shutdown()


@pytest.fixture
def reader(browser: Browser, server: Server) -> Iterator[Page]:
    """A page that fails the test if the console shows an error or another host is asked."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    faults: list[str] = []
    page.on(
        "console",
        lambda message: faults.append(f"{page.url}: {message.text}") if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: faults.append(f"{page.url}: {error}"))
    page.on(
        "response",
        lambda reply: faults.append(f"{reply.status} {reply.url}") if reply.status >= 400 else None,
    )
    own = (server.url, "data:", "blob:", "about:", "file:")
    page.on(
        "request",
        lambda request: None if request.url.startswith(own) else faults.append(f"requested {request.url}"),
    )
    yield page
    context.close()
    assert not faults


def saved_graphs(path: Path) -> list[dict[str, Any]]:
    """The saved graphs of a notebook: the structures, and for each model the nodes that its picture shows."""
    graphs = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        for data in (output.get("data", {}) for output in cell.get("outputs", ())):
            if STRUCTURE in data:
                pictures = re.findall(r"image/svg\+xml;base64,([\w+/=]+)", "".join(data["text/html"]))
                nodes = [base64.b64decode(picture).decode().count("graph-node") for picture in pictures]
                graphs.append({**data[STRUCTURE], "drawn": nodes})
    return graphs


# Blocks of code and outputs that are wider than their place, folded ones left out.
CUT = """() => [...document.querySelectorAll('.bd-article pre')]
  .filter((block) => !block.closest('details:not([open])') && block.clientWidth)
  .filter((block) => block.scrollWidth > block.clientWidth + 2)
  .map((block) => block.textContent.slice(0, 60))"""
# Words of the atlas that are on two lines.
BROKEN = """() => [...document.querySelectorAll('.onnxlab-atlas :is(th, td)')].flatMap((cell) => {
  const text = cell.firstChild;
  return [...(text?.data ?? '').matchAll(/[\\w.:]+/g)].filter(({ 0: word, index }) => {
    const range = document.createRange();
    range.setStart(text, index);
    range.setEnd(text, index + word.length);
    return range.getClientRects().length > 1;
  }).map(([word]) => word);
})"""
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


DRAWN = "notebooks/02_trace_and_script"
"""The chapter whose graphs are drawn, with loops and pairs; with --all every one's."""


def visited(pages: list[str], *, everything: bool) -> Iterator[str]:
    """Every sixth page of a kind, with --all every one; of the messages' pages, made alike, three."""
    kinds: dict[str, list[str]] = {}
    for page in pages:
        kinds.setdefault(Path(page).parent.name, []).append(page)
    for kind, names in kinds.items():
        yield from names[:3] if kind == "errors" else names[:: 1 if everything else 6]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_opens_fits_a_phone_and_is_alive(reader: Page, server: Server, language, request):
    """No page is wider than a phone, each prediction has its answer, and saved graphs go alive.

    The graphs are the same in each language; those of the Chinese pages are not drawn again.
    """
    everything = request.config.getoption("--all")
    pages = server.pages(language)
    chapters = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {Path(page).stem for page in pages if "/notebooks/" in page} == chapters
    labs = {path.stem for path in (ROOT / "labs").glob("lab*.ipynb")}
    assert {Path(page).stem for page in pages if "/labs/" in page} == labs
    graphs = {chapter: saved_graphs(ROOT / "notebooks" / f"{chapter}.ipynb") for chapter in chapters}
    for chapter, saved in graphs.items():
        own = ROOT / "notebooks" / language.replace("en", "") / f"{chapter}.ipynb"
        assert saved_graphs(own) == saved, chapter
        built = (server.out / language / "notebooks" / f"{chapter}.html").read_text("utf-8")
        assert built.count('class="onnxlab-structure"') == len(saved), chapter
    drawn = f"{language}/{DRAWN}.html"
    assert graphs[Path(DRAWN).name]
    for name in sorted({drawn, *visited(pages, everything=everything)}):
        reader.set_viewport_size(PHONE)
        reader.goto(server.url + name)
        assert reader.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
        if "/notebooks/" not in name:
            continue
        answers = reader.locator(".onnxlab-predict.answer").count()
        assert reader.locator(".onnxlab-reveal").count() == answers, f"{name}: answers to predictions"
        saved = graphs[Path(name).stem]
        assert reader.locator(LIVING).count() == len(saved), name
        if language == "en" and (everything or name == drawn):
            require_drawn(reader, name, saved)


def require_drawn(reader: Page, name: str, graphs: list[dict[str, Any]]) -> None:
    """Scroll to each graph of a page; live, it has the nodes of its picture."""
    reader.set_viewport_size(DESK)
    assert reader.evaluate(CUT) == [], f"{name}: lines that are cut"
    for number, structure in enumerate(graphs):
        box = reader.locator(LIVING).nth(number)
        box.scroll_into_view_if_needed()
        frames = box.locator("iframe[data-status=ready]")
        expect(frames).to_have_count(len(structure["panes"]))
        expect(box.locator(".onnxlab-still")).to_be_hidden()
        for in_picture, frame in zip(structure["drawn"], frames.all(), strict=False):
            live = frame.content_frame.locator(".graph-node").count()
            assert live == in_picture, name  # the bodies of loops are open in both


def loops_of(graph: onnx.GraphProto) -> int:
    """The number of Loop nodes of a graph and of the graphs inside its nodes."""
    inside = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return sum(node.op_type == "Loop" for node in graph.node) + sum(map(loops_of, inside))


@ENGLISH_FIRST
def test_the_first_pages_graph_is_whole_and_what_is_said_of_it(reader: Page, server: Server, language):
    for size in (DESK, PHONE):
        reader.set_viewport_size(size)
        reader.goto(f"{server.url}{language}/index.html")
        reader.locator(".onnxlab-turn").scroll_into_view_if_needed()
        box = reader.locator(".onnxlab-turn iframe[data-status=ready]")
        frame = box.content_frame
        expect(frame.locator("g.node-item").get_by_text("Loop", exact=True)).to_be_in_viewport(ratio=1)
        room = frame.locator("body").bounding_box()
        drawn = frame.locator("#canvas .graph-node, #canvas .graph-input, #canvas .graph-output").all()
        assert len(drawn) > 5
        for node in drawn:
            place = node.bounding_box()
            assert place["x"] >= room["x"], size
            assert place["y"] >= room["y"], size
            assert place["x"] + place["width"] <= room["x"] + room["width"], size
            assert place["y"] + place["height"] <= room["y"] + room["height"], size
    structure = json.loads(reader.locator("script.onnxlab-structure").text_content() or "")
    [[model]] = [pane["models"] for pane in structure["panes"]]
    loops = loops_of(onnx.ModelProto.FromString(base64.b64decode(model)).graph)
    said = reader.locator(".onnxlab-hero li").last.inner_text()
    assert {"en": "as one Loop.", "zh": "一个 Loop。"}[language] in said
    assert loops == 1


def test_two_models_are_side_by_side_and_their_buttons_are_the_sites_own(reader: Page, server: Server):
    look = """button => ['color', 'backgroundColor', 'borderTopColor', 'borderTopWidth', 'borderRadius']
      .map(name => getComputedStyle(button)[name])"""
    for width, scheme in ((1280, "light"), (390, "dark")):
        reader.set_viewport_size({"width": width, "height": 800})
        reader.emulate_media(color_scheme=scheme)
        reader.goto(f"{server.url}en/notebooks/02_trace_and_script.html")
        pair = reader.locator(LIVING).filter(has=reader.locator("figure + figure")).first
        pair.scroll_into_view_if_needed()
        frames = pair.locator("iframe[data-status=ready]")
        expect(frames).to_have_count(2)
        left, right = (frame.bounding_box() for frame in frames.all())
        if width > PHONE["width"]:
            assert left["y"] == right["y"]
            assert min(left["width"], right["width"]) >= 480
        assert right["x"] + right["width"] <= width
        assert reader.evaluate("document.documentElement.scrollWidth") <= width
        own = reader.locator(".onnxlab-reveal").first.evaluate(look)
        buttons = pair.locator(".onnxlab-view button").all()
        assert len(buttons) == 3
        assert all(button.evaluate(look) == own for button in buttons), (width, scheme)


def test_the_text_is_five_presses_away(reader: Page, server: Server):
    """By Tab alone, and by the skip link; inside the sidebar and the row of buttons go the arrows."""
    inside = "document.activeElement.closest('article') !== null"
    for name in ("index", "notebooks/13_ship_it", "labs/lab01_control_flow", "errors"):
        for size in (DESK, PHONE):
            reader.set_viewport_size(size)
            reader.goto(f"{server.url}en/{name}.html")
            presses = 0
            while not reader.evaluate(inside) and presses < 60:
                reader.keyboard.press("Tab")
                presses += 1
            assert presses <= 5, name
        reader.goto(f"{server.url}en/{name}.html")
        for key in ("Tab", "Enter", "Tab"):
            reader.keyboard.press(key)
        assert reader.evaluate(inside), name
    reader.set_viewport_size(DESK)
    reader.goto(f"{server.url}en/notebooks/13_ship_it.html")
    for key in ("Tab", "Tab", "Tab"):
        reader.keyboard.press(key)
    expect(reader.locator(".bd-docs-nav a.current")).to_be_focused()
    reader.keyboard.press("ArrowUp")
    expect(reader.locator(".bd-docs-nav").get_by_role("link", name=re.compile("^12"))).to_be_focused()
    reader.keyboard.press("Tab")
    reader.keyboard.press("ArrowRight")
    expect(reader.get_by_role("link", name="中文", exact=True)).to_be_focused()
    reader.keyboard.press("Shift+Tab")
    reader.keyboard.press("Enter")
    reader.wait_for_url(re.compile("/12_"))


def test_a_click_shows_a_nodes_properties_and_the_graph_moves(reader: Page, server: Server):
    reader.goto(f"{server.url}en/index.html")
    frame = reader.frame_locator(".onnxlab-live iframe").first
    for width in (1440, 1280, 1024):
        reader.set_viewport_size({"width": width, "height": 900})
        box = reader.locator(".onnxlab-live iframe").first.bounding_box()
        assert box
        assert min(box["width"] / 480, box["height"] / 320) >= 1, f"{width}: {box}"
    frame.locator("g.node-item").get_by_text("Loop", exact=True).first.click()
    sidebar = frame.locator("#sidebar")
    expect(sidebar).to_contain_text("Node Properties")
    # What an input is called is in the table of operators only.
    expect(sidebar.get_by_role("textbox", name="v_final_and_scan_outputs")).to_be_visible()
    reader.keyboard.press("Escape")
    expect(sidebar).not_to_be_in_viewport()
    frame.locator(".node-argument").filter(has_text=re.compile(r"^float32.*W<")).first.click()
    tools = "#sidebar .sidebar-item-value-button-tool, #sidebar .sidebar-item-value-expander"
    frame.locator(tools).last.click()
    expect(sidebar).to_contain_text("The weights are not part of this page.")
    canvas = frame.locator("#canvas")
    before = canvas.bounding_box()
    frame.locator("#zoom-in-button").click()
    reader.wait_for_timeout(300)
    assert canvas.bounding_box() != before


@ENGLISH_FIRST
def test_a_link_in_the_text_selects_a_node_of_the_graph_above(reader: Page, server: Server, language):
    """By mouse at the first graph of the chapter, by keyboard at the last."""
    address = f"{server.url}{language}/notebooks/09_dynamic_resize.html"
    reader.goto(address)
    links = reader.get_by_role("link", name="Resize", exact=True)
    expect(links).to_have_count(2)
    graphs = reader.locator(LIVING)
    for link, graph, follow in (
        (links.first, graphs.first, lambda link: link.click()),
        (links.last, graphs.last, lambda link: link.press("Enter")),
    ):
        graph.scroll_into_view_if_needed()
        expect(graph.locator("iframe[data-status=ready]")).to_have_count(1)
        link.scroll_into_view_if_needed()
        follow(link)
        selected = graph.locator("iframe").content_frame.locator(".graph-node.select")
        expect(selected).to_have_text(re.compile("Resize"))
        expect(graph).to_be_in_viewport()
    assert reader.url == address


def test_a_prediction_is_clicked_and_revealed(reader: Page, server: Server):
    reader.goto(f"{server.url}en/notebooks/02_trace_and_script.html")
    question = reader.locator(".onnxlab-predict.live").first
    answer = reader.locator(".onnxlab-predict.answer").first
    expect(answer).to_be_hidden()
    question.get_by_role("radio").first.click()
    expect(question.locator(".hint")).to_have_text("Noted. The answer is below.")
    reader.get_by_role("button", name="Show the answer").first.click()
    expect(answer).to_be_visible()
    expect(question.get_by_text("✓")).to_have_count(1)
    verdict = question.locator(".hint").text_content()
    assert verdict
    expect(answer.locator(".verdict")).to_have_text(verdict)  # where the reader is


@ENGLISH_FIRST
def test_predictions_are_counted_and_kept_in_the_browser(reader: Page, server: Server, language):
    address = f"{server.url}{language}/notebooks/04b_right_at_every_size.html"
    reader.goto(address)
    head = reader.locator(".onnxlab-score")
    questions = reader.locator(".onnxlab-predict.live")
    numbers = lambda: [int(number) for number in re.findall(r"\d+", head.locator("span").inner_text())]  # noqa: E731
    total = questions.count()
    assert sorted(numbers()) == sorted([0, 0, total, total])
    answers = reader.locator(".onnxlab-predict.answer")
    choices = reader.locator(".onnxlab-predict.live:has([role=radio])")
    for number in range(2):
        question = choices.nth(number)
        # The saved answer ends with the right option: the first question is answered right, the other wrong.
        options = question.get_by_role("radio").all_inner_texts()
        at = [box.text_content() or "" for box in answers.all()]
        right = next(
            i for i, option in enumerate(options) if any(text.strip().endswith(option) for text in at)
        )
        question.get_by_role("radio").nth(right if number == 0 else (right + 1) % len(options)).focus()
        reader.keyboard.press("Space")
        following = question.locator("xpath=following::button[@class='onnxlab-reveal'][1]")
        following.focus()
        reader.keyboard.press("Enter")
    counted = numbers()
    assert sorted(counted) == sorted([1, 1, total, total - 2])
    again = head.get_by_role("button")
    expect(again).to_be_visible()

    reader.goto(address)  # a later visit
    expect(head.locator("span")).to_be_visible()
    assert numbers() == counted
    expect(questions.locator(".good").first).to_be_visible()
    expect(reader.locator(".onnxlab-predict.answer:visible")).to_have_count(2)
    assert reader.evaluate("document.activeElement === document.body")
    again.focus()
    reader.keyboard.press("Enter")
    expect(questions.locator(".bad")).to_have_count(0)
    wrong = choices.nth(1)
    expect(wrong.get_by_role("radio").first).to_be_focused()
    options = wrong.get_by_role("radio")
    for number in range(options.count()):  # until it is the right one
        if wrong.locator(".good").count() and not wrong.locator(".bad").count():
            break
        if number:
            wrong.locator("button.again").click()
        options.nth(number).click()
    assert sorted(numbers()) == sorted([2, 0, total, total - 2])
    expect(again).to_be_hidden()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_search_finds_what_people_type(reader: Page, server: Server, language):
    reader.goto(f"{server.url}{language}/labs/lab04_asinh.html")
    reader.keyboard.press("Control+k")
    dialog = reader.locator("#pst-search-dialog")
    field, links = dialog.locator("input"), dialog.locator("li a")
    for word, place in TYPED[language].items():
        field.fill(word)
        found = dialog.locator(f'li a[href*="/{language}/notebooks/{place}"]')
        expect(found.first, word).to_be_visible()
        expect(dialog.locator("li mark").first).to_be_visible()
    field.press("ArrowDown")
    expect(links.first).to_be_focused()
    reader.keyboard.press("ArrowDown")
    expect(links.nth(1)).to_be_focused()
    reader.keyboard.press("ArrowUp")
    reader.keyboard.press("ArrowUp")
    expect(field).to_be_focused()
    assert "#" not in " ".join(links.locator("strong").all_text_contents()), "the sign of a heading's link"
    field.fill("qqqxyzzy")
    expect(dialog.locator("[role=status]")).not_to_be_empty()
    field.fill(next(iter(TYPED[language])))
    expect(dialog.locator("li mark").first).to_be_visible()
    field.press("Enter")
    reader.wait_for_url(re.compile(rf"/{language}/(?!labs/lab04_asinh\.html$)"))


def test_language_leads_to_the_same_page_and_theme_stays(reader: Page, server: Server):
    reader.goto(f"{server.url}en/notebooks/05_export_only_code.html")
    while reader.locator("html").get_attribute("data-theme") != "dark":
        reader.get_by_role("button", name="Color mode").click()
        reader.locator(".theme-change-button[data-mode=dark]").click()
    for language, name in (("zh", "中文"), ("en", "English")):
        reader.get_by_role("link", name=name, exact=True).click()
        reader.wait_for_url(f"{server.url}{language}/notebooks/05_export_only_code.html")
        assert reader.locator("html").get_attribute("data-theme") == "dark"
    reader.goto(f"{server.url}en/docs/weights.html")  # has no Chinese page
    reader.get_by_role("link", name="中文", exact=True).click()
    reader.wait_for_url(f"{server.url}zh/index.html")


def test_a_page_is_printed_light_and_whole(reader: Page, server: Server):
    reader.emulate_media(color_scheme="dark")
    reader.goto(f"{server.url}en/notebooks/02_trace_and_script.html")
    reader.locator(".onnxlab-still").first.scroll_into_view_if_needed()
    expect(reader.locator(".onnxlab-replaced.onnxlab-still").first).to_be_attached()
    theme = "document.documentElement.dataset.theme"
    assert reader.evaluate(theme) == "dark"
    reader.set_viewport_size({"width": 700, "height": 1000})  # A4
    reader.emulate_media(media="print")
    reader.wait_for_function(f"{theme} === 'light'")
    blocks = "[...document.querySelectorAll('.highlight pre')]"
    assert reader.evaluate(f"{blocks}.filter((block) => block.scrollWidth > block.clientWidth).length") == 0
    questions = reader.locator(".onnxlab-predict.live .question:visible").all_text_contents()
    assert len(questions) == len(set(questions)) > 3
    answers = reader.locator(".onnxlab-predict.answer")
    assert answers.count() > 3
    assert all(answer.is_visible() for answer in answers.all())
    bars = reader.locator("details:not([open]) > summary:visible")
    assert bars.count() == 0, "nobody can click them on paper"
    assert (
        reader.locator(".onnxlab-still img:visible").count()
        == reader.locator(".onnxlab-still img").count()
        > 3
    )
    reader.emulate_media(media="screen")
    reader.wait_for_function(f"{theme} === 'dark'")


def test_without_scripts_the_pictures_and_answers_are_there(browser: Browser, server: Server):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{server.url}en/notebooks/02_trace_and_script.html")
    expect(page.locator(".onnxlab-still img").first).to_be_visible()
    expect(page.locator(".onnxlab-predict.answer").first).to_be_visible()
    page.goto(f"{server.url}en/index.html")
    colours = "link => [getComputedStyle(link).color, getComputedStyle(link).backgroundColor]"
    text, ground = page.locator(".onnxlab-actions .first").evaluate(colours)
    assert ground not in (text, "rgba(0, 0, 0, 0)")
    context.close()


def test_the_whole_atlas_is_searched(reader: Page, server: Server):
    for language in LANGUAGES:
        reader.goto(f"{server.url}{language}/atlas.html?q=asinh")
        expect(reader.locator(".onnxlab-atlas tbody tr").first).to_contain_text("asinh")
        expect(reader.locator(".onnxlab-atlas input[type=search]")).to_be_focused()
        link = reader.locator(".onnxlab-atlas tbody a").first
        expect(link).to_have_attribute("href", "https://onnx.ai/onnx/operators/onnx__Asinh.html")
        reader.locator(".onnxlab-atlas input[type=search]").fill("BitShift")
        reader.wait_for_url(re.compile(r"\?q=BitShift$"))
        expect(reader.locator(".onnxlab-atlas tbody")).to_contain_text("bitwise_right_shift")
        for width in (1024, PHONE["width"]):
            reader.set_viewport_size({"width": width, "height": 800})
            assert reader.evaluate(BROKEN) == []
        assert reader.locator(".onnxlab-atlas tbody tr").first.bounding_box()["width"] < PHONE["width"]
        reader.locator(".onnxlab-atlas input[type=search]").fill("conv")
        names = reader.locator(".onnxlab-atlas tbody td:first-child")
        assert not [name for name in names.all_text_contents() if re.search("^_|_backward", name)]
        reader.locator(".onnxlab-atlas input[type=checkbox]").check()
        assert [name for name in names.all_text_contents() if re.search("^_|_backward", name)]
        reader.locator(".onnxlab-atlas input[type=checkbox]").uncheck()
        reader.locator(".onnxlab-atlas input[type=search]").fill("")
        expect(reader.locator(".onnxlab-atlas tbody tr").first).to_contain_text("abs")


def test_what_search_engines_and_others_are_told(server: Server):
    descriptions = set()
    for name in [*server.pages("en"), *server.pages("zh")]:
        text = (server.out / name).read_text("utf-8")
        descriptions.add(re.search(r'<meta name="description" content="([^"]+)"', text)[1])
        language = "en" if name.startswith("en/") else "zh-CN"
        assert f'<html lang="{language}"' in text
        assert re.search(r"<title>[^<]*\w[^<]*</title>", text)
    assert len(descriptions) > 60
    assert f"{ADDRESS}zh/notebooks/19_detection.html" in (server.out / "sitemap.xml").read_text()
    assert 'href="/onnx-lab/en/index.html"' in (server.out / "404.html").read_text()


def test_the_first_page_and_labs_lead_to_the_course(server: Server):
    for language, colours in (("en", "System settings"), ("zh", "跟随系统")):
        home = (server.out / language / "index.html").read_text("utf-8")
        assert re.findall("<title>(.*)</title>", home) == ["ONNX Lab"]
        assert 'href="https://github.com/owner/onnx-lab"' in home
        assert f"/colab/{language}/notebooks/00_start_here.ipynb" in home
        assert colours in home
        assert "System Settings" not in home
        chapters, labs = (len(list((ROOT / folder).glob("*.ipynb"))) for folder in ("notebooks", "labs"))
        chapters -= 1  # the museum is to look things up
        counts = {"en": f"{chapters} chapters, {labs} labs", "zh": f"{chapters} 章.{labs} 个"}
        assert re.search(counts[language], home)
        lab = (server.out / language / "labs/lab05_bitshift.html").read_text("utf-8")
        [note] = re.findall(r'<div class="admonition note">.*?</div>', lab, re.DOTALL)
        assert "python3 course.py" in re.sub("<[^>]+>", "", note)


def test_without_a_repository_the_ways_in_are_there_and_true(server: Server):
    """The pages' sources, in the environment of the build: a whole second site takes a minute."""
    program = """
import json, sys
from build import first_page
from pages import Site, hints
from pathlib import Path
root = Path(sys.argv[1])
for language, words in json.loads((root / "site" / "words.json").read_text("utf-8")).items():
    site = Site(root, language, words, "", lambda text: text, hints(root / "src" / "onnxlab"))
    lab = site.notebook("labs/lab01_control_flow")["cells"]
    print(json.dumps([first_page(site, site.pages()), "".join(cell["source"] for cell in lab)]))
"""
    folders = os.pathsep.join(str(ROOT / name) for name in ("site", "src", ""))
    python = ROOT / ".venv-site" / ("Scripts" if os.name == "nt" else "bin") / "python"
    command = [str(python), "-c", program, str(ROOT)]
    variables = {**os.environ, "PYTHONPATH": folders}
    printed = subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout
    for line, (run, download) in zip(printed.splitlines(), WAYS.values(), strict=True):
        home, lab = json.loads(line)
        assert "github" not in home + lab
        assert f'<a href="../index.html#run-it-yourself">{run}</a>' in lab
        assert f'ipynb" download>{download} lab01_control_flow.ipynb</a>' in lab
        assert "(run-it-yourself)=" in home
        assert (
            re.search("clone|克隆|{", home.partition("(run-it-yourself)=")[2].partition("```bash")[0]) is None
        )


def test_the_notebook_that_is_downloaded_is_the_committed_one(server: Server):
    for language, folder in (("en", "notebooks"), ("zh", "notebooks/zh")):
        download = server.out / language / "_sources/notebooks/03_export_arguments.ipynb"
        assert download.read_bytes() == (ROOT / folder / "03_export_arguments.ipynb").read_bytes()


def test_colab_opens_a_copy_that_installs_the_course(server: Server):
    for language in LANGUAGES:
        for name in server.pages(language):
            if "/notebooks/" in name or "/labs/" in name:
                text = (server.out / name).read_text("utf-8")
                link = re.search(r'href="https://colab[^"]+/blob/gh-pages/([^"]+)"', text)
                cell = json.loads((server.out / link[1]).read_text("utf-8"))["cells"][0]
                assert "onnxlab @ git+https://github.com/owner/onnx-lab" in "".join(cell["source"])


def test_nothing_of_this_machine_is_in_the_pages(server: Server):
    for path in server.out.rglob("*.html"):
        assert f"{ROOT}/" not in path.read_text("utf-8"), path


def start_demo(reader: Page, server: Server, language: str, name: str) -> Locator:
    """Start the model of a page; the page has loaded nothing of it before."""
    row = next(row for row in DEMOS if row["demo"] == name and "ran" in row)
    reader.goto(f"{server.url}{language}/{row['page']}.html")
    assert reader.evaluate("typeof ort") == "undefined", "it is loaded on the click only"
    box = reader.locator(f".onnxlab-run[data-demo={name}]")
    box.get_by_role("button", name={"en": "Run it in this page", "zh": "在本页运行"}[language]).click()
    expect(box.locator("button.start")).to_have_count(0)
    return box


def feeds_of(session: ort.InferenceSession) -> dict[str, np.ndarray]:
    """Random inputs of a model; each axis with a name gets a size of its own."""
    random, sizes = np.random.default_rng(0), {}
    feeds = {}
    for value in session.get_inputs():
        shape = [
            size if isinstance(size, int) else sizes.setdefault(size, 3 + len(sizes)) for size in value.shape
        ]
        kind = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(uint8)": np.uint8}[value.type]
        drawn = random.random(shape) if kind is np.float32 else random.integers(0, 200, shape)
        feeds[value.name] = np.asarray(drawn).astype(kind)
    return feeds


def test_a_page_computes_what_the_desktop_computes(reader: Page, server: Server):
    """Every file that is offered, in both runtimes, on the same inputs."""
    start_demo(reader, server, "en", "branch")
    assert len(MODELS) > 20
    for name in MODELS:
        session = ort.InferenceSession(ROOT / "site" / "models" / name, providers=["CPUExecutionProvider"])
        feeds = feeds_of(session)
        plain = {
            key: {"type": str(value.dtype), "dims": value.shape, "data": value.ravel().tolist()}
            for key, value in feeds.items()
        }
        answers = reader.evaluate("([name, feeds]) => onnxlabRun(name, feeds)", [name, plain])
        wanted = dict(
            zip([value.name for value in session.get_outputs()], session.run(None, feeds), strict=True)
        )
        assert {answer["name"]: answer["dims"] for answer in answers} == {
            key: list(value.shape) for key, value in wanted.items()
        }, name
        for answer in answers:
            expected = wanted[answer["name"]].ravel().astype(float)
            # Integer kernels round in another order: a step of the last tensor's scale.
            tolerance = 0.3 if "int8" in name else 1e-3
            assert np.allclose(np.array(answer["data"]), expected, atol=tolerance), name


def test_a_page_shows_accepted_refused_and_wrong(reader: Page, server: Server):
    box = start_demo(reader, server, "en", "sizes")
    table = box.locator("table")
    expect(table).to_contain_text("accepted, wrong")
    box.get_by_label("function").select_option("with_shape")
    expect(table).to_contain_text("accepted, right")
    box.get_by_label("export").select_option(label="torch.export, example of 2 rows, nothing marked")
    expect(table).to_contain_text("Got invalid dimensions for input")  # the runtime's own words
    box.get_by_role("spinbutton", name="rows").fill("2")
    expect(table).to_contain_text("accepted, right")
    box = start_demo(reader, server, "zh", "branch")
    expect(box.locator("tr").nth(1)).to_contain_text("错误")
    box.get_by_label("三个数").fill("1, 2, 3")
    expect(box.locator("tr").nth(1)).to_contain_text("正确")
    box.get_by_label("三个数").fill("1, zwei")
    expect(box.get_by_role("status")).to_have_text("请输入用逗号隔开的数字。")


def test_a_page_enlarges_draws_writes_and_finds(reader: Page, server: Server, tmp_path):
    box = start_demo(reader, server, "en", "enlarge")
    expect(box.get_by_role("status")).to_contain_text("150 x 100 became 450 x 300")
    own = tmp_path / "own.png"
    Image.fromarray(np.full((40, 60, 3), 200, np.uint8)).save(own)
    box.locator("input[type=file]").set_input_files(own)
    expect(box.get_by_role("status")).to_contain_text("60 x 40 became 180 x 120")
    box = start_demo(reader, server, "en", "factor")
    box.locator("input").fill("2.5")
    expect(box.get_by_role("status")).to_contain_text("Factor 2.5: 45 x 40 became 112 x 100")
    box = start_demo(reader, server, "en", "digit")
    expect(box.get_by_role("status")).to_contain_text("float32 says 7, int8 says 7")
    box.get_by_role("button", name="Clear").click()
    expect(box.locator("table")).to_have_count(0)
    box = start_demo(reader, server, "en", "poem")
    expect(box.get_by_role("status")).to_contain_text("71 tokens were read for 60 new ones")
    cached = box.locator("pre").text_content()
    assert cached
    assert cached.startswith("Who has seen the wind?\nNeither I nor you")
    box.get_by_role("button", name="Without").click()
    expect(box.get_by_role("status")).to_contain_text(f"{sum(range(12, 72))} tokens were read")
    assert box.locator("pre").text_content() == cached
    box = start_demo(reader, server, "en", "boxes")
    expect(box.get_by_role("status")).to_contain_text("2 boxes")
    box.locator("canvas").click(position={"x": 60, "y": 195})
    expect(box.get_by_role("status")).to_contain_text("3 boxes")


def test_a_page_on_a_disk_draws_graphs_and_says_what_needs_a_server(reader: Page, server: Server):
    reader.goto((server.out / "en/notebooks/02_trace_and_script.html").as_uri())
    box = reader.locator(LIVING).first
    box.scroll_into_view_if_needed()
    expect(box.locator("iframe[data-status=ready]").first).to_be_visible()
    box = reader.locator(".onnxlab-run")
    box.locator("button.start").click()
    expect(box.get_by_role("status")).to_contain_text("It needs a web server")
    expect(box.locator("button.start")).to_be_enabled()


def test_a_pasted_message_finds_its_page(reader: Page, server: Server):
    """The page answers as `onnxlab why` does, for the first lines of public threads."""
    threads = (ROOT / "tests/diagnosis/threads.tsv").read_text("utf-8").splitlines()
    for language in LANGUAGES:
        reader.goto(f"{server.url}{language}/errors.html")
        field, answer = reader.locator(".onnxlab-why textarea"), reader.locator(".onnxlab-why [role=status]")
        for thread in threads:
            message = thread.split("\t")[2]
            field.fill(message)
            [known] = explain(message)
            page = f"{server.url}{language}/errors/{known.name}.html"
            expect(answer.locator("a")).to_have_attribute("href", page)
        field.fill("the cat sat on the mat")
        expect(answer.locator("a")).to_have_count(0)
        expect(answer).not_to_be_empty()
        field.fill("Failed to export the model with torch.export. This is step 1/3: words of next year")
        expect(answer.locator("li")).to_have_count(3)
        expect(answer.locator("a")).to_have_attribute(
            "href", re.compile("/notebooks/12_modern_exporter.html$")
        )
        rows = tomllib.loads((ROOT / "site" / "silent.toml").read_text("utf-8"))["symptom"]
        assert reader.locator("table a[href*='.html#']").count() == len(rows) > 15
        reader.goto(f"{server.url}{language}/errors/{known.name}.html")
        expect(reader.locator("article h1")).to_be_visible()
        expect(reader.locator("article a[href*='.html#']").first).to_be_visible()
        ill = next(kind for kind in answers() if kind.patient)
        reader.goto(f"{server.url}{language}/errors/{ill.name}.html")
        expect(reader.locator("article a[href$='20_clinic.html'] code")).to_contain_text(ill.patient)


@ENGLISH_FIRST
def test_a_message_pasted_into_the_search_lands_on_its_answer(reader: Page, server: Server, language):
    reader.context.grant_permissions(["clipboard-read", "clipboard-write"])
    reader.goto(f"{server.url}{language}/notebooks/05_export_only_code.html")
    reader.evaluate("text => navigator.clipboard.writeText(text)", PASTED)
    reader.keyboard.press("Control+k")
    reader.keyboard.press("Control+v")
    answers = reader.locator("#pst-search-dialog li.known")
    known = explain(PASTED)
    expect(answers).to_have_count(len(known))
    assert known
    if language == "en":
        expect(answers.first).to_contain_text(known[0].cause)
    title = answers.first.locator("strong").inner_text()
    reader.keyboard.press("Enter")
    reader.wait_for_url(re.compile(rf"/{language}/errors"))
    expect(reader.locator("article").get_by_text(title).first).to_be_in_viewport()


@ENGLISH_FIRST
def test_the_search_never_ends_without_a_next_step(reader: Page, server: Server, language):
    nonsense = "opset frobnicator"
    for address in (server.url, f"{server.out.as_uri()}/"):
        reader.goto(f"{address}{language}/notebooks/05_export_only_code.html")
        reader.keyboard.press("Control+k")
        reader.locator("#pst-search-dialog input").fill(nonsense)
        links = reader.locator("#pst-search-dialog li a")
        if address == server.url:
            expect(links).to_have_count(3)
            expect(links.nth(1)).to_have_attribute("href", re.compile(r"/search\.html\?q=opset$"))
            expect(links.nth(2)).to_have_attribute(
                "href", re.compile("^https://github.com/owner/onnx-lab/issues/new")
            )
            links.nth(1).click()
            reader.wait_for_url(re.compile(r"/search\.html"))
            expect(reader.locator("#pst-search-dialog li mark").first).to_be_visible()
            reader.go_back()
            reader.keyboard.press("Control+k")
            reader.locator("#pst-search-dialog input").fill(nonsense)
        links.first.click()
        reader.wait_for_url(re.compile(rf"/{language}/errors\.html\?q="))
        expect(reader.locator(".onnxlab-why textarea")).to_have_value(nonsense)
        expect(reader.locator(".onnxlab-why [role=status]")).not_to_be_empty()


def test_search_skips_imports_and_follows_the_course(reader: Page, server: Server):
    for name in [*server.pages("en"), *server.pages("zh")]:
        if "/notebooks/" in name or "/labs/" in name:
            text = (server.out / name).read_text("utf-8")
            cell = re.search(r'<div [^>]*class="cell [^>]*>', text)
            assert cell, name
            assert "data-pagefind-ignore" in cell[0], name
    reader.goto(f"{server.url}en/index.html")
    reader.keyboard.press("Control+k")
    reader.locator("#pst-search-dialog input").fill("quantization")
    links = reader.locator("#pst-search-dialog li a")
    expect(links.first).to_have_attribute("href", re.compile("/15_quantise"))
    chapters = [re.search(r"/(\d+[a-z]?)_", link.get_attribute("href") or "") for link in links.all()]
    order = [found[1] for found in chapters if found and found[1].startswith("15")]
    assert order == sorted(order)
    assert len(set(order)) > 1
    assert not [
        text for text in links.locator("span").all_inner_texts() if text.startswith(("import ", "from "))
    ]


def test_a_word_of_the_glossary_is_explained_where_it_is_first_used(reader: Page, server: Server):
    for language, word in (("en", "guard"), ("zh", "guard")):
        reader.goto(f"{server.url}{language}/notebooks/04b_right_at_every_size.html")
        term = reader.locator(".onnxlab-term", has_text=word)
        expect(term).to_have_count(1)
        reader.keyboard.press("Tab")
        term.focus()
        shown = "term => getComputedStyle(term, '::after').content"
        assert len(term.evaluate(shown)) > 30
        reader.goto(f"{server.url}{language}/glossary.html")
        expect(reader.locator("article")).to_contain_text("ExportedProgram")


def test_a_page_says_how_it_was_checked_and_the_first_page_where_to_begin(server: Server):
    for language in LANGUAGES:
        for name in server.pages(language):
            if "/notebooks/" in name or "/labs/" in name:
                text = (server.out / name).read_text("utf-8")
                [doors] = re.findall(r'<div class="onnxlab-doors">(.*?)</div>', text, re.DOTALL)
                place = Path(name).relative_to(language).with_suffix(".ipynb")
                notebook = ROOT / place.parent / language.replace("en", "") / place.name
                log = ["git", "log", "-1", "--format=%cs", "--", str(notebook)]
                changed = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=True).stdout
                assert re.search(rf"torch [\d.]+.*onnxruntime [\d.]+.*{changed.strip()}", doors)
                assert f">{WAYS[language][0]}<" in doors
                assert f'href="../_sources/{place}" download>{WAYS[language][1]} {place.name}<' in doors
                assert f"/colab/{language}/{place}" in doors
                source = notebook.relative_to(ROOT)
                assert f"github.com/owner/onnx-lab/blob/main/{source}" in doors
                assert "github.com/owner/onnx-lab/issues/new" in doors
            else:
                text = (server.out / name).read_text("utf-8")
                [doors] = re.findall(r'<div class="onnxlab-doors">(.*?)</div>', text, re.DOTALL) or [""]
                assert Path(name).name == "search.html" or re.search(
                    r"torch [\d.]+.*20\d\d-\d\d-\d\d", doors
                ), name
                assert not doors or f"/colab/{language}/notebooks/00_start_here.ipynb" in doors, name
        home = (server.out / language / "index.html").read_text("utf-8")
        hours = [float(number) for number in re.findall(r"<p>([\d.]+) (?:hours|小时)</p>", home)]
        assert len(hours) >= 4
        assert all(1.5 <= number <= 3.6 for number in hours), hours
        sheet = (server.out / language / "sheet.html").read_text("utf-8")
        chapters = len(list((ROOT / "notebooks").glob("*.ipynb")))
        assert sheet.count("<h2 ") == chapters + 1
        assert sheet.count("<li>") > 3 * (chapters - 1)
        assert "compare_outputs" in sheet
        assert "netron.start" in sheet, "what replaces the course's functions"
        pictures = re.findall(r'<img src="(_static/cards/[^"]+)"', home)
        assert len(pictures) >= chapters - 1
        assert all((server.out / language / picture).read_bytes().startswith(b"<svg") for picture in pictures)


def files_of_strangers(folder: Path) -> None:
    """Write ten files of different kinds, two of them from packages."""
    [magika] = Path(magika_package.__file__).parent.glob("models/standard*/model.onnx")
    whole = onnx.load(magika)
    shutil.copy(magika, folder / "middle.onnx")
    shutil.copy(get_example("logreg_iris.onnx"), folder / "map.onnx")
    onnx.save(whole, folder / "outside.onnx", save_as_external_data=True, location="outside.data")
    (folder / "cut.onnx").write_bytes(magika.read_bytes()[:2_000_000])
    (folder / "inside.onnx").write_bytes(
        b"\x08\x08\x3a\x02\x0a\x7f\x42\x02\x10\x11"
    )  # a node longer than its graph
    (folder / "pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n")
    (folder / "page.onnx").write_text("<!DOCTYPE html><title>Not found</title>")
    texts = {
        "custom": '"my.ops": 1]> g (float[n] x) => (float[n] y) { y = my.ops.Strange(x) }',
        "text": '"": 18]> g (string[n] x) => (string[n] y)'
        ' { y = StringNormalizer <case_change_action = "UPPER"> (x) }',
        "frozen": '"": 23]> g (float[a, 3] x, int64[1] unread) => (float[a, 3] y)'
        " { c = Constant <value = bool {1}> ()"
        " y = If (c) <then_branch = t () => (float[a, 3] z) { z = Relu(x) },"
        " else_branch = e () => (float[a, 3] w) { w = Neg(x) }> }",
    }
    for name, text in texts.items():
        onnx.save(parse_model(f"<ir_version: 8, opset_import: [{text}"), folder / f"{name}.onnx")
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["n", "m"]) for name in ("x", "y")]
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "large", ends[:1], ends[1:]).SerializeToString()
    model = onnx.ModelProto(ir_version=8, opset_import=[onnx.helper.make_opsetid("", 17)])
    size = 4 * 1024 * 125_000  # 512 MB of zeros, which the disk does not have to hold
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[1024, 125_000])
    weight = tensor.SerializeToString() + b"\x4a" + varint(size)
    graph += b"\x2a" + varint(len(weight) + size) + weight
    head = model.SerializeToString() + b"\x3a" + varint(len(graph) + size) + graph
    with (folder / "large.onnx").open("wb") as file:
        file.write(head)
        file.truncate(len(head) + size)


def varint(number: int) -> bytes:
    """A length as protobuf writes it."""
    groups = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def drop(page: Page, place: Locator, file: Path) -> None:
    """Drop a file as a mouse does, which dispatch_event() cannot: it does not reach into a frame."""
    place.scroll_into_view_if_needed()
    box, before = place.bounding_box(), None
    while box != before:  # what stands above it may still grow
        page.wait_for_timeout(200)
        box, before = place.bounding_box(), box
    assert box is not None
    data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
    at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "data": data}
    mouse = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        mouse.send("Input.dispatchDragEvent", {"type": kind, **at})
    mouse.detach()


def structure_findings(path: Path) -> set[tuple[str, str]]:
    """What the doctor's rules of structure see in a file; what is said of data files differs in a page."""
    rules = [rule for rule in RULES if rule.__name__ != "external_data"]
    file = read_model_file(path)
    return {(rule.__name__, str(symptom.what)) for rule in rules for symptom in rule(file)}


FINDINGS = """globalThis.plainText = plain;
globalThis.findingsOf = async (content) => {
  const opened = await readModel(new File([bytesOf(content)], 'model.onnx'));
  const { runtimes } = await loaded('open_data.js');
  const seen = [...structureFindings(opened, new Map(), runtimes)];
  for await (const one of weightFindings(opened, new Map())) seen.push(one);
  return seen.map(([rule, what]) => [rule, what]);
};"""


def test_the_page_finds_in_a_file_what_the_doctor_finds(reader: Page, server: Server, tmp_path):
    """Of each rule an ill and a healthy file, patients of the clinic, and the files of the site."""
    files = {f"{number} {find.__name__}": pair for number, (find, *pair, _) in enumerate(CASES)}
    with silenced(), warnings.catch_warnings(action="ignore"):
        exports = {
            name: patient.exported()
            for name, patient in patients().items()
            if patient.exporter is Exporter.TORCHSCRIPT
        }
    files |= {name: [made.proto] for name, made in exports.items() if made.failure is None}
    files |= {name: [onnx.load(ROOT / "site/models" / name)] for name in MODELS}

    def with_findings(route: Route) -> None:
        script, _, end = route.fetch().text().rpartition("})();")
        route.fulfill(body=f"{script}{FINDINGS}}})();{end}", content_type="text/javascript")

    reader.route("**/open.js", with_findings)
    reader.goto(f"{server.url}en/open.html")
    for text in ("a\x1b[2J", "one\ntwo\r\n", "\u202e\u2028\ufeff", "\u0628\u200c\u0646", "\U0001d11e" * 70):
        assert reader.evaluate("text => plainText(text)", text) == plain(text, 60), ascii(text)
    path, seen = tmp_path / "model.onnx", set()
    for name, models in files.items():
        for model in models:
            path.write_bytes(model.SerializeToString())
            content = base64.b64encode(path.read_bytes()).decode()
            shown = {
                (rule, what) for rule, what in reader.evaluate("content => findingsOf(content)", content)
            }
            assert shown == structure_findings(path), name
            seen |= {rule for rule, _ in shown}
    assert seen == {rule.__name__ for rule in RULES} - {"external_data"}


def test_a_model_runs_in_the_page_with_values_of_the_readers_own(reader: Page, server: Server, tmp_path):
    """Arrays of NumPy, packed or not, beside drawn values; each that cannot be used is refused in words."""
    text = "g (float[n, k] x, string[n] s) => (float[n, k] y, string[n] t)"
    text += ' { y = Neg(x) t = StringNormalizer <case_change_action = "UPPER"> (s) }'
    onnx.save(parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), tmp_path / "model.onnx")
    x, s = np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.array(["a", "ü", "ccc"])
    np.savez(tmp_path / "both.npz", x=x, s=s)
    np.savez_compressed(tmp_path / "packed.npz", x=x)
    np.save(tmp_path / "x.npy", x[:2])
    refusals = {
        "wide": ({"x": x.astype(float)}, "The values of x are float64, and the input takes float32."),
        "named": ({"z": x}, "The values are named z, and the inputs x, s."),
        "columns": ({"x": np.asfortranarray(x)}, "ascontiguousarray"),
        "rank": ({"x": x[0]}, "Invalid rank for input: x"),  # by the runtime itself
    }
    for name, (arrays, _) in refusals.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
    whole = (tmp_path / "both.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:200])
    (tmp_path / "astray.npz").write_bytes(whole[:-6] + b"\xff" * 4 + whole[-2:])  # the place of its list
    reader.goto(f"{server.url}en/open.html")
    chooser, place = reader.get_by_label("Drop an .onnx file here"), reader.locator(".onnxlab-open")
    run = place.locator(".onnxlab-run")

    def rows(*names: str) -> list[list[str]]:
        chooser.set_input_files([tmp_path / name for name in names])
        expect(place).to_have_attribute("data-ready", ",".join(names))
        run.get_by_role("button").click()
        expect(run).to_have_attribute("data-ran", re.compile("."))
        return [row.locator("td").all_inner_texts() for row in run.locator("tbody tr").all()]

    chooser.set_input_files(tmp_path / "both.npz")
    expect(place).to_contain_text("both.npz: values for a run. Drop the model, too.")
    loading, *ran = rows("model.onnx")
    sizes = ["both.npz: n = 3, k = 2", "n = 3, k = 2", "n = 7, k = 5"]
    assert [row[0] for row in ran] == [size for size in sizes for _ in ("y", "t")]
    y, t = ["y float32[3, 2]", "-1, -2, -3, -4 ..."], ["t string[3]", "A, Ü, CCC ..."]
    assert [row[3:] for row in ran[:2]] == [y, t]
    for _, time, memory, *_ in (loading, *ran):
        assert re.fullmatch(r"[\d.]+ ms", time)
        assert float(memory.removesuffix(" MB")) > 16
    assert rows("model.onnx", "packed.npz")[1][3:] == y
    assert rows("model.onnx", "x.npy")[1][3:] == ["y float32[2, 2]", y[1]]
    refusals |= {name: ({}, f"{name}.npz is damaged") for name in ("cut", "astray")}
    for name, (_, words) in refusals.items():
        assert len(rows("model.onnx", f"{name}.npz")) == (name == "rank")
        expect(run).to_contain_text(words)
    text = "g (float[n] x) => (float[7] y) { s = Constant <value = int64[1] {7}> () y = Reshape(x, s) }"
    onnx.save(parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), tmp_path / "model.onnx")
    assert len(rows("model.onnx")) == 1
    # The runtime ends its message with a line feed; below it is the link to what the course says.
    refused, link = run.get_by_role("status").inner_text().splitlines()
    assert refused.endswith("requested shape:{7}")
    assert link == run.get_by_role("status").locator("a").inner_text()


def test_the_page_of_ones_own_file_is_used_by_keyboard_alone(reader: Page, server: Server, tmp_path):
    """From the file to its graph, a search in it, what was found, and a run."""
    files_of_strangers(tmp_path)
    reader.goto(f"{server.url}en/open.html")
    keys = reader.keyboard

    def reach(place: Locator, key: str) -> None:
        for _ in range(20):
            keys.press("Tab")
            if place.evaluate("element => element === element.ownerDocument.activeElement"):
                keys.press(key)
                return
        pytest.fail(f"{place} is not reached")

    reach(reader.get_by_role("link", name="Skip to main content"), "Enter")
    with reader.expect_file_chooser() as chosen:
        reach(reader.get_by_label("Drop an .onnx file here"), "Space")
    chosen.value.set_files(tmp_path / "middle.onnx")
    expect(reader.locator(".onnxlab-open")).to_have_attribute("data-ready", "middle.onnx")
    graph = reader.locator(".onnxlab-open iframe").content_frame
    search = graph.get_by_placeholder("Find operator or name")
    reach(search, "C")
    keys.type("onv")
    keys.press("Enter")
    expect(graph.locator(".graph-node.select")).to_have_count(1)
    reach(reader.locator(".findings a"), "Shift")  # it does nothing by itself
    reach(reader.locator(".onnxlab-run input"), "8")
    reach(reader.locator(".onnxlab-run button"), "Enter")
    expect(reader.locator(".onnxlab-run tbody tr").nth(1)).to_contain_text("= 8")


def test_a_readers_own_files_are_opened_in_the_page(reader: Page, server: Server, tmp_path):
    """What each of ten files shows; the findings are the doctor's, and the outputs the desktop's."""
    files_of_strangers(tmp_path)
    reader.goto(f"{server.url}en/open.html")
    chooser = reader.get_by_label("Drop an .onnx file here")
    said, run = reader.locator(".onnxlab-open > [role=status]"), reader.locator(".onnxlab-open .onnxlab-run")
    place = reader.locator(".onnxlab-open")

    def opened(*names: str) -> Locator:
        chooser.set_input_files([tmp_path / name for name in names])
        expect(place).to_have_attribute("data-ready", ",".join(names), timeout=60_000)
        return reader.locator(".onnxlab-open iframe[data-status=ready]").last.content_frame

    refusals = {
        "cut.onnx": "cut.onnx is damaged: 1,163,715 bytes are missing at its end.",
        "inside.onnx": "inside.onnx is damaged: a part inside it does not end.",
        "pointer.onnx": "It is a pointer of Git LFS",
        "page.onnx": "It is a web page (HTML).",
    }
    for name, words in refusals.items():
        chooser.set_input_files(tmp_path / name)
        expect(said).to_contain_text(words)
        expect(run).to_have_count(0)
    ran = {"middle.onnx": 3, "map.onnx": 2, "text.onnx": 3, "frozen.onnx": 3, "custom.onnx": 0}
    for name, rows in ran.items():
        graph = opened(name)
        expect(graph.locator(".graph-node").first).to_be_visible()
        seen = {what for _, what in structure_findings(tmp_path / name)}
        shown = {item.get_attribute("data-what") for item in reader.locator(".findings li[data-rule]").all()}
        assert shown == seen, name
        assert seen or name == "text.onnx"
        run.get_by_role("button").click()
        expect(run).to_have_attribute("data-ran", str(rows), timeout=60_000)
        if name == "custom.onnx":
            expect(run).to_contain_text("my.ops:Strange(-1) is not a registered function/op")
    opened("middle.onnx")
    expect(reader.locator(".facts")).to_contain_text("bytes: int32[unk__214, 2048]")
    drop(reader, reader.locator(".onnxlab-open iframe"), tmp_path / "text.onnx")  # the frame hands it on
    expect(place).to_have_attribute("data-ready", "text.onnx")
    drop(reader, reader.get_by_text("Drop an .onnx file here"), tmp_path / "frozen.onnx")
    expect(place).to_have_attribute("data-ready", "frozen.onnx")
    opened("large.onnx")
    expect(run).to_contain_text("It is not run here: a model of 512.0 MB")
    expect(run).to_contain_text("onnxlab doctor large.onnx")
    opened("outside.onnx")
    expect(run).to_contain_text("outside.data is missing")
    opened("outside.data")  # completes what is open
    expect(run.get_by_role("button")).to_be_enabled()
    opened("text.onnx")
    chooser.set_input_files(tmp_path / "outside.data")
    expect(said).to_contain_text("If it is the data file of a model, drop the model now.")
    opened("outside.onnx")  # the other way round
    expect(run.get_by_role("button")).to_be_enabled()
    opened("outside.onnx", "middle.onnx")
    expect(place).to_contain_text("Nodes with a counterpart: 95. 0 removed 0 added 0 changed")
    reader.set_viewport_size(PHONE)
    assert reader.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    (tmp_path / "again").mkdir()
    shutil.copy(tmp_path / "text.onnx", tmp_path / "again/middle.onnx")
    chooser.set_input_files([tmp_path / "middle.onnx", tmp_path / "again/middle.onnx"])
    expect(place).to_have_attribute("data-ready", "middle.onnx,middle.onnx")
    expect(place).to_contain_text("Nodes with a counterpart: 0. 95 removed 1 added")
    reader.evaluate("document.querySelectorAll('.onnxlab-run button').forEach((one) => one.click())")
    expect(run.first).to_have_attribute("data-ran", "3", timeout=60_000)  # which the second click did not end
    expect(run.last.get_by_role("button")).to_be_enabled()
    shutil.copy(tmp_path / "outside.data", tmp_path / "again")
    chooser.set_input_files(
        [tmp_path / name for name in ("outside.onnx", "outside.data", "again/outside.data")]
    )
    expect(said).to_contain_text("Two files are called outside.data")
    reader.goto((server.out / "en/open.html").as_uri())
    opened("middle.onnx")
    expect(run).to_contain_text("onnxlab doctor middle.onnx")
