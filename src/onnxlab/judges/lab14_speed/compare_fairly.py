"""What is right in compare-fairly, part by part."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np

from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import number_texts
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.work import Work
from onnxlab.labs.lab14_speed.compare_fairly import WARM_UP, Scenario, draw_scenarios
from onnxlab.message import Message

_ALLOWED = 0.1  # share of the ratio; a fair median is off by up to 0.06, where every second call is slow


def judge_calls(work: Work, random: np.random.Generator) -> None:
    """Require the calls to warm up, and one call with each input."""
    for _, scenario, (_, *inputs) in _results(work):
        with scenario.as_case():
            for name, got in zip(("first", "second"), inputs, strict=True):
                expected = len(scenario.inputs) + WARM_UP
                calls = f"{WARM_UP} + {len(scenario.inputs)} calls"
                if len(got) != expected:
                    difference = Difference(
                        Message("{count} inputs", count=len(scenario.inputs)),
                        calls,
                        Message("{count} calls", count=len(got)),
                    )
                    msg = Message(
                        "{name} was called {count} times; {expected} were expected.",
                        name=name,
                        count=len(got),
                        expected=expected,
                    )
                    raise Wrong(
                        msg, "Three calls to warm up, and one with each input.", difference=difference
                    )
                if Counter(got[WARM_UP:]) != Counter(scenario.inputs):
                    difference = Difference(Message("inputs"), str(scenario.inputs), str(got[WARM_UP:]))
                    msg = Message("{name} did not get each input once after it was warm.", name=name)
                    raise Wrong(msg, scenario.look_at, difference=difference)
                if set(got[:WARM_UP]) != {scenario.inputs[0]}:
                    difference = Difference(
                        Message("to warm up"), f"{scenario.inputs[0]}", str(got[:WARM_UP])
                    )
                    msg = Message("{name} was not warmed up with the first input.", name=name)
                    raise Wrong(msg, "Which input do the first three calls get?", difference=difference)


def judge_ratio(kind: str, work: Work, random: np.random.Generator) -> None:
    """Require the right ratio in the scenarios of one kind."""
    for name, scenario, (got, *_) in _results(work):
        if name != kind:
            continue
        with scenario.as_case():
            ratios = [scenario.cost(1, size) / scenario.cost(0, size) for size in scenario.inputs]
            expected = float(np.median(ratios))
            if not abs(got - expected) <= _ALLOWED * expected:
                count = Message("{count} inputs", count=len(scenario.inputs))
                case = Message.compose("; ", [count, scenario.where.lower()])
                difference = Difference(case, *number_texts(expected, got, 4))
                msg = Message(
                    "{case.where}: the result is not the ratio of the undisturbed calls.", case=scenario
                )
                raise Wrong(msg, scenario.look_at, difference=difference)


def _results(work: Work) -> Iterator[tuple[str, Scenario, tuple[float, list[int], list[int]]]]:
    """Yield each scenario with its kind, and what was returned and handed to the callables."""
    written = work.json("results", list[tuple[float, list[int], list[int]]])
    scenarios = list(draw_scenarios(work.questions()))
    if len(written) != len(scenarios):
        msg = Message(
            "The file results.json has {n} results; {m} were expected.", n=len(written), m=len(scenarios)
        )
        raise Wrong(msg)
    for (kind, scenario), result in zip(scenarios, written, strict=True):
        yield kind, scenario, result


_KINDS = ("calm", "cold", "order", "drift", "single", "sizes")
JUDGES = Judges((judge_calls, *(partial(judge_ratio, kind) for kind in _KINDS)))
