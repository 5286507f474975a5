"""What is right in convert-to-float16, part by part."""

import warnings
from copy import deepcopy

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxconverter_common.float16 import (  # type: ignore[import-untyped]  # ships no types
    convert_float_to_float16,
)
from onnxruntime.transformers.onnx_model import OnnxModel  # type: ignore[import-untyped]  # ships no types

from onnxlab.judges.lab16_bits.files import require_file, require_near_outputs
from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.labs.lab16_bits.convert_to_float16 import ASKS, Float16Question
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.divergence import intermediates
from onnxlab.runtime.refusals import short_reason

_ALLOWED = 0.02  # relative error; below 0.006 for a right answer
_FLOAT, _FLOAT16 = int(TensorProto.FLOAT), int(TensorProto.FLOAT16)


def _converted(model: onnx.ModelProto, x: Array) -> onnx.ModelProto:
    """Convert to float16 except the nodes that float16 breaks, for x; return the model."""
    lost = _lost_values(model, x)
    broken = [node.name for node in model.graph.node if lost & {*node.input, *node.output}]
    limits = {"max_finite_val": 65504.0, "min_positive_val": 3e-8}
    with warnings.catch_warnings(action="ignore"):  # about weights at the limits, which stay as they are
        half = convert_float_to_float16(model, keep_io_types=True, node_block_list=broken, **limits)
    result = OnnxModel(half)
    result.remove_cascaded_cast_nodes()  # a float32 value went to each further reader through float16
    return result.model  # type: ignore[no-any-return]  # ships no types


def _lost_values(model: onnx.ModelProto, x: Array) -> set[str]:
    """Return the names of the values and weights with a number that float16 turns into infinity or 0."""
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    values |= {model.graph.input[0].name: x, **intermediates(model, x)}
    return {name for name, value in values.items() if _lost(value).any()}


def _lost(value: Array) -> Array:
    """Return where float16 turns a number into infinity or 0."""
    with np.errstate(over="ignore"):
        half = value.astype(np.float16)
    lost: Array = (np.isinf(half) & np.isfinite(value)) | ((half == 0) & (value != 0))
    return lost


def _require_file(model: onnx.ModelProto, question: Float16Question) -> None:
    """Require a valid file; and say it if its output is float16 because its maker is blocked."""
    outputs = {value.type.tensor_type.elem_type for value in model.graph.output}
    inputs = {value.type.tensor_type.elem_type for value in model.graph.input}
    if (inputs, outputs) == ({_FLOAT}, {_FLOAT16}):
        msg = Message("{question.where}: the output is float16; float32 was expected.", question=question)
        look_at = (
            "With keep_io_types=True: is the last node blocked? It does not break, and the converter makes "
            "the output of a blocked node float16."
        )
        raise Wrong(msg, look_at, evidence=evidence(model))
    require_file(model, question)


def _require_numbers(model: onnx.ModelProto, question: Float16Question, random: np.random.Generator) -> None:
    """Require that no number is lost on the way, and right outputs, where float16 is really computed."""
    shown = deepcopy(model)
    names = [name for node in model.graph.node for name in node.output]
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    for x in (question.x, question.draw_input(random)):
        try:
            with np.errstate(all="ignore"):
                arrays = ReferenceEvaluator(shown).run(None, {question.name: x})
        except Exception as error:  # the evaluator raises many kinds
            msg = Message(
                "{question.where}: the result does not run in onnx.reference: {reason}",
                question=question,
                reason=short_reason(error),
            )
            raise Wrong(msg, question.look_at, evidence=evidence(model)) from None
        values = {question.name: x} | dict(zip(names, arrays, strict=True))
        values |= {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        for node in model.graph.node:
            before, after = values[node.input[0]], values[node.output[0]]
            if node.op_type == "Cast" and after.dtype == np.float16 and _lost(before).any():
                place = int(np.flatnonzero(_lost(before))[0])
                msg = Message("{question.where}: a Cast to float16 loses a number.", question=question)
                texts = (f"{array.flat[place]:.4g}" for array in (before, after))
                difference = Difference(Message("the Cast of {name}", name=node.input[0]), *texts)
                shown_cast = evidence(model, None, "Cast")
                raise Wrong(msg, question.look_at, difference=difference, evidence=shown_cast)
            if after.dtype == np.float16 and not np.isfinite(after).all():
                msg = Message(
                    "{question.where}: a value inside is infinite: the output of {maker}.",
                    question=question,
                    maker=node.op_type,
                )
                raise Wrong(msg, question.look_at, evidence=evidence(model, None, node.op_type))
        expected = intermediates(question.model, x)[question.model.graph.output[0].name]
        require_near_outputs(model, question, x, expected, values[model.graph.output[0].name], _ALLOWED)


def _require_converted(
    model: onnx.ModelProto, question: Float16Question, random: np.random.Generator
) -> None:
    """Require float32 for the nodes that float16 breaks, float16 for the others, and weights as they were."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {
        value.name: value.type.tensor_type.elem_type
        for value in (*graph.value_info, *graph.input, *graph.output)
    }
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    by_name = {node.name: node for node in model.graph.node}
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in question.model.graph.initializer}
    lost = _lost_values(question.model, question.x)
    for node in question.model.graph.node:
        found = by_name.get(node.name)
        if found is None or found.op_type != node.op_type:
            msg = Message(
                "{case.where}: no {node.op_type} has the name {node.name} any more.", case=question, node=node
            )
            raise Wrong(msg, "The converter keeps names.", evidence=evidence(model))
        broken = bool(lost & {*node.input, *node.output})
        computed = {types.get(name) for name in (*found.input, *found.output)}
        place, shown = f"{node.op_type} {node.name}", evidence(model, None, node.op_type)
        if broken and _FLOAT16 in computed:
            msg = Message(
                "{question.where}: {node.op_type} computes in float16, which breaks it.",
                question=question,
                node=node,
            )
            difference = Difference(place, Message("float32"), Message("float16"))
            raise Wrong(msg, question.look_at, difference=difference, evidence=shown)
        if not broken and _FLOAT in computed:
            msg = Message(
                "{question.where}: {node.op_type} computes in float32, and float16 does not break it.",
                question=question,
                node=node,
            )
            difference = Difference(place, Message("float16"), Message("float32"))
            look_at = "Name the nodes that break, not their operators."
            raise Wrong(msg, look_at, difference=difference, evidence=shown)
    for tensor in model.graph.initializer:
        weight, got = weights.get(tensor.name), numpy_helper.to_array(tensor)
        if weight is not None and not np.array_equal(weight.astype(got.dtype), got):
            index = int(np.flatnonzero(weight.astype(got.dtype) != got)[0])
            msg = Message("{question.where}: a weight was clipped.", question=question)
            texts = (f"{array.flat[index]:.4g}" for array in (weight, got))
            difference = Difference(Message("the weight {name}", name=tensor.name), *texts)
            raise Wrong(msg, question.look_at, difference=difference, evidence=evidence(model))


_REWRITTEN = Rewritten(ASKS, _require_file, made_by(_converted))
JUDGES = _REWRITTEN.judges(_require_numbers, _require_converted)
