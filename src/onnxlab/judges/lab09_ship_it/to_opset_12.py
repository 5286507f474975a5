"""What is right in to-opset-12, part by part."""

from functools import partial

import numpy as np
import onnx
from onnx import version_converter

from onnxlab.labs.kit.exercise import Judges
from onnxlab.labs.kit.judging import (
    evidence,
    opsets,
    require_opset,
    require_same_interface,
    require_well_formed,
)
from onnxlab.labs.kit.outcome import Wrong
from onnxlab.labs.kit.rewriting import Rewritten, require_as_before
from onnxlab.labs.lab09_ship_it.to_opset_12 import ASKS, CHANNELS, SoftmaxQuestion


def _require_structure(lowered: onnx.ModelProto, question: SoftmaxQuestion) -> None:
    """Require a valid model at opset 12, with the same inputs and outputs."""
    require_same_interface(lowered, question.model, question.where)
    if 12 not in opsets(lowered):
        require_opset(lowered, 12, "What does `lowered.opset_import` say?")
    if opsets(lowered) != {12}:
        msg = f"{question.where}: a function of the result asks for another opset."
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


def _transposed(question: SoftmaxQuestion) -> onnx.ModelProto:
    """Return a right answer: a Transpose before and after each Softmax."""
    graph = onnx.shape_inference.infer_shapes(question.model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    model = version_converter.convert_version(question.model, 12)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for number, node in enumerate(nodes):
        if node.op_type not in ("Softmax", "LogSoftmax"):
            model.graph.node.append(node)
            continue
        rank = ranks[node.input[0]]
        axis = onnx.helper.get_node_attr_value(node, "axis") % rank
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        before, after = f"last_{number}", f"soft_{number}"
        transpose = partial(onnx.helper.make_node, "Transpose", perm=order)
        softmax = onnx.helper.make_node(node.op_type, [before], [after], axis=rank - 1)
        first, last = transpose([node.input[0]], [before]), transpose([after], [node.output[0]])
        model.graph.node.extend([first, softmax, last])
    return model


_REWRITING = Rewritten(ASKS, _require_structure, _transposed)
JUDGES = Judges((_REWRITING.judge(), _REWRITING.judge(_require_numbers)))
