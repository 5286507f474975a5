"""Exercise louder-fault: an operator that has no kernel for int16."""

import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.samples import integers
from onnxlab.labs.lab13_clinic.examination import Examination


class IllLouder(torch.nn.Module):
    """The larger sample of two channels."""

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Two int16 vectors of equal length."""
        return torch.maximum(left, right)


EXAMINATION = Examination(
    diagnosis="louder_fault",
    repair="Louder",
    ill=IllLouder,
    axes={"left": {0: "n"}, "right": {0: "n"}},
    example=lambda random: (integers(random, torch.int16, 4), integers(random, torch.int16, 4)),
    exporter=Exporter.TORCH_EXPORT,
)
produce = EXAMINATION.produce
