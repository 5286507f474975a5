"""What is right in container-options, part by part."""

from collections.abc import Iterator

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import first_mismatch
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.work import Work
from onnxlab.labs.lab14_speed.container_options import (
    ENTRIES,
    SETTINGS,
    Container,
    draw_containers,
    draw_model,
)
from onnxlab.message import Message
from onnxlab.plain_text import pluralise
from onnxlab.runtime.session import open_session

_ADVICE = {
    ENTRIES[0]: "Workers that wait for work use the quota up. Which entry of chapter 14 lets them sleep?",
    "inter_op_num_threads": "The pool between operators has a number of threads of its own.",
}


def container_options(limits: list[str], allowed: set[int], sessions: int) -> ort.SessionOptions:
    """Return a right answer; `author sync` writes it into the notebook of solutions."""
    cpus = len(allowed)
    for quota, period in map(str.split, limits):
        if quota != "max":
            cpus = min(cpus, int(quota) // int(period))
    options = ort.SessionOptions()
    options.intra_op_num_threads = max(1, cpus // sessions)
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _threads(container: Container) -> int:
    options = container_options(list(container.limits), set(container.allowed), container.sessions)
    return int(options.intra_op_num_threads)


def _given(container: Container) -> str:
    quotas = "; ".join(text.strip() for text in container.limits) or "none"
    return f"quotas: {quotas}; CPUs allowed: {len(container.allowed)}; sessions: {container.sessions}"


def judge_threads(work: Work, random: np.random.Generator) -> None:
    """Require the right number of threads."""
    for _, container, (threads, *_) in _settings(work):
        expected = _threads(container)
        with container.as_case():
            if threads != expected:
                difference = Difference(_given(container), f"{expected}", f"{threads}")
                msg = Message(
                    "{container.where}: intra_op_num_threads is {threads}, and should be {expected}.",
                    container=container,
                    threads=threads,
                    expected=expected,
                )
                look_at = "Which of the limits is the smallest, in whole CPUs? How many sessions share them?"
                if threads == 0:
                    look_at = "0 stands for a thread for each core. At least 1 is asked for."
                raise Wrong(msg, look_at, difference=difference)


def judge_rest(work: Work, random: np.random.Generator) -> None:
    """Require one thread between operators, no spinning, and the defaults of all else."""
    default = ort.SessionOptions()
    expected = {name: str(getattr(default, name)) for name in SETTINGS}
    expected |= dict.fromkeys(ENTRIES, "not set") | {"inter_op_num_threads": "1", ENTRIES[0]: "0"}
    for _, container, (_, _, values) in _settings(work):
        with container.as_case():
            for name, value in expected.items():
                if values.get(name) != value:
                    difference = Difference(name, value, str(values.get(name))[:80])
                    msg = Message(
                        "{container.where}: {name} is {value2}; {value} was expected.",
                        container=container,
                        name=name,
                        value2=values.get(name),
                        value=value,
                    )
                    look_at = _ADVICE.get(name, "Nobody asked for another setting here.")
                    raise Wrong(msg, look_at, difference=difference)


def judge_session(work: Work, random: np.random.Generator) -> None:
    """Require the threads that a session starts, and its outputs."""
    questions = work.questions()
    list(draw_containers(questions))
    model, x = draw_model(questions)
    (expected,) = open_session(model).run(None, {model.graph.input[0].name: x})
    for number, container, (_, started, _) in _settings(work):
        with container.as_case():
            wanted = _threads(container) - 1  # the caller is the last one
            if started not in (wanted, -1):
                difference = Difference(
                    _given(container),
                    Message("{wanted} started", wanted=wanted),
                    Message("{started} started", started=started),
                )
                msg = Message(
                    "{container.where}: threads that a session with these options starts: {started}.",
                    container=container,
                    started=started,
                )
                raise Wrong(msg, "The caller computes, too: it is one of the threads.", difference=difference)
            got = work.array(f"outputs_{number}")
            if got.shape != expected.shape or first_mismatch(expected, got) is not None:
                msg = Message(
                    "{container.where}: a session with these options has other outputs.", container=container
                )
                raise Wrong(msg, "Which of the options changes what is computed?")


def _settings(work: Work) -> Iterator[tuple[int, Container, tuple[int, int, dict[str, str]]]]:
    """Yield each container with its number, and what was read of its options."""
    written = work.json("settings", list[tuple[int, int, dict[str, str]]])
    containers = list(draw_containers(work.questions()))
    if len(written) != len(containers):
        msg = Message(
            "The file settings.json has {rows}; {m} were expected.",
            rows=pluralise(len(written), "row"),
            m=len(containers),
        )
        raise Wrong(msg)
    for number, (container, settings) in enumerate(zip(containers, written, strict=True)):
        yield number, container, settings


JUDGES = Judges((judge_threads, judge_rest, judge_session))
