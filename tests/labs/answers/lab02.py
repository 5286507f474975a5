"""Right and wrong answers for lab 2."""

import copy
import functools
import itertools
import math
import string

import numpy as np
import torch

from onnxlab.labs.kit.outcome import Status
from tests.support.labs import Contract, WrongAnswer


def by_sets(cases):
    axes = {}
    for name, shape in cases[0].items():
        for axis in range(len(shape)):
            if len({case[name][axis] for case in cases}) > 1:
                axes.setdefault(name, {})[axis] = f"{name}_{axis}"
    return axes


def by_differences(cases):
    """An entry for every input, empty ones too; NumPy's numbers."""
    axes = {}
    for name in cases[0]:
        shapes = np.array([case[name] for case in cases])
        axes[name] = {axis: f"{name}{axis}" for axis in np.flatnonzero((shapes != shapes[0]).any(0))}
    return axes


def shared_names(cases):
    """Axes with the same sizes in every case share a name."""
    names, axes = {}, by_sets(cases)
    for name, dynamic in axes.items():
        for axis in dynamic:
            sizes = tuple(case[name][axis] for case in cases)
            dynamic[axis] = names.setdefault(sizes, f"size{len(names)}")
    return axes


def only_batches(cases):
    return {name: {0: f"{name}_batch"} for name in by_sets(cases)}


def everything(cases):
    return {name: {axis: f"{name}_{axis}" for axis in range(len(shape))} for name, shape in cases[0].items()}


def one_name(cases):
    return {name: dict.fromkeys(named, "dynamic") for name, named in by_sets(cases).items()}


def from_the_end(cases):
    return {
        name: {axis - len(cases[0][name]): label for axis, label in named.items()}
        for name, named in by_sets(cases).items()
    }


def lists(cases):
    return {name: list(named) for name, named in by_sets(cases).items()}


def other_names(cases):
    return {f"input_{i}": named for i, named in enumerate(by_sets(cases).values())}


def odd(cases):
    return {3: {None: [1]}, "image": {"a": {}}}


def named(template):
    """A right answer whose names follow another template."""
    return lambda cases: {
        name: {axis: template.format(name, axis) for axis in dynamic}
        for name, dynamic in by_sets(cases).items()
    }


def keeping(keeps):
    """Leaves out axes, by the sizes that the axis has and the number of axes."""

    def dynamic_axes_for(cases):
        return {
            name: {
                axis: label
                for axis, label in dynamic.items()
                if keeps(axis, [case[name][axis] for case in cases], len(cases[0][name]))
            }
            for name, dynamic in by_sets(cases).items()
        }

    return dynamic_axes_for


def only_some_axes(*axes):
    return keeping(lambda axis, sizes, rank: axis in axes)


but_channels = keeping(lambda axis, sizes, rank: axis != 1 or rank != 4)
but_last_two = keeping(lambda axis, sizes, rank: axis == 0 or rank != 3)
growing = keeping(lambda axis, sizes, rank: max(sizes) > sizes[0])


def shared_by(key):
    """Axes whose sizes have the same key share a name."""

    def dynamic_axes_for(cases):
        return {
            name: {axis: f"size_{key([case[name][axis] for case in cases])}" for axis in dynamic}
            for name, dynamic in by_sets(cases).items()
        }

    return dynamic_axes_for


def first_input(cases):
    return dict(list(by_sets(cases).items())[:1])


def remembering(cases, axes={}):  # noqa: B006 - the slip of a default that is made once
    axes |= by_sets(cases)
    return axes


def by_position(cases):
    """Takes the inputs of all cases to be in one order."""
    axes = {}
    for name, shapes in zip(cases[0], zip(*(case.values() for case in cases), strict=True), strict=True):
        axes[name] = {
            axis: f"{name}_{axis}"
            for axis, sizes in enumerate(zip(*shapes, strict=False))
            if len({*sizes}) > 1
        }
    return axes


def kept_by_example():
    answers = {}

    def dynamic_axes_for(cases):
        return answers.setdefault(str(cases[0]), by_sets(cases))

    return dynamic_axes_for


def taking_the_example_out(cases):
    example = cases.pop(0)
    return by_sets([example, *cases])


def without_zeros(cases):
    axes = by_sets(cases)
    return {
        name: {axis: label for axis, label in named.items() if all(case[name][axis] for case in cases)}
        for name, named in axes.items()
    }


def numbered(cases, letters=None):
    """A name for each axis, by its number; or a letter, as long as there are any."""
    numbers = itertools.count()
    return {
        name: {
            axis: letters[next(numbers) % len(letters)] if letters else f"d{next(numbers)}" for axis in named
        }
        for name, named in by_sets(cases).items()
    }


class Repaired(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.score = model.score


class WithWhere(Repaired):
    def forward(self, x):
        scores = self.score(x)
        return torch.where(torch.ones_like(x[:, :1]).sum() > 1, scores - scores.mean(0), scores)


class WithCount(Repaired):
    def forward(self, x):
        scores = self.score(x)
        count = x.new_ones(x.shape[0]).sum()
        return scores - scores.sum(0) / count * (count > 1)


class WithCond(Repaired):
    def forward(self, x):
        several = torch.arange(x.shape[0]).sum() > 0
        return torch.cond(several, lambda s: s - s.mean(0), lambda s: s.clone(), (self.score(x),))


class WithMask(Repaired):
    """The mean of one row is 0 by `where`, not by a product with 0, which makes nan of an infinity."""

    def forward(self, x):
        scores = self.score(x)
        count = x.new_ones(x.shape[0]).sum()
        mean = scores.sum(0) / count
        return scores - torch.where(count > 1, mean, torch.zeros_like(mean))


class RowsThatDiffer(Repaired):
    """Treats rows that are all equal as one row."""

    def forward(self, x):
        scores = self.score(x)
        several = ((x - x[:1]).abs().sum() > 0) | x.isnan().any()
        return torch.where(several, scores - scores.mean(0), scores)


class RowsThatAreNotZero(Repaired):
    """Counts the rows by their values."""

    def forward(self, x):
        scores = self.score(x)
        several = (x != 0).any(1).float().sum() > 1
        return torch.where(several, scores - scores.mean(0), scores)


class CountedByItself(Repaired):
    """x / x is 1, except for 0, infinities and nan."""

    def forward(self, x):
        scores = self.score(x)
        count = ((x[:, 0] + 1e-30) / (x[:, 0] + 1e-30)).sum()
        return torch.where(count > 1, scores - scores.mean(0), scores)


class MeanWithoutNan(Repaired):
    def forward(self, x):
        scores = self.score(x)
        mean = torch.where(scores.isnan(), torch.zeros_like(scores), scores).mean(0)
        return torch.where(torch.ones_like(x[:, :1]).sum() > 1, scores - mean, scores)


class Slices(Repaired):
    """The loop with slices, empty beyond the last row: right for twenty rows."""

    def forward(self, x):
        scores = self.score(x)
        total = sum(scores[i : i + 1].sum(0) for i in range(20))
        count = torch.ones_like(x[:, 0]).sum()
        return torch.where(count > 1, scores - total / count, scores)


class Spread(Repaired):
    """Decides by the spread of the scores."""

    def forward(self, x):
        scores = self.score(x)
        spread = scores.max() - scores.min() + (x.amax(0) - x.amin(0)).sum()
        several = (x.amax(0) - x.amin(0)).sum() > spread * 1e-9
        return torch.where(several, scores - scores.mean(0), scores)


class KeepsTheIf(Repaired):
    def forward(self, x):
        scores = self.score(x)
        return scores - scores.mean(0) if x.shape[0] > 1 else scores


class AlwaysRelative(Repaired):
    def forward(self, x):
        scores = self.score(x)
        return scores - scores.mean(0)


class KeepsTheLen(Repaired):
    def forward(self, x):
        scores = self.score(x)
        return torch.where(torch.ones_like(x[:, :1]).sum() > 1, scores - scores.sum(0) / len(x), scores)


class OneRowOnly(Repaired):
    def forward(self, x):
        return self.score(x.reshape(1, 4))


class NewWeights(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.score = torch.nn.Linear(4, 3)

    forward = WithWhere.forward


class CountsWithoutNan(Repaired):
    """Counts the rows without a nan."""

    def forward(self, x):
        scores = self.score(x)
        return torch.where((x == x).all(1).sum() > 1, scores - scores.mean(0), scores)


class ClampedScores(Repaired):
    def forward(self, x):
        scores = self.score(x).clamp(-1e25, 1e25)
        return torch.where(torch.ones_like(x[:, :1]).sum() > 1, scores - scores.mean(0), scores)


class MeanOfAThousand(Repaired):
    def forward(self, x):
        scores = self.score(x)
        return torch.where(torch.ones_like(x[:, :1]).sum() > 1, scores - scores[:1000].mean(0), scores)


class WithProduct(Repaired):
    """The mean as a product with a row of ones."""

    def forward(self, x):
        scores, ones = self.score(x), torch.ones_like(x[:, :1])
        return torch.where(ones.sum() > 1, scores - ones.T @ scores / ones.sum(), scores)


class ScoreOfTheClass(torch.nn.Module):
    def forward(self, x):
        scores = ScoreOfTheClass.score(x)
        return torch.where(torch.ones_like(x[:, :1]).sum() > 1, scores - scores.mean(0), scores)


def score_of_the_class(model):
    ScoreOfTheClass.score = model.score
    return ScoreOfTheClass()


def kept_model():
    kept = []

    def batch_safe(model):
        kept.append(model)
        return WithWhere(kept[0])

    return batch_safe


def zeroing_the_bias(model):
    module = WithWhere(copy.deepcopy(model))
    torch.nn.init.zeros_(model.score.bias)
    return module


class Misspelt(Repaired):
    def forward(self, x):
        return self.scores(x)


CONTRACTS = {
    "dynamic-axes-for": Contract(
        right=(
            (by_sets,),
            (by_differences,),
            (shared_names,),
            (named("{}-{}"),),
            (named("{1}.{0}"),),
            (named("size {1} of {0}"),),
            (shared_by(lambda sizes: "_".join(map(str, sizes))),),
            (numbered,),
        ),
        wrong=(
            WrongAnswer("the first case against the last", (lambda cases: by_sets([cases[0], cases[-1]]),), "cases[1] is refused"),
            WrongAnswer("the batch only", (only_batches,), "over all cases"),
            WrongAnswer("every axis", (everything,), "in every case; yet the model also takes"),
            WrongAnswer("one name for all", (one_name,), "'dynamic' names axis"),
            WrongAnswer("axes counted from the end", (from_the_end,), "is none of them"),
            WrongAnswer("lists of axes", (lists,), "a dict from axis to name was expected"),
            WrongAnswer("names the exporter makes up", (other_names,), "There is no input 'input_0'"),
            WrongAnswer("odd keys", (odd,), "There is no input"),
            WrongAnswer("never the channels", (but_channels,), "is refused"),
            WrongAnswer("never two of the last", (but_last_two,), "is refused"),
            WrongAnswer("axes 0 and 2 only", (only_some_axes(0, 2),), "is refused"),
            WrongAnswer("axes 0, 2 and 3 only", (only_some_axes(0, 2, 3),), "is refused"),
            WrongAnswer("the last axes only", (only_some_axes(1, 2, 3),), "is refused"),
            WrongAnswer("growing axes only", (growing,), "is refused"),
            WrongAnswer("the first two cases", (lambda cases: by_sets(cases[:2]),), "is refused"),
            WrongAnswer("the first three cases", (lambda cases: by_sets(cases[:3]),), "is refused"),
            WrongAnswer("the first input only", (first_input,), "is refused"),
            WrongAnswer("a name for each set of sizes", (shared_by(lambda s: sorted(set(s))),), "of other sizes"),
            WrongAnswer("a name for sizes in any order", (shared_by(sorted),), "of other sizes"),
            WrongAnswer("a name for the first size", (shared_by(lambda s: s[0]),), "of other sizes"),
            WrongAnswer("a name for the last size", (shared_by(lambda s: s[-1]),), "of other sizes"),
            WrongAnswer("a name for both ends", (shared_by(lambda s: (s[0], s[-1])),), "of other sizes"),
            WrongAnswer("a name for the largest size", (shared_by(max),), "of other sizes"),
            WrongAnswer("a name for the sum of sizes", (shared_by(sum),), "of other sizes"),
            WrongAnswer("keeps what it said before", (remembering,), "There is no input"),
            WrongAnswer("seven axes at most", (only_some_axes(*range(7)),), "is refused"),
            WrongAnswer("the first five cases", (lambda cases: by_sets(cases[:5]),), "cases[5] is refused"),
            WrongAnswer("a name for the digits", (shared_by(lambda s: "".join(map(str, s))),), "of other sizes"),
            WrongAnswer("a name for the product", (shared_by(math.prod),), "of other sizes"),
            WrongAnswer("as many names as letters", (functools.partial(numbered, letters=string.ascii_letters),), "of other sizes"),
            WrongAnswer(
                "names in lower case",
                (lambda cases: {n: {i: f"{n.lower()}{i}" for i in a} for n, a in by_sets(cases).items()},),
                "of x and axis",
            ),
            WrongAnswer(
                "underscores for dots",
                (
                    lambda cases: {
                        n: {i: f"{n.replace('.', '_')}{i}" for i in a} for n, a in by_sets(cases).items()
                    },
                ),
                "of x.1 and axis",
            ),
            WrongAnswer("inputs by their position", (by_position,), "is refused"),
            WrongAnswer("keeps an answer for an example", (kept_by_example(),), "is refused"),
            WrongAnswer("takes the example out", (taking_the_example_out,), "was changed by the call"),
            WrongAnswer("empty ones do not count", (without_zeros,), "is refused"),
            WrongAnswer("blank names", (named("  "),), "a text that is not blank"),
            WrongAnswer("no name", (named(""),), "is called ''"),
            WrongAnswer("a number for a name", (lambda cases: {n: dict.fromkeys(a, 1) for n, a in by_sets(cases).items()},), "is called 1"),
            WrongAnswer("nothing is dynamic", (lambda cases: {},), "with {}"),
        ),
    ),
    "batch-safe": Contract(
        right=((WithWhere,), (WithMask,), (WithCond,), (WithProduct,)),
        wrong=(
            WrongAnswer("as it was", (lambda model: model,), "still come from x.shape"),
            WrongAnswer("rows with nan are not counted", (CountsWithoutNan,), "nan"),
            WrongAnswer("scores are clamped", (ClampedScores,), "large or small scores"),
            WrongAnswer("the mean of a thousand rows", (MeanOfAThousand,), "the mean of all rows"),
            WrongAnswer("the last model for all", (score_of_the_class,), "batch of one"),
            WrongAnswer("the first model for all", (kept_model(),), "batch of one"),
            WrongAnswer("writes to the model", (zeroing_the_bias,), "The model that was given has changed"),
            WrongAnswer("the if is left", (KeepsTheIf,), "float32[2, 4]"),
            WrongAnswer("always relative", (AlwaysRelative,), "What does the original make of a batch of one"),
            WrongAnswer("len is left", (KeepsTheLen,), "float32[2, 4]"),
            WrongAnswer("made static", (OneRowOnly,), "Reshape node"),
            WrongAnswer("a product with 0 for one row", (WithCount,), "0 times inf is nan"),
            WrongAnswer("equal rows count as one", (RowsThatDiffer,), "by what stands in them"),
            WrongAnswer("rows of zeros are not counted", (RowsThatAreNotZero,), "by what stands in them"),
            WrongAnswer("x / x as a count", (CountedByItself,), "by what stands in them"),
            WrongAnswer("nan is left out of the mean", (MeanWithoutNan,), "by what stands in them"),
            WrongAnswer("twenty rows", (Slices,), "still come from x.shape"),
            WrongAnswer("decides by the spread", (Spread,), "by what stands in them"),
            WrongAnswer("other weights", (NewWeights,), "float32[1, 4]"),
            WrongAnswer("a function", (lambda model: model.forward,), "a Module was expected"),
            WrongAnswer("an error", (Misspelt,), "has no attribute 'scores'", Status.ERROR),
        ),
    ),
}
