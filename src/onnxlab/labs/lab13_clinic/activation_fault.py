"""Exercise activation-fault: an operator that has no kernel for float64."""

import torch

from onnxlab.kit.samples import normal
from onnxlab.labs.lab13_clinic.examination import Examination


class IllActivation(torch.nn.Module):
    """An ELU in double precision."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any float64 matrix."""
        return torch.nn.functional.elu(x)


EXAMINATION = Examination(
    diagnosis="activation_fault",
    repair="Activation",
    ill=IllActivation,
    axes={"x": {0: "n", 1: "m"}},
    example=lambda random: (normal(random, 2, 3).double(),),
)
produce = EXAMINATION.produce
