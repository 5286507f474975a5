"""Private judges: an instructor's own tests, from a file that no learner sees, after the course's own.

The file is Python and has a dictionary `PARTS`: exercise -> list of `onnxlab.kit.exercise.Part`. The
grader runs it to check it, and so does each process that judges. A process that runs submissions never reads
it; nor does the fork server, whose memory submissions inherit.
"""

import hashlib
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnxlab.errors import OnnxLabError
from onnxlab.kit.exercise import Exercise, Judges, Part, exercise
from onnxlab.kit.outcome import Wrong

if TYPE_CHECKING:
    import numpy as np

    from onnxlab.kit.work import Work

Judge = Callable[["Work", "np.random.Generator"], None]
_LARGEST = 200_000  # bytes
_NAME = "<judges>"


@dataclass(frozen=True)
class PrivateJudges:
    """A file of judges.

    Attributes:
        text: The file.
        titles: The titles of its parts, by exercise.
    """

    text: str = field(default="", repr=False)  # Dask writes arguments to its logs
    titles: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @property
    def digest(self) -> str:
        """A short hash of the file; "none" if there is none.

        Example:
            >>> NONE.digest, PrivateJudges("PARTS = {}").digest
            ('none', '75da5f9bb26f')
        """
        return hashlib.sha256(self.text.encode()).hexdigest()[:12] if self.text else "none"


NONE = PrivateJudges()
"""No file was given."""


class JudgesRefused(OnnxLabError):
    """A file of judges cannot be used."""


class JudgeBroken(OnnxLabError):
    """An instructor's judge raised something else than `Wrong`: its own fault, which gives nobody a mark."""


def read_judges(path: Path) -> PrivateJudges:
    """Read a file of judges and check that it can be used.

    Raises:
        JudgesRefused: If it cannot be read or run, or has no parts.
        UnknownExercise: If it has parts for an exercise that does not exist.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}."
        raise JudgesRefused(msg, "", "--judges takes a file of Python; see the instructor's guide.") from None
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
    titles = {name: tuple(part.title for part in added) for name, added in parts.items()}
    return PrivateJudges(text, titles)


def parts_in(text: str, begin: Callable[[str], None] = lambda title: None) -> dict[str, list[Part]]:
    """Run a file of judges and return its parts by exercise.

    Args:
        text: The file.
        begin: Called with a part's title before it judges.

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
    for name, added in parts.items():
        exercise(name)
        if not (isinstance(added, list) and all(isinstance(part, Part) for part in added)):
            msg = f"PARTS[{name!r}] is not a list of Part."
            raise JudgesRefused(msg, "", "Part comes from onnxlab.kit.exercise.")
    return {
        name: [Part(part.title, _guarded(part, begin)) for part in added] for name, added in parts.items()
    }


def with_parts(exercises: Iterable[Exercise], added: Mapping[str, list[Part]]) -> tuple[Exercise, ...]:
    """Return exercises with parts added after their own, whose test inputs stay the same."""
    from onnxlab.kit.checking import load_judges  # and torch

    def joined(exercise: Exercise) -> Exercise:
        if not (parts := added.get(exercise.id)):
            return exercise
        own = load_judges(exercise)
        judges = Judges((*own.parts, *(part.judge for part in parts)), own.expected)
        return replace(_titled(exercise, [part.title for part in parts]), judges=judges)

    return tuple(map(joined, exercises))


def with_titles(exercises: Iterable[Exercise], judges: PrivateJudges) -> tuple[Exercise, ...]:
    """Return exercises with the titles of the added parts; only the processes that judge can run these."""
    return tuple(_titled(exercise, judges.titles.get(exercise.id, ())) for exercise in exercises)


def _titled(exercise: Exercise, titles: Iterable[str]) -> Exercise:
    return replace(exercise, parts=(*exercise.parts, *titles))


def _guarded(part: Part, begin: Callable[[str], None]) -> Judge:
    """Return a part's judge, with all that it raises but `Wrong` turned into `JudgeBroken`."""

    def judge(work: "Work", random: "np.random.Generator") -> None:
        begin(part.title)
        try:
            part.judge(work, random)
        except Wrong:
            raise
        except BaseException as error:  # also `sys.exit()`
            msg = f"{part.title!r}: {_where(error)}"
            raise JudgeBroken(msg) from None

    return judge


def _where(error: BaseException) -> str:
    """Return an error's type and text, and the line of the file that it comes from."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _NAME]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {' '.join(str(error).split())}"[:300]
