"""The layout of large graphs in parts (layout.js), with Netron's own layout for each part."""

import json
import random

import pytest
import quickjs

from onnxlab.notebook.graph import netron_files

HARNESS = """
const layOut = (request) => {
  const layout = { nodesep: 20, ranksep: 20, ...request.layout };
  const parts = stretches(request);
  const done = parts.map((part) => {
    const copy = JSON.parse(JSON.stringify(part));
    requireModule('dagre').layout(copy.nodes, copy.edges, { ...layout }, {});
    return placed(part, copy);
  });
  return { parts: parts.length, forms: new Set(parts.map(formOf)).size, ...stack(done, layout) };
};
"""


@pytest.fixture(scope="module")
def engine():
    engine = quickjs.Context()
    engine.eval("globalThis.EventTarget = class {};")
    engine.eval(f"const FONT = {netron_files.own_file('font_widths.json')};")
    for name in ("netron_modules.js", "marks.js", "picture.js", "layout.js"):
        engine.eval(netron_files.own_file(name))
    engine.eval(netron_files.module_script("dagre"))
    engine.eval(HARNESS)
    return engine


def lay_out(engine, edges, layout=None, sizes=None):
    """Place a graph of these edges; nodes are numbers."""
    count = 1 + max(max(edge) for edge in edges)
    request = {
        "nodes": [{"v": str(i), "width": 60, "height": (sizes or {}).get(i, 20)} for i in range(count)],
        "edges": [
            {
                "v": str(a),
                "w": str(b),
                "minlen": 1,
                "weight": 1,
                "width": 0,
                "height": 0,
                "labeloffset": 10,
                "labelpos": "r",
            }
            for a, b in edges
        ],
        "layout": layout or {},
    }
    engine.set("request", json.dumps(request))
    return json.loads(engine.eval("JSON.stringify(layOut(JSON.parse(request)))"))


def blocks(number, inner=5):
    """A chain of blocks: from one node to so many in parallel, and from these to the next one."""
    edges, last, free = [], 0, 1
    for _ in range(number):
        end = free + inner
        for middle in range(free, end):
            edges += [(last, middle), (middle, end)]
        last, free = end, end + 1
    return edges


def check(result, edges):
    """Every node and edge is there once, nothing overlaps, and edges go forward."""
    places = {int(node["v"]): node for node in result["nodes"]}
    assert len(result["nodes"]) == len(places) == 1 + max(max(edge) for edge in edges)
    assert sorted((int(edge["v"]), int(edge["w"])) for edge in result["edges"]) == sorted(set(edges))
    for edge in result["edges"]:
        assert len(edge["points"]) >= 3
        assert places[int(edge["v"])]["y"] < places[int(edge["w"])]["y"]
    rows = sorted(result["nodes"], key=lambda node: node["y"])
    for i, node in enumerate(rows):
        for other in rows[i + 1 : i + 40]:
            apart = abs(node["x"] - other["x"]) >= 60 - 1e-6 or abs(node["y"] - other["y"]) >= 20 - 1e-6
            assert apart, (node, other)


def test_a_chain_of_blocks_is_cut_and_alike_parts_are_laid_out_once(engine):
    edges = blocks(100)
    result = lay_out(engine, edges)
    assert result["parts"] > 4
    assert result["forms"] <= 3
    check(result, edges)


def test_parts_of_different_sizes_are_not_taken_for_alike(engine):
    edges = blocks(60)
    result = lay_out(engine, edges, sizes={150: 200})
    assert result["forms"] > 2
    places = {node["v"]: node for node in result["nodes"]}
    assert places["150"]["height"] == 200


def test_a_long_skip_leaves_the_graph_whole(engine):
    edges = [*blocks(60), (0, 300)]
    result = lay_out(engine, edges)
    check(result, edges)
    assert result["parts"] < len(edges) / 100


def test_inputs_and_ends_along_the_way_do_not_prevent_cuts(engine):
    edges = blocks(100)
    free = 1 + max(max(edge) for edge in edges)
    joints = range(0, free, 6)
    for i, joint in enumerate(list(joints)[1:]):
        edges.append((free + 2 * i, joint))  # an input that only this joint reads
        edges.append((joint, free + 2 * i + 1))  # an output of the model
    result = lay_out(engine, edges)
    assert result["parts"] > 3
    check(result, edges)


def test_small_graphs_and_cycles_stay_whole(engine):
    assert lay_out(engine, blocks(10))["parts"] == 1
    assert lay_out(engine, [*blocks(60), (200, 100)])["parts"] == 1


def test_horizontally_too(engine):
    result = lay_out(engine, blocks(60), {"rankdir": "LR"})
    assert result["parts"] > 2
    places = {int(node["v"]): node for node in result["nodes"]}
    assert all(places[a]["x"] < places[b]["x"] for a, b in blocks(60))


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs(engine, seed):
    pick = random.Random(seed)
    edges, node = [], 1
    while node < 350:
        reach = 1 if pick.random() < 0.4 else 6
        for source in {max(0, node - pick.randint(1, reach)) for _ in range(pick.randint(1, 2))}:
            edges.append((source, node))
        node += 1
    check(lay_out(engine, edges), edges)
