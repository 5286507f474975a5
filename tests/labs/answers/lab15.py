"""Right and wrong answers for lab 15."""

from functools import partial

import torch
from torch import nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pack_padded_sequence

from onnxlab.kit.outcome import Status
from tests.support.labs import Contract, WrongAnswer, solution

carry = partial(solution, "carried-state")
last = partial(solution, "last-state")
mel = partial(solution, "log-mel")


class ByNetwork(nn.Module):
    """The piece goes through a convolution written as a sum of shifted products."""

    def __init__(self, network):
        super().__init__()
        self.lstm, self.head, self.back = network.lstm, network.head, network.conv.kernel_size[0] - 1
        self.weight, self.bias = nn.Parameter(network.conv.weight.detach()), network.conv.bias

    def forward(self, x, frames, h, c):
        seen, time = torch.cat([frames, x], 1), x.shape[1]
        y = sum(seen[:, i : i + time] @ self.weight[:, :, i].T for i in range(self.back + 1)) + self.bias
        y, state = self.lstm(y.tanh(), (h, c))
        return (self.head(y), seen[:, time:], *state)


class Selected(nn.Module):
    """Unused outputs are skipped, and the state is kept in another form in between."""

    def __init__(self, network):
        super().__init__()
        self.parts = nn.ModuleList([network.conv, network.lstm, network.head])

    def forward(self, x, frames, h, c):
        conv, lstm, head = self.parts
        channels = torch.cat([frames.transpose(1, 2), x.transpose(1, 2)], 2)
        y, (h, c) = lstm(conv(channels).tanh().transpose(1, 2), (h.clone(), c.clone()))
        return [head(y), channels[:, :, x.shape[1] :].transpose(1, 2), h, c]


class Remembering(nn.Module):
    """The state stays in the module."""

    def __init__(self, network):
        super().__init__()
        self.network, self.state = network, None

    def forward(self, x, frames, h, c):
        n, seen = self.network, torch.cat([frames, x], 1)
        fits = self.state is not None and self.state[0].shape == h.shape
        y, self.state = n.lstm(n.conv(seen.transpose(1, 2)).tanh().transpose(1, 2), self.state if fits else (h, c))
        return n.head(y), seen[:, -frames.shape[1] :], *self.state


class OneSequence(nn.Module):
    """Turned by indices for the whole batch at once: flattened, then taken by index."""

    def __init__(self, lstm):
        super().__init__()
        self.both, self.size = lstm, lstm.hidden_size
        self.turned = nn.LSTM(lstm.input_size, lstm.hidden_size, bias=lstm.bias, batch_first=True)
        weights = {k.removesuffix("_reverse"): v for k, v in lstm.state_dict().items() if "_reverse" in k}
        self.turned.load_state_dict(weights)

    def forward(self, x, lengths):
        time = torch.arange(x.shape[1])
        order = lengths[:, None] - 1 - time
        order = torch.where(order < 0, time, order)
        backwards = x.gather(1, order[:, :, None].expand(-1, -1, x.shape[2]))
        there, back = self.both(x)[0][:, :, : self.size], self.turned(backwards)[0]
        index = (lengths - 1)[:, None, None].expand(-1, 1, self.size)
        return torch.cat([there.gather(1, index), back.gather(1, index)], 2)[:, 0]


class FromTheEnd(nn.Module):
    """The padding is moved to the front, replaced by zeros, and skipped by an input gate: here by masks."""

    def __init__(self, lstm):
        super().__init__()
        self.there, self.back = (
            nn.LSTM(lstm.input_size, lstm.hidden_size, bias=lstm.bias, batch_first=True) for _ in "ab"
        )
        for name, weight in lstm.named_parameters():
            layer = self.back if name.endswith("_reverse") else self.there
            getattr(layer, name.removesuffix("_reverse")).data.copy_(weight)

    def forward(self, x, lengths):
        time = torch.arange(x.shape[1])
        inside = time < lengths[:, None]
        x = torch.where(inside[..., None], x, 0.0)
        order = (lengths[:, None] - 1 - time).clamp(min=0)
        states = []
        for layer, y in ((self.there, x), (self.back, x.gather(1, order[..., None].expand(x.shape)))):
            outputs, _ = layer(y)
            states.append((outputs * (time == lengths[:, None] - 1)[..., None]).sum(1))
        return torch.hstack(states)


class WithPacking(nn.Module):
    def __init__(self, lstm):
        super().__init__()
        self.lstm = lstm

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return torch.cat([*self.lstm(packed)[1][0]], 1)


class LayerStates(WithPacking):
    def forward(self, x, lengths):
        return torch.cat([*self.lstm(x)[1][0]], 1) + 0 * lengths[:, None]


class RealStft(nn.Module):
    """The form of torch.stft that is deprecated."""

    def __init__(self, window, filters, hop):
        super().__init__()
        self.window, self.filters, self.hop = window, filters, hop

    def forward(self, x):
        pairs = torch.stft(x, len(self.window), self.hop, window=self.window, return_complex=False)
        return torch.log(self.filters @ torch.linalg.vector_norm(pairs, dim=-1) + 0.01)


class ByFrames(nn.Module):
    """Frames by indices, then a product of matrices."""

    def __init__(self, window, filters, hop):
        super().__init__()
        size = len(window)
        angle = torch.outer(torch.arange(size), torch.arange(size // 2 + 1)) * (2 * torch.pi / size)
        self.cosines, self.sines = angle.cos() * window[:, None], angle.sin() * window[:, None]
        self.filters, self.size, self.hop = filters, size, hop

    def forward(self, x):
        x = pad(x[:, None], (self.size // 2,) * 2, mode="reflect")[:, 0]
        starts = torch.arange(0, x.shape[1] - self.size + 1, self.hop)
        frames = x[:, starts[:, None] + torch.arange(self.size)]
        power = (frames @ self.cosines) ** 2 + (frames @ self.sines) ** 2
        return (power.sqrt() @ self.filters.T + 0.01).log().transpose(1, 2)


class ComplexStft(RealStft):
    def forward(self, x):
        spectrum = torch.stft(x, len(self.window), self.hop, window=self.window, return_complex=True)
        return torch.log(self.filters @ spectrum.abs() + 0.01)


FRAMES = "seen[:, -frames.shape[1] :]"
LSTM = "y, (h, c) = n.lstm(y, (h, c))"
STATE = "layer(y)[0][rows, lengths - 1]"
PADDED = '(self.size // 2, self.size // 2), mode="reflect"'

CONTRACTS = {
    "carried-state": Contract(
        right=(carry(), (ByNetwork,), (Selected,)),
        wrong=(
            WrongAnswer("the state before the piece", carry({LSTM: "y, _ = n.lstm(y, (h, c))"}), "The LSTM returns its state (h, c) after the last time step"),
            WrongAnswer("frames from the start", carry({FRAMES: "seen[:, : frames.shape[1]]"}), "next_frames is wrong"),
            WrongAnswer("a kernel of four", carry({FRAMES: "seen[:, -3:]"}), "next_frames has another shape"),
            WrongAnswer("one layer", carry({LSTM: "y, (h, c) = n.lstm(y, (h[:1].expand(h.shape).contiguous(), c))"}), "the network of two layers"),
            WrongAnswer("the time of the example", carry({FRAMES: "seen[:, int(x.shape[1]) :]"}), "The example had the batch size"),
            WrongAnswer("the state in the module", (Remembering,), "is wrong"),
            WrongAnswer("the output alone", carry({f", {FRAMES}, h, c": ""}), "Values that forward() returned: 1;"),
            WrongAnswer("no tanh", carry({"torch.tanh(n.conv(seen.transpose(1, 2)))": "n.conv(seen.transpose(1, 2))"}), "y is wrong"),
        ),
    ),
    "last-state": Contract(
        right=(last(), (OneSequence,), (FromTheEnd,)),
        wrong=(
            WrongAnswer("packed", (WithPacking,), "The torch.export exporter"),
            WrongAnswer("the layer's own states", (LayerStates,), "Was there padding among it?"),
            WrongAnswer("backward first", last({"((self.there, x), (self.back, turned))": "((self.back, turned), (self.there, x))"}), "Here is no padding"),
            WrongAnswer("changes its input", last({"rows = torch.arange(x.shape[0])": "x *= 2; rows = torch.arange(x.shape[0])"}), "An argument was changed by the call"),
            WrongAnswer("changes the weights", last({"weights = lstm.state_dict()": "weights = {name: value.clone() for name, value in lstm.state_dict().items()}; [value.zero_() for value in lstm.state_dict().values()]"}), "An argument was changed by the call"),
            WrongAnswer("always biases", last({"bias=lstm.bias, ": ""}), "Missing key(s)", Status.ERROR),
            WrongAnswer("a sum over a mask", last({STATE: "(layer(y)[0] * (time == end - 1)[..., None]).sum(1)"}), "nan"),
            WrongAnswer("outputs of all time steps", last({STATE: "layer(y)[0]"}), "another shape"),
            WrongAnswer("the batch of the example", last({"rows = torch.arange(x.shape[0])": "rows = torch.arange(len(x.tolist()))"}), "The example had the batch size 1"),
        ),
    ),
    "log-mel": Contract(
        right=(mel(), (RealStft,), (ByFrames,)),
        wrong=(
            WrongAnswer("complex", (ComplexStft,), "does not currently support complex types"),
            WrongAnswer("not centred", mel({PADDED: "(0, 0)"}), "Kernel size can't be greater", Status.ERROR),
            WrongAnswer("no window", mel({" * window)": ")"}), "bands is wrong"),
            WrongAnswer("even sizes only", mel({"/ self.size": "/ (self.size // 2 * 2)"}), "a window of 17"),
            WrongAnswer("one signal", mel({"x[:, None]": "x[:1, None]"}), "another shape"),
            WrongAnswer("the length of the example", mel({"return torch.log(": "magnitude = magnitude[..., : int(x.shape[1] / self.hop) + 1]\n        return torch.log("}), "The example had the batch size"),
        ),
    ),
}
