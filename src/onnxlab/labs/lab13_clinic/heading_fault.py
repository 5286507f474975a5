"""Exercise heading-fault: atan2 where the first argument is exactly zero; that is 0.0, not -0.0."""

import numpy as np
import torch

from onnxlab.kit.samples import normal
from onnxlab.labs.lab13_clinic.examination import Examination


class IllHeading(torch.nn.Module):
    """The angle of each vector to the east, in radians."""

    def forward(self, north: torch.Tensor, east: torch.Tensor) -> torch.Tensor:
        """Two vectors of equal length."""
        return torch.atan2(north, east)


def _headings(random: np.random.Generator) -> list[tuple[torch.Tensor, ...]]:
    """Draw vectors of several lengths and sizes; then those on an axis, none at all, and close to an axis."""
    drawn = [(normal(random, size), normal(random, size)) for size in (1, 4, 7, 300)]
    places = torch.tensor([[0.0, -1], [0, 1], [1, 0], [-1, 0], [0, 0]])
    scaled = [places[random.permutation(5)] * float(random.uniform(0.1, 9)) for _ in range(2)]
    rows = [*scaled, *(places[i : i + 1] for i in range(len(places)))]
    sizes = torch.logspace(-30, 30, 13)
    drawn.append((normal(random, 13) * sizes, normal(random, 13) * sizes))
    close = torch.from_numpy(10 ** random.uniform([-30, -4] * 6, [-4, -1] * 6)).float()
    close *= torch.tensor([1.0, 1.0, -1.0, -1.0]).repeat(3)
    side = torch.tensor([1.0, -1.0]).repeat_interleave(6)
    return [*drawn, *((row[:, 0], row[:, 1]) for row in rows), (close, side), (side, close)]


EXAMINATION = Examination(
    diagnosis="heading_fault",
    repair="Heading",
    ill=IllHeading,
    axes={"north": {0: "n"}, "east": {0: "n"}},
    example=lambda random: (normal(random, 4), normal(random, 4)),
    inputs=_headings,
)
produce = EXAMINATION.produce
