"""Exercise compare-fairly: two calls timed by a clock that is scripted, on a computer that disturbs them.

What is asked, and what is drawn for it:

- the median of the ratios, second by first: ratios from 0.02 to 50, other costs in each scenario;
- an even number of inputs, two or more: two, four, ten, twenty;
- three calls each to warm up, with the first input, which are slow: of one callable more than of the other;
- who goes first changes from round to round: every second call is slow, to the end or in the first half;
- rounds, not blocks: a computer that gets slower;
- a median, not a mean and not the best: single calls that take a hundred times as long, or a hundredth;
- both get the same input in a round: costs that grow with the input, at another rate for each callable;
- the given clock, which begins at any time: no time passes on it but in a call.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import require_type
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.message import Message

WARM_UP = 3
"""Calls of each callable that are not timed."""


@dataclass(frozen=True)
class Scenario:
    """Two callables and the computer they run on.

    Attributes:
        where: What disturbs the measurement.
        look_at: Where to look if the result is wrong.
        inputs: A size for each round.
        costs: What a call with an input of size 1 costs, for each callable.
        growth: The power of the size by which the costs grow.
        cold: How many times as long a call takes while its callable warms up.
        alternate: How many times as long every second call takes.
        until: The number of calls after which that ends.
        drift: How many times as long each call takes as the one before it.
        disturbed: How many times as long single calls take, by callable and round.
    """

    where: str
    look_at: str
    inputs: tuple[int, ...]
    costs: tuple[float, float]
    growth: tuple[float, float] = (0.0, 0.0)
    cold: tuple[float, float] = (1.0, 1.0)
    alternate: float = 1.0
    until: float = float("inf")
    drift: float = 1.0
    disturbed: Mapping[tuple[int, int], float] = field(default_factory=dict)

    def cost(self, number: int, size: int) -> float:
        """Return what a call costs if nothing disturbs it."""
        return float(self.costs[number] * size ** self.growth[number])

    def as_case(self) -> AbstractContextManager[None]:
        """Attach this case to whatever is raised in the block, with a computer that is still cold."""
        return trying(Message("the case '{where}'", where=self.where), **Computer(self, 0.0).arguments())


class Computer:
    """A computer on which time passes only in the calls of a scenario.

    Args:
        scenario: The scenario.
        now: What its clock shows at first.
    """

    def __init__(self, scenario: Scenario, now: float) -> None:
        self._scenario, self._now, self._calls = scenario, now, 0
        self.inputs: tuple[list[int], list[int]] = ([], [])

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of one comparison by name."""
        inputs = list(self._scenario.inputs)
        return {"first": self.first, "second": self.second, "inputs": inputs, "clock": self.clock}

    def clock(self) -> float:
        """Return the time, in seconds."""
        return self._now

    def first(self, size: int) -> None:
        """Call the first one."""
        self._call(0, size)

    def second(self, size: int) -> None:
        """Call the second one."""
        self._call(1, size)

    def _call(self, number: int, size: int) -> None:
        scenario, inputs = self._scenario, self.inputs[number]
        if size not in scenario.inputs:
            msg = Message("A callable got {size!r}, which is not one of the inputs.", size=size)
            raise Wrong(msg, "Hand each element of `inputs` to both callables.")
        if len(inputs) > 10 * len(scenario.inputs):
            msg = Message(
                "A callable was called {n} times, for {m} inputs.", n=len(inputs), m=len(scenario.inputs)
            )
            raise Wrong(msg, "Three calls to warm up, and one with each input.")
        timed = len(inputs) - WARM_UP
        factor = scenario.disturbed.get((number, timed), 1.0) if timed >= 0 else scenario.cold[number]
        factor *= scenario.drift**self._calls
        if self._calls % 2 and self._calls < scenario.until:
            factor *= scenario.alternate
        self._now += scenario.cost(number, size) * factor
        self._calls += 1
        inputs.append(size)


_ORDER = "Who is second in each round, and what did the other one leave behind?"
_MEDIAN = "What does one call that takes a hundred times as long, or a hundredth, do to your result?"


def draw_scenarios(random: np.random.Generator) -> Iterator[tuple[str, Scenario]]:
    """Yield scenarios, each with the kind of its disturbance."""

    def same(count: int) -> tuple[int, ...]:
        return tuple(map(int, 1 + random.permutation(50)[:count]))

    def costs(low: float, high: float) -> tuple[float, float]:
        first, ratio = 10 ** random.uniform(-4, 0), random.uniform(low, high)
        return float(first), float(first * ratio)

    calm = "Which of the two times is divided by which? In which unit is the clock?"
    yield (
        "calm",
        Scenario(
            where=Message("Nothing disturbs, and the second is slower"),
            look_at=calm,
            inputs=same(10),
            costs=costs(3, 50),
        ),
    )
    yield (
        "calm",
        Scenario(
            where=Message("Nothing disturbs, and the second is faster"),
            look_at=calm,
            inputs=same(4),
            costs=costs(0.02, 0.3),
        ),
    )
    warm = "How many calls of each go by before the clock counts? Which of the two needs them most?"
    for cold in ((40.0, 2.0), (2.0, 40.0)):
        yield (
            "cold",
            Scenario(
                where=Message("Two inputs, and slow first calls"),
                look_at=warm,
                inputs=same(2),
                costs=costs(0.5, 2),
                cold=cold,
            ),
        )
    for alternate in (1.4, 1 / 1.4):
        where = Message("Every second call takes {alternate:.2g} times as long", alternate=alternate)
        yield (
            "order",
            Scenario(
                where=where, look_at=_ORDER, inputs=same(20), costs=costs(0.7, 1.4), alternate=alternate
            ),
        )
    where = Message("Every second call of the first half takes 1.6 times as long")
    half = 2 * WARM_UP + 20
    yield (
        "order",
        Scenario(
            where=where, look_at=_ORDER, inputs=same(20), costs=costs(0.7, 1.4), alternate=1.6, until=half
        ),
    )
    drift = "When is the first measured, and when the second? What has changed between the two?"
    for factor in (1.08, 1 / 1.08):
        where = Message("Each call takes {factor:.2g} times as long as the one before it", factor=factor)
        yield (
            "drift",
            Scenario(where=where, look_at=drift, inputs=same(10), costs=costs(0.7, 1.4), drift=factor),
        )
    for number in (0, 1):
        rounds = random.permutation(10)
        disturbed = {(number, int(rounds[0])): 0.01, (number, int(rounds[1])): 0.01}
        disturbed |= {(1 - number, int(rounds[2])): 100.0, (number, int(rounds[3])): 100.0}
        disturbed |= {(number, int(rounds[4])): 150.0}
        where = Message("Five calls are disturbed, most of the {value}", value=("first", "second")[number])
        yield (
            "single",
            Scenario(where=where, look_at=_MEDIAN, inputs=same(10), costs=costs(0.5, 2), disturbed=disturbed),
        )
    sizes = "Does the second get the same input as the first in each round? Does each input count?"
    for count, growth in ((4, (1.0, 2.0)), (4, (2.0, 0.5)), (10, (0.0, 1.0))):
        inputs = tuple(map(int, random.permutation(np.geomspace(1, 4.0 ** (count - 1), count).round())))
        yield (
            "sizes",
            Scenario(
                where=Message("Inputs of very different sizes"),
                look_at=sizes,
                inputs=inputs,
                costs=costs(0.3, 3),
                growth=growth,
            ),
        )


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Let the answer compare the callables of each scenario."""
    scenarios = list(draw_scenarios(random))
    results: dict[int, object] = {}
    for number in map(int, random.permutation(len(scenarios))):
        _, scenario = scenarios[number]
        computer = Computer(scenario, float(random.uniform(10, 1e4)))
        with scenario.as_case():
            result = answers["compare_fairly"](*computer.arguments().values())
            require_type(result, (float, int, np.floating), "compare_fairly()")
            results[number] = [float(result), *computer.inputs]
    work.write_json("results", [results[number] for number in range(len(scenarios))])
