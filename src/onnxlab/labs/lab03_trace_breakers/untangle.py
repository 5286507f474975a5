"""Exercise: a model that computes in Python, rewritten so that both exporters see all of it.

The statement as properties, each with what is drawn for it:

- the same two results, for its own gain: others are asked for before and after its call
- `model` stays as it is
- for both exporters, computed from x
- other numbers: from 1e-20 to 1e37, of both signs, all positive, all negative; the smallest and the
  largest in any place; equal ones, large too; spans of about 0.001 on both sides
- other numbers of rows: 1 to some 4,500, also as many as there are columns
- gains are positive, negative and 0
"""

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import (
    axis_options,
    exported_or_stopped,
    require_type,
    require_unchanged,
)
from onnxlab.kit.outcome import trying
from onnxlab.kit.samples import normal
from onnxlab.kit.work import Work

ROWS, COLUMNS = 4, 3


class Tangled(torch.nn.Module):
    """Scales numbers to the range from 0 to 1, and gives each row's mean, with detours through Python."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(COLUMNS))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of three numbers."""
        low = x.min().item()
        span = max(x.max().item() - low, 0.001)
        x = (x - low) / span
        return x * self.gain, torch.Tensor([float(row.mean()) for row in x])


def tangled(random: np.random.Generator) -> Tangled:
    """Return the model with random gains."""
    model = Tangled()
    with torch.no_grad():
        gains = np.array([random.uniform(0.5, 2.0), random.uniform(-2.0, -0.5), 0.0])
        model.gain.copy_(torch.from_numpy(random.permutation(gains)))  # a gain of 0 cannot be divided away
    return model.eval()


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the learner's module with both exporters, with a dynamic number of rows."""
    with trying("the model", model=tangled(work.questions())):
        model = tangled(random)
        answers["untangle"](tangled(random))  # of this model, and of the last one, nothing may be kept
        module = answers["untangle"](model)
        require_type(module, torch.nn.Module, "untangle(model)")
        answers["untangle"](tangled(random))
    for exporter in Exporter:
        options = axis_options(exporter, {"x": {0: "rows"}})
        example = normal(random, ROWS, COLUMNS)
        exported_or_stopped(work, exporter.name.lower(), module, example, exporter, **options)
    require_unchanged(model, tangled(work.questions()), [normal(random, ROWS, COLUMNS)])
