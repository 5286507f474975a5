"""Right and wrong answers for lab 3."""

import copy

import torch

from onnxlab.labs.kit.outcome import Status
from tests.support.labs import Contract, WrongAnswer


class Gained(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.gain = model.gain


def stretched(x):
    low = x.min()
    return (x - low) / (x.max() - low).clamp(min=0.001)


class WithTensors(Gained):
    def forward(self, x):
        x = stretched(x)
        return x * self.gain, x.mean(1)


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


class WithFloat(Gained):
    def forward(self, x):
        low = float(x.min())
        x = (x - low) / (x.max() - low).clamp(min=0.001)
        return x * self.gain, x.mean(1)


class WithNumPy(Gained):
    def forward(self, x):
        x = x.detach().numpy()
        x = torch.from_numpy((x - x.min()) / (x.max() - x.min()))
        return x * self.gain, x.mean(1)


class BakedMeans(Gained):
    def forward(self, x):
        x = stretched(x)
        return x * self.gain, torch.tensor(x.tolist()).mean(1)


class RowByRow(Gained):
    def forward(self, x):
        x = stretched(x)
        return x * self.gain, torch.stack([row.mean() for row in x])


class FourRows(Gained):
    def forward(self, x):
        x = stretched(x)
        return x * self.gain, torch.cat([x[:1], x[1:2], x[2:3], x[3:4]]).mean(1)


class NoSmallestSpan(Gained):
    def forward(self, x):
        low = x.min()
        x = (x - low) / (x.max() - low)
        return x * self.gain, x.mean(1)


class MeansOfColumns(Gained):
    def forward(self, x):
        x = stretched(x)
        return x * self.gain, x.mean(0)


class MeansAfterGain(Gained):
    def forward(self, x):
        x = stretched(x) * self.gain
        return x, x.mean(1)


class Slices(Gained):
    """The list with slices, empty beyond the last row: right for twenty rows."""

    def forward(self, x):
        x = stretched(x)
        return x * self.gain, torch.cat([x[i : i + 1].mean(1) for i in range(20)])


class ThroughTheGain(Gained):
    """Computes the means from the scaled rows, divided by the gain."""

    def forward(self, x):
        x = stretched(x) * self.gain
        return x, (x / self.gain).mean(1)


class SmallestSpan(Gained):
    smallest = 0.0009

    def forward(self, x):
        low = x.min()
        x = (x - low) / (x.max() - low).clamp(min=self.smallest)
        return x * self.gain, x.mean(1)


class AnotherSmallestSpan(SmallestSpan):
    smallest = 0.00105


class SpanPlusALittle(Gained):
    def forward(self, x):
        low = x.min()
        span = x.max() - low
        x = (x - low) / (span + (span < 0.0005) * (0.001 - span))
        return x * self.gain, x.mean(1)


class ClampedNumbers(Gained):
    """Treats numbers beyond a million as a million."""

    def forward(self, x):
        x = stretched(x.clamp(-1e6, 1e6))
        return x * self.gain, x.mean(1)


class GainOfTheFirstColumn(Gained):
    def forward(self, x):
        x = stretched(x)
        return x * self.gain.abs(), x.mean(1)


class CappedSpan(Gained):
    def forward(self, x):
        low = x.min()
        x = (x - low) / (x.max() - low).clamp(0.001, 1e30)
        return x * self.gain, x.mean(1)


class LowOfZero(Gained):
    """Takes the smallest number to be 0 at most."""

    def forward(self, x):
        low = x.min().clamp(max=0)
        x = (x - low) / (x.max() - low).clamp(min=0.001)
        return x * self.gain, x.mean(1)


class GainOfTheClass(torch.nn.Module):
    def forward(self, x):
        x = stretched(x)
        return x * GainOfTheClass.gain, x.mean(1)


def gain_of_the_class(model):
    GainOfTheClass.gain = model.gain
    return GainOfTheClass()


def folding_the_gain(model):
    module = WithTensors(copy.deepcopy(model))
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

    def patches(self, x, b, c, h, w):
        x = x.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5)
        return self.embed(x.reshape(b, (h // 2) * (w // 2), c * 4))


class Frozen(Embedding):
    def forward(self, x):
        return self.patches(x, -1, *(int(size) for size in x.shape[1:]))


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


class FrozenBatch(Embedding):
    def forward(self, x):
        return self.patches(x, *(int(size) for size in x.shape))


class OneShapeLeft(Embedding):
    def forward(self, x):
        c, h, w = (int(size) for size in x.shape[1:])
        x = x.reshape(x.shape[0], c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5)
        return self.embed(x.reshape(-1, (h // 2) * (w // 2), c * 4))


class Unshuffled(Embedding):
    def forward(self, x):
        return self.embed(torch.nn.functional.pixel_unshuffle(x, 2).flatten(2).transpose(1, 2))


class WrittenDown(Embedding):
    def forward(self, x):
        return self.patches(x, -1, 3, 10, 14)


class NotSorted(Embedding):
    def forward(self, x):
        c, h, w = (int(size) for size in x.shape[1:])
        return self.embed(x.reshape(-1, (h // 2) * (w // 2), c * 4))


class SortedOtherwise(Embedding):
    def forward(self, x):
        c, h, w = (int(size) for size in x.shape[1:])
        x = x.reshape(-1, c, h // 2, 2, w // 2, 2).permute(0, 4, 2, 1, 3, 5)
        return self.embed(x.reshape(-1, (h // 2) * (w // 2), c * 4))


class SlicesOfTheBatch(Frozen):
    """One picture after the other, by slices that are empty beyond the last: right for sixteen."""

    def forward(self, x):
        return torch.cat([super(SlicesOfTheBatch, self).forward(x[i : i + 1]) for i in range(16)])


class RemembersItsSizes(Embedding):
    """Uses the sizes of the first pictures that it sees for all others."""

    sizes = None

    def forward(self, x):
        self.sizes = self.sizes or tuple(int(size) for size in x.shape[1:])
        return self.patches(x, -1, *self.sizes)


class SmallPictures(Embedding):
    """Knows the sizes up to twelve."""

    def forward(self, x):
        c, h, w = (min(int(size), 12) for size in x.shape[1:])
        return self.patches(x[:, :, :h, :w], -1, c, h, w)


class SquareOfTheHeight(Embedding):
    """Uses the height as the width."""

    def forward(self, x):
        c, h = int(x.shape[1]), int(x.shape[2])
        return self.patches(x, -1, c, h, h)


class RemembersItsHeight(Embedding):
    height = None

    def forward(self, x):
        c, h, w = (int(size) for size in x.shape[1:])
        self.height = self.height or h
        return self.patches(x, -1, c, self.height, w)


class NoNan(Frozen):
    """Puts 0 in the place of nan."""

    def forward(self, x):
        return super().forward(torch.nan_to_num(x))


class ClampedPixels(Frozen):
    def forward(self, x):
        return super().forward(x.clamp(-100, 100))


class HundredPixels(Embedding):
    def forward(self, x):
        c, h, w = (min(int(size), 128) for size in x.shape[1:])
        return self.patches(x[:, :, :h, :w], -1, c, h, w)


class WholeResult(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return torch.from_numpy(self.model(x).detach().numpy())


CONTRACTS = {
    "untangle": Contract(
        right=(
            (WithTensors,),
            (WithMaximum,),
            (WithWhere,),
            (lambda model: WithTensors(copy.deepcopy(model)),),
        ),
        wrong=(
            WrongAnswer("as it was", (lambda model: model,), "a number of the example"),
            WrongAnswer("float instead of item", (WithFloat,), "float32[4, 3]"),
            WrongAnswer("through NumPy", (WithNumPy,), "The input 'x' does not reach the result"),
            WrongAnswer("the means are baked", (BakedMeans,), "a number of the example"),
            WrongAnswer("row by row", (RowByRow,), "asks for their number"),
            WrongAnswer("the example's rows", (FourRows,), "torch gives shape (9,), the runtime (4,)"),
            WrongAnswer("no smallest span", (NoSmallestSpan,), "nan"),
            WrongAnswer("means of columns", (MeansOfColumns,), "torch gives shape (4,), the runtime (3,)"),
            WrongAnswer("a script", (lambda model: torch.jit.script(WithTensors(model)),), "a ScriptModule is not supported"),
            WrongAnswer("twenty rows", (Slices,), "asks for their number"),
            WrongAnswer("a largest span", (CappedSpan,), "e+37 to "),
            WrongAnswer("a smallest number of 0", (LowOfZero,), "float32[4, 3] from 3 to 3; [3, 3, 3] in row 0, gain "),
            WrongAnswer("the last model for all", (gain_of_the_class,), "The numbers are not"),
            WrongAnswer("the first model for all", (kept(WithTensors),), "The numbers are not"),
            WrongAnswer("writes to the model", (folding_the_gain,), "The model that was given has changed"),
            WrongAnswer("the model itself", (another_forward(WithTensors),), "its mode or its attributes"),
            WrongAnswer("divides the gain away", (ThroughTheGain,), "nan"),
            WrongAnswer("a smaller smallest span", (SmallestSpan,), "what the span"),
            WrongAnswer("a larger smallest span", (AnotherSmallestSpan,), "what the span"),
            WrongAnswer("a span below half of it", (SpanPlusALittle,), "what the span"),
            WrongAnswer("numbers up to a million", (ClampedNumbers,), "The numbers are not"),
            WrongAnswer("the gain without its sign", (GainOfTheFirstColumn,), "The numbers are not"),
            WrongAnswer("means after the gain", (MeansAfterGain,), "The numbers are not"),
        ),
    ),
    "static-on-purpose": Contract(
        right=((Frozen,), (FrozenSlices,), (FrozenConv,)),
        wrong=(
            WrongAnswer("as it was", (lambda model: model,), "The graph has Shape"),
            WrongAnswer("the batch frozen, too", (FrozenBatch,), "the example's batch, 2"),
            WrongAnswer("one Shape left", (OneShapeLeft,), "Which Shape reads which axis"),
            WrongAnswer("a Shape inside an operator", (Unshuffled,), "still a tensor"),
            WrongAnswer("sizes written down", (WrittenDown,), "is invalid for input of size", Status.ERROR),
            WrongAnswer("cut without sorting", (NotSorted,), "0, 1, 2, ... as a picture"),
            WrongAnswer("patches in another order", (SortedOtherwise,), "numbers are not PyTorch's"),
            WrongAnswer("sixteen pictures", (SlicesOfTheBatch,), "the runtime (16,"),
            WrongAnswer("remembers the first sizes", (RemembersItsSizes,), "is invalid for input", Status.ERROR),
            WrongAnswer("sizes up to twelve", (SmallPictures,), "The output's shape is not"),
            WrongAnswer("the height for the width", (SquareOfTheHeight,), "is invalid for input", Status.ERROR),
            WrongAnswer("remembers the height", (RemembersItsHeight,), "is invalid for input", Status.ERROR),
            WrongAnswer("pixels are clamped", (ClampedPixels,), "far from 0"),
            WrongAnswer("0 for nan", (NoNan,), "far from 0"),
            WrongAnswer("the model itself", (another_forward(Frozen),), "its mode or its attributes"),
            WrongAnswer("up to 128 pixels", (HundredPixels,), "pictures, patches, numbers"),
            WrongAnswer("the first model for all", (kept(Frozen),), "as a picture"),
            WrongAnswer("all of it frozen", (WholeResult,), "The model has no input 'x'"),
        ),
    ),
}
