"""Exercise: a model that repeats a step, with the number of rounds as an input."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import exported, require_type
from onnxlab.labs.kit.judging import (
    evidence,
    expected_model,
    require_input_read,
    require_numbers,
    require_operators,
    require_valid,
)
from onnxlab.labs.kit.outcome import Wrong, trying
from onnxlab.labs.kit.samples import pictures
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab01_control_flow.interventions import (
    fixed_loops,
    inlined,
    loops_that_follow,
    outcome,
    stopped,
)
from onnxlab.runtime.session import feeds, open_session

__all__ = ["EXERCISE", "Step", "step"]

_ROWS, _WIDTH = 2, 4
_SECONDS = 3.0  # for a run that takes milliseconds
_NEVER_ENDS = "What has to change in every round, so that the condition of the loop becomes false?"

_EXPECTED = f"""<ir_version: 8, opset_import: ["" : 20]>
repeat (float[{_ROWS}, {_WIDTH}] x, int64 n) => (float[{_ROWS}, {_WIDTH}] y)
{{
    go = Constant <value = bool {{1}}> ()
    y = Loop (n, go, x) <body = round
        (int64 i, bool before, float[{_ROWS}, {_WIDTH}] state)
        => (bool after, float[{_ROWS}, {_WIDTH}] next)
    {{
        turned = Gemm <transB = 1> (state, turn_weight, turn_bias)
        next = Gemm <transB = 1> (turned, shift_weight, shift_bias)
        after = Identity (before)
    }}>
}}"""


class Step(torch.nn.Module):
    """The step that is repeated: two layers, so that no answer can use `step.weight` alone."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.shift = (torch.nn.Linear(_WIDTH, _WIDTH) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of four numbers."""
        result: torch.Tensor = self.shift(self.turn(x))
        return result


def step(random: np.random.Generator) -> Step:
    """Return a step that rotates the rows about a point.

    Different counts give different rows, and rows keep their size, so that rounding errors do not explode.
    """
    angles = random.uniform(0.5, 2.6, 2)  # far from 0, where the point would be far away
    rotation = np.zeros((_WIDTH, _WIDTH))
    for place, angle in zip((0, 2), angles, strict=True):
        rotation[place : place + 2, place : place + 2] = [
            [np.cos(angle), -np.sin(angle)],
            [np.sin(angle), np.cos(angle)],
        ]
    basis, other = (np.linalg.qr(random.normal(size=(_WIDTH, _WIDTH)))[0] for _ in range(2))
    weights = {"turn": other.T, "shift": basis @ rotation @ basis.T @ other}
    module = Step().eval().requires_grad_(False)
    for name, weight in weights.items():
        layer = getattr(module, name)
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(random.normal(size=_WIDTH)))
    return module


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export a scripted module with one exporter and any other with the other; the example count is 2."""
    original = step(random)
    with trying("the step", step=step(work.questions())):
        module = answers["loop_count_as_input"](original)
        require_type(module, torch.nn.Module, "loop_count_as_input(step)")
    scripted = isinstance(module, torch.jit.ScriptModule)
    exporter = Exporter.TORCHSCRIPT if scripted else Exporter.TORCH_EXPORT
    x = pictures(random, _ROWS, _WIDTH)
    if scripted:
        with trying("n = 2", step=step(work.questions())):
            _require_end_in_torch(module, (x, 2), original)
    exported(work, "repeated", module, (x, torch.tensor(2)), exporter, input_names=["x", "n"])


# A time limit works between two steps of Python. TorchScript and ONNX Runtime run a whole loop in one step: a
# loop that never ends has to be recognised here, before it blocks the notebook.


def _require_end_in_torch(
    module: torch.nn.Module, inputs: tuple[Any, ...], original: Step, seconds: float = _SECONDS
) -> None:
    """Require that a module comes to an end. What it raises does not matter here: the export reports it."""

    def run() -> None:
        with contextlib.suppress(Exception):
            module(*inputs)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        for weights in original.parameters():  # the thread cannot be ended, but without weights the run fails
            weights.resize_(0)
        msg = f"Your module has not come to an end after {seconds:g} seconds."
        raise Wrong(msg, _NEVER_ENDS)


def _require_end_in_runtime(
    model: onnx.ModelProto, inputs: tuple[Any, ...], told: str, seconds: float = _SECONDS
) -> None:
    """Require that ONNX Runtime comes to an end. Other failures are left to the comparison of the numbers."""
    options, over = ort.RunOptions(), threading.Event()

    def end() -> None:
        over.set()
        options.terminate = True

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        session = open_session(model)
        session.run(None, feeds(session, inputs), options)
    except Exception:
        if over.is_set():
            msg = f"With {told}, ONNX Runtime has not come to an end after {seconds:g} seconds."
            raise Wrong(msg, _NEVER_ENDS) from None
    finally:
        timer.cancel()


def judge_input(work: Work, random: np.random.Generator) -> None:
    model = work.model("repeated")
    require_valid(model)
    require_input_read(model, "x")
    require_input_read(model, "n")


def judge_loop(work: Work, random: np.random.Generator) -> None:
    """There is a Loop, n decides its number of rounds, and without its rounds the result is wrong."""
    model = inlined(work.model("repeated"))
    require_operators(
        model,
        "Loop",
        look_at="A loop whose end is known at export is written out, round by round. Is the end known here?",
    )
    following, others = loops_that_follow(model, "n"), fixed_loops(model, "n")
    if not following or (others and not _right_without(others, model, work, random)):
        msg = "A Loop goes round equally often for every n: nothing of n reaches its end."
        look_at = (
            "Where does your loop end? A loop to a number of your own, masked beyond n, is none that n ends."
        )
        raise Wrong(msg, look_at, evidence=evidence(model, None, "Loop"))
    if _right_without(following, model, work, random):
        msg = "The result is right even if no round of the Loop is run: it does no work."
        look_at = "What repeats the step, if the Loop does not? Look for the step's nodes outside its body."
        raise Wrong(msg, look_at, evidence=evidence(model, None, "Loop"))


def _right_without(
    loops: Sequence[int], model: onnx.ModelProto, work: Work, random: np.random.Generator
) -> bool:
    """Whether the results of a few counts are right although these Loops end before their first round."""
    changed = stopped(model, loops)
    run, reference = outcome(changed), _repeated(step(work.questions()))
    for count in (3, 6, 8):
        x = pictures(random, _ROWS, _WIDTH) - 0.5
        with trying(f"n = {count}", model=changed, inputs=(x, count)):
            _require_end_in_runtime(changed, (x, count), f"n = {count}")
        expected, outputs = reference(x, count).numpy(), run(x, count)
        alike = [(output.dtype, output.shape) == (expected.dtype, expected.shape) for output in outputs[:1]]
        if not any(alike) or not np.allclose(outputs[0], expected, atol=1e-3):
            return False
    return True


def judge_few(work: Work, random: np.random.Generator) -> None:
    """The counts that one tries by hand, 0 among them."""
    look_at = "Which step reads what, and what is left of x when n is 0? Follow the rounds for n = 0, 1, 2."
    _require_rounds(work, random, range(10), look_at)


def judge_many(work: Work, random: np.random.Generator) -> None:
    """Counts too large to be written out beforehand, one in the thousands."""
    look_at = "Up to which n is the answer right? Search your code for that number."
    counts = int(random.integers(10, 100)), int(random.integers(100, 1000)), int(random.integers(1000, 4000))
    _require_rounds(work, random, counts, look_at)


def _require_rounds(work: Work, random: np.random.Generator, counts: Iterable[int], look_at: str) -> None:
    model = work.model("repeated")
    reference = _repeated(step(work.questions()))
    inputs = [(pictures(random, _ROWS, _WIDTH) - 0.5, count) for count in counts]
    for x, count in inputs:
        with trying(f"n = {count}", model=model, inputs=(x, count)):
            _require_end_in_runtime(model, (x, count), f"n = {count}")
    # Rounding grows with the rounds; the results of two counts are a thousand times further apart.
    require_numbers(reference, model, inputs, 1e-3, 1e-3, look_at=look_at)


def _repeated(module: torch.nn.Module) -> Callable[[torch.Tensor, int], torch.Tensor]:
    @torch.inference_mode()
    def repeated(x: torch.Tensor, n: int) -> torch.Tensor:
        for _ in range(n):
            x = module(x)
        return x

    return repeated


def _expected(module: Step) -> bytes:
    weights = {name.replace(".", "_"): values for name, values in module.state_dict().items()}
    return expected_model(_EXPECTED, weights)


EXERCISE = Exercise(
    order=1,
    id="loop-count-as-input",
    title="Make the number of rounds an input of the model",
    points=5,
    answers=("loop_count_as_input",),
    produce=produce,
    torch_export=True,
    parts=(
        Part("the count is an input that the result depends on", judge_input),
        Part("a Loop that ends with the count repeats the step", judge_loop),
        Part("right for 0 to 9 rounds", judge_few),
        Part("right for any other count, thousands too", judge_many),
    ),
    hints=(
        "Tracing, and torch.export too, write down the rounds that they see. What keeps a loop as a loop?",
        "Script a module whose forward has an argument `n: int`; or use `while_loop` with a state that holds "
        "the number of rounds done and the rows.",
        "Write a class with `self.step = step` and `def forward(self, x, n: int)`, in it "
        "`for _ in range(n): x = self.step(x)`; then `return torch.jit.script(Repeat(step))`.",
    ),
    expected=lambda work: _expected(step(work.questions())),
)
