"""Exercise carried-state: a convolution and an LSTM that read a signal in pieces.

What is asked, and what is drawn for it:

- the outputs of the whole signal: a state of any values, as an earlier piece leaves it, and zeros;
- the last time steps of the input: kernels of 2, 4 and 5; pieces that are shorter than the kernel, of one
  time step, and longer;
- h and c: one layer and two;
- any batch, any number of time steps; features of 1 to 4;
- the state is the one that is given: signals of one batch size in a row, three networks in turn;
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


class Network(nn.Module):
    """A convolution that looks back, an LSTM, and a linear layer, for a whole signal."""

    def __init__(self, features: int, kernel: int, layers: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(features, 5, kernel)
        self.lstm = nn.LSTM(5, 6, layers, batch_first=True)
        self.head = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Read [batch, time, features], return [batch, time, 2]."""
        padded = nn.functional.pad(x.transpose(1, 2), (self.conv.kernel_size[0] - 1, 0))
        y, _ = self.lstm(torch.tanh(self.conv(padded)).transpose(1, 2))
        output: torch.Tensor = self.head(y)
        return output


class Step(nn.Module):
    """One piece: its output and the state after it."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor, frames: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Inputs:
        """Read what `frames` end with, then the piece."""
        seen = torch.cat([frames, x], 1)
        y = torch.tanh(self.network.conv(seen.transpose(1, 2))).transpose(1, 2)
        y, (h, c) = self.network.lstm(y, (h, c))
        return self.network.head(y), seen[:, -frames.shape[1] :], h, c


def _draw(random: np.random.Generator) -> Sequence[Module]:
    """Draw three networks."""
    features = map(int, random.permutation(4) + 1)
    return [
        _module(random, Network(next(features), 4, 1), where=Message("the network with a kernel of 4")),
        _module(random, Network(next(features), 5, 2), where=Message("the network of two layers")),
        _module(random, Network(next(features), 2, 1), where=Message("the network with a kernel of 2")),
    ]


def _module(random: np.random.Generator, network: Network, where: str) -> Module:
    """Draw the weights of a network, and return what is asked for with it."""
    for weights in network.eval().state_dict().values():
        weights.copy_(0.7 * normal(random, *weights.shape))
    features, (kernel,) = network.conv.in_channels, network.conv.kernel_size
    state = (network.lstm.num_layers, network.lstm.hidden_size)

    def example(random: np.random.Generator, batch: int, time: int) -> Inputs:
        layers, size = state
        h, c = (0.7 * normal(random, layers, batch, size) for _ in "hc")
        return normal(random, batch, time, features), normal(random, batch, kernel - 1, features), h, c

    def inputs(random: np.random.Generator) -> list[Inputs]:
        sizes = [
            (1, 1),
            (1, 2),
            (2, 1),
            (2, kernel),
            (3, 5),
            (1, 30),
            *random.integers(2, 9, (2, 2)).tolist(),
        ]
        drawn = [example(random, *size) for size in sizes]
        x, *zeros = example(random, 2, 7)
        return [*drawn, (x, *map(torch.zeros_like, zeros))]

    return Module(where, {"network": network}, Step(network), inputs, example)


REQUEST = Requested(
    answer="CarriedState",
    axes={"x": {0: "batch", 1: "time"}, "frames": {0: "batch"}, "h": {1: "batch"}, "c": {1: "batch"}},
    outputs=["y", "next_frames", "next_h", "next_c"],
    draw=_draw,
    examples={Exporter.TORCHSCRIPT: (1, 1), Exporter.TORCH_EXPORT: (2, 5)},
)
produce = REQUEST.produce
