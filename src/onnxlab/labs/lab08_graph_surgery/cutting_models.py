"""Models, drawn, and what to cut out of them: some parts there are, some there are not."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from onnxlab.labs.kit.outcome import trying
from onnxlab.labs.kit.samples import Sketch
from onnxlab.model.graph import subgraphs

__all__ = ["WIDTH", "Cut", "cuts", "right_part"]

WIDTH = 4
"""Columns of every input, and of most values, in the models."""


@dataclass(frozen=True)
class Cut:
    """A model, and what to cut out of it.

    Attributes:
        where: What it is about, for a message.
        model: The model.
        inputs: The values that the part begins with.
        outputs: The values that it ends with.
        possible: Whether there is such a part.
    """

    where: str
    model: onnx.ModelProto
    inputs: list[str]
    outputs: list[str]
    possible: bool = True

    def tried(self) -> AbstractContextManager[None]:
        """Name the case that is tried inside."""
        return trying(f"the case {self.where!r}", model=self.model, inputs=self.inputs, outputs=self.outputs)


def cuts(random: np.random.Generator) -> list[Cut]:
    """Draw three models, and ask for parts of them.

    Args:
        random: Where the weights and names are drawn from.
    """
    shape = ("N", WIDTH)
    s = Sketch(random)
    x, square = s.name(), (WIDTH, WIDTH)
    stem = s.add(str(random.choice(["Tanh", "Sigmoid"])), s.add("MatMul", x, s.weight(s.normal(*square))))
    left = s.add("Add", stem, s.weight(s.normal(WIDTH)))
    right = s.add("Sigmoid", s.add("MatMul", stem, s.weight(s.normal(*square))))
    both = s.add("Mul", left, right)
    last = s.add("MatMul", both, s.weight(s.normal(*square)))
    y, side = s.add("Tanh", last), s.add("Neg", right)
    plain = s.model({x: shape}, {y: shape, side: shape}, *_versions(random))

    t = Sketch(random)
    u = t.name()
    before = t.add("Tanh", t.add("MatMul", u, t.weight(t.normal(*square))))
    caught, inner = t.add("Sin", before), t.weight(t.normal(WIDTH))
    axes = t.weight(np.array([0, 1]))
    condition = t.add("Greater", t.add("ReduceSum", before, axes, keepdims=0), t.weight(np.array(0.0)))
    branches = [_branch(t, "Mul", caught, inner), _branch(t, "Sub", inner, caught)]
    chosen = t.add("If", condition, then_branch=branches[0], else_branch=branches[1])
    end = t.add("Neg", chosen)
    branching = t.model({u: shape}, {end: shape}, *_versions(random))

    r = Sketch(random)
    v, most = r.name(), int(random.integers(2, WIDTH))
    largest, places = r.split("TopK", v, r.weight(np.array([most])), axis=1, results=2)
    one, two = r.split("Split", v, r.weight(np.array([2, 2])), axis=1, results=2)
    above = r.add("Greater", one, two)
    chosen_half = r.add("Where", above, one, two)
    picked = r.add("GatherElements", v, places, axis=1)
    turned = r.add("Transpose", r.add("Mul", picked, largest), perm=[1, 0])
    typed = r.model({v: shape}, {chosen_half: ("N", 2), turned: (most, "N")}, *_versions(random))
    return [
        Cut("From the input to a value inside", plain, [x], [stem]),
        Cut("From a value inside to the output", plain, [stem], [y]),
        Cut("Two outputs", plain, [stem], [left, right]),
        Cut("Two inputs", plain, [right, left], [both]),
        Cut("An output that another output is made from", plain, [left, right], [last, both]),
        Cut("An If that reads a value of the graph around it", branching, [before], [end]),
        Cut("A value that only branches of an If read is an input", branching, [caught, before], [end]),
        Cut("An input that nothing reads", plain, [side, stem], [left]),
        Cut("The second result of a node that has two", typed, [v], [places]),
        Cut("A result of type bool, and one of a node that has two", typed, [v], [above, two]),
        Cut("An input of type int64", typed, [places, v], [picked]),
        Cut("An input of type bool, and both results of one node", typed, [two, above, one], [chosen_half]),
        Cut("Values of other widths", typed, [largest, picked], [turned]),
        Cut("An input that does not exist", plain, [stem, s.name()], [left], possible=False),
        Cut(
            "The output is a value of a body, not of the main graph",
            branching,
            [before],
            [branches[0].output[0].name],
            possible=False,
        ),
        Cut("One branch is missing among the inputs", plain, [left], [y], possible=False),
        Cut("What the branches of an If read is missing", branching, [condition], [end], possible=False),
        Cut("No value has the name of the output", plain, [x], [s.name()], possible=False),
    ]


def _versions(random: np.random.Generator) -> tuple[int, int]:
    """Draw an opset and an IR version of its time."""
    versions = ((13, 7), (14, 7), (15, 8), (17, 8), (18, 8), (20, 10), (21, 10))
    return versions[int(random.integers(len(versions)))]


def right_part(cut: Cut) -> bytes:
    """Return the part that is asked for: what is met on the way back from its outputs.

    `onnx.utils.Extractor` does not see what the branches of an If read from the graph around them.
    """
    graph = onnx.shape_inference.infer_shapes(cut.model).graph
    values = {each.name: each for each in (*graph.input, *graph.output, *graph.value_info)}
    needed, kept = set(cut.outputs) - set(cut.inputs), []
    for node in reversed(graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed = (needed | _reads(node)) - set(node.output) - set(cut.inputs)
    inputs, outputs = ([values[name] for name in names] for names in (cut.inputs, cut.outputs))
    weights = [each for each in graph.initializer if each.name in needed]
    part = helper.make_graph(kept[::-1], "part", inputs, outputs, weights)
    imports, version = cut.model.opset_import, cut.model.ir_version
    data: bytes = helper.make_model(part, opset_imports=imports, ir_version=version).SerializeToString()
    return data


def _reads(node: onnx.NodeProto) -> set[str]:
    names = set(node.input)
    for _, body in subgraphs(node):
        made = {name for inner in body.node for name in inner.output}
        names |= {name for inner in body.node for name in _reads(inner)} - made
    return names - {""}


def _branch(sketch: Sketch, operator: str, *reads: str) -> onnx.GraphProto:
    result = sketch.name()
    value = helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, ("N", WIDTH))
    return helper.make_graph([helper.make_node(operator, reads, [result])], sketch.name(), [], [value])
