"""What is right in store-in-4-bits, part by part."""

import logging
from copy import deepcopy

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
from onnx import helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import (  # type: ignore[import-untyped]  # ships no types
    MatMulNBitsQuantizer,
)

from onnxlab.judges.lab16_bits.files import (
    outputs_of,
    relative_error,
    require_bytes,
    require_file,
    require_near,
)
from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.labs.lab16_bits.store_in_4_bits import ASKS, FourBitQuestion
from onnxlab.message import Message
from onnxlab.model.distance import Array

logging.getLogger().setLevel(logging.WARNING)  # importing the tool has set the level INFO for all logs


def _stored(model: onnx.ModelProto, x: Array, largest_error: float) -> onnx.ModelProto:
    """Store weights in 4 bits, except those that alone cost more than `largest_error`; return the model."""

    def output(candidate: onnx.ModelProto) -> Array:
        session = ort.InferenceSession(candidate.SerializeToString(), providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, {model.graph.input[0].name: x})[0])

    def stored(exclude: list[str]) -> onnx.ModelProto:
        tool = MatMulNBitsQuantizer(
            deepcopy(model), block_size=32, is_symmetric=True, nodes_to_exclude=exclude
        )
        tool.process()
        return tool.model.model  # type: ignore[no-any-return]  # ships no types

    right = output(model)
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
    names = [node.name for node in nodes if node.op_type == "MatMul" and node.input[1] in weights]

    def cost(name: str) -> float:
        got = output(stored([other for other in names if other != name]))
        return float(np.linalg.norm(got - right) / np.linalg.norm(right))

    return stored([name for name in names if cost(name) > largest_error])


def _require_stored(model: onnx.ModelProto, question: FourBitQuestion, random: np.random.Generator) -> None:
    """Require 4 bits in symmetric blocks of 32, for as many weights as may have them, and no larger file."""
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
        if any(node.input[3:]):
            msg = Message("{question.where}: a MatMulNBits has zero points.", question=question)
            look_at = "Symmetric is asked for: 0 is stored as 0, and no zero points are needed."
            raise Wrong(msg, look_at, evidence=evidence(model, None, "MatMulNBits"))
    expected = _expected(question)
    count = sum(node.op_type == "MatMulNBits" for node in expected.graph.node)
    if len(found) != count:
        msg = Message(
            "{question.where}: weights with 4 bits: {stored}; weights whose cost is at most "
            "{question.largest_error}: {count}.",
            question=question,
            stored=len(found),
            count=count,
        )
        left = {node.op_type for node in model.graph.node} & {"MatMul", "Gemm"}
        raise Wrong(msg, question.look_at, evidence=evidence(model, None, *sorted(left)))
    require_bytes(model, question, int(1.05 * expected.ByteSize()))


def _require_numbers(model: onnx.ModelProto, question: FourBitQuestion, random: np.random.Generator) -> None:
    """Require outputs as near those in float32 as a right model's, for the input and for another one."""
    right = _expected(question)
    for x in (question.x, question.draw_input(random)):
        expected = outputs_of(question.model, question, x)
        best = relative_error(expected, outputs_of(right, question, x))
        require_near(model, question, x, 1.2 * best + 1e-3)


def _expected(question: FourBitQuestion) -> onnx.ModelProto:
    return made_by(_stored)(question)


_REWRITTEN = Rewritten(ASKS, require_file, _expected)
JUDGES = _REWRITTEN.judges(_require_stored, _require_numbers)
