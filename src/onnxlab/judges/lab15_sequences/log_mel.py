"""What is right in log-mel."""

import torch
from torch import nn

from onnxlab.judges.lab15_sequences.requested import Verdict
from onnxlab.labs.lab15_sequences.log_mel import FLOOR, REQUEST, Spectrogram


class _Convolution(nn.Module):
    """The spectrogram as the TorchScript exporter can write it."""

    def __init__(self, right: Spectrogram) -> None:
        super().__init__()
        self.right = right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        window, size = self.right.window, len(self.right.window)
        angle = 2 * torch.pi * torch.outer(torch.arange(size // 2 + 1), torch.arange(size)) / size
        waves = (torch.cat([angle.cos(), angle.sin()]) * window)[:, None]
        padded = nn.functional.pad(x[:, None], (size // 2, size // 2), mode="reflect")
        real, imaginary = nn.functional.conv1d(padded, waves, stride=self.right.hop).chunk(2, 1)
        return torch.log(self.right.filters @ (real**2 + imaginary**2).sqrt() + FLOOR)


JUDGES = Verdict(
    REQUEST,
    file_of=_Convolution,
    look_at={
        "": "Compare step by step with torch.stft: the padded signal, the frames, the magnitudes, the bands, "
        "the logarithm. Which is the first that differs?"
    },
    tolerance=5e-4,  # the logarithm makes much of little where a band is near the floor
).judges
