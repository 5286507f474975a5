"""Exercise: a context manager that registers a symbolic function and leaves the registry as it was.

The statement as properties, each with what is drawn for it:

- the rule counts inside the block: in place of the exporter's rule, of one registered before, of none; for
  an operator of another namespace than PyTorch's; with one, two and three inputs
- from `opset` on: at several opsets above, and not below it. Where the operator has another rule that begins
  later, either may count from there on; what counts then is not asked
- nothing happens before the block begins: objects that were made before a block, two of them in turn
- afterwards exports go as before, at every opset: no rule, a rule of the exporter's own, several of its own,
  one that was registered before; not only with the same numbers, but with the same nodes
- rules of other operators that were registered before stay; what is registered inside is not asked about
- an exception, of whatever class, Ctrl+C and exit() come out as they are, and change nothing of that
- blocks can be nested
- an export below `opset` raises or gives a valid model: at opsets 7 and 8, where the exporter looks upwards
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import torch

# The public name of torch.onnx.register_custom_op_symbolic is not typed.
from torch.onnx._internal.torchscript_exporter import utils

from onnxlab.exporters.export import Export, Exporter, export
from onnxlab.exporters.symbolics import own_rules, restored_rules
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import own_line
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.message import Message

# Rules of several inputs: the function that gets one, what the rule computes, a right model, how many inputs.
SEVERAL_INPUTS = {
    "two-inputs": (
        "hypot",
        torch.sub,
        """<ir_version: 8, opset_import: ["" : 9]>
        two_inputs (float[n] x, float[n] y) => (float[n] a) { a = Sub (x, y) }""",
        2,
    ),
    "three-inputs": (
        "lerp",
        lambda x, y, z: x - y - z,
        """<ir_version: 8, opset_import: ["" : 9]>
        three_inputs (float[n] x, float[n] y, float[n] z) => (float[n] b)
        { a = Sub (x, y) b = Sub (a, z) }""",
        3,
    ),
}

# Functions whose operators have no rule, with the ONNX operator of each; and functions with a rule.
WITHOUT_RULE = {"asinh": "Asinh", "sinh": "Sinh", "acosh": "Acosh", "atanh": "Atanh", "cosh": "Cosh"}
_WITH_RULE = ("relu", "sigmoid", "tanh", "exp", "sqrt")
# Functions whose operators have two rules, from 9 on and from another opset on, that write different nodes.
_TWO_RULES = {"hardswish": 14, "gelu": 20}
# An operator of another namespace than PyTorch's: the rows in reverse order.
_LIBRARY = torch.library.Library("onnxlab", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's is untyped
_LIBRARY.define("turned(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]  # as above
_LIBRARY.impl("turned", lambda x: x.flip(0), "CPU")  # type: ignore[no-untyped-call]  # as above
NAMESPACED = "onnxlab::turned"
BELOW = (7, 8)
LATER_OPSETS = (10, 11, 12, 16, 20)
# The operators that the rules write, wrong on purpose: the numbers show which rule an export has used.
MARKERS = {"Neg": torch.neg, "Abs": torch.abs, "Floor": torch.floor, "Ceil": torch.ceil, "Sin": torch.sin}


class Call(torch.nn.Module):
    """The module that is exported: one operator, by its name in torch, as "asinh", or with its namespace."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """As many float32 inputs as the function has, of any shape."""
        namespace, _, name = self.name.rpartition("::")
        places = [torch.ops.onnxlab] if namespace else [torch, torch.nn.functional]
        function = next(getattr(place, name) for place in places if hasattr(place, name))
        result: torch.Tensor = function(*inputs)
        return result


@dataclass(frozen=True)
class Questions:
    """The functions, rules and opset of the blocks."""

    unknown: str  # a function whose operator has no rule
    known: str  # a function whose operator has a rule
    first: str  # the ONNX operator that the rule of a learner's block writes
    second: str  # the ONNX operator that another rule writes
    other: str  # another function whose operator has no rule
    opset: int  # the first opset of a rule that does not begin at 9
    two_rules: str  # a function whose operator has two rules

    @classmethod
    def sample(cls, random: np.random.Generator) -> "Questions":
        """Draw the questions."""
        first, second = map(str, random.choice(list(MARKERS), 2, replace=False))
        unknown, other = map(str, random.choice(list(WITHOUT_RULE), 2, replace=False))
        with_rule = str(random.choice(_WITH_RULE))
        opset = int(random.integers(11, 14))
        two_rules = str(random.choice(list(_TWO_RULES)))
        return cls(unknown, with_rule, first, second, other, opset, two_rules)


class _Interruption(ValueError, TypeError, RuntimeError, LookupError, ArithmeticError, AssertionError):
    """An exception inside a block, of every class that a block might treat in a way of its own."""


class _CtrlC(KeyboardInterrupt):
    """Ctrl+C inside a block; a class of its own, so that a learner's real one is not taken for it."""


class _Exit(SystemExit):
    """exit() inside a block."""


# How a block can end by an exception: its name in files, its name for a learner, the class.
ENDS = {
    "error": (Message("an exception"), _Interruption),
    "ctrl-c": (Message("Ctrl+C (KeyboardInterrupt)"), _CtrlC),
    "exit": (Message("exit() (SystemExit)"), _Exit),
}


@own_rules()  # without rules that the notebook left registered
def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export in, after and around blocks of the learner's context manager."""
    questions = Questions.sample(random)
    first, second = questions.first, questions.second

    def made(name: str, writes: str, opset: int = 9) -> AbstractContextManager[object]:
        with block_for(name, writes, opset):
            block = answers["safely_registered"](_operator(name), _writes(writes), opset)
            if not (hasattr(type(block), "__enter__") and hasattr(type(block), "__exit__")):
                msg = Message(
                    "safely_registered() returned {name}; a context manager was expected.",
                    name=type(block).__name__,
                )
                raise Wrong(
                    msg, "`with` needs __enter__ and __exit__; contextlib makes them from a generator."
                )
        context: AbstractContextManager[object] = block
        return context

    @contextmanager
    def safely(name: str, writes: str, opset: int = 9) -> Iterator[None]:
        with block_for(name, writes, opset), made(name, writes, opset):
            yield

    with restored_rules(), block_for(questions.unknown, first):
        block = made(questions.unknown, first)
        _attempt(work, "made", questions.unknown, 9)
        with block:
            _attempt(work, "inside", questions.unknown, 9)
            for opset in LATER_OPSETS:
                _attempt(work, f"inside-{opset}", questions.unknown, opset)
        for opset in (9, 13):
            _attempt(work, f"after-{opset}", questions.unknown, opset)
    with restored_rules(), safely(questions.unknown, WITHOUT_RULE[questions.unknown]):
        for opset in BELOW:
            _attempt(work, f"below-{opset}", questions.unknown, opset, refused=True)
    with restored_rules():
        with safely(questions.known, first):
            _attempt(work, "instead", questions.known, 9)
        _attempt(work, "known-after", questions.known, 9)
    with restored_rules():
        with safely(questions.two_rules, first, questions.opset):
            _attempt(work, "between-rules", questions.two_rules, questions.opset)
        with safely(questions.two_rules, first):
            pass
        for opset in (9, 13, 20):
            _attempt(work, f"two-rules-after-{opset}", questions.two_rules, opset)
    with restored_rules():
        for opset in (9, 13):
            utils.register_custom_op_symbolic(f"aten::{questions.unknown}", _writes(second), opset)
        with safely(questions.unknown, first):
            _attempt(work, "over-earlier", questions.unknown, 9)
        _attempt(work, "earlier-after", questions.unknown, 9)
        _attempt(work, "earlier-after-13", questions.unknown, 13)
    with restored_rules():
        utils.register_custom_op_symbolic(f"aten::{questions.other}", _writes(second), 9)
        with safely(questions.unknown, first):
            pass
        _attempt(work, "other-after", questions.other, 9)
    with restored_rules(), safely(questions.known, first, questions.opset):
        _attempt(work, "from-opset", questions.known, questions.opset)
        _attempt(work, "before-opset", questions.known, questions.opset - 1, refused=True)
    with restored_rules(), safely(NAMESPACED, first):
        _attempt(work, "namespaced", NAMESPACED, 9)
    for file, (name, _, _, inputs) in SEVERAL_INPUTS.items():
        with restored_rules(), safely(name, "Sub"):
            _attempt(work, file, name, 9, inputs=inputs)
    came_out = {}
    for file, (_, kind) in ENDS.items():
        with restored_rules():
            raised = kind("inside the block")
            try:
                with safely(questions.known, first), safely(questions.unknown, first):
                    raise raised
            except BaseException as error:
                if error is not raised and not isinstance(error, Exception):
                    raise  # a time limit, or the learner's own Ctrl+C
                came_out[file] = error is raised
            _attempt(work, f"after-{file}", questions.unknown, 9)
            _attempt(work, f"known-after-{file}", questions.known, 9)
    work.write_json("came-out", came_out)
    with restored_rules(), block_for(questions.unknown, first):
        outer, inner = made(questions.unknown, first), made(questions.unknown, second)
        with outer:
            with inner:
                _attempt(work, "inner", questions.unknown, 9)
            _attempt(work, "outer", questions.unknown, 9)
        _attempt(work, "after-both", questions.unknown, 9)


def block_for(name: str, writes: str, opset: int = 9) -> AbstractContextManager[None]:
    """Attach a case to whatever is raised: a learner's block for a function of torch."""
    operator, rule = _operator(name), partial(_write_node, writes)  # can be pickled
    case = Message("a block for {operator} at opset {opset}", operator=operator, opset=opset)
    return trying(case, operator=operator, function=rule, opset=opset)


def _operator(name: str) -> str:
    return name if "::" in name else f"aten::{name}"


def _write_node(operator: str, g: Any, *inputs: Any) -> Any:  # noqa: ANN401 - the exporter's own types
    return g.op(operator, *inputs)


def _writes(operator: str) -> Callable[..., Any]:
    if operator == "Sub":
        return lambda g, *inputs: reduce(lambda x, y: g.op(operator, x, y), inputs)
    return lambda g, x, *others: g.op(operator, x)  # GELU has a second argument


def exported(name: str, opset: int, inputs: int = 1) -> Export:
    """Export a function of torch at an opset, with the rules that are registered now."""
    names = ["x", "y", "z"][:inputs]
    example, axes = (torch.ones(2, 3),) * inputs, {x: [0, 1] for x in names}
    return export(
        Call(name),
        example,
        Exporter.TORCHSCRIPT,
        run=False,
        opset_version=opset,
        input_names=names,
        dynamic_axes=axes,
    )


def _attempt(work: Work, file: str, name: str, opset: int, *, refused: bool = False, inputs: int = 1) -> None:
    result = exported(name, opset, inputs)
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
