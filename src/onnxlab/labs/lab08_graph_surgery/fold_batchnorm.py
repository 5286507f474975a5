"""Exercise: a BatchNormalization folded into the Conv before it, only where that is legal."""

from dataclasses import dataclass

import numpy as np
import onnx

from onnxlab.facts.nodes import op_types
from onnxlab.facts.runtime import open_session
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import require_type
from onnxlab.labs.judging import evidence
from onnxlab.labs.lab08_graph_surgery.comparing import (
    require_interface,
    require_no_new_operators,
    require_same_numbers,
    require_whole,
)
from onnxlab.labs.lab08_graph_surgery.drawing import Sketch
from onnxlab.labs.outcome import Difference, Wrong
from onnxlab.labs.work import Work

__all__ = ["EXERCISE"]

_CHANNELS = 4


@dataclass(frozen=True)
class _Case:
    where: str
    model: onnx.ModelProto
    folds: int
    look_at: str


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Fold each of the drawn models."""
    for number, case in enumerate(_cases(random)):
        given = onnx.ModelProto()
        given.CopyFrom(case.model)
        folded = answers["fold_batchnorm"](given)
        require_type(folded, onnx.ModelProto, "fold_batchnorm()")
        work.write_model(f"folded_{number}", folded)


def judge_whole(work: Work, random: np.random.Generator) -> None:
    """Valid, with the same inputs and outputs, and without new kinds of nodes."""
    for number, case in enumerate(_cases(work.questions())):
        folded, graph = work.model(f"folded_{number}"), case.model.graph
        inputs, outputs = [each.name for each in graph.input], [each.name for each in graph.output]
        require_whole(folded, case.where)
        require_interface(folded, inputs, outputs, case.where)
        require_no_new_operators(folded, case.model, case.where)


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """What the model gave before."""
    judge_whole(work, random)
    for number, case in enumerate(_cases(work.questions())):
        folded = work.model(f"folded_{number}")
        before = open_session(case.model, optimize=False)
        for shape in ((1, _CHANNELS, 5, 5), (3, _CHANNELS, 6, 4)):
            x = random.normal(1, 2, size=shape).astype(np.float32)
            feeds = {case.model.graph.input[0].name: x}
            require_same_numbers(folded, feeds, before.run(None, feeds), case.where, case.look_at)


def judge_folds(work: Work, random: np.random.Generator) -> None:
    """As many are gone as can go."""
    for number, case in enumerate(_cases(work.questions())):
        folded = work.model(f"folded_{number}")
        there = op_types(case.model).count("BatchNormalization")
        left = op_types(folded).count("BatchNormalization")
        difference = Difference(f"{there} BatchNormalization", f"{there - case.folds} left", f"{left} left")
        if left > there - case.folds:
            msg = f"{case.where}: one that can be folded is still there."
            raise Wrong(
                msg,
                case.look_at,
                difference=difference,
                evidence=evidence(folded, None, "BatchNormalization"),
            )
        if left < there - case.folds or op_types(folded).count("Conv") != op_types(case.model).count("Conv"):
            msg = f"{case.where}: a node is gone that had to stay."
            raise Wrong(msg, case.look_at, difference=difference, evidence=evidence(folded))


def _conv(sketch: Sketch, x: str, weight: str = "", *, bias: bool = False, group: int = 1) -> str:
    if not weight:
        weight = sketch.weight(0.4 * sketch.normal(_CHANNELS, _CHANNELS // group, 3, 3))
    more = [sketch.weight(sketch.normal(_CHANNELS))] if bias else []
    return sketch.add("Conv", x, weight, *more, kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=group)


def _statistics(sketch: Sketch) -> list[str]:
    """Scale, bias, mean and variance; some variances so small that epsilon matters."""
    variance = sketch.random.uniform(0.01, 2, size=_CHANNELS)
    mean = sketch.normal(_CHANNELS) + 1
    return [
        sketch.weight(each)
        for each in (sketch.normal(_CHANNELS) + 0.5, sketch.normal(_CHANNELS), mean, variance)
    ]


def _norm(
    sketch: Sketch, x: str, statistics: list[str] | None = None, results: int = 1, **attributes: object
) -> str:
    epsilon = float(sketch.random.choice([0.3, 0.03, 0.1]))
    return sketch.add(
        "BatchNormalization",
        x,
        *(statistics or _statistics(sketch)),
        epsilon=epsilon,
        results=results,
        **attributes,
    )


def _cases(random: np.random.Generator) -> list[_Case]:
    shape = ("N", _CHANNELS, "H", "W")
    cases: list[_Case] = []

    def case(where: str, sketch: Sketch, x: str, *outputs: str, folds: int, look_at: str) -> None:
        cases.append(_Case(where, sketch.model({x: shape}, dict.fromkeys(outputs, shape)), folds, look_at))

    s = Sketch(random)
    x = s.name()
    y = s.add("Relu", _norm(s, _conv(s, s.add("Relu", x))))
    case(
        "Conv, BatchNormalization",
        s,
        x,
        y,
        folds=1,
        look_at="Compute one channel by hand: scale, bias, mean, variance and the attribute epsilon.",
    )

    s = Sketch(random)
    x = s.name()
    y = _norm(s, _conv(s, x, bias=True, group=2))
    case(
        "A Conv with groups and a bias; the BatchNormalization makes the output",
        s,
        x,
        y,
        folds=1,
        look_at="The bias is normalised as well: what does BatchNormalization make of conv + bias?",
    )

    s = Sketch(random)
    x = s.name()
    weight = s.weight(0.3 * s.normal(_CHANNELS, _CHANNELS, 3, 3))
    one = s.add("Relu", _norm(s, _conv(s, x, weight)))
    y = s.add("Sigmoid", _norm(s, _conv(s, one, weight, bias=True)))
    case(
        "Two Convs that share their weights",
        s,
        x,
        y,
        folds=2,
        look_at="How many nodes read the initializer that you change?",
    )

    s = Sketch(random)
    x = s.name()
    weight = s.weight(0.3 * s.normal(_CHANNELS, _CHANNELS, 3, 3))
    one = s.add("Tanh", _norm(s, _conv(s, x, weight)))
    y = s.add("Relu", _conv(s, one, weight))
    case(
        "A Conv without BatchNormalization reads the same weights",
        s,
        x,
        y,
        folds=1,
        look_at="How many nodes read the initializer that you change?",
    )

    s = Sketch(random)
    x = s.name()
    statistics = _statistics(s)
    one = s.add("Relu", _norm(s, _conv(s, x), statistics))
    y = s.add("Relu", _norm(s, _conv(s, one), statistics))
    case(
        "Two BatchNormalizations that share their statistics",
        s,
        x,
        y,
        folds=2,
        look_at="Which initializers are still read after the first fold?",
    )

    s = Sketch(random)
    x = s.name()
    conv = _conv(s, s.add("Relu", _norm(s, _conv(s, x))))
    y = s.add("Add", s.add("Relu", _norm(s, conv)), conv)
    case(
        "The second Conv is read by an Add as well",
        s,
        x,
        y,
        folds=1,
        look_at="Who else reads the Conv's output, and what would that node get?",
    )

    s = Sketch(random)
    x = s.name()
    conv = _conv(s, s.add("Relu", _norm(s, _conv(s, x))))
    y = s.add("Relu", _norm(s, conv))
    case(
        "The second Conv makes an output of the graph",
        s,
        x,
        y,
        conv,
        folds=1,
        look_at="What would a caller get who asks for the Conv's output?",
    )

    s = Sketch(random)
    x = s.name()
    conv = _conv(s, s.add("Relu", _norm(s, _conv(s, x), training_mode=0)))
    statistics = _statistics(s)
    y = s.add("Relu", _norm(s, conv, statistics, results=3, training_mode=1))
    case(
        "The second BatchNormalization is in training mode",
        s,
        x,
        y,
        folds=1,
        look_at="Which mean and variance does a BatchNormalization with training_mode=1 use?",
    )

    s = Sketch(random)
    x = s.name()
    one = s.add("Relu", _norm(s, _conv(s, x)))
    y = s.add("Relu", _conv(s, _norm(s, one), bias=True))
    case(
        "A BatchNormalization in front of a Conv with padding",
        s,
        x,
        y,
        folds=1,
        look_at="The padding adds zeros after the BatchNormalization. What would be there after folding?",
    )
    return cases


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
