"""Exercise: a model that repeats a step, with the number of rounds as an input.

The statement as properties, each with what is drawn for it:

- `step` is any module that takes rows of four numbers: one of two layers with a ReLU between them, whose
  rounds are no product of matrices, and one without layers, of parameters; asked for in turn, exported after
- `step` stays as it is
- n times: 0 to 9, tens, hundreds and some 20,000 rounds, more than a number that one would write down
- n = 0 returns x, infinities and nan too; large numbers and rows of zeros are rows as any others
- the graph has a Loop that ends with n, and without its rounds the result is wrong
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import exported, require_type
from onnxlab.labs.kit.judging import (
    beside,
    evidence,
    expected_model,
    require_input_read,
    require_numbers,
    require_operators,
    require_valid,
)
from onnxlab.labs.kit.outcome import Wrong, trying
from onnxlab.labs.kit.samples import floats, pictures
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab01_control_flow.interventions import (
    fixed_loops,
    inlined,
    loops_that_follow,
    stopped,
)
from onnxlab.model.distance import Array
from onnxlab.runtime.session import feeds, open_session

__all__ = ["JUDGES", "OtherStep", "Step", "other_step", "produce", "step"]

_ROWS, _WIDTH = 2, 4
_SECONDS = 1.0  # of the processor, for a run that takes milliseconds
_ROUNDS = 5000  # that any right model does in a second
_OFFSET = 4.0  # beyond every coordinate of the turning plane, which ReLU must not cut
_MODELS = ("repeated", "other")
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
        positive = Relu (turned)
        next = Gemm <transB = 1> (positive, shift_weight, shift_bias)
        after = Identity (before)
    }}>
}}"""


_EXPECTED_OTHER = f"""<ir_version: 8, opset_import: ["" : 20]>
repeat (float[{_ROWS}, {_WIDTH}] x, int64 n) => (float[{_ROWS}, {_WIDTH}] y)
{{
    go = Constant <value = bool {{1}}> ()
    y = Loop (n, go, x) <body = round
        (int64 i, bool before, float[{_ROWS}, {_WIDTH}] state)
        => (bool after, float[{_ROWS}, {_WIDTH}] next)
    {{
        moved = Sub (state, centre)
        turned = MatMul (moved, matrix)
        next = Add (turned, centre)
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
        result: torch.Tensor = self.shift(torch.relu(self.turn(x)))
        return result


class OtherStep(torch.nn.Module):
    """Another step, without layers: rows are turned about a point."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.eye(_WIDTH))
        self.centre = torch.nn.Parameter(torch.zeros(_WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of four numbers."""
        return (x - self.centre) @ self.matrix + self.centre


def step(random: np.random.Generator) -> Step:
    """Return a step that turns two coordinates of the rows, and draws two others towards them.

    The first two make the rows of different counts different; they keep their size, and ReLU does not reach
    them, so that rounding errors do not explode. It does reach the others.
    """
    basis = np.linalg.qr(random.normal(size=(_WIDTH, _WIDTH)))[0]
    point = random.normal(size=_WIDTH)
    point /= np.linalg.norm(point)
    rounds = np.zeros((_WIDTH, _WIDTH))
    rounds[:2, :2] = _rotation(random.uniform(0.5, 2.6))
    rounds[2:, :2], rounds[2:, 2:] = (0.5 * _rotation(angle) for angle in random.uniform(0, 6, 2))
    offset = np.array([_OFFSET, _OFFSET, 0, 0])
    module = Step().eval().requires_grad_(False)
    layers = {
        module.turn: (basis.T, offset - basis.T @ point),
        module.shift: (basis @ rounds, point - basis @ rounds @ offset),
    }
    for layer, (weight, bias) in layers.items():
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(bias))
    return module


def other_step(random: np.random.Generator) -> OtherStep:
    """Return a step that turns the rows about a point."""
    module = OtherStep().eval().requires_grad_(False)
    module.matrix.copy_(torch.from_numpy(np.linalg.qr(random.normal(size=(_WIDTH, _WIDTH)))[0]))
    module.centre.copy_(torch.from_numpy(random.normal(size=_WIDTH)))
    return module


def _rotation(angle: float) -> Array:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def steps(random: np.random.Generator) -> dict[str, Step | OtherStep]:
    """Return the steps by the names of their models."""
    return {"repeated": step(random), "other": other_step(random)}


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask for both steps, then export: a scripted module with one exporter and any other with the other.

    The example count is 2.
    """
    modules, originals = {}, steps(random)
    for name, original in originals.items():
        with trying("the step", step=steps(work.questions())[name]):
            modules[name] = answers["loop_count_as_input"](original)
            require_type(modules[name], torch.nn.Module, "loop_count_as_input(step)")
    for name, module in modules.items():
        scripted = isinstance(module, torch.jit.ScriptModule)
        exporter = Exporter.TORCHSCRIPT if scripted else Exporter.TORCH_EXPORT
        x = pictures(random, _ROWS, _WIDTH)
        if scripted:
            with trying("n = 2", step=steps(work.questions())[name]):
                _require_end_in_torch(module, (x, 2), originals[name])
        exported(work, name, module, (x, torch.tensor(2)), exporter, input_names=["x", "n"])
        with trying("the step", step=steps(work.questions())[name]), torch.no_grad():
            if not torch.equal(originals[name](x), steps(work.questions())[name](x)):
                msg = "The step that was given has changed: it gives other rows than before."
                raise Wrong(msg, "It belongs to the caller. Which line of yours writes to its weights?")


# A time limit works between two steps of Python. TorchScript and ONNX Runtime run a whole loop in one step: a
# loop that never ends has to be recognised here, before it blocks the notebook.


def _require_end_in_torch(
    module: torch.nn.Module, inputs: tuple[Any, ...], original: torch.nn.Module
) -> None:
    """Require that a module comes to an end. What it raises does not matter here: the export reports it."""

    def run() -> None:
        with contextlib.suppress(Exception):
            module(*inputs)

    thread, started = threading.Thread(target=run, daemon=True), time.process_time()
    thread.start()
    while thread.is_alive() and time.process_time() - started < _SECONDS:
        thread.join(_SECONDS / 50)
    if thread.is_alive():
        for weights in original.parameters():  # the thread cannot be ended, but without weights the run fails
            weights.resize_(0)
        msg = f"Your module has not come to an end after {_SECONDS:g} s of CPU time."
        raise Wrong(msg, _NEVER_ENDS)


def _outputs_in_runtime(model: onnx.ModelProto, x: torch.Tensor, count: int) -> list[Array]:
    """Run a model that may never come to an end.

    Returns:
        The outputs; none if the runtime raised: that is left to the comparison of the numbers.

    Raises:
        Wrong: If it has not come to an end.
    """
    seconds = _SECONDS + count / _ROUNDS
    options, ended, over = ort.RunOptions(), threading.Event(), threading.Event()

    def end() -> None:
        started = time.process_time()
        while not ended.wait(_SECONDS / 50):
            if time.process_time() - started > seconds:
                over.set()
                options.terminate = True
                return

    watch = threading.Thread(target=end, daemon=True)
    try:
        session = open_session(model)
        watch.start()
        return [np.asarray(output) for output in session.run(None, feeds(session, (x, count)), options)]
    except Exception:  # the runtime raises many kinds
        if over.is_set():
            msg = f"With n = {count}, ONNX Runtime has not come to an end after {seconds:.2g} s of CPU time."
            raise Wrong(msg, _NEVER_ENDS) from None
        return []
    finally:
        ended.set()


def _near(outputs: Sequence[Array], expected: Array, tolerance: float) -> bool:
    """Whether the only output is as expected, nan and infinities included."""
    return (
        len(outputs) == 1
        and outputs[0].shape == expected.shape
        and outputs[0].dtype == expected.dtype
        and np.allclose(outputs[0], expected, tolerance, tolerance, equal_nan=True)
    )


def judge_input(work: Work, random: np.random.Generator) -> None:
    for name in _MODELS:
        model = work.model(name)
        with beside(partial(_expected, work, name)):
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
    reference = _repeated(steps(work.questions())["repeated"])
    for count in (3, 6, 8):
        x = pictures(random, _ROWS, _WIDTH) - 0.5
        with trying(f"n = {count}", model=changed, inputs=(x, count)):
            outputs = _outputs_in_runtime(changed, x, count)
        if not _near(outputs, reference(x, count).numpy(), 1e-3):
            return False
    return True


def judge_few(work: Work, random: np.random.Generator) -> None:
    """The counts that one tries by hand, 0 among them; for odd rows, and for another step."""
    look_at = "Which step reads what, and what is left of x when n is 0? Follow the rounds for n = 0, 1, 2."
    rows = [(pictures(random, _ROWS, _WIDTH) - 0.5, count) for count in range(10)]
    _require_rounds(work, "repeated", rows, look_at)
    others = [(pictures(random, _ROWS, _WIDTH) - 0.5, count) for count in (0, 1, 5)]
    _require_rounds(work, "other", others, "Which part of the step does your module use: all of its forward?")
    odd = [
        (floats(random, _ROWS, _WIDTH), 0),
        (torch.zeros(_ROWS, _WIDTH), 0),
        (torch.zeros(_ROWS, _WIDTH), 3),
    ]
    large = (pictures(random, _ROWS, _WIDTH) - 0.5) * 1e4
    infinite = large.clone()
    infinite[int(random.integers(_ROWS)), int(random.integers(_WIDTH))] = torch.inf
    look_at = "What does your module do with x besides handing it to the step: compare, clamp, multiply?"
    _require_rounds(work, "repeated", [*odd, (large, 1), (large, 4), (infinite, 0), (infinite, 2)], look_at)


def judge_many(work: Work, random: np.random.Generator) -> None:
    """Counts too large to be written out beforehand, one larger than a limit that one would set."""
    look_at = "Up to which n is the answer right? Search your code for that number."
    counts = (
        int(random.integers(10, 100)),
        int(random.integers(100, 1000)),
        int(random.integers(17000, 20000)),
    )
    rows = [(pictures(random, _ROWS, _WIDTH) - 0.5, count) for count in counts]
    _require_rounds(work, "repeated", rows, look_at)


def _require_rounds(work: Work, name: str, inputs: Iterable[tuple[torch.Tensor, int]], look_at: str) -> None:
    model = work.model(name)
    reference = _repeated(steps(work.questions())[name])
    for x, count in inputs:
        # Rounding grows with the rounds; the results of two counts are some hundred times further apart.
        tolerance = 0 if not count else 1e-3 if count < 1000 else 1e-2  # no round returns x itself
        with trying(f"n = {count}", model=model, inputs=(x, count)), beside(partial(_expected, work, name)):
            if not _near(_outputs_in_runtime(model, x, count), reference(x, count).numpy(), tolerance):
                require_numbers(reference, model, [(x, count)], tolerance, tolerance, look_at=look_at)


def _repeated(module: Step | OtherStep) -> Callable[[torch.Tensor, int], torch.Tensor]:
    @torch.inference_mode()
    def repeated(x: torch.Tensor, n: int) -> torch.Tensor:
        if not isinstance(module, Step) or n < 1000:
            for _ in range(n):
                x = module(x)
            return x
        rows = x.numpy()  # three times as fast as torch for so few numbers
        turn, shift = module.turn.weight.numpy().T, module.shift.weight.numpy().T
        about, to = module.turn.bias.numpy(), module.shift.bias.numpy()
        for _ in range(n):
            rows = np.maximum(rows @ turn + about, 0) @ shift + to
        return torch.from_numpy(rows)

    return repeated


def _expected(work: Work, name: str) -> bytes:
    texts = {"repeated": _EXPECTED, "other": _EXPECTED_OTHER}
    state = steps(work.questions())[name].state_dict()
    return expected_model(texts[name], {key.replace(".", "_"): values for key, values in state.items()})


JUDGES = Judges(
    (judge_input, judge_loop, judge_few, judge_many), expected=lambda work: _expected(work, "repeated")
)
