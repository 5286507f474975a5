"""Exercise scale-fault: a softplus whose threshold an exporter's rule leaves out."""

import torch

from onnxlab.kit.samples import normal
from onnxlab.labs.lab13_clinic.examination import Examination


class IllScale(torch.nn.Module):
    """A positive scale of any number; above 2, the number itself."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any matrix."""
        return torch.nn.functional.softplus(x, threshold=2)


EXAMINATION = Examination(
    diagnosis="scale_fault",
    repair="Scale",
    ill=IllScale,
    axes={"x": {0: "n", 1: "m"}},
    example=lambda random: (normal(random, 2, 3),),
)
produce = EXAMINATION.produce
