"""Exercise heading-fault: atan2 where the first argument is exactly zero; that is 0.0, not -0.0."""

import torch

from onnxlab.kit.samples import normal
from onnxlab.labs.lab13_clinic.examination import Examination


class IllHeading(torch.nn.Module):
    """The angle of each vector to the east, in radians."""

    def forward(self, north: torch.Tensor, east: torch.Tensor) -> torch.Tensor:
        """Two vectors of equal length."""
        return torch.atan2(north, east)


EXAMINATION = Examination(
    diagnosis="heading_fault",
    repair="Heading",
    ill=IllHeading,
    axes={"north": {0: "n"}, "east": {0: "n"}},
    example=lambda random: (normal(random, 4), normal(random, 4)),
)
produce = EXAMINATION.produce
