"""An instructor's own parts of exercises: in a file that no learner sees, judged after the course's own.

The file is Python and has a dictionary `PARTS`: exercise -> list of `onnxlab.labs.exercise.Part`. It is run
in the grader, to see that it can be, and in the process that judges. Where submissions run it is never read:
not in the warm process either, whose memory they inherit.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from onnxlab.errors import OnnxLabError
from onnxlab.grading.private_judges import PrivateJudges
from onnxlab.labs.exercise import Exercise, Part, exercise
from onnxlab.labs.outcome import Wrong
from onnxlab.labs.work import Work

__all__ = ["JudgeBroken", "JudgesRefused", "expected", "parts_in", "read_judges", "with_parts"]

Judge = Callable[[Work, np.random.Generator], None]
_LARGEST = 200_000  # bytes
_NAME = "<judges>"


class JudgesRefused(OnnxLabError):
    """A file of judges cannot be used."""


class JudgeBroken(OnnxLabError):
    """An instructor's judge raised something else than `Wrong`: a fault to correct, and nobody's mark."""


def read_judges(path: Path) -> PrivateJudges:
    """Read a file of judges and see that it can be used.

    Raises:
        JudgesRefused: If it cannot be read or run, or has no parts.
        UnknownExercise: If it has parts for an exercise that does not exist.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}."
        raise JudgesRefused(msg, "", "--judges takes a file of Python; see docs/instructor.md.") from None
    if len(data) > _LARGEST:
        msg = f"{path} has more than {_LARGEST // 1000} kB."
        then = "Let it compute large arrays, from the random numbers that each judge is given."
        raise JudgesRefused(msg, "It is sent to every process that judges.", then)
    try:
        parts = parts_in(text)
    except OnnxLabError:
        raise
    except Exception as error:  # whatever the file does
        msg = f"{path} cannot be run: {_where(error)}"
        raise JudgesRefused(msg) from None
    return PrivateJudges(text, {name: tuple(part.title for part in each) for name, each in parts.items()})


def parts_in(text: str) -> dict[str, list[Part]]:
    """Run a file of judges and return its parts by exercise.

    Raises:
        JudgesRefused: If `PARTS` is not what it should be.
        UnknownExercise: If there is no such exercise.
    """
    names: dict[str, object] = {"__name__": "judges"}
    exec(compile(text, _NAME, "exec"), names)
    parts = names.get("PARTS")
    if not isinstance(parts, dict) or not parts:
        msg = "The file of judges has no dictionary PARTS."
        raise JudgesRefused(msg, "", 'For example: PARTS = {"asinh-symbolic": [Part("one node", judge)]}')
    for name, each in parts.items():
        exercise(name)
        if not (isinstance(each, list) and all(isinstance(part, Part) for part in each)):
            msg = f"PARTS[{name!r}] is not a list of Part."
            raise JudgesRefused(msg, "", "Part comes from onnxlab.labs.exercise.")
    return {name: [Part(part.title, _guarded(part)) for part in each] for name, each in parts.items()}


def with_parts(exercises: Iterable[Exercise], added: Mapping[str, list[Part]]) -> tuple[Exercise, ...]:
    """Return exercises with parts after their own, whose test inputs stay the same."""
    return tuple(replace(each, parts=(*each.parts, *added.get(each.id, ()))) for each in exercises)


def expected(exercises: Iterable[Exercise], judges: PrivateJudges) -> tuple[Exercise, ...]:
    """Return exercises as they are judged elsewhere: with the titles of added parts, and no judges."""
    added = {name: [Part(title, _elsewhere) for title in titles] for name, titles in judges.titles.items()}
    return with_parts(exercises, added)


def _guarded(part: Part) -> Judge:
    """Return a part's judge, whose own faults are told from a student's."""

    def judge(work: Work, random: np.random.Generator) -> None:
        try:
            part.judge(work, random)
        except Wrong:
            raise
        except Exception as error:
            msg = f"{part.title!r}: {_where(error)}"
            raise JudgeBroken(msg) from None

    return judge


def _elsewhere(work: Work, random: np.random.Generator) -> None:
    msg = "It is judged in a process of its own."
    raise NotImplementedError(msg)


def _where(error: Exception) -> str:
    """Return what an error is, and the line of the file it comes from."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _NAME]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {' '.join(str(error).split())}"[:300]
