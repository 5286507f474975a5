"""What is right in fold-batchnorm, part by part."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxlab.kit import judging
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by, require_as_before
from onnxlab.labs.lab08_graph_surgery.fold_batchnorm import ASKS, CHANNELS, FOLDABLE, FoldQuestion
from onnxlab.message import Message
from onnxlab.model.graph import op_types, reads


def _require_structure(folded: onnx.ModelProto, case: FoldQuestion) -> None:
    """Require a valid model with the same inputs and outputs, and without new nodes."""
    judging.require_same_interface(folded, case.model, case.where)
    judging.require_well_formed(folded, case.where)
    judging.require_no_new_operators(folded, case.model, case.where)


def _require_numbers(folded: onnx.ModelProto, case: FoldQuestion, random: np.random.Generator) -> None:
    """Require the numbers of the original model."""
    batches = (1, random.integers(2, 5))
    shapes = ((batch, CHANNELS, *random.integers(3, 7, size=case.axes)) for batch in batches)
    require_as_before(folded, case, (random.normal(1, 2, size=shape).astype(np.float32) for shape in shapes))


def _require_folds(folded: onnx.ModelProto, case: FoldQuestion, random: np.random.Generator) -> None:
    """Require that each BatchNormalization that can be folded is gone, and that the others are left."""
    there, left, right = (
        Counter(_norms(model)) for model in (case.model, folded, fold_batchnorm(*case.copies()))
    )
    expected = Message("{total} left", total=right.total())
    difference = Difference(
        Message("{total} BatchNormalization", total=there.total()),
        expected,
        Message("{total} left", total=left.total()),
    )
    if left - right:
        msg = Message("{case.where}: one that can be folded is still there.", case=case)
        graph = judging.evidence(folded, None, "BatchNormalization")
        raise Wrong(msg, FOLDABLE, difference=difference, evidence=graph)
    if right - left or op_types(folded).count("Conv") != op_types(case.model).count("Conv"):
        msg = Message("{case.where}: a node is gone that had to stay.", case=case)
        raise Wrong(msg, case.look_at, difference=difference, evidence=judging.evidence(folded))


def _norms(model: onnx.ModelProto) -> Iterator[tuple[bytes, ...]]:
    """Yield the mean and the variance of each BatchNormalization: its names may change, these may not."""
    arrays = {tensor.name: numpy_helper.to_array(tensor).tobytes() for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            yield tuple(arrays.get(name, b"") for name in node.input[3:])


def fold_batchnorm(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a right answer; `author sync` writes it into the notebook of solutions.

    ONNX Runtime's own optimization differs: it folds a ConvTranspose, and no Conv with an empty input name.
    """
    graph = model.graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    makers = {node.output[0]: node for node in graph.node}
    read = [value.name for value in graph.output] + [name for node in graph.node for name in reads(node)]
    for norm in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        settings = {attribute.name: helper.get_attribute_value(attribute) for attribute in norm.attribute}
        conv = makers.get(norm.input[0], norm)
        if conv.op_type != "Conv" or read.count(norm.input[0]) > 1 or settings.get("training_mode"):
            continue
        scale, bias, mean, var = (weights[name] for name in norm.input[1:])
        factor = scale / np.sqrt(var + settings.get("epsilon", 1e-5))
        weight, *old = (weights[name] for name in conv.input[1:] if name)
        by = factor.reshape(-1, *[1] * (weight.ndim - 1))  # the first axis: the channels that come out
        del conv.input[1:]  # new initializers: others may read the old ones
        for array in (weight * by, (sum(old) - mean) * factor + bias):
            conv.input.append(f"{norm.output[0]}_folded_{len(conv.input)}")
            graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), conv.input[-1]))
        conv.output[0] = norm.output[0]
        graph.node.remove(norm)
    return model


JUDGES = Rewritten(ASKS, _require_structure, made_by(fold_batchnorm)).judges(_require_numbers, _require_folds)
