"""Right and wrong answers for lab 4."""

import torch
from lab_answers import Contract, WrongAnswer

from onnxlab.labs.outcome import Status


def one_operator(g, x):
    return g.op("Asinh", x)


def exact_decomposition(g, x):
    """sign(x) * (log1p-like form that neither overflows nor cancels) is too long here: through Identity."""
    return g.op("Identity", g.op("Asinh", g.op("Identity", x)))


def overflowing(g, x):
    one = g.op("Constant", value_t=torch.tensor(1.0))
    return g.op("Log", g.op("Add", x, g.op("Sqrt", g.op("Add", g.op("Mul", x, x), one))))


def other_operator(g, x):
    return g.op("Atan", x)


def misspelt(g, x):
    return g.op("ASinh", x)


def nothing(g, x):
    g.op("Asinh", x)


def no_such_method(g, x):
    return g.opp("Asinh", x)


CONTRACTS = {
    "asinh-symbolic": Contract(
        right=((one_operator,), (exact_decomposition,)),
        wrong=(
            WrongAnswer("a formula that overflows", (overflowing,), "large and negative"),
            WrongAnswer("another operator", (other_operator,), "by hand"),
            WrongAnswer("a misspelt operator", (misspelt,), "No Op registered for ASinh"),
            WrongAnswer("nothing is returned", (nothing,), "stage translate"),
            WrongAnswer("an error", (no_such_method,), "has no attribute 'opp'", Status.ERROR),
        ),
    ),
}
