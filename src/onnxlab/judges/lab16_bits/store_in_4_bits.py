"""What is right in store-in-4-bits, part by part."""

import logging
from copy import deepcopy

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import (  # type: ignore[import-untyped]  # ships no types
    MatMulNBitsQuantizer,
)

from onnxlab.judges.lab16_bits.files import (
    relative_error,
    require_bytes,
    require_file,
    require_near,
)
from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.labs.lab16_bits.store_in_4_bits import ASKS, FourBitQuestion
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

logging.getLogger().setLevel(logging.WARNING)  # importing the tool has set the level INFO for all logs


def _stored(model: onnx.ModelProto, x: Array, largest_error: float) -> onnx.ModelProto:
    """Store weights in 4 bits, except those that alone cost more than `largest_error`; return the model."""
    right = _output(model, x)
    names = _split_gemm(model)

    def cost(name: str) -> float:
        alone = _in_4_bits(model, [other for other in names if other != name])
        return relative_error(right, _output(alone, x))

    return _in_4_bits(model, [name for name in names if cost(name) > largest_error])


def _split_gemm(model: onnx.ModelProto) -> list[str]:
    """Write each Gemm as a MatMul and an Add; return the names of all MatMul with a weight."""
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type != "Gemm":
            nodes.append(node)
            continue
        name, product = f"{node.input[1]}_transposed", f"{node.output[0]}_product"
        weights[name] = np.ascontiguousarray(weights[node.input[1]].T)
        model.graph.initializer.append(numpy_helper.from_array(weights[name], name))
        nodes.append(helper.make_node("MatMul", [node.input[0], name], [product], name=node.name))
        nodes.append(helper.make_node("Add", [product, node.input[2]], node.output))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return [node.name for node in nodes if node.op_type == "MatMul" and node.input[1] in weights]


def _in_4_bits(model: onnx.ModelProto, exclude: list[str]) -> onnx.ModelProto:
    tool = MatMulNBitsQuantizer(deepcopy(model), block_size=32, is_symmetric=True, nodes_to_exclude=exclude)
    tool.process()
    result: onnx.ModelProto = tool.model.model
    return result


def _output(model: onnx.ModelProto, x: Array) -> Array:
    (output,) = open_session(model).run(None, {model.graph.input[0].name: x})
    return np.asarray(output)


def _require_stored(model: onnx.ModelProto, question: FourBitQuestion, random: np.random.Generator) -> None:
    """Require 4 bits and blocks of 32 in each MatMulNBits, and a file as small as the right one's."""
    found = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
    for node in found:
        settings = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        for name, wanted, default in (("bits", 4, 4), ("block_size", 32, None), ("accuracy_level", 0, 0)):
            if settings.get(name, default) != wanted:
                msg = Message(
                    "{question.where}: a MatMulNBits has {name} {setting}; {wanted} is asked for.",
                    question=question,
                    name=name,
                    setting=settings.get(name),
                    wanted=wanted,
                )
                difference = Difference(name, str(wanted), str(settings.get(name)))
                raise Wrong(msg, difference=difference, evidence=evidence(model, None, "MatMulNBits"))
    expected = _expected(question)
    count = sum(node.op_type == "MatMulNBits" for node in expected.graph.node)
    if len(found) < count:
        msg = Message(
            "{question.where}: the file has {count} MatMulNBits; {count2} weights can have 4 bits.",
            question=question,
            count=len(found),
            count2=count,
        )
        shown = evidence(model, None, "MatMul", "Gemm")
        raise Wrong(msg, question.look_at, evidence=shown)
    require_bytes(model, question, int(1.05 * expected.ByteSize()))


def _require_numbers(model: onnx.ModelProto, question: FourBitQuestion, random: np.random.Generator) -> None:
    """Require outputs near those in float32, for the input and for another one."""
    for x in (question.x, question.draw_input(random)):
        require_near(model, question, x, question.largest_error)


def _expected(question: FourBitQuestion) -> onnx.ModelProto:
    return made_by(_stored)(question)


_REWRITTEN = Rewritten(ASKS, require_file, _expected)
JUDGES = Judges((_REWRITTEN.judge(), _REWRITTEN.judge(_require_stored), _REWRITTEN.judge(_require_numbers)))
