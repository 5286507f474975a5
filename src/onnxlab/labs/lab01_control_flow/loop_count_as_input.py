"""Exercise: a model that repeats a step as often as one of its inputs says."""

from collections.abc import Callable, Iterable

import numpy as np
import torch

from onnxlab.facts.export import Exporter
from onnxlab.labs.exercise import Answers, Exercise, Part
from onnxlab.labs.exporting import exported, require_type
from onnxlab.labs.judging import expected_model, require_numbers, require_valid
from onnxlab.labs.judging_graph import require_input_read, require_operators
from onnxlab.labs.lab01_control_flow.ending import require_end_in_runtime, require_end_in_torch
from onnxlab.labs.samples import pictures
from onnxlab.labs.work import Work

__all__ = ["EXERCISE", "step"]

_ROWS, _WIDTH = 2, 4
_LONG = (40, 75)  # more rounds than a masked loop of a fixed length would have

_EXPECTED = f"""<ir_version: 8, opset_import: ["" : 20]>
repeat (float[{_ROWS}, {_WIDTH}] x, int64 n) => (float[{_ROWS}, {_WIDTH}] y)
{{
    go = Constant <value = bool {{1}}> ()
    y = Loop (n, go, x) <body = round
        (int64 i, bool before, float[{_ROWS}, {_WIDTH}] state)
        => (bool after, float[{_ROWS}, {_WIDTH}] next)
    {{
        next = Gemm <transB = 1> (state, weight, bias)
        after = Identity (before)
    }}>
}}"""


def step(random: np.random.Generator) -> torch.nn.Module:
    """Return what is repeated: a layer that turns the rows, so that no two counts give the same."""
    linear = torch.nn.Linear(_WIDTH, _WIDTH)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(np.linalg.qr(random.normal(size=(_WIDTH, _WIDTH)))[0]))
        linear.bias.copy_(torch.from_numpy(random.normal(size=_WIDTH)))
    return linear.eval().requires_grad_(False)


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the module, in the exporter that its kind belongs to, with 2 as the example of the count."""
    given = step(random)
    module = answers["loop_count_as_input"](given)
    require_type(module, torch.nn.Module, "loop_count_as_input(step)")
    scripted = isinstance(module, torch.jit.ScriptModule)
    exporter = Exporter.TORCHSCRIPT if scripted else Exporter.TORCH_EXPORT
    examples = pictures(random, _ROWS, _WIDTH), torch.tensor(2)
    if scripted:
        require_end_in_torch(module, (examples[0], 2), lambda: _unusable(given))
    exported(work, "repeated", module, examples, exporter, input_names=["x", "n"])


def _unusable(module: torch.nn.Module) -> None:
    for weights in module.parameters():
        weights.resize_(0)


def judge_input(work: Work, random: np.random.Generator) -> None:
    """Valid, and computed from both inputs."""
    model = work.model("repeated")
    require_valid(model)
    require_input_read(model, "x")
    require_input_read(model, "n")


def judge_loop(work: Work, random: np.random.Generator) -> None:
    """There is a Loop."""
    require_operators(
        work.model("repeated"),
        "Loop",
        look_at="A loop whose end is known at export is written out, round by round. Is the end known here?",
    )


def judge_few(work: Work, random: np.random.Generator) -> None:
    """The counts one tries by hand, none among them."""
    look = "Which step reads what, and what is left of x when n is 0? Follow the rounds for n = 0, 1, 2."
    _require_rounds(work, random, range(10), look)


def judge_many(work: Work, random: np.random.Generator) -> None:
    """Counts beyond any that could have been prepared for."""
    look = "Up to which n is the answer right? Search your code for that number."
    _require_rounds(work, random, _LONG, look)


def _require_rounds(work: Work, random: np.random.Generator, counts: Iterable[int], look_at: str) -> None:
    model = work.model("repeated")
    inputs = [(pictures(random, _ROWS, _WIDTH) - 0.5, count) for count in counts]
    for each in inputs:
        require_end_in_runtime(model, each, f"n = {each[1]}")
    require_numbers(
        _repeated(step(work.questions())),
        model,
        inputs,
        1e-4,
        1e-4,  # rounding grows with the rounds
        look_at=look_at,
    )


def _repeated(once: torch.nn.Module) -> Callable[[torch.Tensor, int], torch.Tensor]:
    def repeated(x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = once(x)
        return x

    return repeated


EXERCISE = Exercise(
    id="loop-count-as-input",
    title="Make the number of rounds an input of the model",
    points=5,
    answers=("loop_count_as_input",),
    produce=produce,
    parts=(
        Part("the count is an input that the result depends on", judge_input),
        Part("a Loop repeats the step", judge_loop),
        Part("right for 0 to 9 rounds", judge_few),
        Part("right for any other count", judge_many),
    ),
    hints=(
        "Tracing, and torch.export too, write down the rounds that they see. What keeps a loop as a loop?",
        "Script a module whose forward has an argument `n: int`; or use `while_loop` with a state that holds "
        "the number of rounds done and the rows.",
        "Write a class with `self.step = step` and `def forward(self, x, n: int)`, in it "
        "`for _ in range(n): x = self.step(x)`; then `return torch.jit.script(Repeat(step))`.",
    ),
    holds_for="torch 2.13, onnx 1.23, onnxruntime 1.31",
    expected=lambda work: expected_model(_EXPECTED, step(work.questions()).state_dict()),
)
