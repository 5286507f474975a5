"""Exercise shares-fault: a kernel whose sigmoid is exactly 0 where ONNX's is only small."""

import numpy as np
import torch

from onnxlab.kit.samples import normal
from onnxlab.labs.lab13_clinic.examination import Examination


class IllShares(torch.nn.Module):
    """The share that each candidate of a row has in the row's scores."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any matrix."""
        score = torch.sigmoid(x)
        return score / score.sum(1, keepdim=True)


def _rows(random: np.random.Generator) -> list[tuple[torch.Tensor, ...]]:
    """Draw matrices of four sizes: of ordinary, of large and of faint scores, and rows of each kind."""
    sizes = ((2, 3), (1, 1), (5, 1), (7, 40))
    drawn = [(normal(random, *size) + shift,) for size in sizes for shift in (0, 30, -30)]
    rows = torch.cat([normal(random, 1, 4) + shift for shift in (-40, -20, 0, 20)])
    return [*drawn, (rows,)]


EXAMINATION = Examination(
    diagnosis="shares_fault",
    repair="Shares",
    ill=IllShares,
    axes={"x": {0: "n", 1: "m"}},
    example=lambda random: (normal(random, 2, 3),),
    inputs=_rows,
)
produce = EXAMINATION.produce
