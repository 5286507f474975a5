"""Exercise lower-for: convert a model for an older runtime, or raise where its numbers would change.

What the statement says, and the drawn models that reach it:

- Neither version above its limit: both limits are drawn, each by itself; one is met exactly, or kept already.
- The opset is that of ONNX's domain: other domains are listed before and after it, with a higher number.
- The same numbers, all of them, at every size; a version that is low enough may stay: upwards numbers can
  change.
- Functions: one that calls another, and a device from before there were any.
- ValueError where the converter refuses, writes an invalid file, or changes the numbers.
- What the converter can lower is not refused, nor is a Softmax whose numbers stay.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import numpy_helper, parser

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.message import Message
from onnxlab.model.distance import Array


@dataclass(frozen=True, kw_only=True)
class Lowering(Question):
    """A model for an older runtime, and the runtime's limits."""

    newest_ir: int
    newest_opset: int
    x: Array

    @property
    def arguments(self) -> dict[str, Any]:
        """The model, the newest versions that the runtime knows, and an input."""
        limits = {"newest_ir": self.newest_ir, "newest_opset": self.newest_opset}
        return {"model": self.model, **limits, "x": self.x}


_RECENT = (19, 17, 15)
_MISH = """ <domain: "acme", opset_import: ["" : %d]>
Mish (x) => (y) { s = Softplus (x) t = Tanh (s) y = Mul (x, t) }"""
_TWICE = """ <domain: "acme", opset_import: ["" : 20, "acme" : 1]>
Twice (x) => (y) { s = acme.Mish (x) y = Add (s, s) }"""
_ALREADY_LOWER = (
    "Was the version lower already? Then it stays: a conversion upwards can change numbers as well."
)
FUNCTION = (
    "What is left of model.functions after the conversion? "
    "`onnx.inliner` writes a body in place of each call."
)


@dataclass(frozen=True)
class _Kind:
    """A kind of model to lower.

    Attributes:
        where: What it is an example of, for messages.
        text: The model in ONNX's text form.
        look_at: Where to look if it is lowered wrongly.
        opsets: The newest opsets to choose from.
        ir_versions: The newest IR versions to choose from.
        possible: Whether the converter can lower it.
    """

    where: str
    text: str
    look_at: str
    opsets: tuple[int, ...] = _RECENT
    ir_versions: tuple[int, ...] = (5, 6, 7, 8, 9)
    possible: bool = True


_KINDS = (
    _Kind(Message("Both versions are too new"), '<ir_version: 10, opset_import: ["" : 20]> '
        "net (float[n, 3] x) => (float[n, 1] y) <int64[1] last = {1}> "
        "{ h = MatMul (x, w) t = Tanh (h) y = ReduceMean (t, last) }",
        "What did ReduceMean take for its axes before opset 18? A stamp alone changes no node.",
        opsets=(17, 15)),
    _Kind(Message("Only the IR version is too new"), '<ir_version: 10, opset_import: ["" : 15, "acme" : 77]> '
        "net (float[n, 3] x) => (float[n, 3] y) { h = MatMul (x, w) y = Relu (h) }", _ALREADY_LOWER),
    _Kind(Message("Only the opset is too new, by far"), '<ir_version: 7, opset_import: ["" : 20]> '
        "net (float[n, 3] x) => (float[n, 3] y) { h = Sin (x) y = Selu (h) }",
        "Which of the two versions did the converter change?", opsets=(10, 9), ir_versions=(7, 8, 9)),
    _Kind(Message("Both versions are low enough; a Resize of opset 10"),
        '<ir_version: 5, opset_import: ["" : 10, "acme" : 50]> '
        "net (float[n, 1, 3] x) => (float[n, 1, 6] y) <float[3] by = {1, 1, 2}> "
        '{ y = Resize <mode = "linear"> (x, by) }', _ALREADY_LOWER),
    _Kind(Message("The first opset in the list is that of ai.onnx.ml"),
        '<ir_version: 10, opset_import: ["ai.onnx.ml" : 3, "" : 20]> '
        "net (float[n, 3] x) => (float[n, 3] y) "
        "{ h = MatMul (x, w) y = ai.onnx.ml.Scaler <offset = [0.5, 0.25, 2.0], scale = [2.0, 3.0, 4.0]> "
        "(h) }",
        "model.opset_import is a list with one entry for each domain. Which entry is it that counts?"),
    _Kind(
        Message("A function of the model's own"),
        '<ir_version: 10, opset_import: ["" : 20, "acme" : 1]> '
        "net (float[n, 3] x) => (float[n, 3] y) { h = MatMul (x, w) y = acme.Twice (h) }"
        + _TWICE
        + _MISH % 20,
        FUNCTION,
    ),
    _Kind(Message("A function, for a runtime from before there were functions"),
        '<ir_version: 10, opset_import: ["" : 14, "acme" : 1]> '
        "net (float[n, 3] x) => (float[n, 3] y) { h = MatMul (x, w) y = acme.Mish (h) }" + _MISH % 14,
        FUNCTION, opsets=(14,), ir_versions=(6, 7)),
    _Kind(Message("A Softmax over the last axis, for an opset below 13"),
        '<ir_version: 8, opset_import: ["" : 13]> '
        "net (float[n, 4, 3] x) => (float[n, 4, 3] y) { h = LeakyRelu (x) y = Softmax (h) }",
        "Run it: what does x give before, and after? Over the last axis Softmax did not change.",
        opsets=(12, 11)),
    _Kind(Message("A Gelu, which is new in opset 20"), '<ir_version: 10, opset_import: ["" : 20]> '
        "net (float[n, 3] x) => (float[n, 3] y) { h = MatMul (x, w) y = Gelu (h) }",
        "What does the converter raise here, and what was asked for?", possible=False),
    _Kind(Message("A ReduceMean with an attribute of opset 18"), '<ir_version: 8, opset_import: ["" : 18]> '
        "net (float[n, 3] x) => (float[n, 1] y) <int64[1] last = {1}> "
        "{ y = ReduceMean <noop_with_empty_axes = 0> (x, last) }",
        "Which check finds what the converter wrote here? Run it before you return.", opsets=(17, 15),
        possible=False),
    _Kind(Message("A Softmax over axis 1 of four, for an opset below 13, whose first number stays"),
        '<ir_version: 8, opset_import: ["" : 13]> '
        "net (float[n, 4, 3, 1] x) => (float[n, 4, 3, 1] y) <float[3] by = {0, 1, 1}> "
        '{ h = Softmax <axis = 1> (x) y = Einsum <equation = "nchw,h->nchw"> (h, by) }',
        "No check of the file finds this. What does x give before, and after?", opsets=(12,), possible=False),
    _Kind(Message("A Softmax over axis 1, normalised afterwards: the sum stays"),
        '<ir_version: 8, opset_import: ["" : 13]> ' "net (float[n, 4, 3] x) => (float[n, 4, 3] y) "
        "<float[4] one = {1, 1, 1, 1}, float[4] nil = {0, 0, 0, 0}> "
        "{ h = Softmax <axis = 1> (x) y = InstanceNormalization (h, one, nil) }",
        "No check of the file finds this. What does x give before, and after?", opsets=(12, 11),
        possible=False),
    _Kind(Message("A LogSoftmax over the batch, for an opset below 13"),
        '<ir_version: 7, opset_import: ["acme" : 13, "" : 13]> '
        "net (float[n, 3] x) => (float[n, 3] y) { h = Selu (x) y = LogSoftmax <axis = 0> (h) }",
        "No check of the file finds this. What does x give before, and after?", opsets=(12, 9),
        possible=False),
)  # fmt: skip


def _lowerings(random: np.random.Generator) -> Iterator[Lowering]:
    """Draw a model of each kind, its limits, and an input."""
    for kind in _KINDS:
        model = parser.parse_model(kind.text)
        if "(x, w)" in kind.text:
            weight = random.normal(size=(3, 3)).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
        newest_ir, newest_opset = (int(random.choice(limits)) for limits in (kind.ir_versions, kind.opsets))
        _, *sizes = model.graph.input[0].type.tensor_type.shape.dim
        x = random.normal(size=(2, *(size.dim_value for size in sizes))).astype(np.float32)
        versions = {"newest_ir": newest_ir, "newest_opset": newest_opset}
        yield Lowering(kind.where, model, kind.look_at, kind.possible, **versions, x=x)


ASKS = Rewriting("lower_for", "lowered", _lowerings, mendable=True)

produce = ASKS.produce
