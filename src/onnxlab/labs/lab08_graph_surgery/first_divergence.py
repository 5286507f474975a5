"""Exercise: find the first value in which two models of one structure differ.

What the statement asks, and where it is drawn:

* the first value, in the order of the nodes: differences that go on, end, grow, or begin after sixty nodes;
* of every element: one in the first or last place, one inside, one of two thousand, two that cancel out;
* by more than 0.001, whatever the size: 0.00103 and 0.00097, among large numbers and small ones;
* two nan agree, also beside an element that differs; a nan or an infinity on one side only does not;
* two equal infinities agree, and two of opposite sign do not; float32 and bool; None where nothing differs;
* what is in the file does not count: attributes, rounding, names; nodes may have no names;
* the pairs are asked about in a drawn order, some twice.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlab.kit.exercise import Answers
from onnxlab.kit.rewriting import Question
from onnxlab.kit.samples import Sketch
from onnxlab.kit.variations import unname_nodes
from onnxlab.kit.work import Work
from onnxlab.message import Message
from onnxlab.model.distance import Array

_WIDTH = 6  # columns of the models' inputs
_ASKED_TWICE = 3  # pairs


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask about each pair of models."""
    pairs = list(draw_pairs(work.questions()))
    replies: list[object] = [None] * len(pairs)
    for number in [*random.permutation(len(pairs)), *random.permutation(len(pairs))[:_ASKED_TWICE]]:
        with pairs[number].as_case():
            replies[number] = answers["first_divergence"](*pairs[number].copies())
    work.write_json("found", replies)


@dataclass(frozen=True, kw_only=True)
class _Pair(Question):
    number: int  # in `KINDS`
    model_b: onnx.ModelProto
    x: Array

    @property
    def arguments(self) -> dict[str, Any]:
        """The two models, and an input for both."""
        return {"model_a": self.model, "model_b": self.model_b, "x": self.x}


# For each pair: the part that judges it; how model_b differs, for messages; the changes to a network, for
# `_change`, or the change to a table of numbers, for `_table_pair`.
KINDS = (
    ("weights", Message("One weight differs"), ("first weight",)),
    ("weights", "One weight differs near the end", ("last bias",)),
    ("weights", "Two places differ", ("second weight", "operator")),
    ("hidden", "An operator differs; a factor of zero hides it from the outputs", ("operator",)),
    ("hidden", "A threshold differs, so that a value of type bool does", ("threshold",)),
    ("harmless", "The models are equal", ()),
    ("harmless", "Rounding differs by less than 0.001", ("rounding",)),
    ("harmless", "An attribute differs that does not matter for x", ("attribute",)),
    (
        "harmless",
        "An attribute that does not matter, rounding, and a weight differ",
        ("attribute", "rounding", "last bias"),
    ),
    ("harmless", "Every element differs by 0.00097", "all by less"),
    ("harmless", "Small numbers differ by 0.00097", "small by less"),
    ("harmless", "One element is infinite in both", "infinite in both"),
    ("fine", "One element differs by 0.00103", "one by more"),
    ("fine", "The first element alone differs", "first"),
    ("fine", "The last element alone differs", "last"),
    ("fine", "One element of some thousand differs", "one of many"),
    ("fine", "One element differs, beside one that is nan in both", "beside nan"),
    ("fine", "One element among large numbers differs by 0.002", "large by twice"),
    ("fine", "Two elements differ, by as much up as down", "up and down"),
    ("fine", "Every element differs by 0.00097, and then by four times that", "grown"),
    ("fine", "A factor differs after sixty nodes", "late"),
    ("fine", "One element is infinite in model_b only", "infinite in b"),
    ("fine", "One element is nan in model_b only, and another in both", "nan in b"),
    ("fine", "One element is nan in model_a only", "nan in a"),
    ("fine", "One truth value differs", "one truth value"),
    ("fine", "One element is infinite in both, with another sign", "opposite infinities"),
)


def draw_pairs(random: np.random.Generator, part: str = "") -> Iterator[_Pair]:
    """Draw the pairs of one part, or of all, each from a generator of its own."""
    sign, generators = int(random.choice([-1, 1])), random.spawn(len(KINDS))
    for number, (kind, where, changes) in enumerate(KINDS):
        own = generators[number]
        if part not in ("", kind):
            continue
        if isinstance(changes, str):
            model_a, model_b, rows = _table_pair(own, changes, sign if number % 2 else -sign)
        else:
            model_a, rows = _network(own), 3
            model_b = deepcopy(model_a)
            for change in changes:
                _change(model_b, change)
        _rename(model_b, Sketch(own))
        if number % 2:
            unname_nodes(own, model_a)
        x = own.normal(size=(rows, _WIDTH)).astype(np.float32)
        yield _Pair(where, model_a, number=number, model_b=model_b, x=x)


def _table_pair(
    random: np.random.Generator, change: str, sign: int
) -> tuple[onnx.ModelProto, onnx.ModelProto, int]:
    """Draw two models that add nearly equal tables of numbers; return them and the number of rows."""
    rows = int(random.integers(4, 9) if change != "one of many" else random.integers(300, 400))
    table = random.uniform(1, 3, size=(rows, _WIDTH)) * random.choice([-1, 1], size=(rows, _WIDTH))
    # The largest and the smallest number agree: to compare these two is not enough.
    table[0, 0], table[-1, -1] = 5 * sign, -5 * sign
    # The place that differs is in no first or last row or column, and in a column that a step of 2 skips.
    place = int(random.integers(rows // 2, rows - 1)), int(random.choice([1, 3]))
    opposite = place[0], 4 - place[1]
    factor, gain, last = 1.0, 0.25, "Sigmoid"
    identities = 60 if change == "late" else int(random.integers(0, 3))
    offset = np.zeros_like(table)  # between the tables of model_a and model_b
    threshold, threshold_b = (np.full_like(table, -1e6) for _ in "ab")
    gain_b = None
    if change in ("all by less", "small by less", "grown"):
        offset = 9.7e-4 * random.choice([-1, 1], size=table.shape)
        gain = 4.0 if change == "grown" else gain
        if change == "small by less":
            factor, table = 1e-3, table / 1000
    elif change == "large by twice":
        table *= 900
        table[place] = 2500 * sign
        offset[place] = 2e-3 * sign
    elif change in ("one by more", "one of many", "beside nan"):
        table[place] = 0
        offset[place] = 1.03e-3 * sign
        if change == "beside nan":
            table[opposite] = np.nan
    elif change in ("first", "last"):
        offset[(0, 0) if change == "first" else (-1, -1)] = 0.3 * sign
    elif change in ("infinite in both", "opposite infinities"):
        table[place] = np.inf * sign
    elif change == "infinite in b":
        offset[place] = np.inf * sign
    elif change == "late":
        gain_b = gain + 0.5
    elif change == "up and down":
        offset[place], offset[opposite] = 0.5, -0.5
    elif change in ("nan in a", "nan in b"):
        # The number is so near to zero that its root, in the other model, differs from 0 by less than 0.001.
        factor, last, table = 0.0, "Sqrt", abs(table)
        table[place] = 2.5e-7 if change == "nan in b" else -2.5e-7
        offset[place] = -2 * table[place]
        if change == "nan in b":
            table[opposite] = np.nan  # in both
    else:
        threshold_b[place] = 1e6
    s = Sketch(random)
    x = s.name()
    scaled = s.add("Mul", s.add("Tanh", x), s.weight(np.array(factor)))
    moved = s.add("Add", scaled, s.weight(table))
    for _ in range(identities):
        moved = s.add("Identity", moved)
    negated = s.add("Neg", moved)
    grown = s.add("Mul", negated, s.weight(np.array(gain)))
    side = s.add(last, moved)
    above = s.add("Greater", moved, s.weight(threshold))
    y = s.add("Where", above, grown, grown)
    model_a = s.model({x: (rows, _WIDTH)}, {y: (rows, _WIDTH), side: (rows, _WIDTH)})
    model_b = deepcopy(model_a)
    table_b = table + offset
    if change == "opposite infinities":
        table_b[place] *= -1
    changed = {1: table_b, 2: np.array(gain if gain_b is None else gain_b), 3: threshold_b}
    for number, values in changed.items():
        weight = model_b.graph.initializer[number]
        weight.CopyFrom(numpy_helper.from_array(values.astype(np.float32), weight.name))
    return model_a, model_b, rows


def _network(random: np.random.Generator) -> onnx.ModelProto:
    """Draw a network, one part of which makes nan, and another of which is multiplied by zero."""
    s = Sketch(random)
    x = s.name()
    sign = s.random.choice([-1, 1], size=_WIDTH)
    moved = s.add("Add", s.add("MatMul", x, s.weight(s.normal(_WIDTH, _WIDTH))), s.weight(sign * 1.5))
    positive = s.add("LeakyRelu", s.add("Abs", moved), alpha=0.1)
    for _ in range(int(random.integers(0, 3))):
        positive = s.add("Identity", positive)
    root = s.add("Sqrt", moved)  # nan where it is negative
    mixed = s.add("MatMul", positive, s.weight(0.3 * s.normal(_WIDTH, _WIDTH)))
    gate = s.add("Sigmoid", mixed)
    above = s.add("Greater", gate, s.weight(np.array(-1.0)))
    hidden = s.add("Mul", s.add("Where", above, mixed, gate), s.weight(np.array(0.0)))
    y, side = s.add("Add", hidden, s.weight(s.normal(_WIDTH))), s.add("Neg", root)
    return s.model({x: ("N", _WIDTH)}, {y: ("N", _WIDTH), side: ("N", _WIDTH)})


def _change(model: onnx.ModelProto, change: str) -> None:
    """Change an operator, an attribute or a weight of a network."""
    nodes, weights = model.graph.node, model.graph.initializer
    if change == "operator":
        next(node for node in nodes if node.op_type == "Sigmoid").op_type = "Softplus"
    elif change == "attribute":
        next(node for node in nodes if node.op_type == "LeakyRelu").attribute[0].f = 0.4
    else:
        number, offset = {
            "first weight": (0, 0.5),
            "rounding": (1, 2e-6),
            "second weight": (2, 0.5),
            "threshold": (3, 3.0),
            "last bias": (5, 0.5),
        }[change]
        weight = weights[number]
        values = numpy_helper.to_array(weight) + np.float32(offset)
        weight.CopyFrom(numpy_helper.from_array(values, weight.name))


def _rename(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Give every value and node another name, as another exporter would."""
    graph = model.graph
    names = dict.fromkeys(name for node in graph.node for name in (*node.input, *node.output))
    new_names = {name: sketch.name() for name in names}
    for node in graph.node:
        node.name = sketch.name()
        for values in (node.input, node.output):
            values[:] = [new_names[name] for name in values]
    for value in (*graph.initializer, *graph.input, *graph.output):
        value.name = new_names[value.name]
