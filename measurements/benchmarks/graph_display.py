"""How long a graph takes to appear in a notebook: here, with `netron.start` in an IFrame, in Model Explorer.

One JupyterLab, one Chromium, all ways in turn on the same models, medians: from running a cell to a node that
is seen, and to the live graph, on a page that already has one such graph. Addresses outside this machine are
answered at once: no network is measured. Beside the times: the longest pause of the notebook's page, the
bytes left in the notebook, and the memory that twelve graphs take in a fresh kernel.

    python -m measurements.benchmarks.graph_display [--runs 5] [--sizes 15 100 300 2000 10000] [--write]

Outside Colab, Model Explorer shows nothing in a notebook: its server runs already, and a cell opens its
page in an IFrame. It needs an environment of its own; EXPLORER is then /tmp/explorer/bin/model-explorer:

    python -m venv /tmp/explorer
    /tmp/explorer/bin/pip install ai-edge-model-explorer model-explorer-onnx "setuptools<81"
    python -m measurements.benchmarks.graph_display --model-explorer EXPLORER
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import onnx
from onnx import TensorProto, helper
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from measurements.benchmarks import report
from tests.support.chromium import ARGUMENTS, find_chromium
from tests.support.jupyterlab import JupyterServer, free_port, jupyter_server
from tests.support.notebook_page import PATIENCE, Notebook

CELLS = {
    "graph()": "graph({path!r})",
    "netron + IFrame": "address = netron.start({path!r}, browse=False)\n"
    "IFrame(f'http://localhost:{{address[1]}}', '100%', 480)",
}
LONGEST = 120.0
"""Seconds after which a measurement gives up waiting for a graph."""
EXPLORER = "Model Explorer + IFrame"
EXPLORER_CELL = """
data = json.dumps({{"models": [{{"url": str(Path({path!r}).resolve())}}]}})
IFrame(f"http://127.0.0.1:{port}/?" + urlencode({{"data": data}}), "100%", 480)
"""
PREPARE = (
    "import json, logging, netron, os\nfrom pathlib import Path\nfrom urllib.parse import urlencode\n"
    "from IPython.display import IFrame\nfrom onnxlab import graph\n"
    "logging.getLogger('netron').setLevel('ERROR')\n"
    "def resident():\n"
    "    with open('/proc/self/statm') as file:\n"
    "        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 1e6"
)
NODE = "g.graph-node:not([style*='opacity: 0']):not([style*='display: none'])"
EXPLORED = "graph-panel:has(webgl-renderer canvas)"
"""Model Explorer paints; its panel comes when the layers (all closed: three boxes) have their places."""
SEEN = """cell => {
  delete window.firstSeen;
  const began = Date.now();
  const look = () => {
    const seen = [...cell.querySelectorAll('.onnxlab-still img, .onnxlab-first img')]
      .some((image) => image.complete && image.naturalWidth && image.checkVisibility());
    if (seen) requestAnimationFrame(() => { window.firstSeen = Date.now() / 1000; });   // painted by then
    else if (Date.now() - began < 60000) requestAnimationFrame(look);
  };
  look();
}"""
"""Notes when a still picture is on the page."""
WATCH = """() => {
  let last = performance.now();
  window.longestPause = 0;
  clearInterval(window.pauseWatch);
  window.pauseWatch = setInterval(() => {
    const now = performance.now();
    window.longestPause = Math.max(window.longestPause, now - last - 10);
    last = now;
  }, 10);
}"""


def model_of(nodes: int) -> onnx.ModelProto:
    """Blocks of attention-like branches with a residual, up to so many nodes."""
    steps, value = [], "x"
    for block in range(nodes // 8):
        q, k, v, scores, weights, mixed, summed = (f"{name}{block}" for name in "qkvspmr")
        steps += [helper.make_node("MatMul", [value, "w"], [name], name=f"/{name}") for name in (q, k, v)]
        steps += [
            helper.make_node("Add", [q, k], [scores]),
            helper.make_node("Softmax", [scores], [weights]),
            helper.make_node("Mul", [weights, v], [mixed]),
            helper.make_node("Add", [mixed, value], [summed]),
            helper.make_node("Relu", [summed], [f"y{block}"]),
        ]
        value = f"y{block}"
    steps += [
        helper.make_node("Relu", [value if i == 0 else f"z{i - 1}"], [f"z{i}"]) for i in range(nodes % 8)
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64])
        for name in ("x", steps[-1].output[0])
    ]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], bytes(64 * 64 * 4), raw=True)
    graph = helper.make_graph(steps, "blocks", ends[:1], ends[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], producer_name="benchmark")


@contextmanager
def explorer(program: Path | None) -> Iterator[dict[str, str]]:
    """Run Model Explorer's server, if it is given; yield its cell."""
    if program is None:
        yield {}
        return
    port = free_port()
    command = [str(program), "--no_open_in_browser", "--extensions=model_explorer_onnx", f"--port={port}"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen([*command, "--host=127.0.0.1"], stdout=quiet, stderr=quiet) as server:
        try:
            while server.poll() is None:
                with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
                    break
                time.sleep(0.1)
            yield {EXPLORER: EXPLORER_CELL.replace("{port}", str(port))}
        finally:
            server.terminate()


@contextmanager
def fresh_page(context: BrowserContext, running: JupyterServer, cells: list[str]) -> Iterator[Notebook]:
    """A page with a notebook of these cells, the first of them run."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    notebook = running.new(page, cells)
    page.set_viewport_size({"width": 1280, "height": 900})
    notebook.run(0)
    page.wait_for_timeout(1000)
    yield notebook
    page.close()


def measure(notebook: Notebook, index: int) -> tuple[float, float, float, int]:
    """Run a cell: seconds to a node that is seen, to the live graph, the longest pause in ms; bytes."""
    page, cell = notebook.page, notebook.cells.nth(index)
    cell.scroll_into_view_if_needed()
    cell.locator(".cm-content").click()
    page.evaluate(WATCH)
    page.wait_for_timeout(300)
    page.evaluate("() => { window.longestPause = 0; }")
    cell.evaluate(SEEN)
    start, clock = time.perf_counter(), time.time()
    page.keyboard.press("Shift+Enter")
    handle = cell.locator(".jp-OutputArea iframe").first.element_handle(timeout=60_000)
    assert handle is not None
    frame = handle.content_frame()
    assert frame is not None
    # A locator's own waiting would poll only twice a second.
    first = frame.locator(f"{NODE}, {EXPLORED}").first
    while not first.is_visible():
        if time.perf_counter() - start > LONGEST:
            msg = f"No node appeared in {LONGEST:.0f} seconds."
            raise TimeoutError(msg)
        time.sleep(0.01)
    seconds = time.perf_counter() - start
    picture = page.evaluate("() => window.firstSeen")
    seen = min(seconds, picture - clock) if picture else seconds
    pause = float(page.evaluate("() => window.longestPause"))
    cells = page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells")
    return seen, seconds, pause, len(json.dumps(cells[index]["outputs"]))


def memory(context: BrowserContext, running: JupyterServer, cell: str, graphs: int = 12) -> float:
    """Return the megabytes that so many graphs add to a new kernel."""
    cells = [PREPARE, "before = resident()", *[cell] * graphs, "print(round(resident() - before, 1))"]
    with fresh_page(context, running, cells) as notebook:
        notebook.run(1)
        for index in range(2, 2 + graphs):
            measure(notebook, index)
        last = len(cells) - 1
        notebook.cells.nth(last).scroll_into_view_if_needed()
        notebook.run(last)
        return float(notebook.output(last))


def quiet(page: Page) -> None:
    """Answer Netron's consent question, analytics and fonts at once."""
    allow = {"access-control-allow-origin": "*", "access-control-allow-headers": "*"}
    page.context.route(
        "**/ipinfo.io/**", lambda route: route.fulfill(status=200, headers=allow, body='{"country": "US"}')
    )
    for address in ("**/analytics.google.com/**", "**/*.gstatic.com/**", "**/*.googleapis.com/**"):
        page.context.route(address, lambda route: route.fulfill(status=204, headers=allow, body=""))


def main() -> None:
    parser = report.arguments(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[15, 100, 300, 2000, 10_000])
    parser.add_argument("--model-explorer", type=Path, metavar="PROGRAM", help="of another environment")
    options = parser.parse_args()
    lines = []
    expect.set_options(timeout=PATIENCE)  # by itself it gives up after five seconds
    with (
        explorer(options.model_explorer) as further,
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        jupyter_server(Path(folder), "lab") as running,
    ):
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        quiet(page)
        page.close()
        ways = CELLS | further
        for size in options.sizes:
            path = f"{size}.onnx"
            onnx.save(model_of(size), running.folder / path)
            timings: dict[str, list[tuple[float, float, float, int]]] = {name: [] for name in ways}
            gave_up: set[str] = set()
            for _ in range(options.runs):
                for name, cell in ways.items():
                    if name in gave_up:
                        continue
                    cells = [PREPARE, *[cell.format(path=path)] * 2]
                    with fresh_page(context, running, cells) as notebook:
                        try:
                            measure(notebook, 1)  # the first graph of a page also loads the common scripts
                            timings[name].append(measure(notebook, 2))
                        except TimeoutError:
                            gave_up.add(name)
            for name, results in timings.items():
                if name in gave_up:
                    lines.append((f"{size:,} nodes, {name}", f"none in {LONGEST:.0f}", "", "", "", "", ""))
                    print(*lines[-1], sep="\t", file=sys.stderr)
                    continue
                seen, seconds, pause, size_in_file = (
                    statistics.median(column) for column in zip(*results, strict=True)
                )
                spread = max(timing[1] for timing in results) - min(timing[1] for timing in results)
                if name == "graph()":
                    own = seconds
                lines.append(
                    (
                        f"{size:,} nodes, {name}",
                        f"{seen:.2f}",
                        f"{seconds:.2f}",
                        f"{spread:.2f}",
                        f"{own / seconds:.2f}",
                        f"{pause:.0f}",
                        f"{size_in_file:,.0f}",
                    )
                )
                print(*lines[-1], sep="\t", file=sys.stderr)
        small = f"{min(options.sizes)}.onnx"
        memories = {name: memory(context, running, cell.format(path=small)) for name, cell in CELLS.items()}
        browser.close()
    head = [
        "graph",
        "seen, s",
        "alive, s",
        "spread",
        "graph() takes",
        "page's longest pause, ms",
        "bytes in the notebook",
    ]
    text = (
        report.table(head, lines)
        + f"\n\nMedians of {options.runs}. In the kernel, twelve graphs of the smallest size take "
    )
    text += ", ".join(f"{megabytes:.1f} MB with {name}" for name, megabytes in memories.items()) + "."
    report.finish("graph_display", text, options, ("netron", "jupyterlab"))


if __name__ == "__main__":
    main()
