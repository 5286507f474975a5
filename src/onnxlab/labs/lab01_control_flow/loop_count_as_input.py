"""Exercise: a model that repeats a step, with the number of iterations as an input.

The statement as properties, each with what is drawn for it:

- `step` is any module that takes rows of four numbers: one of two layers with a ReLU between them, whose
  iterations are no product of matrices, and one without layers, of parameters; asked for in turn, exported
  after
- `step` stays as it is
- n times: 0 to 9, tens, hundreds and some 20,000 iterations, more than a number that one would write down
- n = 0 returns x, infinities and nan too; large numbers and rows of zeros are rows as any others
- the graph has a Loop that ends with n, and without its iterations the result is wrong
"""

import contextlib
import threading
import time
from typing import Any

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import exported, require_type
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.samples import pictures
from onnxlab.kit.work import Work
from onnxlab.model.distance import Array

ROWS, WIDTH = 2, 4
SECONDS = 1.0  # of the processor, for a run that takes milliseconds
_OFFSET = 4.0  # beyond every coordinate of the turning plane, which ReLU must not cut
NEVER_ENDS = "What has to change in every iteration, so that the condition of the loop becomes false?"


class Step(torch.nn.Module):
    """The step that is repeated: two layers, so that no answer can use `step.weight` alone."""

    def __init__(self) -> None:
        super().__init__()
        self.turn, self.shift = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of four numbers."""
        result: torch.Tensor = self.shift(torch.relu(self.turn(x)))
        return result


class OtherStep(torch.nn.Module):
    """Another step, without layers: rows are turned about a point."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.eye(WIDTH))
        self.centre = torch.nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of four numbers."""
        return (x - self.centre) @ self.matrix + self.centre


def step(random: np.random.Generator) -> Step:
    """Return a step that turns two coordinates of the rows, and draws two others towards them.

    The first two make the rows of different counts different; they keep their size, and ReLU does not reach
    them, so that rounding errors do not explode. It does reach the others.
    """
    basis = np.linalg.qr(random.normal(size=(WIDTH, WIDTH)))[0]
    point = random.normal(size=WIDTH)
    point /= np.linalg.norm(point)
    rotations = np.zeros((WIDTH, WIDTH))
    rotations[:2, :2] = _rotation(random.uniform(0.5, 2.6))
    rotations[2:, :2], rotations[2:, 2:] = (0.5 * _rotation(angle) for angle in random.uniform(0, 6, 2))
    offset = np.array([_OFFSET, _OFFSET, 0, 0])
    module = Step().eval().requires_grad_(False)
    layers = {
        module.turn: (basis.T, offset - basis.T @ point),
        module.shift: (basis @ rotations, point - basis @ rotations @ offset),
    }
    for layer, (weight, bias) in layers.items():
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(bias))
    return module


def other_step(random: np.random.Generator) -> OtherStep:
    """Return a step that turns the rows about a point."""
    module = OtherStep().eval().requires_grad_(False)
    module.matrix.copy_(torch.from_numpy(np.linalg.qr(random.normal(size=(WIDTH, WIDTH)))[0]))
    module.centre.copy_(torch.from_numpy(random.normal(size=WIDTH)))
    return module


def _rotation(angle: float) -> Array:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def steps(random: np.random.Generator) -> dict[str, Step | OtherStep]:
    """Return the steps by the names of their models."""
    return {"the_step": step(random), "other_step": other_step(random)}


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
        x = pictures(random, ROWS, WIDTH)
        if scripted:
            with trying("n = 2", step=steps(work.questions())[name]):
                _require_end_in_torch(module, (x, 2), originals[name])
        exported(work, name, module, (x, torch.tensor(2)), exporter, input_names=["x", "n"])
        with trying("the step", step=steps(work.questions())[name]), torch.no_grad():
            if not torch.equal(originals[name](x), steps(work.questions())[name](x)):
                msg = "The step that was passed in has changed: its outputs differ from before."
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
    while thread.is_alive() and time.process_time() - started < SECONDS:
        thread.join(SECONDS / 50)
    if thread.is_alive():
        for weights in original.parameters():  # the thread cannot be ended, but without weights the run fails
            weights.resize_(0)
        raise Wrong(
            "Your module has not come to an end after {seconds:g} s of CPU time.", NEVER_ENDS, seconds=SECONDS
        )
