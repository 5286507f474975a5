"""Exercise: for which types and opsets the exporter's own rule writes BitShift.

What the statement asks: the right answer for each type at opsets 9 to 20. uint8 is asked about at each of
them, the other types at six; in a drawn order.
"""

import functools
from contextlib import AbstractContextManager

import numpy as np
import torch

from onnxlab.exporters.export import Exporter, export
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import require_type
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab05_bitshift.shifts import INTEGERS, Shift, type_name
from onnxlab.model.graph import op_types

__all__ = ["JUDGES", "produce"]

_SINCE = 11  # the first opset that has BitShift


def _questions(random: np.random.Generator) -> list[tuple[torch.dtype, int]]:
    """Pair uint8 with every opset from 9 to 20, and each other type with six of them."""
    questions = []
    for dtype in INTEGERS:
        later = list(range(_SINCE + 1, 20))
        if dtype is not torch.uint8:
            later = sorted(random.choice(later, 2, replace=False).tolist())
        questions += [(dtype, opset) for opset in (20, _SINCE, *later, _SINCE - 1, 9)]
    return questions


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask about each type and opset."""
    questions = _questions(random)
    replies: list[object] = [None] * len(questions)
    for number in random.permutation(len(questions)):
        dtype, opset = questions[number]
        with _case(dtype, opset):
            reply = answers["uses_bitshift"](dtype, opset)
            reply = bool(reply) if isinstance(reply, np.bool_) else reply
            require_type(reply, bool, f"uses_bitshift({dtype}, {opset})")
        replies[number] = reply
    work.write_json("given", replies)


def _case(dtype: torch.dtype, opset: int) -> AbstractContextManager[None]:
    return trying(f"{dtype} at opset {opset}", dtype=dtype, opset=opset)


def judge_types(work: Work, random: np.random.Generator) -> None:
    """Require right answers for the opsets that have BitShift."""
    _require_replies(work, has_bitshift=True, look_at="Export x >> k for this type and look at the graph.")


def judge_opsets(work: Work, random: np.random.Generator) -> None:
    """Require right answers for the opsets that do not have BitShift yet."""
    look_at = (
        "Since which opset is there a BitShift? onnx.defs.get_schema('BitShift', 20).since_version says."
    )
    _require_replies(work, has_bitshift=False, look_at=look_at)


def _require_replies(work: Work, *, has_bitshift: bool, look_at: str) -> None:
    questions, replies = _questions(work.questions()), work.json("given")
    if not isinstance(replies, list) or len(replies) != len(questions):
        msg = f"given.json does not hold {len(questions)} answers."
        raise Wrong(msg)
    for (dtype, opset), answer in zip(questions, replies, strict=True):
        written = _exported_operators(dtype, opset)
        expected = "BitShift" in written
        if (opset >= _SINCE) == has_bitshift and answer is not expected:
            what = f"{type_name(dtype)} at opset {opset}"
            msg = f"{what}: the answer is {answer}, and the exporter writes {', '.join(written)}."
            with _case(dtype, opset):
                raise Wrong(msg, look_at, difference=Difference(what, str(expected), str(answer)))


@functools.cache
def _exported_operators(dtype: torch.dtype, opset: int) -> tuple[str, ...]:
    """Return the operators of an exported shift, constants left out."""
    example = torch.ones(2, dtype=dtype)
    result = export(Shift(), (example, example), Exporter.TORCHSCRIPT, run=False, opset_version=opset)
    return tuple(name for name in op_types(result) if name != "Constant")


JUDGES = Judges((judge_types, judge_opsets))
