"""Right and wrong answers for lab 2."""

import numpy as np
import torch
from lab_answers import Contract, WrongAnswer

from onnxlab.labs.outcome import Status


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
    names = {}
    axes = {}
    for name, shape in cases[0].items():
        for axis in range(len(shape)):
            sizes = tuple(case[name][axis] for case in cases)
            if len(set(sizes)) > 1:
                axes.setdefault(name, {})[axis] = names.setdefault(sizes, f"size{len(names)}")
    return axes


def first_against_last(cases):
    return by_sets([cases[0], cases[-1]])


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


class Misspelt(Repaired):
    def forward(self, x):
        return self.scores(x)


CONTRACTS = {
    "dynamic-axes-for": Contract(
        right=((by_sets,), (by_differences,), (shared_names,)),
        wrong=(
            WrongAnswer("the first case against the last", (first_against_last,), "cases[1] is refused"),
            WrongAnswer("the batch only", (only_batches,), "over all cases"),
            WrongAnswer("every axis", (everything,), "in every case; yet the model also takes"),
            WrongAnswer("one name for all", (one_name,), "'dynamic' names axis"),
            WrongAnswer("axes counted from the end", (from_the_end,), "-3 is none of them"),
            WrongAnswer("lists of axes", (lists,), "a dict from axis to name was expected"),
            WrongAnswer("names the exporter makes up", (other_names,), "There is no input 'input_0'"),
            WrongAnswer("odd keys", (odd,), "There is no input"),
            WrongAnswer("nothing is dynamic", (lambda cases: {},), "expected 1"),
        ),
    ),
    "batch-safe": Contract(
        right=((WithWhere,), (WithCount,), (WithCond,)),
        wrong=(
            WrongAnswer("as it was", (lambda model: model,), "still come from x.shape"),
            WrongAnswer("the if is left", (KeepsTheIf,), "float32[2, 4]"),
            WrongAnswer(
                "always relative", (AlwaysRelative,), "What does the original make of a batch of one"
            ),
            WrongAnswer("len is left", (KeepsTheLen,), "float32[2, 4]"),
            WrongAnswer("made static", (OneRowOnly,), "while running Reshape node"),
            WrongAnswer("other weights", (NewWeights,), "float32[1, 4]"),
            WrongAnswer("a function", (lambda model: model.forward,), "a Module was expected"),
            WrongAnswer("an error", (Misspelt,), "has no attribute 'scores'", Status.ERROR),
        ),
    ),
}
