"""Right and wrong answers for lab 1."""

import copy
import functools

import torch
from torch._higher_order_ops.while_loop import while_loop

from onnxlab.labs.kit.outcome import Status
from tests.support.labs import Contract, WrongAnswer


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


class MaskedForThousands(Stepping):
    """The Loop always has 4,100 rounds."""

    def forward(self, x, n: int):
        for i in range(4100):
            x = torch.where(torch.tensor(i < n), self.step(x), x)
        return x


class AtMostAThousand(Stepping):
    def forward(self, x, n: int):
        for _ in range(min(n, 1000)):
            x = self.step(x)
        return x


class IdleLoop(Stepping):
    """The rounds are unrolled and masked; beside them is a Loop without effect."""

    def forward(self, x, n):
        start = torch.zeros((), dtype=torch.int64), torch.zeros(())
        idle = while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 1.0), start)[1]
        for i in range(12):
            x = torch.where(i < n, self.step(x), x)
        return x + idle


class IdleBesideMasked(Stepping):
    """One Loop counts to n without effect; another one has a fixed number of rounds."""

    def forward(self, x, n: int):
        rounds = 0
        for _ in range(n):
            rounds += 1
        for i in range(4100):
            x = torch.where(torch.tensor(i < rounds), self.step(x), x)
        return x


class OnlyTheTurn(Stepping):
    """Uses the first layer of the step alone."""

    def forward(self, x, n: int):
        for _ in range(n):
            x = self.step.turn(x)
        return x


class OneRoundMoreWhenOdd(Stepping):
    def forward(self, x, n: int):
        for _ in range(n // 2):
            x = self.step(self.step(x))
        return x


class InTwosAndARest(Stepping):
    def forward(self, x, n: int):
        for _ in range(n // 2):
            x = self.step(self.step(x))
        if n % 2 == 1:
            x = self.step(x)
        return x


class AtMostFiveThousand(Stepping):
    def forward(self, x, n: int):
        for _ in range(min(n, 5000)):
            x = self.step(x)
        return x


class TakenForAffine(torch.nn.Module):
    """Repeats a product of matrices instead of the step."""

    def __init__(self, step):
        super().__init__()
        self.bias = torch.nn.Parameter(step(torch.zeros(1, 4)))
        self.matrix = torch.nn.Parameter(step(torch.eye(4)) - self.bias)

    def forward(self, x, n: int):
        for _ in range(n):
            x = x @ self.matrix + self.bias
        return x


class Clamped(Stepping):
    def forward(self, x, n: int):
        x = x.clamp(-50.0, 50.0)
        for _ in range(n):
            x = self.step(x)
        return x


class RoundedToFloat16(Stepping):
    def forward(self, x, n: int):
        x = x.half().float()
        for _ in range(n):
            x = self.step(x)
        return x


class Transposed(Stepping):
    def forward(self, x, n: int):
        for _ in range(n):
            x = self.step(x)
        return x.t()


class StepOfTheClass(torch.nn.Module):
    """The last step that was given counts for all."""

    def forward(self, x, n):
        start = (torch.zeros((), dtype=torch.int64), x)
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, StepOfTheClass.step(x)), start)[1]


def step_of_the_class(step):
    StepOfTheClass.step = step
    return StepOfTheClass()


def zeroing_the_step(step):
    module = torch.jit.script(Counted(copy.deepcopy(step)))
    for weights in step.parameters():
        weights.zero_()
    return module


class InHundreds(Stepping):
    def forward(self, x, n: int):
        for _ in range(n // 100):
            for _ in range(100):
                x = self.step(x)
        for _ in range(n % 100):
            x = self.step(x)
        return x


class LoopInABranch(Stepping):
    def forward(self, x, n: int):
        if n > 0:
            for _ in range(n):
                x = self.step(x)
        return x


def frozen(step):
    return torch.jit.freeze(torch.jit.script(Counted(step).eval()))


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


class NanFirst(torch.nn.Module):
    """A case for nan before the others: three branches."""

    def forward(self, x):
        mean = x.mean()
        if bool(mean.isnan()):
            return x.abs() + 1
        if bool(mean > 0):
            return x - mean
        return x.abs() + 1


class TwoIfs(torch.nn.Module):
    def forward(self, x):
        mean = x.sum() / x.numel()
        y = x
        if bool(mean > 0):
            y = x - mean
        if not bool(mean > 0):
            y = x.abs() + 1
        return y


class CondPicks(torch.nn.Module):
    """Both sides are computed; the If picks one."""

    def forward(self, x):
        mean = x.mean()
        sides = x - mean, x.abs() + 1
        return torch.cond(mean > 0, lambda a, b: a.clone(), lambda a, b: b.clone(), sides)


class ScriptPicks(torch.nn.Module):
    def forward(self, x):
        mean = x.mean()
        centred, folded = x - mean, x.abs() + 1
        if bool(mean > 0):
            y = centred
        else:
            y = folded
        return y


class CondPicksHalf(torch.nn.Module):
    """One side is computed in its branch, the other one always."""

    def forward(self, x):
        centred = x - x.mean()
        return torch.cond(x.mean() > 0, lambda x, c: c.clone(), lambda x, c: x.abs() + 1, (x, centred))


class IdleCond(torch.nn.Module):
    """`where` does the work; the If has no effect."""

    def forward(self, x):
        positive = x.mean() > 0
        one = torch.cond(positive, lambda x: torch.ones_like(x), lambda x: torch.ones_like(x) + 0, (x,))
        return torch.where(positive, x - x.mean(), x.abs() + 1) * one


class CondForTheSign(torch.nn.Module):
    """The If decides; both sides are computed after it."""

    def forward(self, x):
        mean = x.mean()
        positive = torch.cond(mean > 0, lambda m: m.abs() + 1, lambda m: m.abs() * 0 - 1, (mean,))
        return torch.where(positive > 0, x - mean, x.abs() + 1)


class ScriptForTheSign(torch.nn.Module):
    def forward(self, x):
        positive = torch.zeros(1)
        if bool(x.mean() > 0):
            positive = positive + 1
        return torch.where(positive > 0, x - x.mean(), x.abs() + 1)


class WhereInBothBranches(torch.nn.Module):
    def forward(self, x):
        def both(x):
            return torch.where(x.mean() > 0, x - x.mean(), x.abs() + 1)

        return torch.cond(x.mean() > 0, both, lambda x: both(x) + 0, (x,))


class CondAboveALittle(torch.nn.Module):
    """Treats a mean near zero as zero."""

    def forward(self, x):
        return torch.cond(x.mean() > 1e-6, lambda x: x - x.mean(), lambda x: x.abs() + 1, (x,))


class CondRounded(torch.nn.Module):
    def forward(self, x):
        mean = x.mean()
        return torch.cond((mean * 1e4).round() >= 1e-4, lambda x: x - x.mean(), lambda x: x.abs() + 1, (x,))


class NanCountsAsPositive(torch.nn.Module):
    def forward(self, x):
        if bool(x.mean() <= 0):
            return x.abs() + 1
        return x - x.mean()


class BySum(torch.nn.Module):
    """Decides by the first number, not by the mean."""

    def forward(self, x):
        return torch.cond(x[0] > 0, lambda x: x - x.mean(), lambda x: x.abs() + 1, (x,))


def deciding_by(decides):
    """A branch that another number than the mean decides."""

    class Decided(torch.nn.Module):
        def forward(self, x):
            return torch.cond(decides(x), lambda x: x - x.mean(), lambda x: x.abs() + 1, (x,))

    return Decided


class PicksInABranch(torch.nn.Module):
    """One branch computes both sides and picks its own."""

    def forward(self, x):
        def centred(x):
            return torch.stack([x - x.mean(), x.abs() + 1])[0]

        return torch.cond(x.mean() > 0, centred, lambda x: x.abs() + 1, (x,))


def other_at_the_second_call():
    asked = []

    def branch_on_data(exporter):
        asked.append(exporter)
        if exporter == "TorchScript":
            return script_branch()
        return Cond() if asked.count(exporter) % 2 == 1 else Where()

    return branch_on_data


def counting_calls(first, second):
    calls = []

    def branch_on_data(exporter):
        calls.append(exporter)
        return script_branch() if (len(calls) % 2 == 1) is first else Cond()

    return branch_on_data


def first_call_only():
    calls = []

    def branch_on_data(exporter):
        calls.append(exporter)
        return script_branch() if len(calls) == 1 else Cond()

    return branch_on_data


def choosing(for_torchscript, for_torch_export):
    return lambda exporter: for_torchscript() if exporter == "TorchScript" else for_torch_export()


def script_branch():
    return torch.jit.script(Branch())


CONTRACTS = {
    "loop-count-as-input": Contract(
        right=(
            (scripted(Counted),),
            (scripted(Downwards),),
            (scripted(CountedTensor),),
            (WhileLoop,),
            (frozen,),
            (scripted(InTwosAndARest),),
            (scripted(LoopInABranch),),
            (scripted(InHundreds),),
        ),
        wrong=(
            WrongAnswer("traced: the count is baked", (traced,), "The input 'n' does not reach the result"),
            WrongAnswer("written out and masked", (Masked,), "There is no Loop in the graph"),
            WrongAnswer("a loop of fixed length, masked", (scripted(MaskedLoop),), "Up to which n"),
            WrongAnswer("4,100 masked rounds", (scripted(MaskedForThousands),), "nothing of n reaches its end"),
            WrongAnswer("at most a thousand rounds", (scripted(AtMostAThousand),), "Up to which n"),
            WrongAnswer("a Loop without work", (IdleLoop,), "it does no work"),
            WrongAnswer("two Loops, one without work", (scripted(IdleBesideMasked),), "nothing of n reaches its end"),
            WrongAnswer("a part of the step", (scripted(OnlyTheTurn),), "has no attribute 'turn'", Status.ERROR),
            WrongAnswer("at most five thousand rounds", (scripted(AtMostFiveThousand),), "Up to which n"),
            WrongAnswer("a product of matrices", (scripted(TakenForAffine),), "for n = 0, 1, 2"),
            WrongAnswer("x is clamped", (scripted(Clamped),), "compare, clamp, multiply"),
            WrongAnswer("x is rounded to float16", (scripted(RoundedToFloat16),), "0, from float32[2, 4]"),
            WrongAnswer("the last step for all", (step_of_the_class,), "Follow the rounds"),
            WrongAnswer("writes to the step", (zeroing_the_step,), "The step that was given has changed"),
            WrongAnswer("rounds in twos", (scripted(OneRoundMoreWhenOdd),), "for n = 0, 1, 2"),
            WrongAnswer("runs at least once", (scripted(AtLeastOnce),), "what is left of x when n is 0"),
            WrongAnswer("transposed at the end", (scripted(Transposed),), "gives shape"),
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
            (choosing(lambda: torch.jit.script(NanFirst()), Cond),),
            (choosing(lambda: torch.jit.script(TwoIfs()), CondWithMethods),),
            (choosing(script_branch, deciding_by(lambda x: x.sum() > 0)),),
            (functools.cache(choosing(script_branch, Cond)),),
        ),
        wrong=(
            WrongAnswer("traced: one side is left", (choosing(Branch, Cond),), "There is no If in the graph"),
            WrongAnswer("where instead of a branch", (lambda _: Where(),), "It has ReduceMean"),
            WrongAnswer("cond for both", (lambda _: Cond(),), "FX to torch.jit.trace"),
            WrongAnswer("a script for both", (lambda _: script_branch(),), "a ScriptModule is not supported"),
            WrongAnswer("a plain if for torch.export", (choosing(script_branch, Branch),), "if bool(x.mean() > 0)"),
            WrongAnswer("zero on the wrong side", (choosing(lambda: torch.jit.script(ZeroOnTheWrongSide()), Cond),), "0, from float32[1]"),
            WrongAnswer("the sides swapped", (choosing(script_branch, CondSwapped),), "Which side belongs to the mean"),
            WrongAnswer("cond as a picker", (choosing(script_branch, CondPicks),), "is computed before the If"),
            WrongAnswer("a script as a picker", (choosing(lambda: torch.jit.script(ScriptPicks()), Cond),), "is computed before the If"),
            WrongAnswer("one side is always computed", (choosing(script_branch, CondPicksHalf),), "is computed before the If"),
            WrongAnswer("where beside an idle If", (choosing(script_branch, IdleCond),), "it is computed after it"),
            WrongAnswer("an If for where's condition", (choosing(script_branch, CondForTheSign),), "it is computed after it"),
            WrongAnswer(
                "a script's If for where's condition",
                (choosing(lambda: torch.jit.script(ScriptForTheSign()), Cond),),
                "it is computed after it",
            ),
            WrongAnswer("where in both branches", (choosing(script_branch, WhereInBothBranches),), "does not give the other side"),
            WrongAnswer("a mean above a little", (choosing(script_branch, CondAboveALittle),), "Which side belongs"),
            WrongAnswer("a rounded mean", (choosing(script_branch, CondRounded),), "Which side belongs"),
            WrongAnswer("nan counts as positive", (choosing(lambda: torch.jit.script(NanCountsAsPositive()), Cond),), "nan"),
            WrongAnswer("the first number for the mean", (choosing(script_branch, BySum),), "Which side"),
            *(
                WrongAnswer(f"{name} decides", (choosing(script_branch, deciding_by(by)),), "Which side belongs to the")
                for name, by in {
                    "the signs": lambda x: x.sign().mean() > 0,
                    "the midrange": lambda x: x.max() + x.min() > 0,
                    "the majority": lambda x: (x > 0).sum() * 2 > x.numel(),
                    "a thousand numbers": lambda x: x[:1000].mean() > 0,
                }.items()
            ),
            WrongAnswer("picks in a branch", (choosing(script_branch, PicksInABranch),), "keeps one"),
            WrongAnswer("another module at a second call", (other_at_the_second_call(),), "There is no If"),
            WrongAnswer("counts its calls", (counting_calls(True, False),), "FX to torch.jit.trace"),
            WrongAnswer("looks at its first call", (first_call_only(),), "FX to torch.jit.trace"),
            WrongAnswer("only one exporter", (choosing(script_branch, lambda: None),), 'branch_on_data("torch.export") returned None'),
        ),
    ),
}
