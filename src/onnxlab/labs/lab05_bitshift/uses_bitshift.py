"""Exercise: for which types and opsets the exporter's own rule writes BitShift."""

import functools

import numpy as np
import torch

from onnxlab.exporters.export import Exporter, export
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import require_type
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab05_bitshift.shifts import INTEGERS, Shift, type_name
from onnxlab.model.graph import op_types

__all__ = ["EXERCISE"]

_SINCE = 11  # where ONNX begins to have the operator; asked about on both sides


def _questions(random: np.random.Generator) -> list[tuple[torch.dtype, int]]:
    """Each type at the opsets round the border, at the last, and at two more; uint8 at every one."""
    asked = []
    for dtype in INTEGERS:
        more = list(range(_SINCE + 1, 20))
        if dtype is not torch.uint8:
            more = sorted(random.choice(more, 2, replace=False).tolist())
        asked += [(dtype, opset) for opset in (20, _SINCE, *more, _SINCE - 1, 9)]
    return asked


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask for each type and opset."""
    given = []
    for dtype, opset in _questions(random):
        with trying(f"{dtype} at opset {opset}", dtype=dtype, opset=opset):
            value = answers["uses_bitshift"](dtype, opset)
            value = bool(value) if isinstance(value, np.bool_) else value
            require_type(value, bool, f"uses_bitshift({dtype}, {opset})")
        given.append(value)
    work.write_json("given", given)


def judge_types(work: Work, random: np.random.Generator) -> None:
    """At opsets where ONNX has the operator."""
    _judge(work, later=True, look_at="Export x >> k for this type and look at the graph.")


def judge_opsets(work: Work, random: np.random.Generator) -> None:
    """At opsets where it does not exist yet."""
    look = "Since which opset is there a BitShift? onnx.defs.get_schema('BitShift', 20).since_version says."
    _judge(work, later=False, look_at=look)


def _judge(work: Work, *, later: bool, look_at: str) -> None:
    asked, given = _questions(work.questions()), work.json("given")
    if not isinstance(given, list) or len(given) != len(asked):
        msg = f"given.json does not hold {len(asked)} answers."
        raise Wrong(msg)
    for (dtype, opset), answer in zip(asked, given, strict=True):
        written = _written(dtype, opset)
        right = "BitShift" in written
        if (opset >= _SINCE) == later and answer is not right:
            what = f"{type_name(dtype)} at opset {opset}"
            msg = f"{what}: the answer is {answer}, and the exporter writes {', '.join(written)}."
            with trying(f"{dtype} at opset {opset}", dtype=dtype, opset=opset):
                raise Wrong(msg, look_at, difference=Difference(what, str(right), str(answer)))


@functools.cache
def _written(dtype: torch.dtype, opset: int) -> tuple[str, ...]:
    """The operators that the exporter really writes, constants left out."""
    example = torch.ones(2, dtype=dtype)
    result = export(Shift(), (example, example), Exporter.TORCHSCRIPT, run=False, opset_version=opset)
    return tuple(name for name in op_types(result) if name != "Constant")


EXERCISE = Exercise(
    order=1,
    id="uses-bitshift",
    title="Say when the exporter's rule writes BitShift",
    points=2,
    answers=("uses_bitshift",),
    produce=produce,
    parts=(
        Part("right for every type, where ONNX has BitShift", judge_types),
        Part("right for every type, at earlier opsets", judge_opsets),
    ),
    hints=(
        "You can read the rule (chapter 07, section 8), or you can look at what an export writes.",
        "`Shift`, at the top of the lab, can be exported: `export(Shift(), (x, k), Exporter.TORCHSCRIPT, "
        "opset_version=opset)`. `op_types` lists the operators of the result.",
        "Make two ones of the type, export `Shift()` with them at the opset, and return "
        '`"BitShift" in op_types(result)`. Or read the rule: one type only, and only since one opset.',
    ),
)
