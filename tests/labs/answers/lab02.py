"""Right and wrong answers for lab 2."""

import copy
from functools import partial

import numpy as np
import torch

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


def lists(cases):
    return {name: list(named) for name, named in by_sets(cases).items()}


def taking_the_example_out(cases):
    example = cases.pop(0)
    return by_sets([example, *cases])


class Repaired(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.score = model.score


class WithCond(Repaired):
    def forward(self, x):
        several = torch.arange(x.shape[0]).sum() > 0
        return torch.cond(several, lambda s: s - s.mean(0), lambda s: s.clone(), (self.score(x),))


class WithProduct(Repaired):
    """The mean as a product with a row of ones."""

    def forward(self, x):
        scores, ones = self.score(x), torch.ones_like(x[:, :1])
        return torch.where(ones.sum() > 1, scores - ones.T @ scores / ones.sum(), scores)


def zeroing_the_bias(model):
    module = safe()[0](copy.deepcopy(model))
    torch.nn.init.zeros_(model.score.bias)
    return module


# Pieces of the solution of batch-safe.
_SEVERAL, _SCORES = "torch.ones_like(x[:, :1]).sum() > 1", "self.score(x)"
_MEAN, _SAFE = "scores.mean(0)", "torch.where(several, scores - scores.mean(0), scores)"

CONTRACTS = {
    "dynamic-axes-for": Contract(
        right=((by_sets,), (by_differences,), (shared_names,)),
        wrong=(
            WrongAnswer("every axis", axes_for({"> 1": "> 0"}), "in every case; yet the model also accepts"),
            WrongAnswer("axes counted from the end", axes_for({"[axis] =": "[axis - len(shape)] ="}), "is none of them"),
            WrongAnswer("lists of axes", (lists,), "a dict from axis to name was expected"),
            WrongAnswer("odd keys", (lambda cases: {3: {None: [1]}, "image": {"a": {}}},), "There is no input"),
            WrongAnswer("the first five cases", (lambda cases: by_sets(cases[:5]),), "cases[5] is refused"),
            WrongAnswer("a name for the digits", named('"".join(map(str, sizes))'), "of other sizes"),
            WrongAnswer("names in lower case", named('f"{name.lower()}{axis}"'), "of x and axis"),
            WrongAnswer("underscores for dots", named('name.replace(".", "_") + str(axis)'), "of x.1 and axis"),
            WrongAnswer("takes the example out", (taking_the_example_out,), "was changed by the call"),
            WrongAnswer("empty ones do not count", keeping("all(case[name][axis] for case in cases)"), "is refused"),
            WrongAnswer("blank names", named('"  "'), "a text that is not blank"),
            WrongAnswer("a number for a name", named("1"), "is called 1"),
        ),
    ),
    "batch-safe": Contract(
        right=(safe(), (WithCond,), (WithProduct,)),
        wrong=(
            WrongAnswer("as it was", (lambda model: model,), "still come from x.shape"),
            WrongAnswer("rows with nan are not counted", safe({_SEVERAL: "(x == x).all(1).sum() > 1"}), "nan"),
            WrongAnswer("scores are clamped", safe({_SCORES: f"{_SCORES}.clamp(-1e25, 1e25)"}), "large or small scores"),
            WrongAnswer("the mean of a thousand rows", safe({_MEAN: "scores[:1000].mean(0)"}), "the mean of all rows"),
            WrongAnswer("writes to the model", (zeroing_the_bias,), "The model that was passed in has changed"),
            WrongAnswer("always relative", safe({_SAFE: f"scores - {_MEAN}"}), "What does the original make of a batch of one"),
            WrongAnswer("made static", safe({_SCORES: "self.score(x.reshape(1, 4))", _SAFE: "scores"}), "Reshape node"),
            WrongAnswer("rows of zeros are not counted", safe({_SEVERAL: "(x != 0).any(1).float().sum() > 1"}), "by their values"),
            WrongAnswer("other weights", safe({"Safe(model.score)": "Safe(torch.nn.Linear(4, 3))"}), "float32[1, 4]"),
            WrongAnswer("a function", (lambda model: model.forward,), "a Module was expected"),
        ),
    ),
}
