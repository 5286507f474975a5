"""What ONNX Lab relies on inside Netron, each by its name.

Netron publishes no interface for any of this. When a new release breaks the graphs, the tests here say which
part is gone and what it was for; see docs/graph.md, "A new release of Netron".
"""

import gzip
import json
import re

import netron
import pytest
import quickjs

from onnxlab.notebook.graph import netron_files

HOST = "what the frame overrides so that Netron asks nobody and fetches nothing"
VALUES = "values inside the nodes"
TUNNELS = "edges into the bodies of inner nodes"
VIEWPORT = "large graphs without a frozen page"
OPEN = "opening a model"
ENDS = "colours of inputs and outputs"
SEARCH = "opening what is closed around a node"

OVERRIDDEN = [
    *("view", "start", "require", "worker", "asset", "fetch", "export", "execute"),
    *("exception", "event", "get", "set", "delete", "openURL"),
]

METHODS = {
    VALUES: "Graph.createNode",
    "the picture": "Graph.add Graph.build Graph.measure Graph.layout Graph.update",
    TUNNELS: "Graph.addTunnels Graph.updateTunnels Block.build Block.update",
    VIEWPORT: "Graph.restore Graph.scrollTo Graph._updateZoom View.export",
    "selecting a node from Python": "Graph.select Graph.clearSelection",
    "a click that reaches Python": "View.showNodeProperties",
    "colours after every drawing": "View.show",
    OPEN: "View.start View.open ModelFactoryService.open",
    SEARCH: "View.refresh View.popTarget",
}

# JavaScript that must be true, by what it is for. Evaluated with Netron's modules in QuickJS.
BEHAVIOUR = [
    *(
        (f"typeof View.{name.replace('.', '.prototype.')} === 'function'", purpose)
        for purpose, names in METHODS.items()
        for name in names.split()
    ),
    ("new View.Graph({ model: {}, host: {} }, false).blocks instanceof Set", SEARCH),
    ("new View.Graph({ model: {}, host: {} }, false).nodes instanceof Map", "finding the drawn nodes"),
    ("new View.Graph({ model: {}, host: {} }, false).edges instanceof Map", VIEWPORT),
    ("new View.Input({}, { name: 'x', value: [] }).value.name === 'x'", ENDS),
    ("new View.Output({}, { name: 'y', value: [] }).value.name === 'y'", ENDS),
    ("new View.Input({}, { name: 'x', value: [] }) instanceof requireModule('grapher').Node", ENDS),
    ("new View.Output({}, { name: 'y', value: [] }) instanceof requireModule('grapher').Node", ENDS),
    ("'activeTarget' in View.View.prototype", SEARCH),
    ("'target' in View.View.prototype", "finding the drawn nodes"),
    ("typeof requireModule('base').BinaryStream === 'function'", OPEN),
    ("typeof requireModule('onnx').ModelFactory === 'function'", OPEN),
    (
        "typeof requireModule('dagre').layout === 'function' && requireModule('dagre').layout.length === 4",
        "the layout",
    ),
    ("typeof new (requireModule('grapher').Node)().list().argument('a', 'b').build === 'function'", VALUES),
    ("Array.isArray(new (requireModule('grapher').Node)().blocks)", "finding nodes inside opened bodies"),
    (
        "Array.isArray(new (requireModule('grapher').Node)().list()._items)",
        "finding nodes inside opened bodies",
    ),
    *((f"typeof Browser.Host.prototype.{name} === 'function'", HOST) for name in OVERRIDDEN),
    ("typeof Browser.Context === 'function'", OPEN),
]

# Text that must be in a file: what is changed or leaned on is not reachable as an object.
TEXT = [
    ("view.js", r"return `\\u3008\$\{content\}\\u3009`;", "brackets that every font has"),
    ("view.js", r"content\.startsWith\('\\u3008'\)", "brackets that every font has"),
    ("view.js", r"window\.exports\.view = view;", "reaching Netron's classes at all"),
    ("browser.js", r"window\.exports\.browser = browser;", "reaching Netron's host at all"),
    ("browser.js", r"this\._environment = \{", "telling the host what it is not"),
    ("browser.js", r"this\._window = window;", "drawing out of sight"),
    ("view.js", r"this\._host\.environment\('serial'\) \? null : new view\.Worker", "the layout's workers"),
    ("view.js", r"this\._host\.worker\('\./worker'\)", "the layout's workers"),
    ("grapher.js", r"\{ type: 'dagre\.layout', nodes, edges, layout, state \}", "the layout's workers"),
    ("view.js", r"this\._modelFactoryService = new view\.ModelFactoryService", "identifiers of nodes"),
    ("onnx.js", r"\.catch\(\(\) => \{\s+return null;\s+\}\)", "why a weight cannot be read"),
    ("onnx.js", r"this\.metadata\.push\(argument\)", "identifiers of nodes"),
    ("onnx.js", r"buffer\[4\] === 0x1A && buffer\[5\] === 0x00", "a model always taken for ONNX"),
    ("onnx.js", r"get format\(\) \{\s*return this\._format;", "the format in the sidebar"),
    ("onnx.js", r"get producer\(\) \{\s*return this\._producer;", "the producer in the sidebar"),
    ("view.js", r"const size = canvas\.getBBox\(\);\s*const margin = 100;", "the margin around a graph"),
    ("view.js", r"max\(40vw, calc\(100vw - 42em\)\)", "a sidebar that leaves room"),
    ("view.js", r"label: '&Open\.\.\.'", "leaving 'Open' out of the menu"),
    ("view.js", r"group\('&Help'\)", "leaving 'Help' out of the menu"),
    ("view.js", r"node\.type\.name\.split\('\.'\)\.pop\(\)", "the names of groups"),
    ("onnx.js", r"parseInt\(data\.get\('offset'\), 10\) : 0", "weights fetched when opened"),
    ("dagre.js", r"export const \{ layout, Graph \} = dagre;", "the layout as one classic script"),
    ("index.html", r'<div id="target" class="target"', "the place where a graph is drawn"),
    ("index.html", r'id="open-file-button"', "leaving the caret in the notebook"),
    ("index.html", r'id="logo-github"', "starting the host"),
    ("index.html", r'id="sidebar"', "the sidebar"),
    ("grapher.css", r"@keyframes", "taking the light style for the picture"),
    ("grapher.css", r"@media \(prefers-color-scheme: dark\)", "the dark theme"),
    ("grapher.js", r"'node node-border'", "colours of borders"),
    ("view.js", r"const viewInput = this\.createInput\(argument\);\s*this\.setNode\(viewInput\);", ENDS),
    ("view.js", r"const viewOutput = this\.createOutput\(argument\);\s*this\.setNode\(viewOutput\);", ENDS),
    ("onnx.js", r"this\._inputs\.push\(new onnx\.Argument\(input\.name, \[value\]\)\)", ENDS),
]  # fmt: skip

EXPLAIN = "Netron {version} has no {what!r} any more. ONNX Lab needs it for: {purpose}."


@pytest.fixture(scope="module")
def engine():
    """Netron's modules in QuickJS, with its host for browsers."""
    engine = quickjs.Context()
    engine.set_max_stack_size(1 << 20)
    own = [netron_files.own_file(name) for name in ("netron_modules.js", "marks.js", "picture.js")]
    names = [*netron_files.PICTURE_MODULES, "browser"]
    engine.eval("\n".join([f"const FONT = {netron_files.own_file('font_widths.json')};", *own]))
    for name in names:
        engine.eval(netron_files.module_script(name))
    engine.eval("document.documentElement = { style: { scrollBehavior: '' } };")  # else the host adds it
    engine.eval("requireModule('view'); requireModule('browser');")
    engine.eval("const View = window.exports.view, Browser = window.exports.browser;")
    return engine


@pytest.mark.parametrize(("expression", "purpose"), BEHAVIOUR)
def test_netron_still_has(engine, expression, purpose):
    assert engine.eval(expression), EXPLAIN.format(
        version=netron.__version__, what=expression, purpose=purpose
    )


@pytest.mark.parametrize(("file", "pattern", "purpose"), TEXT)
def test_netron_still_says(file, pattern, purpose):
    match = re.search(pattern, netron_files.read_file(file))
    what = f"{file}: {pattern}"
    assert match, EXPLAIN.format(version=netron.__version__, what=what, purpose=purpose)


def test_every_module_that_another_imports_is_there():
    for modules in (netron_files.PAGE_MODULES, netron_files.PICTURE_MODULES):
        code = "\n".join(map(netron_files.module_script, modules))
        assert set(re.findall(r"^const \w+ = requireModule\('([\w-]+)'\);", code, re.MULTILINE)) <= set(
            modules
        )
        assert not re.search(r"^(import|export)\b", code, re.MULTILINE)


def test_the_page_loads_nothing_by_itself():
    body = json.loads(gzip.decompress(netron_files.bundle().data))["body"]
    assert not re.search(r"\bsrc=|<script|<link|<iframe|<object|javascript:", body)
