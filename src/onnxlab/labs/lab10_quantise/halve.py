"""Exercise halve: convert a model to float16, except for the nodes that float16 breaks."""

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnxlab.labs.kit.exercise import Exercise, Part
from onnxlab.labs.kit.judging import (
    evidence,
    first_apart,
    require_same_interface,
    require_well_formed,
    shown_whole,
)
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.labs.kit.rewriting import Question, Rewriting
from onnxlab.labs.kit.samples import Sketch
from onnxlab.model.distance import Array
from onnxlab.model.graph import walk
from onnxlab.runtime.divergence import intermediates
from onnxlab.runtime.session import open_session

__all__ = ["EXERCISE"]

_WIDTH = 4
_FLOAT, _FLOAT16 = int(TensorProto.FLOAT), int(TensorProto.FLOAT16)
_LARGEST, _SMALLEST = 65504.0, 6e-8  # magnitudes that float16 represents
_TOLERANCE = 0.03  # of the largest number; rounding to float16 costs less than 0.005 here


@dataclass(frozen=True, kw_only=True)
class _Question(Question):
    x: Array
    magnitudes: tuple[float, float, bool]  # of the inputs: lowest, highest, and whether they have both signs

    @property
    def arguments(self) -> dict[str, Any]:
        """The model, and an input that shows what breaks."""
        return {"model": self.model, "x": self.x}


def _inputs(random: np.random.Generator, rows: int, low: float, high: float, signed: bool) -> Array:
    x = random.uniform(low, high, size=(rows, _WIDTH))
    return (x * random.choice([-1, 1], size=x.shape) if signed else x).astype(np.float32)


def _matmul(s: Sketch, x: str, factor: float = 1.0) -> str:
    return s.add("MatMul", x, s.weight(factor * 0.6 * s.normal(_WIDTH, _WIDTH)))


def _harmless(s: Sketch, x: str) -> str:
    return _matmul(s, s.add("Tanh", _matmul(s, x)))


def _mean_of_squares(s: Sketch, x: str) -> str:
    axis = s.weight(np.array([1]))
    mean = s.add("ReduceMean", s.add("Mul", x, x), axis, keepdims=1)
    return _matmul(s, s.add("Tanh", s.add("Div", x, s.add("Sqrt", mean))))


def _large_input(s: Sketch, x: str) -> str:
    return _matmul(s, s.add("Sin", s.add("Mul", x, s.weight(np.array(1e-5)))))


def _sum_of_exp(s: Sketch, x: str) -> str:
    axis = s.weight(np.array([1]))
    total = s.add("ReduceSum", s.add("Exp", x), axis, keepdims=1)
    return s.add("Sin", s.add("Sub", x, s.add("Log", total)))


def _small_epsilon(s: Sketch, x: str) -> str:
    positive = s.add("Relu", x)  # often 0
    return _matmul(s, s.add("Div", positive, s.add("Add", positive, s.weight(np.array(1e-9)))))


def _small_weights(s: Sketch, x: str) -> str:
    small = _matmul(s, s.add("Tanh", x), 1e-9)
    return _matmul(s, s.add("Cos", s.add("Mul", small, s.weight(np.array(1e9)))))


# What the model is an example of, what draws it, the magnitudes of its inputs, and where to look.
_KINDS: tuple[tuple[str, Callable[[Sketch, str], str], tuple[float, float, bool], str], ...] = (
    ("A mean of squares", _mean_of_squares, (400, 700, True), "How large are the squares, and their mean?"),
    (
        "Nothing that float16 breaks",
        _harmless,
        (0.5, 2, True),
        "Which values does float16 not hold? Here there is none.",
    ),
    (
        "Large inputs, made smaller by the first node",
        _large_input,
        (1e5, 2e5, True),
        "How large is the input itself?",
    ),
    ("A sum of exponentials", _sum_of_exp, (12, 13.5, False), "How large is exp(12)?"),
    (
        "An epsilon of 1e-9",
        _small_epsilon,
        (0.5, 3, True),
        "What is 1e-9 in float16, and what is left of a division by it? Look at constants, and at small "
        "values.",
    ),
    (
        "Weights of 1e-9",
        _small_weights,
        (0.5, 2, True),
        "What becomes of these weights in float16? They are inputs of a node, too.",
    ),
)


def _questions(random: np.random.Generator) -> Iterator[_Question]:
    """Draw a model of each kind, and an input for it."""
    for where, draw, magnitudes, look_at in _KINDS:
        sketch, shape = Sketch(random), ("n", _WIDTH)
        name = sketch.name()
        model = sketch.model({name: shape}, {draw(sketch, name): shape})
        x = _inputs(random, 8, *magnitudes)
        yield _Question(where, model, look_at, x=x, magnitudes=magnitudes)


def _require_structure(half: onnx.ModelProto, question: _Question) -> None:
    """Require a valid model with the same inputs and outputs, in float32, and no new operator but Cast."""
    require_well_formed(half, question.where, "Do all inputs of each node have one type? A Cast changes it.")
    require_same_interface(half, question.model, question.where)
    new = {node.op for node in walk(half)} - {node.op for node in walk(question.model)} - {"Cast"}
    if new or half.functions:
        msg = f"{question.where}: the result has nodes of another kind: {', '.join(new) or 'a function'}."
        raise Wrong(msg, "A Cast is all that has to be added.", evidence=evidence(half, None, *new))
    types = {value.type.tensor_type.elem_type for value in (*half.graph.input, *half.graph.output)}
    if types != {_FLOAT}:
        msg = f"{question.where}: an input or output is not float32 any more."
        raise Wrong(msg, "Callers give and expect float32: cast inside.", evidence=evidence(half))


def _require_numbers(half: onnx.ModelProto, question: _Question, random: np.random.Generator) -> None:
    """Require right numbers in onnx.reference, as ONNX Runtime on a CPU computes in float32."""
    for rows in (2, 20):  # the first is small enough to be shown whole
        _require_near(half, question, _inputs(random, rows, *question.magnitudes))


def _require_near(half: onnx.ModelProto, question: _Question, x: Array) -> None:
    (right,) = open_session(question.model).run(None, {question.name: x})
    try:
        with np.errstate(all="ignore"):  # overflows show in the numbers
            got = np.asarray(next(iter(ReferenceEvaluator(half).run(None, {question.name: x}))))
    except Exception as error:  # it raises many kinds
        msg = f"{question.where}: onnx.reference does not run the result: {str(error)[:200]}"
        raise Wrong(msg, question.look_at, evidence=evidence(half)) from None
    shown_input = f"x = {shown_whole(x)}" if shown_whole(x) else f"x of shape {list(x.shape)}"
    if got.shape != right.shape:
        difference = Difference(shown_input, f"shape {list(right.shape)}", f"shape {list(got.shape)}")
    else:
        place = first_apart(right, got, _TOLERANCE)
        if place is None:
            return
        difference = Difference(
            f"{shown_input}; at {list(place)}", f"{right[place]:.4g}", f"{got[place]:.4g}"
        )
    msg = f"{question.where}: where float16 is really computed, the numbers are wrong."
    raise Wrong(msg, question.look_at, difference=difference, evidence=evidence(half))


def _require_halved(half: onnx.ModelProto, question: _Question, random: np.random.Generator) -> None:
    """Require that only what float16 breaks computes in float32."""
    broken = _broken(question)
    allowed = Counter(node.op_type for node in question.model.graph.node if node.name in broken)
    needless = _in_float32(half) - allowed
    if needless:
        counts = ", ".join(f"{count} x {name}" for name, count in needless.items())
        expected = ", ".join(allowed) or "no node"
        difference = Difference("nodes that compute in float32", expected, f"{counts} more")
        msg = f"{question.where}: {counts} could compute in float16."
        look_at = "Which of its inputs and outputs does float16 not hold?"
        raise Wrong(msg, look_at, difference=difference, evidence=evidence(half, None, *needless))


def _in_float32(model: onnx.ModelProto) -> Counter[str]:
    """Count the nodes that do not compute in float16, by operator, without Casts."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    not_half = {
        value.name
        for value in (*graph.value_info, *graph.output)
        if value.type.tensor_type.elem_type != _FLOAT16
    }
    return Counter(
        node.op_type for node in graph.node if node.op_type != "Cast" and not_half & set(node.output)
    )


def _broken(question: _Question) -> set[str]:
    """Return the names of the nodes that read or make a number that float16 cannot represent."""
    graph = question.model.graph
    values = {question.name: question.x, **intermediates(question.model, question.x)}
    values |= {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}

    def representable(name: str) -> bool:
        magnitudes = np.abs(values[name][values[name] != 0])
        return bool(np.all((magnitudes <= _LARGEST) & (magnitudes >= _SMALLEST)))

    return {node.name for node in graph.node if not all(map(representable, (*node.input, *node.output)))}


def _converted(question: _Question) -> onnx.ModelProto:
    """Return a right answer: float16 but for the nodes that break, and for inputs and outputs."""
    half, keep = deepcopy(question.model), _broken(question)
    graph = half.graph
    nodes, weights = list(graph.node), {tensor.name: tensor for tensor in graph.initializer}
    types: dict[str, int] = dict.fromkeys((value.name for value in graph.input), _FLOAT)
    outputs = {value.name for value in graph.output}
    del graph.node[:], graph.initializer[:]

    def cast(name: str, elem_type: int) -> str:
        if name not in weights and types[name] == elem_type:
            return name
        cast_name = f"{name}_as_{elem_type}"
        if cast_name not in types and name in weights:
            array = numpy_helper.to_array(weights[name])
            if array.dtype == np.float32:
                array = array.astype(helper.tensor_dtype_to_np_dtype(elem_type))
            graph.initializer.append(numpy_helper.from_array(array, cast_name))
        elif cast_name not in types:
            graph.node.append(helper.make_node("Cast", [name], [cast_name], to=elem_type))
        types[cast_name] = elem_type
        return cast_name

    for node in nodes:
        elem_type = _FLOAT if node.name in keep else _FLOAT16
        half_outputs = [name for name in node.output if name in outputs and elem_type == _FLOAT16]
        node.input[:] = [cast(name, elem_type) for name in node.input]
        node.output[:] = [f"{name}_half" if name in half_outputs else name for name in node.output]
        graph.node.append(node)
        types |= dict.fromkeys(node.output, elem_type) | dict.fromkeys(half_outputs, _FLOAT)
        for name in half_outputs:
            graph.node.append(helper.make_node("Cast", [f"{name}_half"], [name], to=_FLOAT))
    return half


_REWRITING = Rewriting("halve", "half", _questions, _require_structure, _converted)

EXERCISE = Exercise(
    order=3,
    id="halve",
    title="Compute in float16, but for what float16 breaks",
    points=4,
    answers=("halve",),
    produce=_REWRITING.produce,
    parts=(
        Part("a valid model with the same inputs and outputs", _REWRITING.judge()),
        Part("right where float16 is really computed", _REWRITING.judge(_require_numbers)),
        Part("only what float16 breaks stays in float32", _REWRITING.judge(_require_halved)),
    ),
    hints=(
        "The float32 model shows what float16 will break: make every value an output, run it with x, and "
        "look for numbers beyond 65504, or below 6e-8 and not 0.",
        "A node breaks if one of its outputs or inputs breaks. Inputs are the model's own input and the "
        "weights, too. `to_float16(model, keep)` does the rest.",
        "With `values` a dict of all arrays by name (x, the initializers, the outputs of all nodes) and "
        "`held = lambda a: np.all((a == 0) | ((abs(a) <= 65504) & (abs(a) >= 6e-8)))`: keep the names of "
        "the nodes for which not all of `held(values[name])` for name in `[*node.input, *node.output]` are "
        "true.",
    ),
)
