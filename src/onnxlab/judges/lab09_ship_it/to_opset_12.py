"""What is right in to-opset-12, part by part."""

import numpy as np
import onnx
from onnx import helper, version_converter

from onnxlab.kit.judging import evidence, opsets, require_opset, require_same_interface, require_well_formed
from onnxlab.kit.outcome import Wrong
from onnxlab.kit.rewriting import Rewritten, made_by, require_as_before
from onnxlab.labs.lab09_ship_it.to_opset_12 import ASKS, CHANNELS, SoftmaxQuestion
from onnxlab.message import Message


def _require_structure(lowered: onnx.ModelProto, question: SoftmaxQuestion) -> None:
    """Require a valid model at opset 12, with the same inputs and outputs."""
    require_same_interface(lowered, question.model, question.where)
    if 12 not in opsets(lowered):
        require_opset(lowered, 12, "What does `lowered.opset_import` say?")
    if opsets(lowered) != {12}:
        msg = Message("{question.where}: a function of the result asks for another opset.", question=question)
        raise Wrong(msg, "The runtime has to know that one, too.", evidence=evidence(lowered))
    require_well_formed(lowered, question.where)


def _require_numbers(
    lowered: onnx.ModelProto, question: SoftmaxQuestion, random: np.random.Generator
) -> None:
    """Require the numbers of opset 13, at sizes that differ from axis to axis, also for large numbers."""
    sizes = (2, 2, 2, 1), (1, 4, 3, 2), random.integers(2, 6, 4).tolist()
    shapes = [(batch, CHANNELS, *spatial[: question.axes]) for batch, *spatial in sizes]
    inputs = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    require_as_before(lowered, question, [*inputs, *(100 * x for x in inputs[1:])])


def to_opset_12(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a right answer; `author sync` writes it into the notebook of solutions."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = [*inferred.input, *inferred.output, *inferred.value_info]
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    model = version_converter.convert_version(model, 12)  # writes the axis where none was written
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        if node.op_type not in ("Softmax", "LogSoftmax"):
            model.graph.node.append(node)
            continue
        x, y, axis = node.input[0], node.output[0], helper.get_node_attr_value(node, "axis")
        order = list(range(ranks[x]))
        order[axis], order[-1] = order[-1], order[axis]  # exchanges two axes, and exchanges them back
        turned, soft = f"{y}_turned", f"{y}_soft"
        model.graph.node.append(helper.make_node("Transpose", [x], [turned], perm=order))
        model.graph.node.append(helper.make_node(node.op_type, [turned], [soft], axis=len(order) - 1))
        model.graph.node.append(helper.make_node("Transpose", [soft], [y], perm=order))
    return model


JUDGES = Rewritten(ASKS, _require_structure, made_by(to_opset_12)).judges(_require_numbers)
