"""Exercise: a BatchNormalization folded into the Conv before it, only where that is legal."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

from onnxlab.facts.nodes import op_types
from onnxlab.facts.runtime import open_session
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import require_type
from onnxlab.labs.judging import beside, evidence
from onnxlab.labs.lab08_graph_surgery.comparing import (
    require_interface,
    require_no_new_operators,
    require_same_numbers,
    require_whole,
)
from onnxlab.labs.lab08_graph_surgery.folding_models import CHANNELS, folding_cases
from onnxlab.labs.outcome import Difference, Wrong
from onnxlab.labs.work import Work

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
        folded = answers["fold_batchnorm"](given)
        require_type(folded, onnx.ModelProto, "fold_batchnorm()")
        work.write_model(f"folded_{number}", folded)


def judge_whole(work: Work, random: np.random.Generator) -> None:
    """Valid, with the same inputs and outputs, and without new kinds of nodes."""
    for number, case in enumerate(folding_cases(work.questions())):
        folded, graph = work.model(f"folded_{number}"), case.model.graph
        inputs, outputs = [each.name for each in graph.input], [each.name for each in graph.output]
        with beside(partial(_folded, case.model)):
            require_whole(folded, case.where)
            require_interface(folded, inputs, outputs, case.where)
            require_no_new_operators(folded, case.model, case.where)


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """What the model gave before."""
    judge_whole(work, random)
    for number, case in enumerate(folding_cases(work.questions())):
        folded = work.model(f"folded_{number}")
        before = open_session(case.model, optimize=False)
        for shape in ((1, CHANNELS, 5, 5), (3, CHANNELS, 6, 4)):
            x = random.normal(1, 2, size=shape).astype(np.float32)
            feeds = {case.model.graph.input[0].name: x}
            with beside(partial(_folded, case.model)):
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
            raise Wrong(msg, _FOLDABLE, difference=difference, evidence=shown)
        if left < there - case.folds or op_types(folded).count("Conv") != op_types(case.model).count("Conv"):
            msg = f"{case.where}: a node is gone that had to stay."
            shown = evidence(folded, _folded(case.model))
            raise Wrong(msg, case.look_at, difference=difference, evidence=shown)


def _folded(model: onnx.ModelProto) -> bytes:
    """A right answer: ONNX Runtime's own folding, which its basic level of optimisation does."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3  # says that the file is for this machine, which holds for higher levels
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as folder:
        options.optimized_model_filepath = str(Path(folder) / "folded.onnx")
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        folded = onnx.load(options.optimized_model_filepath)
    del folded.opset_import[:]  # the runtime lists every domain that it knows
    folded.opset_import.extend(model.opset_import)
    data: bytes = folded.SerializeToString()
    return data


EXERCISE = Exercise(
    id="fold-batchnorm",
    title="Fold a BatchNormalization into the Conv before it",
    points=4,
    answers=("fold_batchnorm",),
    produce=produce,
    parts=(
        Part("a valid model with the same inputs and outputs", judge_whole),
        Part("the numbers are as before", judge_numbers),
        Part("all that can be folded is folded, the rest is left", judge_folds),
    ),
    hints=(
        "In evaluation mode a BatchNormalization is a factor and a sum for each channel. A Conv can do both.",
        "factor = scale / sqrt(var + epsilon); weights times factor.reshape(-1, 1, 1, 1); the new bias is "
        "(old bias - mean) * factor + bias. New initializers with new names damage nobody.",
        "For each BatchNormalization without training_mode=1: find the Conv that makes its input; go on only "
        "if exactly one node reads that value and it is no graph output. Append both new initializers, "
        "`del conv.input[1:]`, `conv.input.extend([weight, bias])`, `conv.output[0] = norm.output[0]`, "
        "`graph.node.remove(norm)`.",
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
)
