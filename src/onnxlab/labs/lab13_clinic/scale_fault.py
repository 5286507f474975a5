"""Exercise scale-fault: a softplus whose threshold an exporter's rule leaves out."""

import numpy as np
import torch

from onnxlab.kit.samples import normal
from onnxlab.labs.lab13_clinic.examination import Examination


class IllScale(torch.nn.Module):
    """A positive scale of any number; above 2, the number itself."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any matrix."""
        return torch.nn.functional.softplus(x, threshold=2)


def _numbers(random: np.random.Generator) -> list[tuple[torch.Tensor, ...]]:
    """Draw matrices of four sizes, small and large; then the threshold itself and its neighbours."""
    sizes = ((2, 3), (1, 1), (5, 1), (7, 40))
    drawn = [(normal(random, *size) * scale,) for size in sizes for scale in (1, 3, 1000)]
    return [*drawn, (torch.tensor([[2.0, 2.0001, 1.9999, 3.0, -2.0, 0.0]]),)]


EXAMINATION = Examination(
    diagnosis="scale_fault",
    repair="Scale",
    ill=IllScale,
    axes={"x": {0: "n", 1: "m"}},
    example=lambda random: (normal(random, 2, 3),),
    inputs=_numbers,
)
produce = EXAMINATION.produce
