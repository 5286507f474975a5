"""What is right in scales-input, part by part."""

from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Question
from onnxlab.kit.work import Work
from onnxlab.labs.lab06_resize_scales.scales_input import draw_questions
from onnxlab.message import Message


def judge_number(work: Work, random: np.random.Generator) -> None:
    """Require the number of the input."""
    msg = "Another input of Resize says how large the result becomes."
    look_at = "List the names in node.input of this model: which are empty, or hold an empty tensor?"
    for question, (number, _) in zip(draw_questions(work.questions()), _pairs(work), strict=True):
        expected, _ = _expected_pair(question.model)
        if type(number) is not int or number != expected:
            _refute(question, msg, look_at, expected, number)


def judge_values(work: Work, random: np.random.Generator) -> None:
    """Require the numbers that the file stores for this input."""
    msg = "These are not the numbers that the file stores for this input."
    look_at = "Where does the value come from: an initializer, a Constant node, another node, or the caller?"
    for question, (_, values) in zip(draw_questions(work.questions()), _pairs(work), strict=True):
        _, expected = _expected_pair(question.model)
        if not _same(values, expected):
            _refute(question, msg, look_at, expected, values)


def _refute(question: Question, msg: str, look_at: str, expected: object, got: object) -> NoReturn:
    call = f"Resize({', '.join(name or '-' for name in _resize(question.model).input)})"
    difference = Difference(Message.compose(": ", [question.where, call]), str(expected)[:80], str(got)[:80])
    with question.as_case():
        raise Wrong(msg, look_at, difference=difference, evidence=evidence(question.model, None, "Resize"))


def _resize(model: onnx.ModelProto) -> onnx.NodeProto:
    resizes: list[onnx.NodeProto] = [node for node in model.graph.node if node.op_type == "Resize"]
    return resizes[0]


def _expected_pair(model: onnx.ModelProto) -> tuple[int, list[float] | None]:
    """Return the number of the input that is scales or sizes, and what the file stores for it."""
    stored = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            value = onnx.helper.get_attribute_value(node.attribute[0])
            is_tensor = isinstance(value, onnx.TensorProto)
            stored[node.output[0]] = numpy_helper.to_array(value).tolist() if is_tensor else value
    [opset] = [entry.version for entry in model.opset_import if not entry.domain]
    parameters = onnx.defs.get_schema("Resize", opset).inputs
    for number, (name, parameter) in enumerate(zip(_resize(model).input, parameters, strict=False)):
        if parameter.name in ("scales", "sizes") and name:
            if name not in stored:
                return number, None
            if values := stored[name]:
                return number, list(values)
    raise AssertionError(model)  # every model of the exercise has one


def _pairs(work: Work) -> list[list[Any]]:
    pairs = work.answers("answers", len(draw_questions(work.questions())))
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise Wrong("answers.json holds something other than pairs.")
    return pairs


def _same(values: object, expected: list[float] | None) -> bool:
    if expected is None or not isinstance(values, list):
        return values is None and expected is None
    return (
        all(type(value) in (int, float) and abs(value) < 1e9 for value in values)
        and len(values) == len(expected)
        and all(abs(value - number) <= 1e-6 for value, number in zip(values, expected, strict=True))
    )


JUDGES = Judges((judge_number, judge_values))
