"""Exercise: the part of a model between some values and others, as a model of its own."""

from functools import partial

import numpy as np
import onnx

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
from onnxlab.labs.lab08_graph_surgery.cutting_models import WIDTH, Cut, cuts, right_part
from onnxlab.model.distance import Array
from onnxlab.model.graph import walk
from onnxlab.runtime.divergence import intermediates

__all__ = ["EXERCISE"]

_ELEMENTS = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Cut each of the drawn models; where that is impossible, note what was raised."""
    raised: dict[int, str] = {}
    for number, question in enumerate(cuts(random)):
        given = onnx.ModelProto()
        given.CopyFrom(question.model)
        arguments = (given, list(question.inputs), list(question.outputs))
        if question.possible:
            with question.tried():
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
            with question.tried(), beside(partial(right_part, question)):
                part = work.model(f"part_{number}")
                require_interface(part, question.inputs, question.outputs, question.where)
                _require_types(part, question)
                require_whole(part, question.where)
                require_no_new_operators(part, question.model, question.where)
                _require_versions(part, question)


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """Fed with values from inside the whole model, the part gives what that computes next."""
    judge_whole(work, random)
    inside: dict[tuple[str, int], dict[str, Array]] = {}  # by the model's own input, and the rows
    for number, question in enumerate(cuts(work.questions())):
        if not question.possible:
            continue
        for rows in (1, 5):
            key = question.model.graph.input[0].name, rows
            if key not in inside:
                x = random.normal(size=(rows, WIDTH)).astype(np.float32)
                inside[key] = {key[0]: x, **intermediates(question.model, x)}
            values = inside[key]
            with question.tried(), beside(partial(right_part, question)):
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
            look, shown = "Walk back from the outputs, and keep what you meet.", right_part(question)
            with question.tried():
                raise Wrong(msg, look, evidence=evidence(part, shown, *idle))


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
            with question.tried():
                raise Wrong(msg, look, difference=difference, evidence=evidence(question.model))


def _require_types(part: onnx.ModelProto, question: Cut) -> None:
    """Require the element types and shapes of inputs and outputs; sizes that are open stay open."""
    right = onnx.ModelProto.FromString(right_part(question))
    for kind in ("input", "output"):
        weights = {each.name for each in part.graph.initializer}
        found = [each for each in getattr(part.graph, kind) if kind == "output" or each.name not in weights]
        for wanted, got in zip(getattr(right.graph, kind), found, strict=True):
            if _plain_type(wanted) != _plain_type(got):
                difference = Difference(f"the {kind} {wanted.name}", _type_text(wanted), _type_text(got))
                msg = f"{question.where}: the {kind} {wanted.name} has another type."
                look = (
                    "infer_shapes() writes element types and shapes into value_info. "
                    "Is a size in the shape fixed that is open there, as N?"
                )
                raise Wrong(msg, look, difference=difference, evidence=evidence(part))


def _plain_type(value: onnx.ValueInfoProto) -> tuple[int, list[int | None] | None]:
    tensor = value.type.tensor_type
    sizes = [each.dim_value if each.HasField("dim_value") else None for each in tensor.shape.dim]
    return tensor.elem_type, sizes if tensor.HasField("shape") else None


def _type_text(value: onnx.ValueInfoProto) -> str:
    if not value.type.HasField("tensor_type"):
        return "no type"
    tensor = value.type.tensor_type
    element = _ELEMENTS.get(tensor.elem_type, "another type")
    if not tensor.HasField("shape"):
        return f"{element} without a shape"
    sizes = [
        str(each.dim_value) if each.HasField("dim_value") else each.dim_param or "?"
        for each in tensor.shape.dim
    ]
    return f"{element}[{', '.join(sizes)}]"


def _require_versions(part: onnx.ModelProto, question: Cut) -> None:
    """Require the opset and the IR version of the whole model."""
    whole = question.model
    opsets = [{each.domain or "": each.version for each in model.opset_import} for model in (whole, part)]
    for what, wanted, got in (
        ("opset", opsets[0][""], opsets[1].get("")),
        ("IR version", whole.ir_version, part.ir_version),
    ):
        if wanted != got:
            msg = f"{question.where}: the part says {what} {got}; the model it is cut from says {wanted}."
            look = "helper.make_model takes opset_imports and ir_version; left out, they are the newest."
            raise Wrong(msg, look, evidence=evidence(part))


def _bodies(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    return [each.g for node in walk(model) for each in node.proto.attribute if each.HasField("g")]


EXERCISE = Exercise(
    order=2,
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
)
