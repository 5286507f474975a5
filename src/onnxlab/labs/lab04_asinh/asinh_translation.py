"""Exercise: asinh for the torch.export exporter, for a type that the runtime's kernel does not take."""

from collections.abc import Sequence

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import axis_options, exported_with_translation
from onnxlab.labs.kit.judging import expected_model, require_dynamic, require_numbers, require_valid
from onnxlab.labs.kit.samples import every_size, floats, normal
from onnxlab.labs.kit.work import Work

__all__ = ["EXERCISE", "TwoTypes"]

_AXES = {"x": {0: "n", 1: "m"}, "wide": {0: "n", 1: "m"}}
_ORDERS = (("wide", "x", "-x", "-wide"), ("wide", "-wide", "x", "-x"), ("-wide", "x", "wide", "-x"))


class TwoTypes(torch.nn.Module):
    """The module that is exported: the same operator for two element types.

    Args:
        calls: What the operator is called for, in order: an answer that counts its calls cannot know it.
    """

    def __init__(self, calls: Sequence[str]) -> None:
        super().__init__()
        self.calls = tuple(calls)

    def forward(self, x: torch.Tensor, wide: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """`x` is float32, `wide` float64; both have the same shape."""
        values = {"x": x, "wide": wide, "-x": -x, "-wide": -wide}
        return tuple(torch.asinh(values[call]) for call in self.calls)


def questions(random: np.random.Generator) -> TwoTypes:
    """Return the module with its calls in a drawn order."""
    return TwoTypes(_ORDERS[int(random.integers(len(_ORDERS)))])


def _expected(work: Work) -> bytes:
    lines, outputs = [], []
    for number, call in enumerate(questions(work.questions()).calls):
        name, kind = call.lstrip("-"), "double" if call.endswith("wide") else "float"
        lines.append(f"v{number} = {'Neg' if call[0] == '-' else 'Identity'}({name})")
        lines.append(f"n{number} = Cast<to = 1>(v{number}) a{number} = Asinh(n{number})")
        lines.append(f"y{number} = Cast<to = {11 if kind == 'double' else 1}>(a{number})")
        outputs.append(f"{kind}[N, M] y{number}")
    return expected_model(f"""<ir_version: 10, opset_import: ["" : 20]>
        asinh (float[N, M] x, double[N, M] wide) => ({", ".join(outputs)}) {{ {" ".join(lines)} }}""")


def _pair(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return values, values.double().flip(0)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the module with the learner's translation."""
    module = questions(random)
    table = {torch.ops.aten.asinh.default: answers["asinh_translation"]}
    options = axis_options(Exporter.TORCH_EXPORT, _AXES)
    exported_with_translation(work, "asinh", table, module, _pair(normal(random, 2, 3)), **options)


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, with kernels for all that is in it, and still dynamic."""
    model = work.model("asinh")
    require_valid(model)
    require_dynamic(model, _AXES)


def judge_numbers(work: Work, random: np.random.Generator) -> None:
    """Ordinary numbers, at several shapes."""
    shapes = [(1, 1), (2, 3), (3, 4), (5, 2), tuple(int(size) for size in random.integers(6, 60, 2))]
    inputs = [_pair(normal(random, *shape)) for shape in shapes]
    look = "Evaluate your function by hand for the input shown. Which type has each value on the way?"
    require_numbers(questions(work.questions()), work.model("asinh"), inputs, look_at=look)


def judge_edges(work: Work, random: np.random.Generator) -> None:
    """Numbers for which a formula or a narrow type overflows or cancels: each to 1e-4 of its own value."""
    drawn = (*every_size(random, -30, 30), floats(random, 4, 8), -floats(random, 8, 4))
    inputs = [_pair(values) for values in drawn]
    look = (
        "How large, or how small, are the intermediate values for the input shown, and which type "
        "must hold them?"
    )
    require_numbers(questions(work.questions()), work.model("asinh"), inputs, 0.0, 1e-4, look_at=look)


EXERCISE = Exercise(
    order=3,
    id="asinh-translation",
    title="Translate asinh for the torch.export exporter, float64 included",
    points=4,
    answers=("asinh_translation",),
    produce=produce,
    torch_export=True,
    parts=(
        Part("a valid model that ONNX Runtime loads", judge_model),
        Part("right for ordinary numbers, in both types, at any shape", judge_numbers),
        Part("right for tiny, huge, infinite and negative numbers", judge_edges),
    ),
    hints=(
        "A translation calls ONNX operators as Python functions. ONNX Runtime has a kernel for Asinh of "
        "float32 only: what could stand before and after it?",
        "`op.Cast(x, to=...)` with a number of `onnx.TensorProto`, and `op.CastLike(y, x)` back to x's type.",
        "`return op.CastLike(op.Asinh(op.Cast(x, to=onnx.TensorProto.FLOAT)), x)`",
    ),
    expected=_expected,
)
