"""A link to a node, [Resize](#node=Resize): the saved graph nearest above it has that node."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import nbformat
import onnx
import pytest

ROOT = Path(__file__).parents[2]
STRUCTURE = "application/vnd.onnxlab.graph+json"
LINK = re.compile(r"\]\(#node=([^)]*)\)")
NOTEBOOKS = sorted(
    path
    for folder in ("notebooks", "labs", "solutions")
    for path in (ROOT / folder).rglob("*.ipynb")
    if "(#node=" in path.read_text("utf-8")
)


def names(graph: onnx.GraphProto) -> Iterator[str]:
    """Names and operators of a graph's nodes, also of those in bodies."""
    for node in graph.node:
        yield from (node.name, node.op_type)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from names(body)


def test_some_chapters_have_links_to_nodes():
    assert {path.parent.name for path in NOTEBOOKS} >= {"notebooks", "zh"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}-{path.stem[:3]}")
def test_the_graph_above_a_link_has_the_node(path):
    known: set[str] = set()
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", ()):
            if structure := output.get("data", {}).get(STRUCTURE):
                models = [base64.b64decode(pane["models"][0]) for pane in structure["panes"]]
                known = {name for model in models for name in names(onnx.load_from_string(model).graph)}
        if cell.cell_type == "markdown":
            assert {unquote(name) for name in LINK.findall(cell.source)} <= known, cell.source
