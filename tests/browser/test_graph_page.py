"""What the live graph does on a page, and what a hostile model cannot do there."""

import base64
import re
from pathlib import Path

import onnx
import pytest
from playwright.sync_api import FloatRect, Frame, expect

from tests.support.graph_models import SCRIPTS, chain, modules, string_everywhere
from tests.support.jupyterlab import JupyterServer
from tests.support.notebook_page import READY, Notebook, wait_until

IMPORT = "from onnxlab import graph"
# Opens everything in the sidebar that can be opened.
EXPAND = """async () => {
  for (const more of document.querySelectorAll('#sidebar .sidebar-item-value-expander')) {
    if (more.isConnected && more.textContent.trim() === '+') more.click();
  }
  await new Promise((resolve) => setTimeout(resolve, 200));
}"""
# Elements and attributes that neither Netron nor ONNX Lab makes.
FOREIGN = """() => [...document.body.querySelectorAll('img, iframe, object, embed, meta, link, form, script')]
  .filter((element) => !(element.localName === 'script' && element.nonce))
  .map((element) => element.outerHTML)"""
LISTENERS = """() => [...document.querySelectorAll('*')]
  .flatMap((element) => element.getAttributeNames())
  .filter((name) => name.startsWith('on'))"""
STROKES = """boxes => boxes
  .map((box) => box.querySelector(':scope > .node-border').style.stroke)
  .filter(Boolean).length"""
COUNT = """
from onnxlab.notebook.graph.view import GraphView
requests, answer = [], GraphView._answer
def counting(self, widget, message, buffers):
    requests.append(message['kind'])
    answer(self, widget, message, buffers)
GraphView._answer = counting
"""

NAMED_HALF = "model = onnx.load('chain.onnx')\nmodel.graph.node[1].name = '50%'\ngraph(model)"
IN_SIGHT = """boxes => {
  const pane = document.getElementById('target').getBoundingClientRect();
  return boxes.filter((box) => box.style.stroke).some((box) => {
    const { top, bottom } = box.getBoundingClientRect();
    return top > pane.top && bottom < pane.bottom;
  });
}"""
SCROLLED = "() => document.getElementById('target').scrollTop"

# A kernel that answers late: not before the file is there.
HOLD = """
import time
from pathlib import Path
from onnxlab.notebook.graph import view
from onnxlab.notebook.graph.view import GraphView
answer, view._LARGEST_SENT = GraphView._answer, 0
def late(self, widget, message, buffers):
    while message['kind'] == 'model' and not Path('go').exists():
        time.sleep(0.05)
    answer(self, widget, message, buffers)
GraphView._answer = late
"""


@pytest.fixture(scope="session")
def models(lab: JupyterServer) -> Path:
    """The folder of the notebook, with the models that are drawn."""
    folder = lab.folder
    onnx.save(chain(), folder / "chain.onnx")
    onnx.save(
        chain(), folder / "external.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    other = chain()
    other.graph.node[1].op_type = "Sigmoid"
    onnx.save(other, folder / "other.onnx")
    onnx.save(modules(40), folder / "modules.onnx")
    onnx.save(modules(500), folder / "large.onnx")
    return folder


@pytest.fixture
def notebook(scratch: Notebook, models: Path) -> Notebook:
    """The notebook whose cells each test fills in."""
    return scratch


def draw(notebook: Notebook, *cells: str) -> list[Frame]:
    """Fill in cells below the import, run the first of them, and return the frames of its graphs."""
    notebook.fill([IMPORT, *cells])
    notebook.run(0)
    return notebook.run_graph(1)


def select(frame: Frame, words: str) -> None:
    """Find a node by its operator or name and select it."""
    frame.locator("#onnxlab-search input").fill(words)
    frame.locator("#onnxlab-search li").first.click()


def test_the_search_field_does_not_cover_the_first_input(notebook: Notebook):
    """Two graphs side by side are narrow, and Netron draws the first input at the top, in the middle."""
    for frame in draw(notebook, "graph('chain.onnx', 'other.onnx')"):
        field = frame.locator("#onnxlab-search input").bounding_box()
        first = frame.locator(".graph-input").first.bounding_box()
        assert field
        assert first
        assert field["x"] + field["width"] <= first["x"]


def test_the_frame_is_shut_off(notebook: Notebook):
    (frame,) = draw(notebook, "graph('chain.onnx')")
    element = frame.frame_element()
    assert element.get_attribute("sandbox") == "allow-scripts"
    assert frame.evaluate("() => origin") == "null"
    for attempt in (
        "() => parent.document.body",
        "() => fetch('/api/contents')",
        "() => fetch('https://example.org/')",
        "() => document.cookie",
        "() => localStorage.length",
        "() => import('https://example.org/x.js')",
    ):
        with pytest.raises(Exception, match=r"Blocked|Failed|denied|violates|insecure|sandboxed|Refused"):
            frame.evaluate(attempt)
    socket = (
        "() => new Promise((end) => { new WebSocket('ws://example.org/').onerror = () => end('refused'); })"
    )
    assert frame.evaluate(socket) == "refused"


def test_a_hostile_model_runs_nothing(notebook: Notebook, models: Path):
    refresh = "<meta http-equiv=refresh content='0;url=https://example.org'>"
    text = f"{refresh}{SCRIPTS[1]}{SCRIPTS[7]}{refresh}"
    onnx.save(string_everywhere(text), models / "hostile.onnx")
    (frame,) = draw(notebook, "view = graph('hostile.onnx')\nview")
    address = frame.url
    # Everything that writes the model's words into the page: the properties of nodes, graphs, the model.
    for box in frame.locator(".graph-node .node-item-type:first-child").all()[:4]:
        box.dispatch_event("click")  # another box may lie above it
        frame.evaluate(EXPAND)
    for button in ("sidebar-target-button", "sidebar-model-button"):
        frame.locator(f"#{button}").click()
        frame.evaluate(EXPAND)
    frame.evaluate("() => view.showDefinition([...view.model.functions][0])")
    expect(frame.locator("#sidebar-content")).not_to_be_empty()
    notebook.page.wait_for_timeout(500)  # time for what must not happen
    assert frame.url == address
    assert frame.evaluate(FOREIGN) == []
    assert frame.evaluate(LISTENERS) == []
    assert notebook.page.evaluate(LISTENERS) == []


def test_links_in_a_model_do_not_move_the_frame(notebook: Notebook, models: Path):
    model = chain()
    model.metadata_props.add(key="license", value="free")
    model.metadata_props.add(key="license_url", value="https://example.org/'onmouseover='alert(1)")
    onnx.save(model, models / "link.onnx")
    (frame,) = draw(notebook, "graph('link.onnx')")
    address = frame.url
    moved = frame.evaluate(
        """() => {
          const link = document.createElement('a');
          link.href = 'http://example.org/';
          document.body.append(link);
          link.click();
          return location.href;
        }"""
    )
    notebook.page.wait_for_timeout(500)
    assert moved == frame.url == address


def test_a_weight_is_fetched_when_it_is_opened(notebook: Notebook):
    (frame,) = draw(notebook, "graph('external.onnx')")
    frame.locator(".node-argument").first.click()
    frame.locator(
        "#sidebar .sidebar-item-value-button-tool, #sidebar .sidebar-item-value-expander"
    ).last.click()
    frame.get_by_text("3.8204714345426298e-37").or_(
        frame.get_by_text("3.820471434542632e-37")
    ).first.wait_for()


def test_a_weight_that_cannot_be_had_is_said_to_be_so(notebook: Notebook, models: Path):
    model = onnx.load(models / "external.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../secret.bin"
    onnx.save(model, models / "climbing.onnx")
    (models.parent / "secret.bin").write_bytes(b"secret" * 100)
    (frame,) = draw(notebook, "graph('climbing.onnx')")
    expect(notebook.cells.nth(1).locator(".onnxlab-note")).to_contain_text("points outside its own folder")
    frame.locator(".node-argument").first.click()
    frame.locator(
        "#sidebar .sidebar-item-value-button-tool, #sidebar .sidebar-item-value-expander"
    ).last.click()
    expect(frame.locator("#sidebar")).to_contain_text("points outside its own folder")
    assert "secret" not in frame.locator("#sidebar").inner_text().replace("secret.bin", "")


def test_several_graphs_share_netron(notebook: Notebook):
    notebook.fill(
        [
            IMPORT + COUNT,
            *["graph('chain.onnx')"] * 4,
            "print(requests.count('kit'), requests.count('model'))",
            "GraphView._answer = answer",
        ]
    )
    notebook.run(0)
    for index in range(1, 5):
        (frame,) = notebook.run_graph(index)
        assert frame.locator("g.graph-node").count() == 4
    notebook.run_until(5, "[01] 0")  # 0: an earlier graph of this page has asked for Netron
    notebook.run(6)


@pytest.mark.parametrize(
    ("shown", "drawn"),
    [("'chain.onnx'", [4]), ("'chain.onnx', 'other.onnx'", [4, 4]), ("'modules.onnx', groups=False", [20])],
)
def test_a_still_picture_is_there_before_the_graph_is_alive_and_not_after(
    notebook: Notebook, models: Path, shown: str, drawn: list[int]
):
    (models / "go").unlink(missing_ok=True)
    notebook.fill(
        [IMPORT + HOLD, f"graph({shown})", "GraphView._answer, view._LARGEST_SENT = answer, 1 << 20"]
    )
    notebook.run(0)
    notebook.cells.nth(1).locator(".cm-content").click()
    notebook.page.keyboard.press("Shift+Enter")
    output = notebook.cells.nth(1).locator(".jp-Cell-outputWrapper")
    pictures = output.locator(".onnxlab-first img")
    expect(pictures).to_have_count(len(drawn))
    for picture, nodes in zip(pictures.all(), drawn, strict=True):
        expect(picture).to_be_visible()
        wait_until(
            notebook.page, lambda picture=picture: picture.evaluate("i => i.complete && i.naturalHeight")
        )
        svg = base64.b64decode((picture.get_attribute("src") or "").partition(",")[2]).decode()
        assert svg.count('class="node graph-node"') == nodes
    assert output.locator(READY).count() == 0
    expect(output.locator(".onnxlab-still")).to_be_hidden()
    (models / "go").touch()
    frames = output.locator(READY)
    expect(frames).to_have_count(len(drawn))
    expect(pictures).to_have_count(0)
    expect(output.locator(".onnxlab-still")).to_be_hidden()
    notebook.run(2)


def test_a_frame_that_is_started_waits_for_the_next_graph(notebook: Notebook):
    notebook.fill([IMPORT, *["graph('chain.onnx')"] * 2])
    notebook.run(0)
    notebook.run_graph(1)
    handle = notebook.page.locator("iframe[sandbox]:not(.onnxlab-graph)").element_handle()
    assert handle
    waiting = handle.content_frame()
    assert waiting
    waiting.wait_for_function("() => loaded !== null")  # Netron is in it
    waiting.evaluate("() => { window.mark = 'waited'; }")
    (frame,) = notebook.run_graph(2)
    assert frame.evaluate("() => window.mark") == "waited"
    assert frame.locator("g.graph-node").count() == 4
    expect(notebook.page.locator("iframe[sandbox]:not(.onnxlab-graph)")).to_have_count(1)


def test_an_input_has_the_colour_that_python_gives_it(notebook: Notebook):
    cells = [IMPORT, "view = graph('chain.onnx', highlight={'x': 'rgb(1, 2, 3)'})\nview"]
    notebook.fill([*cells, "view.highlight = {'x': 'rgb(4, 5, 6)'}"])
    notebook.run(0)
    (frame,) = notebook.run_graph(1)
    border = frame.locator(".graph-input > .node-border")
    expect(border).to_have_css("stroke", "rgb(1, 2, 3)")
    notebook.run(2)
    expect(border).to_have_css("stroke", "rgb(4, 5, 6)")


def test_groups_open_on_a_click_and_by_searching(notebook: Notebook):
    (frame,) = draw(
        notebook, "view = graph('modules.onnx', values={'m7': 0.25})\nview", "print(view.selected.name)"
    )
    assert frame.get_by_text("largest inside = 0.25").count() == 1
    before = frame.locator("g.graph-node").count()
    frame.get_by_text("+", exact=True).first.click()
    frame.get_by_text("Softmax", exact=True).wait_for()
    expect(frame.locator("g.graph-node")).not_to_have_count(before)
    select(frame, "exp layers.7")
    frame.locator(".graph-node.select", has_text="Exp").wait_for()
    notebook.run_until(2, "/layers.7/mlp/Exp")
    notebook.cells.nth(1).get_by_role("button", name="Show every node").click()
    frame = (
        notebook.cells.nth(1)
        .locator("iframe.onnxlab-graph[data-status=ready]")
        .element_handle()
        .content_frame()
    )
    expect(frame.locator("g.graph-node")).to_have_count(160)


def test_a_large_graph_keeps_only_what_is_in_sight_in_the_page(notebook: Notebook):
    view = "view = graph('large.onnx', groups=False)\nview"
    (frame,) = draw(notebook, view, "view.select('x500').op")
    assert frame.frame_element().get_attribute("data-nodes") == "2002"  # and the input and the output
    nodes = frame.locator("g.graph-node")
    wait_until(notebook.page, lambda: 0 < nodes.count() < 200)
    notebook.run(2)
    last = frame.locator(".graph-node.select")
    last.wait_for()

    def in_sight() -> bool:
        box, within = last.bounding_box(), frame.frame_element().bounding_box()
        return bool(box and within and within["y"] < box["y"] < within["y"] + within["height"])

    wait_until(notebook.page, in_sight)
    wait_until(notebook.page, lambda: 0 < nodes.count() < 200)
    # Selecting a connection reaches edges that are not in the document.
    frame.evaluate("() => view.target.select([view.target.values.get('x0').value])")
    expect(frame.locator(".edge-path.select")).to_have_count(0)
    frame.evaluate("() => document.getElementById('target').scrollTo(0, 0)")
    frame.locator(".edge-path.select").first.wait_for(state="attached")


def test_two_models_select_together(notebook: Notebook):
    first, second = draw(
        notebook, "view = graph('chain.onnx', 'other.onnx')\nview", "print(view.selected.op)"
    )
    expect(notebook.cells.nth(1).locator(".onnxlab-note")).to_contain_text("Sigmoid")
    assert first.locator(".graph-node").evaluate_all(STROKES) >= 1
    second.locator(".graph-node .node-item-type").filter(has_text="Conv").last.click()
    first.locator(".graph-node.select", has_text="Conv").wait_for()
    notebook.run_until(2, "Conv")


def test_a_graph_that_netron_cannot_draw_is_a_message(notebook: Notebook, models: Path):
    model = chain()
    function = model.functions.add(name="f", domain="d", input=["a"], output=["b"])
    function.node.add(op_type="f", domain="d", input=["a"], output=["b"])
    model.graph.node.add(op_type="f", domain="d", input=["y"], output=["z"])
    onnx.save(model, models / "endless.onnx")
    notebook.fill([IMPORT, "graph('endless.onnx')"])
    notebook.run(0)
    output = notebook.run(1, until=".onnxlab-message")
    assert "Netron cannot draw this graph" in output.inner_text()
    assert output.locator("iframe").count() == 0


def test_the_caret_stays_in_the_notebook_and_a_small_graph_in_sight(notebook: Notebook):
    """Netron covers a graph whose layout takes more than 2.5 seconds with a notice."""
    (frame,) = draw(notebook, "graph('chain.onnx')", "")
    notebook.cells.nth(2).locator(".cm-content").click()
    notebook.page.wait_for_timeout(3_000)
    notebook.page.keyboard.type("1 + 1")
    expect(notebook.cells.nth(2).locator(".cm-content")).to_have_text("1 + 1")
    expect(frame.locator("body")).to_have_class("default")


def test_nodes_are_found_and_read_from_the_keyboard(notebook: Notebook):
    (frame,) = draw(notebook, "view = graph('chain.onnx')\nview", "print(view.selected.op)")
    for name in ("Zoom In", "Zoom Out", "Model Properties", "Graph Properties"):
        assert frame.get_by_role("button", name=name).count() == 1
    frame.get_by_role("button", name="Graph Properties").focus()
    field = frame.get_by_role("textbox", name="Find operator or name")
    for _ in range(5):  # what of Netron's page can be reached lies in between, and is not seen here
        notebook.page.keyboard.press("Tab")
        if field.evaluate("field => field === document.activeElement"):
            break
    expect(field).to_be_focused()
    expect(field).to_have_css("outline-style", "solid")
    notebook.page.keyboard.type("relu")
    notebook.page.keyboard.press("ArrowDown")
    frame.locator(".graph-node.select", has_text="Relu").wait_for()
    notebook.page.keyboard.press("Shift+Enter")
    expect(frame.locator("#sidebar")).to_contain_text("Node Properties", ignore_case=True)
    notebook.page.keyboard.press("Escape")
    expect(frame.locator("#sidebar")).not_to_be_in_viewport()
    notebook.run_until(2, "Relu")


def test_a_link_in_the_text_selects_a_node_of_the_nearest_graph(notebook: Notebook):
    """By mouse and keyboard; above the link first, then below; by name or operator; in pairs too."""
    (single,) = draw(notebook, "view = graph('chain.onnx')\nview", "graph('chain.onnx', 'other.onnx')", "")
    first, second = notebook.run_graph(2)
    links = "[Relu](#node=Relu) [Sigmoid](#node=Sigmoid) [Conv](#node=/conv2) [Gemm](#node=Gemm)"
    link = notebook.add_text(2, links).locator("a")
    expect(link).to_have_count(4)
    address = notebook.page.url

    link.get_by_text("Gemm").click()  # no graph has it
    notebook.page.wait_for_timeout(500)
    for frame in (single, first, second):
        expect(frame.locator(".graph-node.select")).to_have_count(0)

    link.get_by_text("Relu").click()
    single.locator(".graph-node.select", has_text="Relu").wait_for()
    expect(first.locator(".graph-node.select")).to_have_count(0)

    link.get_by_text("Sigmoid").press("Enter")  # only below; Relu is its counterpart in the other model
    second.locator(".graph-node.select", has_text="Sigmoid").wait_for()
    first.locator(".graph-node.select", has_text="Relu").wait_for()

    link.get_by_text("Conv").press("Enter")
    expect(single.locator(".graph-node.select")).to_have_count(1)
    notebook.cells.nth(3).locator(".cm-content").click()
    notebook.page.keyboard.type("print(view.selected.name)")
    notebook.run_until(3, "/conv2")
    assert notebook.page.url == address


def test_a_link_to_a_node_may_hold_a_percent_sign(notebook: Notebook):
    notebook.fill(["import onnx\nfrom onnxlab import graph", NAMED_HALF, ""])
    notebook.run(0)
    (frame,) = notebook.run_graph(1)
    errors: list[str] = []
    notebook.page.on("pageerror", lambda error: errors.append(str(error)))
    notebook.add_text(2, "[half](#node=50%)").locator("a").click()
    frame.locator(".graph-node.select", has_text="Relu").wait_for()
    assert errors == []


@pytest.mark.parametrize(
    ("file", "marked", "least", "most"),
    [
        ("modules.onnx", ["x30", "x35"], 500, 1e6),
        ("large.onnx", ["x30", "x35"], 500, 1e6),  # elements out of sight are not in the document
        ("modules.onnx", ["n0", "x30"], 0, 0),
    ],
)
def test_a_graph_opens_where_something_is_highlighted(notebook: Notebook, file, marked, least, most):
    """And at its top, if that is in sight there."""
    (frame,) = draw(notebook, f"graph({file!r}, groups=False, highlight={marked})")
    assert frame.eval_on_selector_all(".node-border", IN_SIGHT)
    assert least <= frame.evaluate(SCROLLED) <= most


def test_a_click_takes_the_keyboard_into_the_graph_and_shift_enter_goes_on(notebook: Notebook):
    (frame,) = draw(notebook, "view = graph('chain.onnx')\nview", "print(view.selected.op)")
    sidebar = frame.locator("#sidebar")
    frame.get_by_text("Relu", exact=True).click()
    expect(sidebar).to_be_in_viewport()
    notebook.page.keyboard.press("Escape")
    expect(sidebar).not_to_be_in_viewport()
    frame.get_by_text("Conv", exact=True).first.click()
    notebook.page.keyboard.press("Shift+Enter")  # the active cell is the one below the graph
    expect(notebook.cells.nth(2).locator(".jp-OutputArea-output")).to_have_text("Conv")
    expect(sidebar).to_be_in_viewport()  # the graph's own cell has not run again

    frame.locator("#menu-button").click()
    menu = frame.locator("#menu")
    expect(menu).to_contain_text("File")
    expect(menu).to_contain_text("View")
    notebook.page.keyboard.press("Escape")
    frame.locator("#zoom-in-button").focus()
    notebook.page.keyboard.press("Tab")
    ring = "getComputedStyle(document.activeElement).outline"
    assert "solid 2px" in frame.evaluate(ring), frame.evaluate(ring)


def test_ctrl_and_the_wheel_zoom_and_the_wheel_alone_does_not(notebook: Notebook):
    (frame,) = draw(notebook, "graph('chain.onnx')")
    drawing = frame.locator("#canvas")
    place = notebook.page.locator("iframe.onnxlab-graph").bounding_box()
    before = drawing.bounding_box()
    assert place
    assert before
    notebook.page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    notebook.page.mouse.wheel(0, -200)
    notebook.page.wait_for_timeout(500)
    after = drawing.bounding_box()
    assert after
    assert after["width"] == before["width"]
    notebook.page.keyboard.down("Control")
    notebook.page.mouse.wheel(0, -200)
    notebook.page.keyboard.up("Control")
    wait_until(notebook.page, lambda: drawing.bounding_box()["width"] > before["width"])


def test_a_small_graph_lives_beside_its_words_in_brackets_of_every_font(notebook: Notebook):
    (frame,) = draw(notebook, "graph('chain.onnx')")
    expect(frame.locator("#canvas")).to_contain_text("<4\u00d74\u00d71\u00d71>")
    words = notebook.page.locator("pre.onnxlab-words")
    expect(words).to_contain_text("Relu    a -> b")

    def boxes() -> tuple[FloatRect, FloatRect]:
        left, right = notebook.page.locator("iframe.onnxlab-graph").bounding_box(), words.bounding_box()
        assert left
        assert right
        assert left["width"] >= 480
        assert left["height"] >= 320
        return left, right

    left, right = boxes()
    assert left["x"] + left["width"] <= right["x"]
    notebook.page.set_viewport_size({"width": 1024, "height": 1400})
    left, right = boxes()
    assert left["y"] + left["height"] <= right["y"], "the words are below where there is no room"


ZOOM = "() => document.getElementById('canvas').getBoundingClientRect().height"


def test_a_graph_fits_fills_the_screen_and_has_a_handle_for_its_height(notebook: Notebook):
    notebook.fill([f"{IMPORT}\ngraph('large.onnx', groups=False)"])
    notebook.run(0)
    [frame] = notebook.graphs(0)
    page = notebook.page
    box = page.locator(".onnxlab-box")
    before = frame.evaluate(ZOOM)
    page.get_by_role("button", name="Fit", exact=True).click()
    wait_until(page, lambda: frame.evaluate(ZOOM) < before / 2)
    low = box.bounding_box()
    assert low is not None
    x, y = low["x"] + low["width"] - 4, low["y"] + low["height"] - 4
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 100, steps=5)
    page.mouse.up()
    wait_until(page, lambda: (box.bounding_box() or low)["height"] > low["height"] + 80)
    page.get_by_role("button", name="Full screen", exact=True).focus()
    page.keyboard.press("Enter")
    leave = page.get_by_role("button", name="Leave full screen")
    expect(leave).to_be_visible()
    leave.click()
    expect(leave).to_have_count(0)


def test_a_full_screen_is_filled_by_a_small_graph_and_leaves_a_large_one_readable(notebook: Notebook):
    notebook.fill([f"{IMPORT}\ngraph('chain.onnx')", f"{IMPORT}\ngraph('large.onnx', groups=False)"])
    page = notebook.page
    page.set_viewport_size({"width": 1280, "height": 1000})
    for index, words in ((0, 1), (1, 0)):
        notebook.run(index)
        cell = notebook.cells.nth(index)
        cell.scroll_into_view_if_needed()
        [frame] = notebook.graphs(index)
        before = frame.evaluate(ZOOM)
        expect(cell.locator(".onnxlab-words")).to_have_count(words)
        cell.get_by_role("button", name="Full screen", exact=True).click()
        wait_until(page, lambda frame=frame, before=before: frame.evaluate(ZOOM) != before)
        height = frame.evaluate(ZOOM)
        if index == 0:
            assert 0.8 < height / frame.evaluate("() => innerHeight") <= 1.01
        else:
            assert height == pytest.approx(before / 2, rel=0.01)
        expect(cell.locator(".onnxlab-words:visible")).to_have_count(0)
        page.get_by_role("button", name="Leave full screen").click()
        wait_until(page, lambda frame=frame, before=before: frame.evaluate(ZOOM) == pytest.approx(before))
        expect(cell.locator(".onnxlab-words:visible")).to_have_count(words)


def test_two_graphs_move_together_when_asked_to(notebook: Notebook):
    notebook.fill([f"{IMPORT}\ngraph('large.onnx', 'large.onnx', groups=False)"])
    notebook.run(0)
    first, second = notebook.graphs(0, 2)
    top = "() => document.getElementById('target').scrollTop"
    scroll = "(top) => document.getElementById('target').scrollTo({ top, behavior: 'instant' })"
    zoom_in = "() => document.getElementById('zoom-in-button').click()"
    first.evaluate(scroll, 300)
    notebook.page.wait_for_timeout(500)
    assert second.evaluate(top) != 300
    together = notebook.page.get_by_role("button", name="Move together")
    together.click()
    expect(together).to_have_attribute("aria-pressed", "true")
    first.evaluate(scroll, 500)
    wait_until(notebook.page, lambda: second.evaluate(top) == first.evaluate(top) == 500)
    notebook.page.wait_for_timeout(300)
    size = first.evaluate(ZOOM)
    second.evaluate(zoom_in)
    wait_until(notebook.page, lambda: first.evaluate(ZOOM) == second.evaluate(ZOOM) > size)


def test_what_is_selected_is_blue_and_keeps_the_colour_of_a_difference(notebook: Notebook):
    notebook.fill([f"{IMPORT}\ngraph('chain.onnx', 'other.onnx')"])
    notebook.run(0)
    frame, _ = notebook.graphs(0, 2)
    border = frame.locator(".select > .node-border")
    select(frame, "Add")
    expect(border).to_have_css("stroke", "rgb(47, 129, 247)")
    select(frame, "Relu")
    expect(border).to_have_css("filter", re.compile(r"rgb\(47, 129, 247\)"))
    expect(border).not_to_have_css("stroke", "rgb(47, 129, 247)")
