"""Exercise: a BatchNormalization folded into the Conv before it, only where that is legal."""

from functools import partial

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import require_type
from onnxlab.labs.kit.judging import (
    beside,
    evidence,
    require_interface,
    require_no_new_operators,
    require_same_numbers,
    require_whole,
)
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab08_graph_surgery.folding_models import CHANNELS, folding_cases
from onnxlab.model.graph import op_types
from onnxlab.runtime.session import open_session

__all__ = ["EXERCISE"]

_FOLDABLE = (
    "For each BatchNormalization: is its input made by a Conv, does nothing else read that, and is "
    "training_mode 0? Then it can go."
)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Fold each of the drawn models."""
    for number, case in enumerate(folding_cases(random)):
        given = onnx.ModelProto()
        given.CopyFrom(case.model)
        with case.tried():
            folded = answers["fold_batchnorm"](given)
            require_type(folded, onnx.ModelProto, "fold_batchnorm()")
            work.write_model(f"folded_{number}", folded)


def judge_whole(work: Work, random: np.random.Generator) -> None:
    """Valid, with the same inputs and outputs, and without a node that was not there."""
    for number, case in enumerate(folding_cases(work.questions())):
        graph = case.model.graph
        inputs, outputs = [each.name for each in graph.input], [each.name for each in graph.output]
        with case.tried(), beside(partial(_folded, case.model)):
            folded = work.model(f"folded_{number}")
            require_whole(folded, case.where)
            require_interface(folded, inputs, outputs, case.where)
            require_no_new_operators(folded, case.model, case.where)


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """What the model gave before."""
    judge_whole(work, random)
    for number, case in enumerate(folding_cases(work.questions())):
        folded = work.model(f"folded_{number}")
        before = open_session(case.model, optimize=False)
        for batch in (1, int(random.integers(2, 5))):
            shape = (batch, CHANNELS, *random.integers(3, 7, size=case.axes))
            x = random.normal(1, 2, size=shape).astype(np.float32)
            feeds = {case.model.graph.input[0].name: x}
            with case.tried(), beside(partial(_folded, case.model)):
                require_same_numbers(folded, feeds, before.run(None, feeds), case.where, case.look_at)


def judge_folds(work: Work, random: np.random.Generator) -> None:
    """As many are gone as can go."""
    for number, case in enumerate(folding_cases(work.questions())):
        folded = work.model(f"folded_{number}")
        there = op_types(case.model).count("BatchNormalization")
        left = op_types(folded).count("BatchNormalization")
        difference = Difference(f"{there} BatchNormalization", f"{there - case.folds} left", f"{left} left")
        if left > there - case.folds:
            msg = f"{case.where}: one that can be folded is still there."
            shown = evidence(folded, _folded(case.model), "BatchNormalization")
            with case.tried():
                raise Wrong(msg, _FOLDABLE, difference=difference, evidence=shown)
        if left < there - case.folds or op_types(folded).count("Conv") != op_types(case.model).count("Conv"):
            msg = f"{case.where}: a node is gone that had to stay."
            shown = evidence(folded, _folded(case.model))
            with case.tried():
                raise Wrong(msg, case.look_at, difference=difference, evidence=shown)


def _folded(model: onnx.ModelProto) -> bytes:
    """A right answer. ONNX Runtime's own folding also folds ConvTranspose, and no Conv with an empty name."""
    folded = onnx.ModelProto()
    folded.CopyFrom(model)
    graph = folded.graph
    weights = {each.name: numpy_helper.to_array(each).astype(np.float64) for each in graph.initializer}
    read = [each.name for each in graph.output] + [name for node in graph.node for name in node.input]
    for norm in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        conv = next((node for node in graph.node if norm.input[0] in node.output), norm)
        settings = {each.name: onnx.helper.get_attribute_value(each) for each in norm.attribute}
        if conv.op_type != "Conv" or read.count(norm.input[0]) > 1 or settings.get("training_mode"):
            continue
        scale, bias, mean, variance = (weights[name] for name in norm.input[1:])
        factor = scale / np.sqrt(variance + settings.get("epsilon", 1e-5))
        weight, *old = (weights[name] for name in conv.input[1:] if name)
        del conv.input[1:]
        moved = (sum(old) - mean) * factor + bias
        for array in (weight * factor.reshape(-1, *[1] * (weight.ndim - 1)), moved):
            conv.input.append(f"{norm.output[0]}_{len(conv.input)}")
            graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), conv.input[-1]))
        conv.output[0] = norm.output[0]
        graph.node.remove(norm)
    data: bytes = folded.SerializeToString()
    return data


EXERCISE = Exercise(
    order=1,
    id="fold-batchnorm",
    title="Fold a BatchNormalization into the Conv before it",
    points=5,
    answers=("fold_batchnorm",),
    produce=produce,
    parts=(
        Part("a valid model with the same inputs and outputs", judge_whole),
        Part("the numbers are as before", judge_numbers),
        Part("all that can be folded is folded, the rest is left", judge_folds),
    ),
    hints=(
        "In evaluation mode a BatchNormalization is a factor and a sum for each channel. A Conv can do both.",
        "factor = scale / sqrt(var + epsilon); the weights times factor, along their first axis, that of the "
        "channels; the new bias is (old bias - mean) * factor + bias. New initializers with new names "
        "damage nobody.",
        "For each BatchNormalization without training_mode=1: find the Conv that makes its input; go on only "
        "if exactly one node reads that value and it is no graph output. Append both new initializers, "
        "`del conv.input[1:]`, `conv.input.extend([weight, bias])`, `conv.output[0] = norm.output[0]`, "
        "`graph.node.remove(norm)`.",
    ),
)
