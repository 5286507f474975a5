"""Right and wrong answers for lab 3."""

import copy
from functools import partial

import torch

from tests.support.labs import Contract, WrongAnswer, solution

untangle, static = partial(solution, "untangle"), partial(solution, "static-on-purpose")


class Gained(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.gain = model.gain


def stretched(x):
    low = x.min()
    return (x - low) / (x.max() - low).clamp(min=0.001)


class WithMaximum(Gained):
    def forward(self, x):
        low = -(-x).max()
        span = torch.maximum(x.flatten().topk(1).values[0] - low, torch.tensor(0.001))
        x = (x - low) / span
        return torch.einsum("ij,j->ij", x, self.gain), x.sum(1) / x.shape[1]


class GainOfTheClass(torch.nn.Module):
    def forward(self, x):
        x = stretched(x)
        return x * GainOfTheClass.gain, x.mean(1)


def gain_of_the_class(model):
    GainOfTheClass.gain = model.gain
    return GainOfTheClass()


def folding_the_gain(model):
    module = untangle()[0](copy.deepcopy(model))
    with torch.no_grad():
        model.gain.abs_()
    return module


def another_forward(kind):
    """Return an answer that replaces the model's own method, and then returns the model."""

    def answer(model):
        model.forward = kind(model).forward
        return model

    return answer


class Embedding(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.embed = model.embed


class FrozenSlices(Embedding):
    def forward(self, x):
        patches = int(x.shape[2]) * int(x.shape[3]) // 4
        corners = [x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)]
        x = torch.stack(corners, 2).reshape(-1, 12, patches)
        return self.embed(x.transpose(1, 2))


class FrozenConv(Embedding):
    def forward(self, x):
        kernel = self.embed.weight.reshape(5, 3, 2, 2)
        y = torch.nn.functional.conv2d(x, kernel, self.embed.bias, stride=2)
        return y.reshape(-1, 5, int(y.shape[2]) * int(y.shape[3])).transpose(1, 2)


class WholeResult(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return torch.from_numpy(self.model(x).detach().numpy())


# Pieces of the solutions.
_LOW, _CLAMPED, _MEANS = "low = x.min()", ".clamp(min=0.001)", "x.mean(1)"
_CUT = "x = x.reshape(-1, channels"
_SORTED = "x = x.permute(0, 2, 4, 1, 3, 5)"
_SIXTEEN = """forward(self, x):
            return torch.cat([self.embedded(x[i : i + 1]) for i in range(16)])

        def embedded(self, x):"""

CONTRACTS = {
    "untangle": Contract(
        right=(untangle(), (WithMaximum,), (lambda model: untangle()[0](copy.deepcopy(model)),)),
        wrong=(
            WrongAnswer("through NumPy", untangle({_LOW: f"x = torch.from_numpy(x.detach().numpy()); {_LOW}"}), "The input 'x' does not reach the result"),
            WrongAnswer("row by row", untangle({_MEANS: "torch.stack([row.mean() for row in x])"}), "asks for their number"),
            WrongAnswer("the example's rows", untangle({_MEANS: "torch.cat([x[:1], x[1:2], x[2:3], x[3:4]]).mean(1)"}), "torch gives shape (9,), the runtime (4,)"),
            WrongAnswer("no smallest span", untangle({_CLAMPED: ""}), "nan"),
            WrongAnswer("divided before the difference", untangle({"(x - low) / span": "x / span - low / span"}), "the original in PyTorch"),
            WrongAnswer("a script", (lambda model: torch.jit.script(untangle()[0](model)),), "a ScriptModule is not supported"),
            WrongAnswer("a largest span", untangle({_CLAMPED: ".clamp(0.001, 1e30)"}), "e+37 to "),
            WrongAnswer("the last model for all", (gain_of_the_class,), "The outputs differ"),
            WrongAnswer("writes to the model", (folding_the_gain,), "The model that was passed in has changed"),
            WrongAnswer("the model itself", (another_forward(*untangle()),), "mode or attributes differ"),
        ),
    ),
    "static-on-purpose": Contract(
        right=(static(), (FrozenSlices,), (FrozenConv,)),
        wrong=(
            WrongAnswer("as it was", (lambda model: model,), "The graph has Shape"),
            WrongAnswer("the batch frozen, too", static({"(-1, channels": "(int(x.shape[0]), channels", "(-1, (height": "(int(x.shape[0]), (height"}), "the example's batch, 2"),
            WrongAnswer("a Shape inside an operator", static({_SORTED: "return self.embed(y)", _CUT: f"y = torch.nn.functional.pixel_unshuffle(x, 2).flatten(2).transpose(1, 2); {_CUT}"}), "still a tensor"),
            WrongAnswer("cut without sorting", static({_SORTED: "pass"}), "0, 1, 2, ... as a picture"),
            WrongAnswer("sixteen pictures", static({"forward(self, x):": _SIXTEEN}), "the runtime (16,"),
            WrongAnswer("sizes up to twelve", static({"(int(size)": "(min(int(size), 12)", _CUT: "x = x[:, :, :height, :width].reshape(-1, channels"}), "The output's shape is not"),
            WrongAnswer("an infinity spreads", static({_SORTED: f"{_SORTED} @ torch.eye(2)"}), "far from 0"),
            WrongAnswer("0 for nan", static({_CUT: f"x = torch.nan_to_num(x); {_CUT}"}), "far from 0"),
            WrongAnswer("the model itself", (another_forward(*static()),), "mode or attributes differ"),
            WrongAnswer("all of it frozen", (WholeResult,), "The model has no input 'x'"),
        ),
    ),
}
