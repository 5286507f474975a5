"""Exercise last-state: the states of a bidirectional LSTM for a padded batch.

What is asked, and what is drawn for it:

- the last state of each direction, forward first: what the packed batch gives;
- lengths of 1 up to the number of time steps, in any order, equal ones, none as long as the batch;
- any numbers in the padding, nan and infinity, too;
- any batch, any number of time steps, one time step;
- three LSTMs, with biases and without, which are asked in turn;
- both exporters' models: the same.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from onnxlab.exporters.export import Exporter
from onnxlab.kit.samples import normal
from onnxlab.labs.lab15_sequences.requested import Inputs, Module, Requested
from onnxlab.message import Message


class Packed(nn.Module):
    """The last states of a packed batch, which torch.export refuses."""

    def __init__(self, lstm: nn.LSTM) -> None:
        super().__init__()
        self.lstm = lstm

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return [batch, 2 * size]."""
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return torch.cat([h[0], h[1]], 1)


def _draw(random: np.random.Generator) -> Sequence[Module]:
    """Draw three LSTMs."""
    return [
        _module(random, 3, 4, where=Message("the LSTM with biases")),
        _module(random, 2, 5, bias=False, where=Message("the LSTM without biases")),
        _module(random, 1, 3, where=Message("the LSTM of one feature")),
    ]


def _module(
    random: np.random.Generator, features: int, size: int, *, where: str, bias: bool = True
) -> Module:
    """Draw an LSTM, and return what is asked for with it."""
    lstm = nn.LSTM(features, size, bias=bias, batch_first=True, bidirectional=True).eval()
    for weights in lstm.state_dict().values():
        weights.copy_(0.7 * normal(random, *weights.shape))

    def padded(random: np.random.Generator, lengths: Sequence[int], time: int, padding: float) -> Inputs:
        x = normal(random, len(lengths), time, lstm.input_size)
        for row, length in zip(x, lengths, strict=True):
            row[length:] = padding
        return x, torch.tensor(list(lengths))

    def example(random: np.random.Generator, batch: int, time: int) -> Inputs:
        return padded(random, [time, *random.integers(1, time + 1, batch - 1).tolist()], time, 0.0)

    def inputs(random: np.random.Generator) -> list[Inputs]:
        drawn = random.integers(1, 10, 5).tolist()
        return [
            padded(random, [1], 1, 0.0),
            padded(random, [2], 3, 0.0),
            padded(random, [3, 5], 5, 0.0),
            padded(random, [4, 4, 4], 4, 0.0),
            padded(random, [2, 1, 3], 6, 50.0),
            padded(random, [1, 4, 2], 4, float("nan")),
            padded(random, [7, 3], 8, float("inf")),
            padded(random, drawn, 12, -3.0),
            padded(random, sorted(drawn), 25, 0.5),
        ]

    return Module(where, {"lstm": lstm}, Packed(lstm), inputs, example)


REQUEST = Requested(
    answer="LastState",
    axes={"x": {0: "batch", 1: "time"}, "lengths": {0: "batch"}},
    outputs=["states"],
    draw=_draw,
    examples={Exporter.TORCHSCRIPT: (1, 4), Exporter.TORCH_EXPORT: (3, 5)},
)
produce = REQUEST.produce
