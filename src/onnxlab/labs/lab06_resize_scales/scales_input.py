"""Exercise: find the input of Resize that says how large the result becomes, and what is stored for it."""

from contextlib import AbstractContextManager
from typing import Any, NoReturn, TypeAlias

import numpy as np
import onnx
import torch
from onnx import numpy_helper, parser

from onnxlab.exporters.export import Exporter, export
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.judging import evidence
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work

__all__ = ["EXERCISE"]

Model: TypeAlias = tuple[str, onnx.ModelProto]

_TEXT = """<ir_version: 8, opset_import: [%(first)s"" : %(opset)s]>
net (float[1, 3, h, w] x%(inputs)s) => (float[1, 3, h2, w2] y)
<float[3] shift = {0.5, 1.5, 2.5}%(stored)s> {
    sides = Constant <value = int64[2] {1, 2}> ()
    column = Unsqueeze (shift, sides)
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
    for what, model in _models(random):
        with _tried(what, model):
            answer = answers["scales_input"](onnx.ModelProto.FromString(model.SerializeToString()))
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            got = "None" if answer is None else f"{type(answer).__name__} ({str(answer)[:60]})"
            msg = f"scales_input() returned {got}; a pair was expected."
            with _tried(what, model):
                raise Wrong(msg, "The number of an input, then a list of numbers or None.")
        found.append([_plain(part) for part in answer])
    work.write_json("answers", found)


def _tried(what: str, model: onnx.ModelProto) -> AbstractContextManager[None]:
    return trying(f"the case {what!r}", model=model)


def judge_number(work: Work, random: np.random.Generator) -> None:
    """Which input it is."""
    msg = "Another input of Resize says how large the result becomes."
    look = "List the names in node.input of this model: which are empty, or hold an empty tensor?"
    for (what, model), (number, _) in zip(_models(work.questions()), _answers(work), strict=True):
        right, _ = _right(model)
        if type(number) is not int or number != right:
            _refute(what, model, msg, look, right, number)


def judge_values(work: Work, random: np.random.Generator) -> None:
    """What the file stores for it."""
    msg = "These are not the numbers that the file stores for this input."
    look = "Who makes the value: an initializer, a Constant node, another node, or whoever runs it?"
    for (what, model), (_, values) in zip(_models(work.questions()), _answers(work), strict=True):
        _, right = _right(model)
        if not _same(values, right):
            _refute(what, model, msg, look, right, values)


def _refute(what: str, model: onnx.ModelProto, msg: str, look: str, right: object, got: object) -> NoReturn:
    [node] = _resizes(model)
    call = f"Resize({', '.join(name or '-' for name in node.input)})"
    difference = Difference(f"{what}: {call}", str(right)[:80], str(got)[:80])
    with _tried(what, model):
        raise Wrong(msg, look, difference=difference, evidence=evidence(model, None, "Resize"))


def _resizes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type == "Resize"]


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
        (
            "an unused input behind it has an empty name",
            _written(f'{resize} (moved, , k, "")', stored=f", float[4] k = {{1, 1, {a}, {high}}}"),
        ),
        (
            "a Constant with value_floats",
            _written(f"k = Constant <value_floats = [1.0, 1.0, {b}, {wide}]> ()\n    {resize} (moved, , k)"),
        ),
        (
            "a Constant with value_ints",
            _written(f"k = Constant <value_ints = [1, 3, {columns}, 7]> ()\n    {resize} (moved, , , k)"),
        ),
        (
            "two axes only",
            _written(
                'y = Resize <mode = "cubic", axes = [2, 3]> (moved, , k)',
                stored=f", float[2] k = {{{high}, {b}}}",
            ),
        ),
        (
            "made by a node from what is stored",
            _written(
                f"both = Identity (k)\n    {resize} (moved, , both)",
                stored=f", float[4] k = {{1, 1, {b}, {high}}}",
            ),
        ),
        (
            "another domain's opset comes first",
            _written(
                f"{resize} (moved, none, k)",
                stored=f", float[0] none = {{}}, float[4] k = {{1, 1, {wide}, {a}}}",
                first=f'"ai.onnx.ml" : {int(random.integers(1, 4))}, ',
                opset=13,
            ),
        ),
        ("exported with a size", _exported(11, size=(rows, columns), mode="bicubic")),
        ("exported at opset 10", _exported(10, scale_factor=b, mode="nearest")),
    ]


def _exported(opset: int, **options: Any) -> onnx.ModelProto:  # noqa: ANN401 - as above
    x = torch.zeros(1, 3, 8, 10)
    return export(_Enlarged(**options), x, Exporter.TORCHSCRIPT, opset_version=opset, run=False).proto


def _written(
    body: str, inputs: str = "", stored: str = "", first: str = "", opset: int = 20
) -> onnx.ModelProto:
    parts = {"inputs": inputs, "stored": stored, "body": body, "first": first, "opset": opset}
    model: onnx.ModelProto = parser.parse_model(_TEXT % parts)
    return model


def _right(model: onnx.ModelProto) -> tuple[int, list[float] | None]:
    [node] = _resizes(model)
    stored = {each.name: numpy_helper.to_array(each).tolist() for each in model.graph.initializer}
    for maker in model.graph.node:
        if maker.op_type == "Constant":
            value = onnx.helper.get_attribute_value(maker.attribute[0])
            tensor = isinstance(value, onnx.TensorProto)
            stored[maker.output[0]] = numpy_helper.to_array(value).tolist() if tensor else value
    [opset] = [each.version for each in model.opset_import if not each.domain]
    schema = onnx.defs.get_schema("Resize", opset)
    for number, (given, meant) in enumerate(zip(node.input, schema.inputs, strict=False)):
        if meant.name in ("scales", "sizes") and given:
            if given not in stored:
                return number, None
            if values := stored[given]:
                return number, list(values)
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


EXERCISE = Exercise(
    order=1,
    id="scales-input",
    title="Find the input of Resize that carries the factor",
    points=5,
    answers=("scales_input",),
    produce=produce,
    parts=(
        Part("the right input of Resize in every model", judge_number),
        Part("the numbers stored for it, or None", judge_values),
    ),
    hints=(
        "The inputs of Resize stand in a fixed order, but the order of opset 10 is not that of opset 11. "
        "`onnx.defs.get_schema('Resize', opset).inputs` names them.",
        "An input that is not used has an empty name, or is an empty tensor. Collect what the file stores by "
        "name: `model.graph.initializer`, and the attribute of Constant nodes: `value`, `value_floats` or "
        "`value_ints`. `onnx.helper.get_attribute_value` reads each, `onnx.numpy_helper.to_array` a tensor.",
        "In every model here it is the last input that is used: with `stored = {name: list of numbers}`, "
        "`number = max(i for i, name in enumerate(node.input) if name and stored.get(name) != [])`, and the "
        "second part is `stored.get(node.input[number])`.",
    ),
)
