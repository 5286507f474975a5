"""What is right in convert-to-float16, part by part."""

import warnings

import numpy as np
import onnx
from onnx import TensorProto
from onnxconverter_common.float16 import (  # type: ignore[import-untyped]  # ships no types
    convert_float_to_float16,
)

from onnxlab.judges.lab16_bits.files import outputs_of, require_file, require_near
from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.labs.lab16_bits.convert_to_float16 import ASKS, Float16Question
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.divergence import intermediates

_ALLOWED = 0.02  # relative error; 0.001 for a right answer
_FLOAT = int(TensorProto.FLOAT)


def _converted(model: onnx.ModelProto, x: Array) -> onnx.ModelProto:
    """Convert to float16 except the nodes that read or make a number above 65504; return the model."""
    large = _large(model, x)
    broken = [node.name for node in model.graph.node if large & {*node.input, *node.output}]
    with warnings.catch_warnings(action="ignore"):  # about weights that it would clip
        return convert_float_to_float16(  # type: ignore[no-any-return]  # ships no types
            model, keep_io_types=True, node_block_list=broken, max_finite_val=65504.0
        )


def _large(model: onnx.ModelProto, x: Array) -> set[str]:
    """Return the names of the values above 65504 in magnitude."""
    values = {model.graph.input[0].name: x, **intermediates(model, x)}
    return {name for name, value in values.items() if np.abs(value).max() > 65504}


def _require_numbers(model: onnx.ModelProto, question: Float16Question, random: np.random.Generator) -> None:
    """Require finite values inside, and outputs near those in float32."""
    for x in (question.x, question.draw_input(random)):
        outputs_of(model, question, x)  # it runs
        for name, value in intermediates(model, x).items():
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                maker = next(node.op_type for node in model.graph.node if name in node.output)
                msg = Message(
                    "{question.where}: a value inside is infinite: the output of {maker}.",
                    question=question,
                    maker=maker,
                )
                raise Wrong(msg, question.look_at, evidence=evidence(model, None, maker))
        require_near(model, question, x, _ALLOWED)


def _require_converted(
    model: onnx.ModelProto, question: Float16Question, random: np.random.Generator
) -> None:
    """Require that every node that float16 does not break reads no float32 value but the model's own ends."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {
        value.name: value.type.tensor_type.elem_type
        for value in (*graph.value_info, *graph.input, *graph.output)
    }
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    by_name = {node.name: node for node in model.graph.node}
    large = _large(question.model, question.x)
    for node in question.model.graph.node:
        found = by_name.get(node.name)
        if found is None or found.op_type != node.op_type:
            msg = Message(
                "{case.where}: no {node.op_type} has the name {node.name} any more.", case=question, node=node
            )
            raise Wrong(msg, "The converter keeps names.", evidence=evidence(model))
        broken = bool(large & {*node.input, *node.output})
        computed = {types.get(name) for name in (*found.input, *found.output)}
        if not broken and _FLOAT in computed:
            msg = Message(
                "{question.where}: {node.op_type} computes in float32, and float16 does not break it.",
                question=question,
                node=node,
            )
            difference = Difference(f"{node.op_type} {node.name}", Message("float16"), Message("float32"))
            look_at = "Name the nodes that break, not their operators."
            raise Wrong(msg, look_at, difference=difference, evidence=evidence(model, None, node.op_type))


def _expected(question: Float16Question) -> onnx.ModelProto:
    return made_by(_converted)(question)


_REWRITTEN = Rewritten(ASKS, require_file, _expected)
JUDGES = Judges(
    (_REWRITTEN.judge(), _REWRITTEN.judge(_require_numbers), _REWRITTEN.judge(_require_converted))
)
