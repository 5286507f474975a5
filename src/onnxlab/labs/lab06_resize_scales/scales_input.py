"""Exercise: find the input of Resize that says how large the result becomes, and what is stored for it.

What the statement asks, and where it is drawn:

* the number of the input at opsets 10, 11, 13 and 20: scales or sizes, alone, after a roi that is used, or
  before an unused input, which has an empty name or is an empty tensor (an initializer or a Constant);
* the numbers stored for it in an initializer or a Constant (value, value_floats, value_ints), in full;
* None where other nodes compute it, even from what is stored, or where it is an input of the model;
* nodes and Constants after the Resize, names that begin with one another, another domain's opset first;
* the models are asked about in a drawn order, some twice.

Not drawn: an initializer that is also an input of the model, a Constant with another attribute.
"""

from typing import Any

import numpy as np
import onnx
import torch
from onnx import parser

from onnxlab.exporters.export import Exporter, export
from onnxlab.kit.exercise import Answers
from onnxlab.kit.outcome import Wrong
from onnxlab.kit.rewriting import Question
from onnxlab.kit.work import Work
from onnxlab.message import Message

_TEXT = """<ir_version: 8, opset_import: [%(first)s"" : %(opset)s]>
net (float[1, 3, h, w] x%(inputs)s) => (float[1, 3, h2, w2] out)
<float[3] shift = {0.5, 1.5, 2.5}%(stored)s> {
    sides = Constant <value = int64[2] {1, 2}> ()
    column = Unsqueeze (shift, sides)
    moved = Add (x, column)
    %(body)s
    k_after = Constant <value_floats = [1.0, 1.0, 7.0, 7.0]> ()
    out = Relu (y)
}"""

_ASKED_TWICE = 3  # models


class _Enlarged(torch.nn.Module):
    """Interpolates as the options say; it is exported at several opsets."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - handed to torch as they are
        super().__init__()
        self.options = options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(torch.relu(x), **self.options)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask about each model."""
    questions = draw_questions(random)
    pairs: list[object] = [None] * len(questions)
    for number in [*random.permutation(len(questions)), *random.permutation(len(questions))[:_ASKED_TWICE]]:
        with questions[number].as_case():
            answer = answers["scales_input"](*questions[number].copies())
            if not isinstance(answer, tuple | list) or len(answer) != 2:
                got = Message("None") if answer is None else f"{type(answer).__name__} ({str(answer)[:60]})"
                msg = Message("scales_input() returned {got}; a pair was expected.", got=got)
                raise Wrong(msg, "The number of an input, then a list of numbers or None.")
        pairs[number] = [_plain(value) for value in answer]
    work.write_json("answers", pairs)


def draw_questions(random: np.random.Generator) -> list[Question]:
    """Draw models with one Resize each, whose size or factor is stored, computed or an input."""
    high, wide, a, b = (round(float(factor), 5) for factor in random.uniform(0.6, 5, size=4))
    rows, columns = (int(size) for size in random.integers(5, 3000, size=2))
    acme = int(random.integers(30, 99))
    resize = 'y = Resize <mode = "cubic">'
    computed = f"two = Constant <value_floats = [{a}]> () both = Mul (k, two) {resize} (moved, , both)"
    crop = 'coordinate_transformation_mode = "tf_crop_and_resize"'
    cropped = f'y = Resize <mode = "linear", {crop}> (moved, k, kk)'
    roi = ", float[8] k = {0, 0, 0.25, 0.25, 1, 1, 0.75, 0.75}"
    models = [
        (Message("exported at opset 13"), _exported(13, scale_factor=(high, wide), mode="bicubic")),
        (Message("exported at opset 11"), _exported(11, scale_factor=a, mode="bilinear")),
        (
            Message("an initializer"),
            _written(f"{resize} (moved, , k)", stored=f", float[4] k = {{1, 1, {b}, {a}}}"),
        ),
        (Message("an input of the model"), _written(f"{resize} (moved, , k)", inputs=", float[4] k")),
        (Message("computed"), _written(computed, inputs=", float[4] k")),
        (
            Message("a size as an initializer"),
            _written(f"{resize} (moved, , , k)", stored=f", int64[4] k = {{1, 3, {rows}, {columns}}}"),
        ),
        (
            Message("an unused input after it has an empty name"),
            _written(f'{resize} (moved, , k, "")', stored=f", float[4] k = {{1, 1, {a}, {high}}}"),
        ),
        (
            Message("a Constant with value_floats"),
            _written(f"k = Constant <value_floats = [1.0, 1.0, {b}, {wide}]> ()\n    {resize} (moved, , k)"),
        ),
        (
            Message("a Constant with value_ints"),
            _written(f"k = Constant <value_ints = [1, 3, {columns}, 7]> ()\n    {resize} (moved, , , k)"),
        ),
        (
            Message("two axes only"),
            _written(
                'y = Resize <mode = "cubic", axes = [2, 3]> (moved, , k)',
                stored=f", float[2] k = {{{high}, {b}}}",
            ),
        ),
        (
            Message("made by a node from what is stored"),
            _written(
                f"both = Identity (k)\n    {resize} (moved, , both)",
                stored=f", float[4] k = {{1, 1, {b}, {high}}}",
            ),
        ),
        (
            Message("another domain's opset comes first"),
            _written(
                f"{resize} (moved, none, k)",
                stored=f", float[0] none = {{}}, float[4] k = {{1, 1, {wide}, {a}}}",
                first=f'"ai.onnx.ml" : {int(random.integers(1, 4))}, ',
                opset=13,
            ),
        ),
        (
            Message("an input of the model at opset 10, and another domain's opset comes first"),
            _written(
                'y = Resize <mode = "linear"> (moved, k)',
                inputs=", float[4] k",
                first=f'"acme" : {acme}, ',
                opset=10,
            ),
        ),
        (
            Message("an unused input after it is an empty tensor"),
            _written(
                f"{resize} (moved, none, k, k_empty)",
                stored=f", float[0] none = {{}}, float[4] k = {{1, 1, {wide}, {a}}}, int64[0] k_empty = {{}}",
                opset=11,
            ),
        ),
        (
            Message("an unused input after it is an empty Constant"),
            _written(
                "k_empty = Constant <value = int64[0] {}> ()\n none = Constant <value = float[0] {}> ()\n"
                f"{resize} (moved, none, k, k_empty)",
                stored=f", float[4] k = {{1, 1, {a}, {b}}}",
                opset=11,
            ),
        ),
        (
            Message("a roi that is used"),
            _written(cropped, stored=f"{roi}, float[4] kk = {{1, 1, {b}, {wide}}}", opset=13),
        ),
        (
            Message("a roi that is used, and scales that are an input"),
            _written(cropped, ", float[4] kk", roi),
        ),
        (
            Message("a roi for two axes only"),
            _written(
                cropped.replace("Resize <", "Resize <axes = [2, 3], "),
                stored=f", float[4] k = {{0.25, 0.25, 0.75, 0.75}}, float[2] kk = {{{high}, {a}}}",
            ),
        ),
        (Message("exported with a size"), _exported(11, size=(rows, columns), mode="bicubic")),
        (Message("exported at opset 10"), _exported(10, scale_factor=b, mode="nearest")),
    ]
    return [Question(where, model) for where, model in models]


def _exported(opset: int, **options: Any) -> onnx.ModelProto:  # noqa: ANN401 - as above
    x = torch.zeros(1, 3, 8, 10)
    return export(_Enlarged(**options), x, Exporter.TORCHSCRIPT, opset_version=opset, run=False).proto


def _written(
    body: str, inputs: str = "", stored: str = "", first: str = "", opset: int = 20
) -> onnx.ModelProto:
    parts = {"inputs": inputs, "stored": stored, "body": body, "first": first, "opset": opset}
    model: onnx.ModelProto = parser.parse_model(_TEXT % parts)
    return model


def _plain(value: object) -> object:
    """Make a list of an array, a tensor, a tuple or a repeated field of protobuf, of Python's own numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
        return value
    return [number.item() if isinstance(number, np.generic) else number for number in value]
