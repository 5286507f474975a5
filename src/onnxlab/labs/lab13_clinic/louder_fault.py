"""Exercise louder-fault: an operator that has no kernel for int16."""

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.samples import integers
from onnxlab.labs.lab13_clinic.examination import Examination


class IllLouder(torch.nn.Module):
    """The larger sample of two channels."""

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Two int16 vectors of equal length."""
        return torch.maximum(left, right)


def _channels(random: np.random.Generator) -> list[tuple[torch.Tensor, ...]]:
    """Draw channels of several lengths; then all pairs of the largest and smallest samples."""
    drawn = [tuple(integers(random, torch.int16, size) for _ in range(2)) for size in (1, 4, 30, 1000)]
    ends = torch.tensor([-32768, -1, 0, 32767], dtype=torch.int16)
    return [*drawn, (ends.repeat(4), ends.repeat_interleave(4))]


EXAMINATION = Examination(
    diagnosis="louder_fault",
    repair="Louder",
    ill=IllLouder,
    axes={"left": {0: "n"}, "right": {0: "n"}},
    example=lambda random: (integers(random, torch.int16, 4), integers(random, torch.int16, 4)),
    inputs=_channels,
    exporter=Exporter.TORCH_EXPORT,
)
produce = EXAMINATION.produce
