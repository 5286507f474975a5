"""Exercise: the part of a model between some values and others, as a model of its own."""

from functools import partial

import numpy as np
import onnx

from onnxlab.facts.distance import Array
from onnxlab.facts.intermediates import intermediates
from onnxlab.facts.nodes import walk
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import require_type
from onnxlab.labs.judging import beside, evidence
from onnxlab.labs.lab08_graph_surgery.comparing import (
    require_interface,
    require_no_new_operators,
    require_same_numbers,
    require_whole,
)
from onnxlab.labs.lab08_graph_surgery.cutting_models import WIDTH, cuts, right_part
from onnxlab.labs.outcome import Difference, Wrong
from onnxlab.labs.work import Work

__all__ = ["EXERCISE"]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Cut each of the drawn models; where that is impossible, note what was raised."""
    raised: dict[int, str] = {}
    for number, question in enumerate(cuts(random)):
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
    for number, question in enumerate(cuts(work.questions())):
        if question.possible:
            part = work.model(f"part_{number}")
            with beside(partial(right_part, question)):
                require_whole(part, question.where)
                require_interface(part, question.inputs, question.outputs, question.where)
                require_no_new_operators(part, question.model, question.where)


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """Fed with values from inside the whole model, the part gives what that computes next."""
    judge_whole(work, random)
    for number, question in enumerate(cuts(work.questions())):
        if not question.possible:
            continue
        for rows in (1, 5):
            x = random.normal(size=(rows, WIDTH)).astype(np.float32)
            values: dict[str, Array] = {question.model.graph.input[0].name: x}
            values |= intermediates(question.model, x)
            with beside(partial(right_part, question)):
                require_same_numbers(
                    work.model(f"part_{number}"),
                    {name: values[name] for name in question.inputs},
                    [values[name] for name in question.outputs],
                    question.where,
                    "Compare graph(before, after). Is a size in the shape of the new input fixed?",
                )


def judge_nothing_else(work: Work, random: np.random.Generator) -> None:
    """No node and no weight that nothing reads."""
    for number, question in enumerate(cuts(work.questions())):
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
                evidence=evidence(part, right_part(question), *idle),
            )


def judge_refusals(work: Work, random: np.random.Generator) -> None:
    """What cannot be cut is refused."""
    raised = work.json("raised")
    for number, question in enumerate(cuts(work.questions())):
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
