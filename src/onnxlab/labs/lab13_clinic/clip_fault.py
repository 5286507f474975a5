"""Exercise clip-fault: values are limited through `.data`, which a trace does not record."""

import torch

from onnxlab.kit.samples import normal
from onnxlab.labs.lab13_clinic.examination import Examination


class IllClip(torch.nn.Module):
    """Amplifies a signal and limits it to 6 on both sides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any matrix."""
        signal = x * 1.5
        signal.data.clamp_(-6, 6)
        return signal / 2


EXAMINATION = Examination(
    diagnosis="clip_fault",
    repair="Clip",
    ill=IllClip,
    axes={"x": {0: "n", 1: "m"}},
    example=lambda random: (normal(random, 2, 3),),
    inputs=lambda random: [
        (normal(random, *size) * scale,)
        for size in ((2, 3), (1, 1), (5, 1), (7, 40))
        for scale in (1, 10, 1000)
    ],
)
produce = EXAMINATION.produce
