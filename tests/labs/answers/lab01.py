"""Right and wrong answers for lab 1."""

import copy
import functools
from functools import partial

import torch
from torch._higher_order_ops.while_loop import while_loop

from onnxlab.kit.outcome import Status
from tests.support.labs import Contract, WrongAnswer, solution

loop, branch = partial(solution, "loop-count-as-input"), partial(solution, "branch-on-data")
Cond, script_branch = (partial(*branch(), exporter) for exporter in ("torch.export", "TorchScript"))


class Stepping(torch.nn.Module):
    def __init__(self, step):
        super().__init__()
        self.step = step


class CountedTensor(Stepping):
    def forward(self, x, n):
        for _ in range(int(n)):
            x = self.step(x)
        return x


class WhileLoop(Stepping):
    def forward(self, x, n):
        start = (torch.zeros((), dtype=torch.int64), x)
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, self.step(x)), start)[1]


class WhileLoopInTwos(Stepping):
    def forward(self, x, n):
        start = (torch.zeros((), dtype=torch.int64), x)
        return while_loop(lambda i, x: i != n, lambda i, x: (i + 2, self.step(self.step(x))), start)[1]


class IdleLoop(Stepping):
    """The iterations are unrolled and masked; beside them is a Loop without effect."""

    def forward(self, x, n):
        start = torch.zeros((), dtype=torch.int64), torch.zeros(())
        idle = while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 1.0), start)[1]
        for i in range(12):
            x = torch.where(i < n, self.step(x), x)
        return x + idle


class InTwosAndARest(Stepping):
    def forward(self, x, n: int):
        for _ in range(n // 2):
            x = self.step(self.step(x))
        if n % 2 == 1:
            x = self.step(x)
        return x


def zeroing_the_step(step):
    module = loop()[0](copy.deepcopy(step))
    for weights in step.parameters():
        weights.zero_()
    return module


def traced(step):
    return torch.jit.trace(CountedTensor(step), (torch.rand(2, 4), torch.tensor(2)))


def scripted(kind):
    return lambda step: torch.jit.script(kind(step))


class CondWithMethods(torch.nn.Module):
    def centred(self, x, mean):
        return x - mean

    def folded(self, x, mean):
        return torch.maximum(x, -x) + torch.ones_like(x)

    def forward(self, x):
        mean = x.mean()
        return torch.cond(mean > 0, self.centred, self.folded, (x, mean))


class Where(torch.nn.Module):
    def forward(self, x):
        return torch.where(x.mean() > 0, x - x.mean(), x.abs() + 1)


@torch.jit.script
def scripted_branch(x):
    return x - x.mean() if bool(x.mean() > 0) else x.abs() + 1.0


class TracedWithScript(torch.nn.Module):
    def forward(self, x):
        return scripted_branch(x)


class NanCountsAsPositive(torch.nn.Module):
    def forward(self, x):
        if bool(x.mean() <= 0):
            return x.abs() + 1
        return x - x.mean()


def other_at_the_second_call():
    asked = []

    def branch_on_data(exporter):
        asked.append(exporter)
        if exporter == "TorchScript":
            return script_branch()
        return Cond() if asked.count(exporter) % 2 == 1 else Where()

    return branch_on_data


def choosing(for_torchscript, for_torch_export):
    return lambda exporter: for_torchscript() if exporter == "TorchScript" else for_torch_export()


# Pieces of the solutions.
_SCRIPT, _FOR, _STEP, _ROUND = "torch.jit.script(Counted(step))", "for _ in range(n)", "self.step(x)", "x = self.step(x)"
_LINE = "\n            "  # of a method
_MEAN, _CENTRED, _FOLDED = "x.mean() > 0", "lambda x: x - x.mean()", "lambda x: x.abs() + 1"
_COND, _WHERE = f"torch.cond({_MEAN}, {_CENTRED}, {_FOLDED}, (x,))", "torch.where(x.mean() > 0, x - x.mean(), x.abs() + 1)"
_BRANCH = "torch.jit.script(Branch())"
_CHOICE = f' if exporter == "torch.export" else {_BRANCH}'

CONTRACTS = {
    "loop-count-as-input": Contract(
        right=(loop(), (WhileLoop,), (scripted(InTwosAndARest),)),
        wrong=(
            WrongAnswer("traced: the count is baked", (traced,), "The input 'n' does not reach the result"),
            WrongAnswer("written out and masked", loop({_SCRIPT: "Counted(step)", "n: int": "n", _FOR: "for i in range(9)", _ROUND: f"x = torch.where(i < n, {_STEP}, x)"}), "There is no Loop in the graph"),
            WrongAnswer("4,100 masked iterations", loop({_FOR: "for i in range(4100)", _ROUND: f"x = torch.where(torch.tensor(i < n), {_STEP}, x)"}), "its trip count does not depend on n"),
            WrongAnswer("at most a thousand iterations", loop({"range(n)": "range(min(n, 1000))"}), "Up to which n"),
            WrongAnswer("a Loop without work", (IdleLoop,), "it does no work"),
            WrongAnswer("x is clamped", loop({_FOR: f"x = x.clamp(-50.0, 50.0){_LINE}{_FOR}"}), "compare, clamp, multiply"),
            WrongAnswer("writes to the step", (zeroing_the_step,), "The step that was passed in has changed"),
            WrongAnswer("runs at least once", loop({_FOR: f"{_ROUND}{_LINE}for _ in range(n - 1)"}), "what is left of x when n is 0"),
            WrongAnswer("a Python loop for torch.export", (CountedTensor,), "range(int(n))", Status.ERROR),
            WrongAnswer("never counts", loop({_FOR: f"i = 0{_LINE}while i < n"}), "Your module has not come to an end"),
            WrongAnswer("jumps over the end", (WhileLoopInTwos,), "With n = 1, ONNX Runtime has not"),
        ),
    ),
    "branch-on-data": Contract(
        right=(branch(), (choosing(TracedWithScript, CondWithMethods),), (functools.cache(*branch()),)),
        wrong=(
            WrongAnswer("traced: one side is left", branch({_BRANCH: "Branch()"}), "There is no If in the graph"),
            WrongAnswer("cond for both", branch({_CHOICE: ""}), "FX to torch.jit.trace"),
            WrongAnswer("a plain if for torch.export", branch({"return Cond()": "return Branch()"}), "if bool(x.mean() > 0)"),
            WrongAnswer("cond as a picker", branch({_COND: "torch.cond(x.mean() > 0, lambda a, b: a.clone(), lambda a, b: b.clone(), (x - x.mean(), x.abs() + 1))"}), "is computed before the If"),
            WrongAnswer("where beside an idle If", branch({_COND: f"{_WHERE} * torch.cond(x.mean() > 0, lambda x: torch.ones_like(x), lambda x: torch.ones_like(x) + 0, (x,))"}), "it is computed after it"),
            WrongAnswer("where in both branches", branch({_CENTRED: f"lambda x: {_WHERE}", _FOLDED: f"lambda x: {_WHERE} + 0"}), "does not compute the other side"),
            WrongAnswer("nan counts as positive", (choosing(lambda: torch.jit.script(NanCountsAsPositive()), Cond),), "nan"),
            WrongAnswer("a thousand numbers decide", branch({_MEAN: "x[:1000].mean() > 0"}), "Which side belongs to the"),
            WrongAnswer("picks in a branch", branch({_CENTRED: "lambda x: torch.stack([x - x.mean(), x.abs() + 1])[0]"}), "keeps one"),
            WrongAnswer("another module at a second call", (other_at_the_second_call(),), "There is no If"),
        ),
    ),
}
