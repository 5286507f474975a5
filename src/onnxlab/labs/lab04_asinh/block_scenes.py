"""What is exported in, after and around the blocks of a learner's context manager."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

# The public name of torch.onnx.register_custom_op_symbolic is not typed.
from torch.onnx._internal.torchscript_exporter import utils

from onnxlab.exporters.export import Export, Exporter, export
from onnxlab.exporters.symbolics import own_rules, restored_rules
from onnxlab.labs.kit.exercise import Answers
from onnxlab.labs.kit.exporting import own_line
from onnxlab.labs.kit.outcome import Wrong, trying
from onnxlab.labs.kit.work import Work

__all__ = [
    "ENDS",
    "MARKERS",
    "WITHOUT_RULE",
    "Call",
    "Questions",
    "block_of",
    "export_call",
    "produce",
    "refusal",
]

WITHOUT_RULE = {"asinh": "Asinh", "sinh": "Sinh", "acosh": "Acosh", "atanh": "Atanh", "cosh": "Cosh"}
"""Functions whose operators have no rule, and the ONNX operator of each."""

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

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Any shape, float32; as many inputs as the function has."""
        result: torch.Tensor = getattr(torch, self.name)(*inputs)
        return result


@dataclass(frozen=True)
class Questions:
    """What the blocks are about.

    Attributes:
        unknown: A function whose operator has no rule.
        known: One whose operator has a rule.
        first: What the first rule of a learner's block writes.
        second: What another rule writes.
        other: Another function whose operator has no rule.
        opset: The opset of a rule that does not begin at 9.
    """

    unknown: str
    known: str
    first: str
    second: str
    other: str
    opset: int

    @classmethod
    def drawn(cls, random: np.random.Generator) -> "Questions":
        """Draw them."""
        first, second = map(str, random.choice(list(MARKERS), 2, replace=False))
        unknown, other = map(str, random.choice(list(WITHOUT_RULE), 2, replace=False))
        known = str(random.choice(_WITH_RULE))
        return cls(unknown, known, first, second, other, int(random.integers(11, 15)))


class _Interruption(Exception):
    """What goes wrong inside a block."""


class _CtrlC(KeyboardInterrupt):
    """Ctrl+C inside a block; a class of its own, so that a learner's real one is not taken for it."""


class _Exit(SystemExit):
    """exit() inside a block."""


ENDS = {
    "error": ("an exception", _Interruption),
    "ctrl-c": ("Ctrl+C (KeyboardInterrupt)", _CtrlC),
    "exit": ("exit() (SystemExit)", _Exit),
}
"""How a block can end otherwise: the name of it in files, for a learner, and what is raised."""


@own_rules()  # a rule that the notebook left registered is not what the exercise is about
def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export in, after and around blocks of the learner's context manager."""
    asked = Questions.drawn(random)
    first, second = asked.first, asked.second
    unknown, known = f"aten::{asked.unknown}", f"aten::{asked.known}"

    @contextmanager
    def safely(operator: str, writes: str, opset: int = 9) -> Iterator[None]:
        with block_of(operator, writes, opset), made(operator, _writes(writes), opset):
            yield

    def made(operator: str, rule: Callable[..., Any], opset: int) -> AbstractContextManager[object]:
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
    with restored_rules(), safely(unknown, WITHOUT_RULE[asked.unknown]):
        _attempt(work, "below", asked.unknown, 8, refused=True)
    with restored_rules():
        with safely(known, first):
            _attempt(work, "instead", asked.known, 9)
        _attempt(work, "known-after", asked.known, 9)
    with restored_rules():
        for opset in (9, 13):
            utils.register_custom_op_symbolic(unknown, _writes(second), opset)
        with safely(unknown, first):
            _attempt(work, "over-earlier", asked.unknown, 9)
        _attempt(work, "earlier-after", asked.unknown, 9)
        _attempt(work, "earlier-after-13", asked.unknown, 13)
    with restored_rules():
        utils.register_custom_op_symbolic(f"aten::{asked.other}", _writes(second), 9)
        with safely(unknown, first):
            pass
        _attempt(work, "other-after", asked.other, 9)
    with restored_rules(), safely(known, first, asked.opset):
        _attempt(work, "from-opset", asked.known, asked.opset)
        _attempt(work, "before-opset", asked.known, asked.opset - 1, refused=True)
    with restored_rules(), safely("aten::hypot", "Sub"):
        _attempt(work, "two-inputs", "hypot", 9, inputs=2)
    came_out = {}
    for file, (_, kind) in ENDS.items():
        with restored_rules():
            raised = kind()
            try:
                with safely(known, first), safely(unknown, first):
                    raise raised
            except BaseException as error:
                if error is not raised and not isinstance(error, Exception):
                    raise  # a time limit, or the learner's own Ctrl+C
                came_out[file] = error is raised
            _attempt(work, f"after-{file}", asked.unknown, 9)
            _attempt(work, f"known-after-{file}", asked.known, 9)
    work.write_json("came-out", came_out)
    with restored_rules():
        with safely(unknown, first):
            with safely(unknown, second):
                _attempt(work, "inner", asked.unknown, 9)
            _attempt(work, "outer", asked.unknown, 9)
        _attempt(work, "after-both", asked.unknown, 9)


def block_of(operator: str, writes: str, opset: int = 9) -> AbstractContextManager[None]:
    """Name the case that is tried inside: a learner's block.

    Args:
        operator: The operator that the rule is for, as "aten::asinh".
        writes: The operator that the rule writes.
        opset: The rule's.
    """
    rule = partial(_written, writes)  # can be sent from one process to another
    return trying(f"a block for {operator} at opset {opset}", operator=operator, function=rule, opset=opset)


def _written(operator: str, g: Any, *inputs: Any) -> Any:  # noqa: ANN401 - the exporter's own types
    return g.op(operator, *inputs)


def _writes(operator: str) -> Callable[..., Any]:
    if operator == "Sub":
        return lambda g, x, y: g.op(operator, x, y)
    return lambda g, x: g.op(operator, x)


def export_call(name: str, opset: int, inputs: int = 1) -> Export:
    """Export a function at an opset with whatever rules there are."""
    names = ["x", "y"][:inputs]
    options: dict[str, Any] = {"input_names": names, "dynamic_axes": {each: [0, 1] for each in names}}
    return export(
        Call(name),
        (torch.ones(2, 3),) * inputs,
        Exporter.TORCHSCRIPT,
        run=False,
        opset_version=opset,
        **options,
    )


def _attempt(work: Work, file: str, name: str, opset: int, *, refused: bool = False, inputs: int = 1) -> None:
    result = export_call(name, opset, inputs)
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
