"""What is right in loop-count-as-input, part by part."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import torch

from onnxlab.judges.lab01_control_flow.interventions import fixed_loops, inlined, loops_that_follow, stopped
from onnxlab.kit import judging
from onnxlab.kit.exercise import Judges
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.samples import floats, pictures
from onnxlab.kit.work import Work
from onnxlab.labs.lab01_control_flow.loop_count_as_input import (
    NEVER_ENDS,
    ROWS,
    SECONDS,
    WIDTH,
    OtherStep,
    Step,
    steps,
)
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.comparison import compare_outputs
from onnxlab.runtime.session import feeds, open_session

_ROUNDS = 5000  # that any right model does in a second

_EXPECTED = f"""<ir_version: 8, opset_import: ["" : 20]>
repeat (float[{ROWS}, {WIDTH}] x, int64 n) => (float[{ROWS}, {WIDTH}] y)
{{
    go = Constant <value = bool {{1}}> ()
    y = Loop (n, go, x) <body = iteration
        (int64 i, bool before, float[{ROWS}, {WIDTH}] state)
        => (bool after, float[{ROWS}, {WIDTH}] next)
    {{
        %s
        after = Identity (before)
    }}>
}}"""
# The steps of the models, by their names.
_STEPS = {
    "the_step": """turned = Gemm <transB = 1> (state, turn_weight, turn_bias)
        positive = Relu (turned)
        next = Gemm <transB = 1> (positive, shift_weight, shift_bias)""",
    "other_step": """moved = Sub (state, centre)
        turned = MatMul (moved, matrix)
        next = Add (turned, centre)""",
}


def _outputs_in_runtime(model: onnx.ModelProto, x: torch.Tensor, count: int) -> list[Array]:
    """Run a model that may never come to an end.

    Returns:
        The outputs; none if the runtime raised: that is left to the comparison of the numbers.

    Raises:
        Wrong: If it has not come to an end.
    """
    seconds = SECONDS + count / _ROUNDS
    options, ended, over = ort.RunOptions(), threading.Event(), threading.Event()

    def end() -> None:
        started = time.process_time()
        while not ended.wait(SECONDS / 50):
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
            msg = Message(
                "With n = {count}, ONNX Runtime has not come to an end after {seconds:.2g} s of CPU time.",
                count=count,
                seconds=seconds,
            )
            raise Wrong(msg, NEVER_ENDS) from None
        return []
    finally:
        ended.set()


def judge_input(work: Work, random: np.random.Generator) -> None:
    """Require valid models in which x and n reach the result."""
    for name in _STEPS:
        model = work.model(name)
        with judging.expecting(partial(_expected, work, name)):
            judging.require_valid(model)
            judging.require_input_read(model, "x")
            judging.require_input_read(model, "n")


def judge_loop(work: Work, random: np.random.Generator) -> None:
    """There is a Loop, n decides its number of iterations, and without its iterations the result is wrong."""
    model = inlined(work.model("the_step"))
    judging.require_operators(
        model,
        "Loop",
        look_at="A loop whose end is known at export is unrolled. Is the end known here?",
    )
    following, others = loops_that_follow(model, "n"), fixed_loops(model, "n")
    if not following or (others and not _right_without(others, model, work, random)):
        msg = "The Loop runs the same number of times for every n: its trip count does not depend on n."
        look_at = (
            "Where does your loop end? A loop to a number of your own, masked beyond n, is none that n ends."
        )
        raise Wrong(msg, look_at, evidence=judging.evidence(model, None, "Loop"))
    if _right_without(following, model, work, random):
        msg = "The result is right even if no iteration of the Loop is run: it does no work."
        look_at = "What repeats the step, if the Loop does not? Look for the step's nodes outside its body."
        raise Wrong(msg, look_at, evidence=judging.evidence(model, None, "Loop"))


def _right_without(
    loops: Sequence[int], model: onnx.ModelProto, work: Work, random: np.random.Generator
) -> bool:
    """Whether the results of a few counts are right although these Loops end before their first iteration."""
    changed = stopped(model, loops)
    reference = _repeated(steps(work.questions())["the_step"])
    for count in (3, 6, 8):
        x = pictures(random, ROWS, WIDTH) - 0.5
        with trying(f"n = {count}", model=changed, inputs=(x, count)):
            outputs = _outputs_in_runtime(changed, x, count)
        if not compare_outputs(reference(x, count), outputs, rtol=1e-3, atol=1e-3):
            return False
    return True


def judge_few(work: Work, random: np.random.Generator) -> None:
    """The counts that one tries by hand, 0 among them; for odd rows, and for another step."""
    look_at = (
        "Which step reads what, and what is left of x when n is 0? Follow the iterations for n = 0, 1, 2."
    )
    rows = [(pictures(random, ROWS, WIDTH) - 0.5, count) for count in range(10)]
    _require_rounds(work, "the_step", rows, look_at)
    others = [(pictures(random, ROWS, WIDTH) - 0.5, count) for count in (0, 1, 5)]
    _require_rounds(
        work, "other_step", others, "Which part of the step does your module use: all of its forward?"
    )
    odd = [(floats(random, ROWS, WIDTH), 0), (torch.zeros(ROWS, WIDTH), 0), (torch.zeros(ROWS, WIDTH), 3)]
    large = (pictures(random, ROWS, WIDTH) - 0.5) * 1e4
    infinite = large.clone()
    infinite[int(random.integers(ROWS)), int(random.integers(WIDTH))] = torch.inf
    look_at = "What does your module do with x besides handing it to the step: compare, clamp, multiply?"
    _require_rounds(work, "the_step", [*odd, (large, 1), (large, 4), (infinite, 0), (infinite, 2)], look_at)


def judge_many(work: Work, random: np.random.Generator) -> None:
    """Counts too large to be written out beforehand, one larger than a limit that one would set."""
    look_at = "Up to which n is the answer right? Search your code for that number."
    counts = (
        int(random.integers(10, 100)),
        int(random.integers(100, 1000)),
        int(random.integers(17000, 20000)),
    )
    rows = [(pictures(random, ROWS, WIDTH) - 0.5, count) for count in counts]
    _require_rounds(work, "the_step", rows, look_at)


def _require_rounds(work: Work, name: str, inputs: Iterable[tuple[torch.Tensor, int]], look_at: str) -> None:
    model = work.model(name)
    reference = _repeated(steps(work.questions())[name])
    for x, count in inputs:
        # Rounding grows with the iterations; the results of two counts are some hundred times further apart.
        tolerance = 0 if not count else 1e-3 if count < 1000 else 1e-2  # no iteration returns x itself
        with (
            trying(f"n = {count}", model=model, inputs=(x, count)),
            judging.expecting(partial(_expected, work, name)),
        ):
            got = _outputs_in_runtime(model, x, count)
            if not compare_outputs(reference(x, count), got, rtol=tolerance, atol=tolerance):
                judging.require_numbers(reference, model, [(x, count)], tolerance, tolerance, look_at=look_at)


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
    state = steps(work.questions())[name].state_dict()
    weights = {key.replace(".", "_"): values for key, values in state.items()}
    return judging.expected_model(_EXPECTED % _STEPS[name], weights)


JUDGES = Judges(
    (judge_input, judge_loop, judge_few, judge_many), expected=lambda work: _expected(work, "the_step")
)
