"""Exercise log-mel: a log-mel spectrogram from real numbers, for both exporters.

What is asked, and what is drawn for it:

- what torch.stft gives with center=True: mirrored ends, frames at each hop, the rest left out;
- windows of any form and size: even and odd, not symmetrical; hops that divide the size and that do not;
- magnitudes, their bands by the given filters, the natural logarithm with the floor added;
- signals from size // 2 + 1 samples on: the shortest, one hop more and one sample less, long ones;
- silence, and silence with one sample that is none; large and small amplitudes;
- any batch; three spectrograms, which are asked in turn;
- both exporters' models: the same.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from onnxlab.exporters.export import Exporter
from onnxlab.kit.samples import normal
from onnxlab.labs.lab15_sequences.requested import Inputs, Module, Requested
from onnxlab.message import Message

FLOOR = 0.01


class Spectrogram(nn.Module):
    """A log-mel spectrogram by torch.stft, whose numbers are complex."""

    def __init__(self, window: torch.Tensor, filters: torch.Tensor, hop: int) -> None:
        super().__init__()
        self.window: torch.Tensor
        self.filters: torch.Tensor
        self.register_buffer("window", window)
        self.register_buffer("filters", filters)
        self.hop = hop

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Read [batch, samples], return [batch, bands, frames]."""
        spectrum = torch.stft(x, len(self.window), self.hop, window=self.window, return_complex=True)
        return torch.log(self.filters @ spectrum.abs() + FLOOR)


def _draw(random: np.random.Generator) -> Sequence[Module]:
    """Draw three spectrograms."""
    modules = []
    for size, hop, bands in ((30, 7, 5), (17, 5, 3), (16, 4, 6)):
        window = torch.from_numpy(random.uniform(0.1, 1, size).astype(np.float32))
        filters = random.uniform(0, 1, (bands, size // 2 + 1)).astype(np.float32)
        filters[random.random(filters.shape) < 0.4] = 0  # a band has some of the frequencies
        modules.append(_module(window, torch.from_numpy(filters), hop))
    return modules


def _module(window: torch.Tensor, filters: torch.Tensor, hop: int) -> Module:
    """Return what is asked for with a window."""
    size = len(window)
    shortest = size // 2 + 1

    def example(random: np.random.Generator, batch: int, time: int) -> Inputs:
        return (normal(random, batch, shortest + time),)

    def inputs(random: np.random.Generator) -> list[Inputs]:
        lengths = [shortest, size, 3 * hop + size - 1, 4 * hop + size, *(size + random.integers(1, 300, 2))]
        drawn = [normal(random, 1 + i % 3, int(length)) for i, length in enumerate(lengths)]
        click = torch.zeros(2, 5 * size)
        click[0, int(random.integers(size, 4 * size))] = 1.0
        return [(x,) for x in (*drawn, torch.zeros(1, 2 * size), click, 20 * drawn[1], 0.01 * drawn[2])]

    where = Message("the spectrogram with a window of {size} and a hop of {hop}", size=size, hop=hop)
    arguments = {"window": window, "filters": filters, "hop": hop}
    return Module(where, arguments, Spectrogram(window, filters, hop), inputs, example)


REQUEST = Requested(
    answer="LogMel",
    axes={"x": {0: "batch", 1: "samples"}},
    outputs=["bands"],
    draw=_draw,
    examples={Exporter.TORCHSCRIPT: (1, 20), Exporter.TORCH_EXPORT: (2, 61)},
)
produce = REQUEST.produce
