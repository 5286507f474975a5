"""What is right in quantise-to-8-bits, part by part."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization import (  # type: ignore[import-untyped]  # ships no types
    CalibrationDataReader,
    quantize_static,
)

from onnxlab.judges.lab16_bits.files import (
    outputs_of,
    relative_error,
    require_bytes,
    require_file,
    require_near_outputs,
)
from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.labs.lab10_quantise.quantise_to_8_bits import ASKS, Int8Question, draw_picture
from onnxlab.message import Message
from onnxlab.model.distance import Array

_ALLOWED = 0.1  # relative error; 0.01 to 0.06 with a right calibration
_MORE = 1.2  # times the error of a right answer, where that is large
_QUANTISERS = ("QuantizeLinear", "DequantizeLinear")


def _quantised(
    pipeline: onnx.ModelProto, network: onnx.ModelProto, pictures: list[Array], exclude: list[str]
) -> onnx.ModelProto:
    """Quantise the Conv, per channel, except those named in `exclude`; return the network."""
    prepare = ort.InferenceSession(pipeline.SerializeToString(), providers=["CPUExecutionProvider"])
    onnx.helper.set_model_props(network, {"onnx.quant.pre_process": "done"})  # else the log recommends it
    photo, name = prepare.get_inputs()[0].name, network.graph.input[0].name
    feeds = iter([{name: prepare.run(None, {photo: picture})[0]} for picture in pictures])

    class Batches(CalibrationDataReader):  # type: ignore[misc]  # ships no types
        def get_next(self) -> Any:  # noqa: ANN401 - a batch by the name of the input, or None
            return next(feeds, None)

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "int8.onnx"
        options = {"per_channel": True, "op_types_to_quantize": ["Conv"], "nodes_to_exclude": exclude}
        quantize_static(network, target, Batches(), **options)
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


def _require_others_float(model: onnx.ModelProto, question: Int8Question) -> None:
    """Require that what other operators than Conv and Relu make is rounded to 8 bits for a Conv only.

    And that other operators read their weights in float32.
    """
    look_at = "Which argument names the operators to quantise?"
    makers = {name: node for node in model.graph.node for name in node.output}
    weights = {tensor.name for tensor in question.model.graph.initializer}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    by_name = {node.name: node for node in model.graph.node}
    for node in question.model.graph.node:
        reader = by_name.get(node.name, node)
        for name, got in zip(node.input, reader.input, strict=False):
            if node.op_type != "Conv" and name in weights and got in makers:
                msg = Message(
                    "{question.where}: the weight of the {node.op_type} {node.name} has 8 bits.",
                    question=question,
                    node=node,
                )
                raise Wrong(msg, look_at, evidence=evidence(model, None, node.op_type))
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
            raise Wrong(msg, look_at, evidence=evidence(model, None, source.op_type))


def _other_pictures(random: np.random.Generator, question: Int8Question) -> list[Array]:
    """Draw other pictures of the same day: dull ones, and as many that are like its bright one."""
    bright = max(question.pictures, key=np.max)
    at_the_rim = not bright[1:-1, 1:-1].any()  # then it stays there

    def moved() -> Array:
        if at_the_rim:
            return np.flip(bright, tuple(np.flatnonzero(random.integers(2, size=2)).tolist()))
        return np.roll(bright, random.integers(1, 8, size=2), axis=(0, 1))

    like_it = [(random.uniform(0.85, 1) * moved()).astype(np.uint8) for _ in range(6)]
    return [*like_it, *(draw_picture(random) for _ in range(6))]


def _require_numbers(model: onnx.ModelProto, question: Int8Question, random: np.random.Generator) -> None:
    """Require few bytes, and outputs near those in float32, for other pictures of the day."""
    x, right = question.prepared(_other_pictures(random, question)), _expected(question)
    require_bytes(model, question, int(1.1 * right.ByteSize()))
    expected, got = (outputs_of(candidate, question, x) for candidate in (question.model, model))
    best = relative_error(expected, outputs_of(right, question, x))
    ranges = (_input_range(candidate, question) for candidate in (right, model))
    difference = Difference(Message("the numbers that the network's input can have in 8 bits"), *ranges)
    look_at = "Does every picture of the day go through the pipeline, and its result into a batch as it is?"
    allowed = max(_ALLOWED, _MORE * best)
    require_near_outputs(model, question, x, expected, got, allowed, look_at, difference)


def _input_range(model: onnx.ModelProto, question: Int8Question) -> str:
    """Return the smallest and the largest number that the network's input can have in 8 bits."""
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[0] == question.name:
            scale, zero = (tensors[name] for name in node.input[1:3])
            low, high = (
                (end - float(zero)) * float(scale)
                for end in (np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max)
            )
            return f"{low:.3g} to {high:.3g}"
    return Message("not in 8 bits")


def _expected(question: Int8Question) -> onnx.ModelProto:
    return made_by(_quantised)(question)


JUDGES = Rewritten(ASKS, require_file, _expected).judges(_require_quantised, _require_numbers)
