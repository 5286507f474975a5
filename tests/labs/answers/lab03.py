"""Right and wrong answers for lab 3."""

import copy
from functools import partial

import torch

from onnxlab.kit.status import Status
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


class WithWhere(Gained):
    def forward(self, x):
        low = x.amin((0, 1), keepdim=True)
        span = x.amax((0, 1), keepdim=True) - low
        x = (x - low) / torch.where(span > 0.001, span, torch.full_like(span, 0.001))
        return x * self.gain, (x @ torch.full((3, 1), 1 / 3)).squeeze(1)


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


def kept(kind):
    """Uses the first model that it was given for all others."""
    models = []

    def answer(model):
        models.append(model)
        return kind(models[0])

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
_RESULT, _CUT = "return x * self.gain, x.mean(1)", "x = x.reshape(-1, channels"
_SIZES, _SORTED = "(int(size) for size in x.shape[1:])", "x = x.permute(0, 2, 4, 1, 3, 5)"
_SIXTEEN = """forward(self, x):
            return torch.cat([self.embedded(x[i : i + 1]) for i in range(16)])

        def embedded(self, x):"""

CONTRACTS = {
    "untangle": Contract(
        right=(untangle(), (WithMaximum,), (WithWhere,), (lambda model: untangle()[0](copy.deepcopy(model)),)),
        wrong=(
            WrongAnswer("as it was", (lambda model: model,), "a number of the example"),
            WrongAnswer("float instead of item", untangle({_LOW: "low = float(x.min())"}), "float32[4, 3]"),
            WrongAnswer("through NumPy", untangle({_LOW: f"x = torch.from_numpy(x.detach().numpy()); {_LOW}"}), "The input 'x' does not reach the result"),
            WrongAnswer("the means are baked", untangle({_MEANS: "torch.tensor(x.tolist()).mean(1)"}), "a number of the example"),
            WrongAnswer("row by row", untangle({_MEANS: "torch.stack([row.mean() for row in x])"}), "asks for their number"),
            WrongAnswer("the example's rows", untangle({_MEANS: "torch.cat([x[:1], x[1:2], x[2:3], x[3:4]]).mean(1)"}), "torch gives shape (9,), the runtime (4,)"),
            WrongAnswer("no smallest span", untangle({_CLAMPED: ""}), "nan"),
            WrongAnswer("means of columns", untangle({_MEANS: "x.mean(0)"}), "torch gives shape (4,), the runtime (3,)"),
            WrongAnswer("a script", (lambda model: torch.jit.script(untangle()[0](model)),), "a ScriptModule is not supported"),
            WrongAnswer("twenty rows", untangle({_MEANS: "torch.cat([x[i : i + 1].mean(1) for i in range(20)])"}), "asks for their number"),
            WrongAnswer("a largest span", untangle({_CLAMPED: ".clamp(0.001, 1e30)"}), "e+37 to "),
            WrongAnswer("a smallest number of 0", untangle({_LOW: f"{_LOW}.clamp(max=0)"}), "]; gain "),
            WrongAnswer("the last model for all", (gain_of_the_class,), "The outputs differ"),
            WrongAnswer("the first model for all", (kept(*untangle()),), "The outputs differ"),
            WrongAnswer("writes to the model", (folding_the_gain,), "The model that was passed in has changed"),
            WrongAnswer("the model itself", (another_forward(*untangle()),), "mode or attributes differ"),
            WrongAnswer("divides the gain away", untangle({_RESULT: "x = x * self.gain; return x, (x / self.gain).mean(1)"}), "nan"),
            WrongAnswer("a smaller smallest span", untangle({"0.001": "0.0009"}), "what the span"),
            WrongAnswer("a larger smallest span", untangle({"0.001": "0.00105"}), "what the span"),
            WrongAnswer("a span below half of it", untangle({_CLAMPED: "", "/ span": "/ (span + (span < 0.0005) * (0.001 - span))"}), "what the span"),
            WrongAnswer("numbers up to a million", untangle({_LOW: f"x = x.clamp(-1e6, 1e6); {_LOW}"}), "The outputs differ"),
            WrongAnswer("the gain without its sign", untangle({"x * self.gain": "x * self.gain.abs()"}), "The outputs differ"),
            WrongAnswer("means after the gain", untangle({_RESULT: "x = x * self.gain; return x, x.mean(1)"}), "The outputs differ"),
        ),
    ),
    "static-on-purpose": Contract(
        right=(static(), (FrozenSlices,), (FrozenConv,)),
        wrong=(
            WrongAnswer("as it was", (lambda model: model,), "The graph has Shape"),
            WrongAnswer("the batch frozen, too", static({"(-1, channels": "(int(x.shape[0]), channels", "(-1, (height": "(int(x.shape[0]), (height"}), "the example's batch, 2"),
            WrongAnswer("one Shape left", static({"(-1, channels": "(x.shape[0], channels"}), "Which Shape reads which axis"),
            WrongAnswer("a Shape inside an operator", static({_SORTED: "return self.embed(y)", _CUT: f"y = torch.nn.functional.pixel_unshuffle(x, 2).flatten(2).transpose(1, 2); {_CUT}"}), "still a tensor"),
            WrongAnswer("sizes written down", static({_SIZES: "(3, 10, 14)"}), "is invalid for input of size", Status.ERROR),
            WrongAnswer("cut without sorting", static({_SORTED: "pass"}), "0, 1, 2, ... as a picture"),
            WrongAnswer("patches in another order", static({"permute(0, 2, 4,": "permute(0, 4, 2,"}), "outputs differ from PyTorch's"),
            WrongAnswer("sixteen pictures", static({"forward(self, x):": _SIXTEEN}), "the runtime (16,"),
            WrongAnswer("remembers the first sizes", static({_SIZES: "self.sizes = getattr(self, 'sizes', None) or [int(size) for size in x.shape[1:]]"}), "is invalid for input", Status.ERROR),
            WrongAnswer("sizes up to twelve", static({"(int(size)": "(min(int(size), 12)", _CUT: "x = x[:, :, :height, :width].reshape(-1, channels"}), "The output's shape is not"),
            WrongAnswer("the height for the width", static({_CUT: f"width = height; {_CUT}"}), "is invalid for input", Status.ERROR),
            WrongAnswer("remembers the height", static({_CUT: f"height = self.height = getattr(self, 'height', height); {_CUT}"}), "is invalid for input", Status.ERROR),
            WrongAnswer("pixels are clamped", static({_CUT: f"x = x.clamp(-100, 100); {_CUT}"}), "far from 0"),
            WrongAnswer("0 for nan", static({_CUT: f"x = torch.nan_to_num(x); {_CUT}"}), "far from 0"),
            WrongAnswer("the model itself", (another_forward(*static()),), "mode or attributes differ"),
            WrongAnswer("up to 128 pixels", static({"(int(size)": "(min(int(size), 128)", _CUT: "x = x[:, :, :height, :width].reshape(-1, channels"}), "pictures, patches, numbers"),
            WrongAnswer("the first model for all", (kept(*static()),), "as a picture"),
            WrongAnswer("all of it frozen", (WholeResult,), "The model has no input 'x'"),
        ),
    ),
}
