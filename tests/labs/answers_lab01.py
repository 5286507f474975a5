"""Right and wrong answers for lab 1."""

import torch
from lab_answers import Contract, WrongAnswer
from torch._higher_order_ops.while_loop import while_loop

from onnxlab.labs.outcome import Status


class Stepping(torch.nn.Module):
    def __init__(self, step):
        super().__init__()
        self.step = step


class Counted(Stepping):
    def forward(self, x, n: int):
        for _ in range(n):
            x = self.step(x)
        return x


class CountedTensor(Stepping):
    def forward(self, x, n):
        for _ in range(int(n)):
            x = self.step(x)
        return x


class Downwards(Stepping):
    def forward(self, x, n: int):
        while n > 0:
            x = self.step(x)
            n -= 1
        return x


class WhileLoop(Stepping):
    def forward(self, x, n):
        start = (torch.zeros((), dtype=torch.int64), x)
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, self.step(x)), start)[1]


class NeverCounts(Stepping):
    def forward(self, x, n: int):
        i = 0
        while i < n:
            x = self.step(x)
        return x


class WhileLoopInTwos(Stepping):
    def forward(self, x, n):
        start = (torch.zeros((), dtype=torch.int64), x)
        return while_loop(lambda i, x: i != n, lambda i, x: (i + 2, self.step(self.step(x))), start)[1]


class Masked(Stepping):
    def forward(self, x, n):
        for i in range(9):
            x = torch.where(i < n, self.step(x), x)
        return x


class MaskedLoop(Stepping):
    def forward(self, x, n):
        for i in range(70):
            x = torch.where(i < n, self.step(x), x)
        return x


class AtLeastOnce(Stepping):
    def forward(self, x, n: int):
        x = self.step(x)
        for _ in range(n - 1):
            x = self.step(x)
        return x


class ForgetsItsState(Stepping):
    def forward(self, x, n: int):
        y = x
        for _ in range(n):
            y = self.step(x)
        return y


def traced(step):
    return torch.jit.trace(CountedTensor(step), (torch.rand(2, 4), torch.tensor(2)))


def scripted(kind):
    return lambda step: torch.jit.script(kind(step))


class Branch(torch.nn.Module):
    def forward(self, x):
        if bool(x.mean() > 0):
            return x - x.mean()
        return x.abs() + 1


class Cond(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.mean() > 0, lambda x: x - x.mean(), lambda x: x.abs() + 1, (x,))


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


class ZeroOnTheWrongSide(torch.nn.Module):
    def forward(self, x):
        if bool(x.mean() >= 0):
            return x - x.mean()
        return x.abs() + 1


class CondSwapped(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.mean() > 0, lambda x: x.abs() + 1, lambda x: x - x.mean(), (x,))


@torch.jit.script
def scripted_branch(x):
    return x - x.mean() if bool(x.mean() > 0) else x.abs() + 1.0


class TracedWithScript(torch.nn.Module):
    def forward(self, x):
        return scripted_branch(x)


def choosing(for_torchscript, for_torch_export):
    return lambda exporter: for_torchscript() if exporter == "TorchScript" else for_torch_export()


def script_branch():
    return torch.jit.script(Branch())


CONTRACTS = {
    "loop-count-as-input": Contract(
        right=((scripted(Counted),), (scripted(Downwards),), (scripted(CountedTensor),), (WhileLoop,)),
        wrong=(
            WrongAnswer("traced: the count is baked", (traced,), "The input 'n' does not reach the result"),
            WrongAnswer("written out and masked", (Masked,), "There is no Loop in the graph"),
            WrongAnswer("a loop of fixed length, masked", (scripted(MaskedLoop),), "Up to which n"),
            WrongAnswer("runs at least once", (scripted(AtLeastOnce),), "what is left of x when n is 0"),
            WrongAnswer("forgets its state", (scripted(ForgetsItsState),), "int64[]"),
            WrongAnswer("a Python loop for torch.export", (CountedTensor,), "range(int(n))", Status.ERROR),
            WrongAnswer("never counts", (scripted(NeverCounts),), "Your module has not come to an end"),
            WrongAnswer("jumps over the end", (WhileLoopInTwos,), "With n = 1, ONNX Runtime has not"),
            WrongAnswer("the class, not a module", (lambda step: Counted,), "a Module was expected"),
            WrongAnswer("unscripted with a number", (lambda step: step,), "stage capture"),
        ),
    ),
    "branch-on-data": Contract(
        right=(
            (choosing(script_branch, Cond),),
            (choosing(TracedWithScript, CondWithMethods),),
        ),
        wrong=(
            WrongAnswer("traced: one side is left", (choosing(Branch, Cond),), "There is no If in the graph"),
            WrongAnswer("where instead of a branch", (lambda _: Where(),), "It has ReduceMean"),
            WrongAnswer("cond for both", (lambda _: Cond(),), "FX to torch.jit.trace"),
            WrongAnswer("a script for both", (lambda _: script_branch(),), "a ScriptModule is not supported"),
            WrongAnswer(
                "a plain if for torch.export",
                (choosing(script_branch, Branch),),
                "if bool(x.mean() > 0)",
            ),
            WrongAnswer(
                "zero on the wrong side",
                (choosing(lambda: torch.jit.script(ZeroOnTheWrongSide()), Cond),),
                "0, from float32[1]",
            ),
            WrongAnswer(
                "the sides swapped", (choosing(script_branch, CondSwapped),), "Which side belongs to the mean"
            ),
            WrongAnswer(
                "only one exporter",
                (choosing(script_branch, lambda: None),),
                'branch_on_data("torch.export") returned None',
            ),
        ),
    ),
}
