"""Exercise: find the input of Resize that says how large the result becomes, and what is stored for it."""

from typing import Any, TypeAlias

import numpy as np
import onnx
import torch
from onnx import numpy_helper, parser

from onnxlab.facts.export import Exporter, export
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.judging import evidence
from onnxlab.labs.outcome import Difference, Wrong
from onnxlab.labs.work import Work

__all__ = ["EXERCISE"]

Model: TypeAlias = tuple[str, onnx.ModelProto]

_TEXT = """<ir_version: 8, opset_import: ["" : 20]>
net (float[1, 3, h, w] x%(inputs)s) => (float[1, 3, h2, w2] y)
<float[3] shift = {0.5, 1.5, 2.5}%(stored)s> {
    axes = Constant <value = int64[2] {1, 2}> ()
    column = Unsqueeze (shift, axes)
    moved = Add (x, column)
    %(body)s
}"""


class _Enlarged(torch.nn.Module):
    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - handed to torch as they are
        super().__init__()
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(torch.relu(x), **self.options)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask about each model."""
    found = []
    for _, model in _models(random):
        answer = answers["scales_input"](onnx.ModelProto.FromString(model.SerializeToString()))
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            got = "None" if answer is None else f"{type(answer).__name__} ({str(answer)[:60]})"
            msg = f"scales_input() returned {got}; a pair was expected."
            raise Wrong(msg, "The number of an input, then a list of numbers or None.")
        found.append([_plain(part) for part in answer])
    work.write_json("answers", found)


def judge_number(work: Work, random: np.random.Generator) -> None:
    """Which input it is."""
    for (what, model), answer in zip(_models(work.questions()), _answers(work), strict=True):
        number, _ = _right(model)
        if type(answer[0]) is not int or answer[0] != number:
            msg = "Another input of Resize says how large the result becomes."
            look = "List the names in node.input of this model: which are empty, or hold an empty tensor?"
            difference = Difference(f"{what}: {_call(model)}", str(number), _short(answer[0]))
            raise Wrong(msg, look, difference=difference, evidence=evidence(model, None, "Resize"))


def judge_values(work: Work, random: np.random.Generator) -> None:
    """What the file stores for it."""
    for (what, model), answer in zip(_models(work.questions()), _answers(work), strict=True):
        _, values = _right(model)
        if not _same(answer[1], values):
            msg = "These are not the numbers that the file stores for this input."
            look = "Who makes the value: an initializer, a Constant node, another node, or whoever runs it?"
            difference = Difference(f"{what}: {_call(model)}", _short(values), _short(answer[1]))
            raise Wrong(msg, look, difference=difference, evidence=evidence(model, None, "Resize"))


def _models(random: np.random.Generator) -> list[Model]:
    high, wide, a, b = (float(each) / 4 for each in random.integers(3, 20, size=4))
    rows, columns = (int(each) for each in random.integers(5, 30, size=2))
    resize = 'y = Resize <mode = "cubic">'
    computed = f"two = Constant <value_float = {a}> ()\n    both = Mul (k, two)\n    {resize} (moved, , both)"
    return [
        ("exported at opset 13", _exported(13, scale_factor=(high, wide), mode="bicubic")),
        ("exported at opset 11", _exported(11, scale_factor=a, mode="bilinear")),
        ("an initializer", _written(f"{resize} (moved, , k)", stored=f", float[4] k = {{1, 1, {b}, {a}}}")),
        ("an input of the model", _written(f"{resize} (moved, , k)", inputs=", float[4] k")),
        ("computed", _written(computed, inputs=", float[4] k")),
        (
            "a size as an initializer",
            _written(f"{resize} (moved, , , k)", stored=f", int64[4] k = {{1, 3, {rows}, {columns}}}"),
        ),
        ("exported with a size", _exported(11, size=(rows, columns), mode="bicubic")),
        ("exported at opset 10", _exported(10, scale_factor=b, mode="nearest")),
    ]


def _exported(opset: int, **options: Any) -> onnx.ModelProto:  # noqa: ANN401 - as above
    x = torch.zeros(1, 3, 8, 10)
    return export(_Enlarged(**options), x, Exporter.TORCHSCRIPT, opset_version=opset, run=False).proto


def _written(body: str, inputs: str = "", stored: str = "") -> onnx.ModelProto:
    model: onnx.ModelProto = parser.parse_model(_TEXT % {"inputs": inputs, "stored": stored, "body": body})
    return model


def _right(model: onnx.ModelProto) -> tuple[int, list[float] | None]:
    [node] = [node for node in model.graph.node if node.op_type == "Resize"]
    stored = {each.name: each for each in model.graph.initializer}
    for maker in model.graph.node:
        if maker.op_type == "Constant" and maker.attribute[0].name == "value":
            stored[maker.output[0]] = maker.attribute[0].t
    schema = onnx.defs.get_schema("Resize", model.opset_import[0].version)
    for number, (given, meant) in enumerate(zip(node.input, schema.inputs, strict=False)):
        if meant.name in ("scales", "sizes") and given:
            if given not in stored:
                return number, None
            if values := numpy_helper.to_array(stored[given]).tolist():
                return number, values
    raise AssertionError(node)  # every model above has one


def _answers(work: Work) -> list[list[Any]]:
    found = work.json("answers")
    count = len(_models(work.questions()))
    pairs = isinstance(found, list) and all(isinstance(each, list) and len(each) == 2 for each in found)
    if not pairs or len(found) != count:
        msg = f"answers.json does not hold {count} pairs."
        raise Wrong(msg)
    return list(found)


def _same(given: object, values: list[float] | None) -> bool:
    if values is None or not isinstance(given, list):
        return given is None and values is None
    numbers = all(type(each) in (int, float) and abs(each) < 1e9 for each in given)
    return (
        numbers
        and len(given) == len(values)
        and all(abs(one - other) <= 1e-6 for one, other in zip(given, values, strict=True))
    )


def _plain(value: object) -> object:
    """Arrays, tensors, tuples and the repeated fields of protobuf as lists, their numbers as numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
        return value
    return [each.item() if isinstance(each, np.generic) else each for each in value]


def _call(model: onnx.ModelProto) -> str:
    [node] = [node for node in model.graph.node if node.op_type == "Resize"]
    return f"Resize({', '.join(name or '-' for name in node.input)})"


def _short(value: object) -> str:
    return str(value)[:80]


EXERCISE = Exercise(
    id="scales-input",
    title="Find the input of Resize that carries the factor",
    points=4,
    answers=("scales_input",),
    produce=produce,
    parts=(
        Part("the right input of Resize in every model", judge_number),
        Part("the numbers stored for it, or None", judge_values),
    ),
    hints=(
        "The inputs of Resize stand in a fixed order, but the order of opset 10 is not that of opset 11. "
        "`onnx.defs.get_schema('Resize', opset).inputs` names them.",
        "An input that is not used has an empty name or, at opset 11, an empty constant. Collect what the "
        "file stores: `model.graph.initializer`, and `attribute[0].t` of Constant nodes; "
        "`onnx.numpy_helper.to_array` reads both.",
        "In every model here it is the last input: `number = len(node.input) - 1`. "
        "With `stored = {name: tensor}` the second part is "
        "`to_array(stored[name]).tolist() if name in stored else None`.",
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
)
