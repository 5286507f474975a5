"""Exercise: a branch that depends on the numbers, exported with both sides, by either exporter.

The statement as properties, each with what is drawn for it:

- for either exporter, in any order, more than once: several modules of the fast one, two of the other one
- the mean decides: rows whose mean has another sign than their median, ends, midrange, majority and largest
  numbers have
- at the border and close to it, for nan and infinities; at any length from 1
- the sides are x - mean and |x| + 1 for numbers of any size
- only one side is computed: nothing of a side before or after the If, and the other side in neither branch
"""

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported_or_stopped, require_type
from onnxlab.kit.outcome import trying
from onnxlab.kit.samples import pictures
from onnxlab.kit.work import Work
from onnxlab.message import Message

_SCRIPTS, _EXPORTS = 3, 2  # modules that are exported


def questions(random: np.random.Generator) -> tuple[list[Exporter], list[Exporter]]:
    """Return the exporters that the answer is called with, for unused modules and for exported ones.

    An answer that counts its calls, instead of reading its argument, cannot know which is which.
    """
    idle = [Exporter.TORCHSCRIPT, Exporter.TORCH_EXPORT][int(random.integers(2)) :]
    used = [Exporter.TORCHSCRIPT] * _SCRIPTS  # its exports are the fast ones
    for _ in range(_EXPORTS):
        used.insert(int(random.integers(len(used) + 1)), Exporter.TORCH_EXPORT)
    return idle[: int(random.integers(3))], used


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Call the answer for each exporter, and export its modules with that one, with a dynamic length of x."""

    def module_for(exporter: Exporter) -> torch.nn.Module:
        with trying(Message("the {exporter} exporter", exporter=exporter), exporter=exporter.value):
            module: torch.nn.Module = answers["branch_on_data"](exporter.value)
            require_type(module, torch.nn.Module, f'branch_on_data("{exporter}")')
        return module

    idle, used = questions(random)
    for exporter in idle:
        module_for(exporter)
    names = {exporter: iter(model_names(exporter)) for exporter in Exporter}
    for exporter in used:
        example = pictures(random, 3) + 0.5
        options = axis_options(exporter, {"x": {0: "n"}})
        exported_or_stopped(work, next(names[exporter]), module_for(exporter), example, exporter, **options)


def model_names(exporter: Exporter) -> list[str]:
    """Return the names of an exporter's models in the folder."""
    count = _SCRIPTS if exporter is Exporter.TORCHSCRIPT else _EXPORTS
    return [f"{exporter.name.lower()}_{number}" for number in range(1, count + 1)]
