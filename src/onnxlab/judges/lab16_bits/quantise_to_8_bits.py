"""What is right in quantise-to-8-bits, part by part."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from onnxruntime.quantization import (  # type: ignore[import-untyped]  # ships no types
    CalibrationDataReader,
    quantize_static,
)

from onnxlab.judges.lab16_bits.files import require_bytes, require_file, require_near
from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.labs.lab16_bits.quantise_to_8_bits import ASKS, Int8Question
from onnxlab.message import Message
from onnxlab.model.distance import Array

_ALLOWED = 0.15  # relative error; 0.01 to 0.08 with a right calibration
_QUANTISERS = ("QuantizeLinear", "DequantizeLinear")


def _quantised(model: onnx.ModelProto, batches: list[Array], exclude: list[str]) -> onnx.ModelProto:
    """Quantise the Conv, per channel, except those named in `exclude`; return the model."""
    onnx.helper.set_model_props(model, {"onnx.quant.pre_process": "done"})  # else the log recommends it
    feeds = iter([{model.graph.input[0].name: batch} for batch in batches])

    class Batches(CalibrationDataReader):  # type: ignore[misc]  # ships no types
        def get_next(self) -> Any:  # noqa: ANN401 - a batch by the name of the input, or None
            return next(feeds, None)

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "int8.onnx"
        options = {"per_channel": True, "op_types_to_quantize": ["Conv"], "nodes_to_exclude": exclude}
        quantize_static(model, target, Batches(), **options)
        return onnx.load(target)


def _require_quantised(model: onnx.ModelProto, question: Int8Question, random: np.random.Generator) -> None:
    """Require int8 weights, a scale for each channel, in each Conv that is not excluded, and in no other."""
    makers = {name: node for node in model.graph.node for name in node.output}
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    names = [node.name for node in question.model.graph.node if node.op_type == "Conv"]
    if sorted(node.name for node in convs) != sorted(names):
        msg = Message(
            "{question.where}: the Conv of the model are not there by their names.", question=question
        )
        look_at = "The format with Q/DQ pairs, which is the default, keeps every node."
        raise Wrong(msg, look_at, evidence=evidence(model, None, *_QUANTISERS))
    for node in convs:
        kept = node.name in question.exclude
        sources = [makers.get(name) for name in node.input[:2]]
        quantised = [source is not None and source.op_type == "DequantizeLinear" for source in sources]
        if kept and quantised[1]:
            msg = Message(
                "{question.where}: the Conv {node.name} is named in `exclude`, and its weight has 8 bits.",
                question=question,
                node=node,
            )
            raise Wrong(msg, "Which argument names nodes to exclude?", evidence=evidence(model, None, "Conv"))
        if kept:
            continue
        if not all(quantised):
            msg = Message(
                "{question.where}: the Conv {node.name} reads its input or its weight in float32.",
                question=question,
                node=node,
            )
            look_at = "Is it named in `exclude`? If not, a DequantizeLinear stands before both."
            raise Wrong(msg, look_at, evidence=evidence(model, None, "Conv"))
        weight, scale = (tensors.get(name) for name in makers[node.input[1]].input[:2])
        if weight is None or scale is None or weight.data_type != TensorProto.INT8:
            msg = Message(
                "{question.where}: the weight of the Conv {node.name} is not stored as int8.",
                question=question,
                node=node,
            )
            raise Wrong(
                msg, "int8 is the default of `quantize_static`.", evidence=evidence(model, None, "Conv")
            )
        if list(scale.dims) != [weight.dims[0]]:
            msg = Message(
                "{question.where}: the weight of the Conv {node.name} has one scale for all its channels.",
                question=question,
                node=node,
            )
            difference = Difference(Message("scales"), str(weight.dims[0]), str(int(np.prod(scale.dims))))
            look_at = "Which argument of `quantize_static` gives each channel a scale?"
            raise Wrong(msg, look_at, difference=difference, evidence=evidence(model, None, *_QUANTISERS))
    _require_others_float(model, question)
    require_bytes(model, question, int(1.1 * _expected(question).ByteSize()))


def _require_others_float(model: onnx.ModelProto, question: Int8Question) -> None:
    """Require that what other operators than Conv and Relu make is rounded to 8 bits for a Conv only."""
    makers = {name: node for node in model.graph.node for name in node.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for node in model.graph.node:
        source = makers.get(node.input[0])
        if node.op_type != "QuantizeLinear" or source is None or source.op_type in ("Conv", "Relu"):
            continue
        dequantisers = readers.get(node.output[0], [])
        kinds = {reader.op_type for one in dequantisers for reader in readers.get(one.output[0], [])}
        if "Conv" not in kinds:
            msg = Message(
                "{question.where}: the output of {source.op_type} is rounded to 8 bits for no Conv.",
                question=question,
                source=source,
            )
            look_at = "Which argument names the operators to quantise?"
            raise Wrong(msg, look_at, evidence=evidence(model, None, source.op_type))


def _require_numbers(model: onnx.ModelProto, question: Int8Question, random: np.random.Generator) -> None:
    """Require outputs near those in float32, for other inputs like the largest batch."""
    for _ in range(2):
        look_at = "One batch has a larger range than all others. Did the calibration see it?"
        require_near(model, question, question.draw_input(random), _ALLOWED, look_at)


def _expected(question: Int8Question) -> onnx.ModelProto:
    return made_by(_quantised)(question)


_REWRITTEN = Rewritten(ASKS, require_file, _expected)
JUDGES = Judges(
    (_REWRITTEN.judge(), _REWRITTEN.judge(_require_quantised), _REWRITTEN.judge(_require_numbers))
)
