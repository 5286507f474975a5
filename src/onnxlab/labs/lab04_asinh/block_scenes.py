"""What is exported in, after and around the blocks of a learner's context manager."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# The public name of torch.onnx.register_custom_op_symbolic is not typed.
from torch.onnx._internal.torchscript_exporter import utils

from onnxlab.facts.export import Export, Exporter, export
from onnxlab.facts.symbolics import own_rules, restored_rules
from onnxlab.labs.blame import own_line
from onnxlab.labs.exercise import Answers
from onnxlab.labs.outcome import Wrong
from onnxlab.labs.work import Work

__all__ = ["MARKERS", "Call", "Questions", "export_call", "produce", "refusal"]

_WITHOUT_RULE = {"asinh": "Asinh", "sinh": "Sinh", "acosh": "Acosh", "atanh": "Atanh", "cosh": "Cosh"}
_WITH_RULE = ("relu", "sigmoid", "tanh", "exp", "sqrt")
# What the rules write here. It is wrong on purpose: the numbers show which rule an export has used.
MARKERS = {"Neg": torch.neg, "Abs": torch.abs, "Floor": torch.floor, "Ceil": torch.ceil, "Sin": torch.sin}


class Call(torch.nn.Module):
    """The module that is exported: one operator.

    Args:
        name: The function's name in torch, as "asinh".
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape, float32."""
        result: torch.Tensor = getattr(torch, self.name)(x)
        return result


@dataclass(frozen=True)
class Questions:
    """What the blocks are about.

    Attributes:
        unknown: A function whose operator has no rule.
        known: One whose operator has a rule.
        first: What the first rule of a learner's block writes.
        second: What another rule writes.
    """

    unknown: str
    known: str
    first: str
    second: str

    @classmethod
    def drawn(cls, random: np.random.Generator) -> "Questions":
        """Draw them."""
        first, second = map(str, random.choice(list(MARKERS), 2, replace=False))
        unknown, known = random.choice(list(_WITHOUT_RULE)), random.choice(_WITH_RULE)
        return cls(str(unknown), str(known), first, second)


class _Interruption(Exception):
    """What goes wrong inside a block."""


@own_rules()  # a rule that the notebook left registered is not what the exercise is about
def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export in, after and around blocks of the learner's context manager."""
    asked = Questions.drawn(random)
    first, second = _writes(asked.first), _writes(asked.second)
    unknown, known = f"aten::{asked.unknown}", f"aten::{asked.known}"

    def safely(operator: str, rule: Callable[..., Any], opset: int = 9) -> AbstractContextManager[object]:
        block = answers["safely_registered"](operator, rule, opset)
        if not (hasattr(type(block), "__enter__") and hasattr(type(block), "__exit__")):
            msg = f"safely_registered() returned {type(block).__name__}; a context manager was expected."
            raise Wrong(msg, "`with` needs __enter__ and __exit__; contextlib makes them from a generator.")
        managed: AbstractContextManager[object] = block
        return managed

    with restored_rules():
        with safely(unknown, first):
            _attempt(work, "inside", asked.unknown, 9)
            _attempt(work, "inside-later", asked.unknown, 13)
        _attempt(work, "after", asked.unknown, 9)
    with restored_rules(), safely(unknown, _writes(_WITHOUT_RULE[asked.unknown])):
        _attempt(work, "below", asked.unknown, 8, refused=True)
    with restored_rules():
        with safely(known, first):
            _attempt(work, "instead", asked.known, 9)
        _attempt(work, "known-after", asked.known, 9)
    with restored_rules():
        for opset in (9, 13):
            utils.register_custom_op_symbolic(unknown, second, opset)
        with safely(unknown, first):
            _attempt(work, "over-earlier", asked.unknown, 9)
        _attempt(work, "earlier-after", asked.unknown, 9)
        _attempt(work, "earlier-after-13", asked.unknown, 13)
    with restored_rules():
        came_out = False
        try:
            with safely(unknown, first):
                raise _Interruption
        except _Interruption:
            came_out = True
        work.write_json("came-out", came_out)
        _attempt(work, "after-error", asked.unknown, 9)
    with restored_rules():
        with safely(unknown, first):
            with safely(unknown, second):
                _attempt(work, "inner", asked.unknown, 9)
            _attempt(work, "outer", asked.unknown, 9)
        _attempt(work, "after-both", asked.unknown, 9)


def _writes(operator: str) -> Callable[..., Any]:
    return lambda g, x: g.op(operator, x)


def export_call(name: str, opset: int) -> Export:
    """Export a function at an opset with whatever rules there are."""
    options: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": [0, 1]}}
    return export(
        Call(name), torch.ones(2, 3), Exporter.TORCHSCRIPT, run=False, opset_version=opset, **options
    )


def _attempt(work: Work, file: str, name: str, opset: int, *, refused: bool = False) -> None:
    result = export_call(name, opset)
    if result.model is not None:
        work.write_model(file, result.model)
        return
    assert result.failure is not None
    if not refused and result.failure.exception is not None and own_line(result.failure.exception):
        raise result.failure.exception
    work.write_json(file, refusal(result))


def refusal(result: Export) -> str:
    """Return in one line why an export failed."""
    failure = result.failure
    return f"{failure.error}: {failure.message.partition(chr(10))[0]}" if failure else ""
