"""Exercise: the part of a model between some values and others, as a model of its own."""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from onnxlab.facts.distance import Array
from onnxlab.facts.intermediates import intermediates
from onnxlab.facts.nodes import walk
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

_WIDTH = 4


@dataclass(frozen=True)
class _Question:
    where: str
    model: onnx.ModelProto
    inputs: list[str]
    outputs: list[str]
    possible: bool = True


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Cut each of the drawn models; where that is impossible, note what was raised."""
    raised: dict[int, str] = {}
    for number, question in enumerate(_questions(random)):
        given = onnx.ModelProto()
        given.CopyFrom(question.model)
        arguments = (given, list(question.inputs), list(question.outputs))
        if question.possible:
            part = answers["cut_between"](*arguments)
            require_type(part, onnx.ModelProto, "cut_between()")
            work.write_model(f"part_{number}", part)
            continue
        raised[number] = "nothing"
        try:
            answers["cut_between"](*arguments)
        except NotImplementedError:
            raise
        except Exception as error:  # which one, the judge looks at
            raised[number] = "ValueError" if isinstance(error, ValueError) else type(error).__name__
    work.write_json("raised", raised)


def judge_whole(work: Work, random: np.random.Generator) -> None:
    """Valid models with the inputs and outputs asked for."""
    for number, question in enumerate(_questions(work.questions())):
        if question.possible:
            part = work.model(f"part_{number}")
            require_whole(part, question.where)
            require_interface(part, question.inputs, question.outputs, question.where)
            require_no_new_operators(part, question.model, question.where)


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """Fed with values from inside the whole model, the part gives what that computes next."""
    judge_whole(work, random)
    for number, question in enumerate(_questions(work.questions())):
        if not question.possible:
            continue
        for rows in (1, 5):
            x = random.normal(size=(rows, _WIDTH)).astype(np.float32)
            values: dict[str, Array] = {question.model.graph.input[0].name: x}
            values |= intermediates(question.model, x)
            require_same_numbers(
                work.model(f"part_{number}"),
                {name: values[name] for name in question.inputs},
                [values[name] for name in question.outputs],
                question.where,
                "Compare graph(before, after). Is a size in the shape of the new input fixed?",
            )


def judge_nothing_else(work: Work, random: np.random.Generator) -> None:
    """No node and no weight that nothing reads."""
    for number, question in enumerate(_questions(work.questions())):
        if not question.possible:
            continue
        part = work.model(f"part_{number}")
        read = {name for node in walk(part) for name in node.inputs} | {
            each.name for each in part.graph.output
        }
        read |= {each.name for graph in _bodies(part) for each in graph.output}
        idle = [node.op_type for node in part.graph.node if not read & set(node.output)]
        unread = [each.name for each in part.graph.initializer if each.name not in read]
        if idle or unread:
            what = (
                f"a {idle[0]} whose result nothing reads"
                if idle
                else f"the initializer {unread[0]}, never read"
            )
            msg = f"{question.where}: the part still has {what}."
            raise Wrong(
                msg,
                "Walk back from the outputs, and keep what you meet.",
                evidence=evidence(part, None, *idle),
            )


def judge_refusals(work: Work, random: np.random.Generator) -> None:
    """What cannot be cut is refused."""
    raised = work.json("raised")
    for number, question in enumerate(_questions(work.questions())):
        if question.possible:
            continue
        got = raised.get(str(number)) if isinstance(raised, dict) else None
        if got != "ValueError":
            given = f"cut_between(model, {question.inputs}, {question.outputs})"
            difference = Difference(given, "ValueError", f"{got} was raised"[:80])
            msg = f"{question.where}: this cannot be cut."
            look = "Where does the walk back from the outputs end, besides at the inputs asked for?"
            raise Wrong(msg, look, difference=difference, evidence=evidence(question.model))


def _bodies(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    return [each.g for node in walk(model) for each in node.proto.attribute if each.HasField("g")]


def _questions(random: np.random.Generator) -> list[_Question]:
    shape = ("N", _WIDTH)
    s = Sketch(random)
    x, square = s.name(), (_WIDTH, _WIDTH)
    stem = s.add(str(random.choice(["Tanh", "Sigmoid"])), s.add("MatMul", x, s.weight(s.normal(*square))))
    left = s.add("Add", stem, s.weight(s.normal(_WIDTH)))
    right = s.add("Sigmoid", s.add("MatMul", stem, s.weight(s.normal(*square))))
    both = s.add("Mul", left, right)
    last = s.add("MatMul", both, s.weight(s.normal(*square)))
    y, side = s.add("Tanh", last), s.add("Neg", right)
    plain = s.model({x: shape}, {y: shape, side: shape})

    t = Sketch(random)
    u = t.name()
    before = t.add("Tanh", t.add("MatMul", u, t.weight(t.normal(*square))))
    caught, inner = t.add("Sin", before), t.weight(t.normal(_WIDTH))
    axes = t.weight(np.array([0, 1]))
    condition = t.add("Greater", t.add("ReduceSum", before, axes, keepdims=0), t.weight(np.array(0.0)))
    branches = [_branch(t, "Mul", caught, inner), _branch(t, "Sub", inner, caught)]
    chosen = t.add("If", condition, then_branch=branches[0], else_branch=branches[1])
    end = t.add("Neg", chosen)
    branching = t.model({u: shape}, {end: shape})
    return [
        _Question("From the input to a value inside", plain, [x], [stem]),
        _Question("From a value inside to the output", plain, [stem], [y]),
        _Question("Two outputs", plain, [stem], [left, right]),
        _Question("Two inputs", plain, [right, left], [both]),
        _Question("An output that another output is made from", plain, [left, right], [last, both]),
        _Question("An If that reads a value of the graph around it", branching, [before], [end]),
        _Question("A value that only branches of an If read is an input", branching, [caught, before], [end]),
        _Question("One branch is missing among the inputs", plain, [left], [y], possible=False),
        _Question(
            "What the branches of an If read is missing", branching, [condition], [end], possible=False
        ),
        _Question("No value has the name of the output", plain, [x], [s.name()], possible=False),
    ]


def _branch(sketch: Sketch, operator: str, *reads: str) -> onnx.GraphProto:
    result = sketch.name()
    value = helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, ("N", _WIDTH))
    return helper.make_graph([helper.make_node(operator, reads, [result])], sketch.name(), [], [value])


EXERCISE = Exercise(
    id="cut-between",
    title="Cut a part out of a model",
    points=3,
    answers=("cut_between",),
    produce=produce,
    parts=(
        Part("a valid model with the inputs and outputs asked for", judge_whole),
        Part("the numbers are those inside the whole model", judge_numbers),
        Part("nothing is left that nothing reads", judge_nothing_else),
        Part("what cannot be cut is refused", judge_refusals),
    ),
    hints=(
        "Walk back from the outputs, and stop at the inputs. A body of an If reads values from outside.",
        "One pass over `reversed(model.graph.node)` with a set of needed names does it. "
        "`onnx.shape_inference.infer_shapes(model)` writes the types of inner values into `value_info`.",
        "needed = set(outputs) - set(inputs). For each node, last first: if it makes a needed name, keep it, "
        "take its outputs out of `needed`, and add `reads(node) - set(inputs)`. "
        "What is needed at the end must be an initializer: else raise ValueError.",
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
)
