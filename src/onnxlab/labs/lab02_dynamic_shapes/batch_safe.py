"""Exercise: repair a model whose export only works for a batch of one, as in its example.

The statement as properties, each with what is drawn for it:

- what `Ranker` computes, for its own weights: others are asked for before and after its call
- `model` stays as it is
- a batch of one: its scores as they are, with infinities and nan
- other batches, 2 to some 4,500, two rows too, whatever the rows are: equal, zero, but for one, wholly nan
- numbers of any size, from 1e-30 to 1e30
"""

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported, require_type, require_unchanged
from onnxlab.kit.outcome import trying
from onnxlab.kit.samples import normal, normal_weights
from onnxlab.kit.work import Work

FEATURES, SCORES = 4, 3


class Ranker(torch.nn.Module):
    """Scores rows, relative to the mean of the batch if there is more than one row."""

    def __init__(self) -> None:
        super().__init__()
        self.score = torch.nn.Linear(FEATURES, SCORES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows of four numbers."""
        scores: torch.Tensor = self.score(x)
        total = torch.zeros_like(scores[0])
        for i in range(x.shape[0]):
            total = total + scores[i]
        mean = total / len(x)
        return scores - mean if x.shape[0] > 1 else scores


def ranker(random: np.random.Generator) -> Ranker:
    """Return the model with random weights."""
    model = Ranker()
    normal_weights(random, model)
    return model


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Export the repaired model with a batch of one, declared dynamic."""
    with trying("the model", model=ranker(work.questions())):
        model = ranker(random)
        answers["batch_safe"](ranker(random))  # of this model, and of the last one, nothing may be kept
        module = answers["batch_safe"](model)
        require_type(module, torch.nn.Module, "batch_safe(model)")
        answers["batch_safe"](ranker(random))
    options = axis_options(Exporter.TORCH_EXPORT, {"x": {0: "batch"}})
    exported(work, "repaired", module, normal(random, 1, FEATURES), Exporter.TORCH_EXPORT, **options)
    require_unchanged(model, ranker(work.questions()), [normal(random, rows, FEATURES) for rows in (1, 3)])
