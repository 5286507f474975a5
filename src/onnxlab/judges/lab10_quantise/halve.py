"""What is right in halve, part by part."""

from collections import Counter
from copy import deepcopy

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnxlab.kit.judging import (
    evidence,
    first_mismatch,
    require_same_interface,
    require_well_formed,
    shown_whole,
)
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten
from onnxlab.labs.lab10_quantise.halve import ASKS, HalfQuestion
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.model.graph import walk
from onnxlab.runtime.divergence import intermediates
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session

_FLOAT, _FLOAT16 = int(TensorProto.FLOAT), int(TensorProto.FLOAT16)
_TOLERANCE = 0.03  # of the largest number; rounding to float16 costs less than 0.005 here


def _require_structure(half: onnx.ModelProto, question: HalfQuestion) -> None:
    """Require a valid model with the same inputs and outputs, in float32, and the same nodes but Casts."""
    require_same_interface(half, question.model, question.where)
    require_well_formed(half, question.where, "Do all inputs of each node have one type? A Cast changes it.")
    before, after = (
        Counter(node.op for node in walk(model) if node.op != "Cast") for model in (question.model, half)
    )
    if new := after - before or half.functions:
        kinds = ", ".join(new) if isinstance(new, Counter) else "a function"
        msg = Message(
            "{question.where}: the result has nodes that were not there before: {kinds}.",
            question=question,
            kinds=kinds,
        )
        raise Wrong(msg, "A Cast is all that has to be added.", evidence=evidence(half, None, *after))
    names = [node.name for node in half.graph.node]
    lost = [node for node in question.model.graph.node if names.count(node.name) != 1]
    if lost:
        msg = Message(
            "{question.where}: not one node has the name {name}, which a {op_type} had.",
            question=question,
            name=lost[0].name,
            op_type=lost[0].op_type,
        )
        raise Wrong(msg, "The nodes keep their names.", evidence=evidence(half, None, lost[0].op_type))
    types = {value.type.tensor_type.elem_type for value in (*half.graph.input, *half.graph.output)}
    if types != {_FLOAT}:
        msg = Message("{question.where}: an input or output is not float32 any more.", question=question)
        raise Wrong(msg, "Callers pass and expect float32: cast inside.", evidence=evidence(half))


def _require_numbers(half: onnx.ModelProto, question: HalfQuestion, random: np.random.Generator) -> None:
    """Require the right outputs in onnx.reference, as ONNX Runtime on a CPU computes in float32."""
    for rows in (2, 20):  # the first is small enough to be shown whole
        _require_near(half, question, question.draw_input(random, rows))


def _require_near(half: onnx.ModelProto, question: HalfQuestion, x: Array) -> None:
    right_outputs = open_session(question.model).run(None, {question.name: x})
    try:
        with np.errstate(all="ignore"):  # overflows show in the numbers
            outputs = ReferenceEvaluator(half).run(None, {question.name: x})
    except Exception as error:  # it raises many kinds
        msg = Message(
            "{question.where}: onnx.reference does not run the result: {reason}",
            question=question,
            reason=short_reason(error),
        )
        raise Wrong(msg, question.look_at, evidence=evidence(half)) from None
    shown_input = (
        f"x = {shown_whole(x)}" if shown_whole(x) else Message("x of shape {shape}", shape=list(x.shape))
    )
    for value, right, output in zip(question.model.graph.output, right_outputs, outputs, strict=True):
        got = np.asarray(output)
        if got.shape != right.shape:
            difference = Difference(
                shown_input,
                Message("shape {shape}", shape=list(right.shape)),
                Message("shape {shape}", shape=list(got.shape)),
            )
        else:
            place = first_mismatch(right, got, _TOLERANCE)
            if place is None:
                continue
            where = Message(
                "{case}; output {value.name} at {place}", case=shown_input, value=value, place=list(place)
            )
            difference = Difference(where, f"{right[place]:.4g}", f"{got[place]:.4g}")
        msg = Message("{question.where}: computed in float16, the outputs are wrong.", question=question)
        raise Wrong(msg, question.look_at, difference=difference, evidence=evidence(half))


def _require_halved(half: onnx.ModelProto, question: HalfQuestion, random: np.random.Generator) -> None:
    """Require that what float16 breaks computes in float32, and nothing else."""
    broken, types = _broken(question), _types(half)
    needless = Counter[str]()
    for node in half.graph.node:
        computed = {types[name] for name in (*node.input, *node.output) if name in types}
        if node.op_type == "Cast" or computed == {_FLOAT if node.name in broken else _FLOAT16}:
            continue
        if node.name in broken:
            difference = Difference(
                f"{node.op_type} {node.name}", Message("float32"), Message("another type")
            )
            msg = Message(
                "{question.where}: {node.op_type} breaks in float16, and does not compute in float32.",
                question=question,
                node=node,
            )
            shown = evidence(half, None, node.op_type)
            raise Wrong(msg, question.look_at, difference=difference, evidence=shown)
        needless[node.op_type] += 1
    if needless:
        counts = ", ".join(f"{count} x {name}" for name, count in needless.items())
        kept = ", ".join(node.op_type for node in question.model.graph.node if node.name in broken)
        difference = Difference(
            Message("nodes that compute in float32"),
            kept or Message("no node"),
            Message("{counts} more", counts=counts),
        )
        msg = Message(
            "{question.where}: {counts} could compute in float16.", question=question, counts=counts
        )
        look_at = "Which of its inputs and outputs does float16 not hold?"
        raise Wrong(msg, look_at, difference=difference, evidence=evidence(half, None, *needless))


def _types(model: onnx.ModelProto) -> dict[str, int]:
    """Return the element types of all values and weights that hold floating-point numbers."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    floating = (_FLOAT, _FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16)
    return {name: elem_type for name, elem_type in types.items() if elem_type in floating}


def _broken(question: HalfQuestion) -> set[str]:
    """Return the names of the nodes that read or make a number that float16 turns into infinity or 0."""
    graph = question.model.graph
    values = {question.name: question.x, **intermediates(question.model, question.x)}
    values |= {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}

    def held(name: str) -> bool:
        array = values[name]
        if array.dtype.kind != "f":
            return True
        with np.errstate(over="ignore"):
            half = array.astype(np.float16)
        return bool(np.all((np.isinf(half) == np.isinf(array)) & ((half == 0) == (array == 0))))

    return {node.name for node in graph.node if not all(map(held, (*node.input, *node.output)))}


def _converted(question: HalfQuestion) -> onnx.ModelProto:
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


JUDGES = Rewritten(ASKS, _require_structure, _converted).judges(_require_numbers, _require_halved)
