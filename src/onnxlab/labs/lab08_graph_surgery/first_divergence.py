"""Exercise: the first value in which two models of one structure differ."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlab.facts.distance import Array
from onnxlab.facts.intermediates import inner_values, intermediates
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.judging import evidence
from onnxlab.labs.lab08_graph_surgery.drawing import Sketch
from onnxlab.labs.outcome import Difference, Wrong
from onnxlab.labs.work import Work

__all__ = ["EXERCISE"]

_WIDTH = 6
_TOLERANCE = 1e-3


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask for each pair of models."""
    found = []
    for _, model_a, model_b, x in _pairs(random):
        found.append(answers["first_divergence"](model_a, model_b, x))
    work.write_json("found", found)


def judge_weights(work: Work, random: np.random.Generator) -> None:
    """A weight or an operator was changed, and the result shows it."""
    _require(work, range(3))


def judge_hidden(work: Work, random: np.random.Generator) -> None:
    """The difference never reaches an output, or is one of truth values."""
    _require(work, range(3, 5))


def judge_harmless(work: Work, random: np.random.Generator) -> None:
    """Differences in the file that make none in the numbers."""
    _require(work, range(5, 9))


def _require(work: Work, numbers: range) -> None:
    found = work.json("found")
    pairs = list(_pairs(work.questions()))
    if not isinstance(found, list) or len(found) != len(pairs):
        msg = "There is not one answer for each pair of models."
        raise Wrong(msg)
    for number in numbers:
        where, model_a, model_b, x = pairs[number]
        names = inner_values(model_a)
        right = _first(intermediates(model_a, x), intermediates(model_b, x))
        got = found[number]
        if got == right:
            continue
        said = _place(got, names) if isinstance(got, str) else repr(got)
        difference = Difference(where, _place(right, names) if right else "None", said[:120])
        look = "Make every value an output of both models, and compare them from the first node on."
        shown = evidence(model_a, model_b.SerializeToString(), *([right] if right else []))
        if got is not None and got not in names:
            msg = f"{where}: the answer is not the name of a value that a node of model_a makes."
        elif right is None:
            msg = f"{where}: no value differs by more than {_TOLERANCE}, and one was named."
            look = "By how much do the values differ? Where both are nan, they agree."
        elif got is None:
            msg = f"{where}: a value differs, and None was returned."
        elif names.index(str(got)) < names.index(right):
            msg = f"{where}: at the value named the numbers still agree."
            look = "By how much do the two values differ? Where both are nan, they agree."
        else:
            msg = f"{where}: a value before the one named differs already."
        raise Wrong(msg, look, difference=difference, evidence=shown)


def _place(name: str, names: list[str]) -> str:
    return f"{name}, made by node {names.index(name)}" if name in names else repr(name)


def _first(ours: dict[str, Array], theirs: dict[str, Array]) -> str | None:
    for (name, one), other in zip(ours.items(), theirs.values(), strict=True):
        if not np.allclose(one.astype(np.float64), other.astype(np.float64), 0, _TOLERANCE, equal_nan=True):
            return name
    return None


def _pairs(random: np.random.Generator) -> Iterator[tuple[str, onnx.ModelProto, onnx.ModelProto, Array]]:
    """Draw pairs of models, what was changed in the second, and an input."""
    for where, changes in (
        ("One weight differs", ("first weight",)),
        ("One weight differs near the end", ("last bias",)),
        ("Two places differ", ("second weight", "operator")),
        ("An operator differs; a factor of zero hides it from the outputs", ("operator",)),
        ("A threshold differs, so that a value of type bool does", ("threshold",)),
        ("The models are equal", ()),
        ("Rounding differs by less than 0.001", ("rounding",)),
        ("An attribute differs that does not matter for x", ("attribute",)),
        (
            "An attribute that does not matter, rounding, and a weight differ",
            ("attribute", "rounding", "last bias"),
        ),
    ):
        model_a, model_b = _model(random), onnx.ModelProto()
        model_b.CopyFrom(model_a)
        for change in changes:
            _change(model_b, change)
        _rename(model_b, Sketch(random))
        yield where, model_a, model_b, random.normal(size=(3, _WIDTH)).astype(np.float32)


def _model(random: np.random.Generator) -> onnx.ModelProto:
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
    nodes, weights = model.graph.node, model.graph.initializer
    if change == "operator":
        next(node for node in nodes if node.op_type == "Sigmoid").op_type = "Softplus"
    elif change == "attribute":
        next(node for node in nodes if node.op_type == "LeakyRelu").attribute[0].f = 0.4
    else:
        place, by = {
            "first weight": (0, 0.5),
            "rounding": (1, 2e-6),
            "second weight": (2, 0.5),
            "threshold": (3, 3.0),
            "last bias": (5, 0.5),
        }[change]
        changed = numpy_helper.to_array(weights[place]) + np.float32(by)
        weights[place].CopyFrom(numpy_helper.from_array(changed, weights[place].name))


def _rename(model: onnx.ModelProto, sketch: Sketch) -> None:
    """Give every value and node another name, as another exporter would."""
    graph = model.graph
    old = dict.fromkeys(name for node in graph.node for name in (*node.input, *node.output))
    new = {name: sketch.name() for name in old}
    for node in graph.node:
        node.name = sketch.name()
        for names in (node.input, node.output):
            names[:] = [new[name] for name in names]
    for each in (*graph.initializer, *graph.input, *graph.output):
        each.name = new[each.name]


EXERCISE = Exercise(
    id="first-divergence",
    title="Find the first value in which two models differ",
    points=3,
    answers=("first_divergence",),
    produce=produce,
    parts=(
        Part("a changed weight or operator is found", judge_weights),
        Part("also where no output shows it, or the values are bool", judge_hidden),
        Part("rounding, nan and what does not matter are passed over", judge_harmless),
    ),
    hints=(
        "The runtime returns every value that is listed among the graph's outputs.",
        "Copy both models, append `onnx.ValueInfoProto(name=...)` for every node output to `graph.output`, "
        "run, and compare pair by pair. `np.allclose` has `equal_nan`; make floats of bool values first.",
        "Run both copies with exactly these outputs: `[n.output[0] for n in model.graph.node]`. Return the "
        "first name of model_a for which "
        "`not np.allclose(a.astype(float), b.astype(float), rtol=0, atol=1e-3, equal_nan=True)`.",
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
)
