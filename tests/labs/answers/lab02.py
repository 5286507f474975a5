"""Right and wrong answers for lab 2."""

import copy
import itertools
import string
from functools import partial

import numpy as np
import torch

from onnxlab.kit.status import Status
from tests.support.labs import Contract, WrongAnswer, solution

axes_for, safe = partial(solution, "dynamic-axes-for"), partial(solution, "batch-safe")
(by_sets,) = axes_for()


def keeping(condition):
    """The solution, which leaves out the axes that do not meet a condition."""
    return axes_for({"> 1:": f"> 1 and ({condition}):"})


def named(label):
    """The solution with other names; `sizes` are those of an axis in all cases."""
    sizes = "sizes = [case[name][axis] for case in cases]; axes.setdefault"
    return axes_for({"axes.setdefault": sizes, 'f"{name}_{axis}"': label})


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


def lists(cases):
    return {name: list(named) for name, named in by_sets(cases).items()}


def other_names(cases):
    return {f"input_{i}": named for i, named in enumerate(by_sets(cases).values())}


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
        return safe()[0](kept[0])

    return batch_safe


def zeroing_the_bias(model):
    module = safe()[0](copy.deepcopy(model))
    torch.nn.init.zeros_(model.score.bias)
    return module


# Pieces of the solution of batch-safe.
_SEVERAL, _SCORES = "torch.ones_like(x[:, :1]).sum() > 1", "self.score(x)"
_MEAN, _SAFE = "scores.mean(0)", "torch.where(several, scores - scores.mean(0), scores)"
_RANGE = "(x.amax(0) - x.amin(0)).sum()"

CONTRACTS = {
    "dynamic-axes-for": Contract(
        right=(
            (by_sets,),
            (by_differences,),
            (shared_names,),
            named('f"{name}-{axis}"'),
            named('f"{axis}.{name}"'),
            named('f"size {axis} of {name}"'),
            named('"size_" + "_".join(map(str, sizes))'),
            (numbered,),
        ),
        wrong=(
            WrongAnswer("the first case against the last", (lambda cases: by_sets([cases[0], cases[-1]]),), "cases[1] is refused"),
            WrongAnswer("the batch only", (only_batches,), "over all cases"),
            WrongAnswer("every axis", axes_for({"> 1": "> 0"}), "in every case; yet the model also accepts"),
            WrongAnswer("one name for all", named('"dynamic"'), "'dynamic' names axis"),
            WrongAnswer("axes counted from the end", axes_for({"[axis] =": "[axis - len(shape)] ="}), "is none of them"),
            WrongAnswer("lists of axes", (lists,), "a dict from axis to name was expected"),
            WrongAnswer("names the exporter makes up", (other_names,), "There is no input 'input_0'"),
            WrongAnswer("odd keys", (lambda cases: {3: {None: [1]}, "image": {"a": {}}},), "There is no input"),
            WrongAnswer("never the channels", keeping("axis != 1 or len(shape) != 4"), "is refused"),
            WrongAnswer("never two of the last", keeping("axis == 0 or len(shape) != 3"), "is refused"),
            WrongAnswer("axes 0 and 2 only", keeping("axis in (0, 2)"), "is refused"),
            WrongAnswer("axes 0, 2 and 3 only", keeping("axis in (0, 2, 3)"), "is refused"),
            WrongAnswer("the last axes only", keeping("axis in (1, 2, 3)"), "is refused"),
            WrongAnswer("growing axes only", keeping("max(case[name][axis] for case in cases) > shape[axis]"), "is refused"),
            WrongAnswer("the first two cases", (lambda cases: by_sets(cases[:2]),), "is refused"),
            WrongAnswer("the first three cases", (lambda cases: by_sets(cases[:3]),), "is refused"),
            WrongAnswer("the first input only", axes_for({"cases[0].items()": "list(cases[0].items())[:1]"}), "is refused"),
            WrongAnswer("a name for each set of sizes", named('f"size_{sorted(set(sizes))}"'), "of other sizes"),
            WrongAnswer("a name for sizes in any order", named('f"size_{sorted(sizes)}"'), "of other sizes"),
            WrongAnswer("a name for the first size", named('f"size_{sizes[0]}"'), "of other sizes"),
            WrongAnswer("a name for the last size", named('f"size_{sizes[-1]}"'), "of other sizes"),
            WrongAnswer("a name for both ends", named('f"size_{sizes[0]}_{sizes[-1]}"'), "of other sizes"),
            WrongAnswer("a name for the largest size", named('f"size_{max(sizes)}"'), "of other sizes"),
            WrongAnswer("a name for the sum of sizes", named('f"size_{sum(sizes)}"'), "of other sizes"),
            WrongAnswer("keeps what it said before", (remembering,), "inputs and axes of these cases"),
            WrongAnswer("seven axes at most", keeping("axis < 7"), "is refused"),
            WrongAnswer("the first five cases", (lambda cases: by_sets(cases[:5]),), "cases[5] is refused"),
            WrongAnswer("a name for the digits", named('"".join(map(str, sizes))'), "of other sizes"),
            WrongAnswer("a name for the product", named('f"size_{torch.Size(sizes).numel()}"'), "of other sizes"),
            WrongAnswer("as many names as letters", (partial(numbered, letters=string.ascii_letters),), "of other sizes"),
            WrongAnswer("names in lower case", named('f"{name.lower()}{axis}"'), "of x and axis"),
            WrongAnswer("underscores for dots", named('name.replace(".", "_") + str(axis)'), "of x.1 and axis"),
            WrongAnswer("inputs by their position", (by_position,), "is refused"),
            WrongAnswer("keeps an answer for an example", (kept_by_example(),), "is refused"),
            WrongAnswer("takes the example out", (taking_the_example_out,), "was changed by the call"),
            WrongAnswer("empty ones do not count", keeping("all(case[name][axis] for case in cases)"), "is refused"),
            WrongAnswer("blank names", named('"  "'), "a text that is not blank"),
            WrongAnswer("no name", named('""'), "is called ''"),
            WrongAnswer("a number for a name", named("1"), "is called 1"),
            WrongAnswer("nothing is dynamic", (lambda cases: {},), "with {}"),
        ),
    ),
    "batch-safe": Contract(
        right=(safe(), (WithMask,), (WithCond,), (WithProduct,)),
        wrong=(
            WrongAnswer("as it was", (lambda model: model,), "still come from x.shape"),
            WrongAnswer("rows with nan are not counted", safe({_SEVERAL: "(x == x).all(1).sum() > 1"}), "nan"),
            WrongAnswer("scores are clamped", safe({_SCORES: f"{_SCORES}.clamp(-1e25, 1e25)"}), "large or small scores"),
            WrongAnswer("the mean of a thousand rows", safe({_MEAN: "scores[:1000].mean(0)"}), "the mean of all rows"),
            WrongAnswer("the last model for all", (score_of_the_class,), "batch of one"),
            WrongAnswer("the first model for all", (kept_model(),), "batch of one"),
            WrongAnswer("writes to the model", (zeroing_the_bias,), "The model that was passed in has changed"),
            WrongAnswer("the if is left", safe({_SEVERAL: "x.shape[0] > 1", _SAFE: f"scores - {_MEAN} if several else scores"}), "float32[2, 4]"),
            WrongAnswer("always relative", safe({_SAFE: f"scores - {_MEAN}"}), "What does the original make of a batch of one"),
            WrongAnswer("len is left", safe({_MEAN: "scores.sum(0) / len(x)"}), "float32[2, 4]"),
            WrongAnswer("made static", safe({_SCORES: "self.score(x.reshape(1, 4))", _SAFE: "scores"}), "Reshape node"),
            WrongAnswer("a product with 0 for one row", safe({_SEVERAL: "x.new_ones(x.shape[0]).sum()", _SAFE: "scores - scores.sum(0) / several * (several > 1)"}), "0 times inf is nan"),
            WrongAnswer("equal rows count as one", safe({_SEVERAL: "((x - x[:1]).abs().sum() > 0) | x.isnan().any()"}), "by their values"),
            WrongAnswer("rows of zeros are not counted", safe({_SEVERAL: "(x != 0).any(1).float().sum() > 1"}), "by their values"),
            WrongAnswer("x / x as a count", safe({_SEVERAL: "((x[:, 0] + 1e-30) / (x[:, 0] + 1e-30)).sum() > 1"}), "by their values"),
            WrongAnswer("nan is left out of the mean", safe({_MEAN: "torch.where(scores.isnan(), torch.zeros_like(scores), scores).mean(0)"}), "by their values"),
            WrongAnswer("twenty rows", safe({_MEAN: "sum(scores[i : i + 1].sum(0) for i in range(20)) / torch.ones_like(x[:, 0]).sum()"}), "still come from x.shape"),
            WrongAnswer("decides by the spread", safe({_SEVERAL: f"{_RANGE} > (scores.max() - scores.min() + {_RANGE}) * 1e-9"}), "by their values"),
            WrongAnswer("other weights", safe({"Safe(model.score)": "Safe(torch.nn.Linear(4, 3))"}), "float32[1, 4]"),
            WrongAnswer("a function", (lambda model: model.forward,), "a Module was expected"),
            WrongAnswer("an error", safe({_SCORES: "self.scores(x)"}), "has no attribute 'scores'", Status.ERROR),
        ),
    ),
}
