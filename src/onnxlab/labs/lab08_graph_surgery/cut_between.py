"""Exercise: cut the part of a model between some values and others out as a model of its own.

What the statement asks, and where it is drawn:

* exactly these inputs and outputs, in this order: several of each, one that nothing reads, none at all;
* their types and shapes: float, bool, int64, other widths; dynamic axes stay open;
* the nodes between them and nothing else: nodes with two results, with an empty name among the inputs,
  without any input, a long row of them, an If in an If;
* the initializers that these read, also where only a body reads them;
* opset and IR version: several, an unused domain before or after the opset, a second domain that is used;
* ValueError for what is missing: a branch, what a body reads, what a body in a body reads;
* ValueError for a name that no value of the main graph has: none at all, or one inside a body;
* possible and impossible cuts are asked for in a drawn order, some twice; names begin with one another.

Not asked, and not drawn: a value that is input and output, an output that no node makes, an initializer as an
input, an input that a node of the part makes, functions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.samples import Sketch
from onnxlab.kit.variations import add_domain, nest_names, shuffle_nodes, unname_nodes
from onnxlab.message import Message

WIDTH = 4  # columns of the models' inputs and of most of their values


@dataclass(frozen=True, kw_only=True)
class Cut(Question):
    """A part of a model that is to be cut out."""

    inputs: list[str]  # the values that the part begins with
    outputs: list[str]  # and ends with

    @property
    def arguments(self) -> dict[str, Any]:
        """The model, and the values between which to cut."""
        return {"model": self.model, "inputs": self.inputs, "outputs": self.outputs}


def _cuts(random: np.random.Generator) -> list[Cut]:
    """Draw four models, and ask for parts of them: for some that can be cut, and some that cannot."""
    shape, square = ("N", WIDTH), (WIDTH, WIDTH)
    s = Sketch(random)
    x = s.name()
    stem = s.add(str(random.choice(["Tanh", "Sigmoid"])), s.add("MatMul", x, s.weight(s.normal(*square))))
    left = s.add("Add", stem, s.weight(s.normal(WIDTH)))
    right = s.add("Sigmoid", s.add("MatMul", stem, s.weight(s.normal(*square))))
    order = s.weight(random.permutation(WIDTH))
    both = s.add("ArrayFeatureExtractor", s.add("Mul", left, right), order, domain="ai.onnx.ml")
    last = s.add("MatMul", both, s.weight(s.normal(*square)))
    y, side = s.add("Tanh", last), s.add("Neg", right)
    plain = s.model({x: shape}, {y: shape, side: shape}, *_versions(random))
    plain.opset_import.append(helper.make_opsetid("ai.onnx.ml", int(random.integers(1, 3))))

    t = Sketch(random)
    u = t.name()
    before = t.add("Tanh", t.add("MatMul", u, t.weight(t.normal(*square))))
    outer, weight = t.add("Sin", before), t.weight(t.normal(WIDTH))  # both branches read them
    axes = t.weight(np.array([0, 1]))
    condition = t.add("Greater", t.add("ReduceSum", before, axes, keepdims=0), t.weight(np.array(0.0)))
    branches = [_branch(t, "Mul", outer, weight), _branch(t, "Sub", weight, outer)]
    chosen = t.add("If", condition, then_branch=branches[0], else_branch=branches[1])
    end = t.add("Neg", chosen)
    branching = t.model({u: shape}, {end: shape}, *_versions(random))

    r = Sketch(random)
    v, count = r.name(), int(random.integers(2, WIDTH))
    largest, places = r.split("TopK", v, r.weight(np.array([count])), axis=1, results=2)
    front, back = r.split("Split", v, r.weight(np.array([2, 2])), axis=1, results=2)
    above = r.add("Greater", front, back)
    larger = r.add("Where", above, front, back)
    gathered = r.add("GatherElements", v, places, axis=1)
    transposed = r.add("Transpose", r.add("Mul", gathered, largest), perm=[1, 0])
    typed = r.model({v: shape}, {larger: ("N", 2), transposed: (count, "N")}, *_versions(random))

    n = Sketch(random)
    w = n.name()
    constants = n.add("Constant", value=numpy_helper.from_array(n.normal(WIDTH).astype(np.float32)))
    stored = n.add("Mul", n.add("Exp", n.weight(n.normal(WIDTH))), n.weight(n.normal(WIDTH)))
    clipped = n.add("Clip", n.add("Add", w, stored), "", n.weight(np.array(0.5)))
    deep, shift = n.add("Tanh", clipped), n.weight(n.normal(WIDTH))  # only the inner branches read them
    is_true = n.weight(np.array(bool(random.integers(2))))
    inner = [
        helper.make_node("If", [is_true], [n.name()], then_branch=one, else_branch=other)
        for one, other in (
            [_branch(n, kind, deep, shift) for kind in kinds] for kinds in (("Add", "Mul"), ("Sub", "Add"))
        )
    ]
    nested = n.add("If", is_true, then_branch=_body(n, inner[0]), else_branch=_body(n, inner[1]))
    row = [n.add("Add", nested, constants)]
    for _ in range(60):
        row.append(n.add("Sin", row[-1]))
    nesting = n.model({w: shape}, {row[-1]: shape}, *_versions(random))
    names = {}  # by model, the new names by the old ones
    for number, model in enumerate((plain, branching, typed, nesting)):
        if number % 2:  # half of the nodes have no name; elsewhere the names, which are drawn, tell no order
            unname_nodes(random, model, every=2)
        shuffle_nodes(random, model)
        add_domain(random, model, first=number % 2 == 0)
        names[id(model)] = nest_names(random, model)
    possible_cuts = [
        (Message("From the input to a value inside"), plain, [x], [stem]),
        (Message("From a value inside to the output"), plain, [stem], [y]),
        (Message("Two outputs"), plain, [stem], [left, right]),
        (Message("Two inputs"), plain, [right, left], [both]),
        (Message("An output that another output is made from"), plain, [left, right], [last, both]),
        (Message("An If that reads a value of the graph around it"), branching, [before], [end]),
        (Message("A value that only branches of an If read is an input"), branching, [outer, before], [end]),
        (Message("An input that nothing reads"), plain, [side, stem], [left]),
        (Message("The second result of a node that has two"), typed, [v], [places]),
        (Message("A result of type bool, and one of a node that has two"), typed, [v], [above, back]),
        (Message("An input of type int64"), typed, [places, v], [gathered]),
        (
            Message("An input of type bool, and both results of one node"),
            typed,
            [back, above, front],
            [larger],
        ),
        (Message("Values of other widths"), typed, [largest, gathered], [transposed]),
        (Message("No inputs: the output is made from initializers"), nesting, [], [stored]),
        (Message("A node without inputs"), nesting, [nested], [row[0]]),
        (Message("An input of a node has an empty name"), nesting, [w], [clipped]),
        (Message("The If in an If reads a value of the main graph"), nesting, [clipped], [nested]),
        (Message("The inner If alone reads an input and an initializer"), nesting, [deep], [row[1]]),
        (Message("A row of sixty nodes"), nesting, [row[0]], [row[-1]]),
    ]
    inside = branches[0].output[0].name
    impossible_cuts = [
        (Message("An input that does not exist"), plain, [stem, s.name()], [left]),
        (Message("The output is a value of a body, not of the main graph"), branching, [before], [inside]),
        (Message("One branch is missing among the inputs"), plain, [left], [y]),
        (Message("What the branches of an If read is missing"), branching, [condition], [end]),
        (Message("No value has the name of the output"), plain, [x], [s.name()]),
        (Message("What the If in an If reads is missing"), nesting, [stored], [row[2]]),
        (Message("An input is a value of a body, not of the main graph"), branching, [before, inside], [end]),
    ]
    return [
        Cut(
            where,
            model,
            possible=possible,
            inputs=[names[id(model)].get(name, name) for name in inputs],
            outputs=[names[id(model)].get(name, name) for name in outputs],
        )
        for possible, cuts in ((True, possible_cuts), (False, impossible_cuts))
        for where, model, inputs, outputs in cuts
    ]


def _versions(random: np.random.Generator) -> tuple[int, int]:
    """Draw an opset, and the IR version that ONNX had with it."""
    versions = ((13, 7), (14, 7), (15, 8), (17, 8), (18, 8), (20, 10), (21, 10))
    return versions[int(random.integers(len(versions)))]


def _branch(sketch: Sketch, operator: str, *inputs: str) -> onnx.GraphProto:
    return _body(sketch, helper.make_node(operator, inputs, [sketch.name()]))


def _body(sketch: Sketch, node: onnx.NodeProto) -> onnx.GraphProto:
    value = helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, ("N", WIDTH))
    return helper.make_graph([node], sketch.name(), [], [value])


ASKS = Rewriting("cut_between", "part", _cuts)

produce = ASKS.produce
