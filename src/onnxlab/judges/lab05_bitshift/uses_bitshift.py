"""What is right in uses-bitshift, part by part."""

import functools

import numpy as np
import torch

from onnxlab.exporters.export import Exporter, export
from onnxlab.kit.exercise import Judges
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.work import Work
from onnxlab.labs.lab05_bitshift.shifts import Shift, type_name
from onnxlab.labs.lab05_bitshift.uses_bitshift import SINCE, case, draw_questions
from onnxlab.message import Message
from onnxlab.model.graph import op_types


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
    questions = draw_questions(work.questions())
    for (dtype, opset), answer in zip(questions, work.answers("given", len(questions)), strict=True):
        written = _exported_operators(dtype, opset)
        expected = "BitShift" in written
        if (opset >= SINCE) == has_bitshift and answer is not expected:
            what = Message("{type_name} at opset {opset}", type_name=type_name(dtype), opset=opset)
            msg = Message(
                "{subject}: the answer is {answer}, and the exporter writes {written}.",
                subject=what,
                answer=answer,
                written=", ".join(written),
            )
            with case(dtype, opset):
                raise Wrong(msg, look_at, difference=Difference(what, str(expected), str(answer)))


@functools.cache
def _exported_operators(dtype: torch.dtype, opset: int) -> tuple[str, ...]:
    """Return the operators of an exported shift, constants left out."""
    example = torch.ones(2, dtype=dtype)
    result = export(Shift(), (example, example), Exporter.TORCHSCRIPT, run=False, opset_version=opset)
    return tuple(name for name in op_types(result) if name != "Constant")


JUDGES = Judges((judge_types, judge_opsets))
