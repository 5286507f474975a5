"""What the exercises ask, read from the labs' TOML files: plain data, without torch, ONNX or NumPy.

A lab is `labs/labNN_topic.toml`: its title, the chapter before it, and a table for each exercise. What calls
the answers and what judges them are modules, which `checking` loads when they are needed.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from onnxlab.errors import UnknownExercise
from onnxlab.machine import pinned_versions
from onnxlab.message import Message

if TYPE_CHECKING:
    import numpy as np

    from onnxlab.kit.work import Work

Answers: TypeAlias = Mapping[str, Any]
"""The learner's functions and classes by name."""

Produce: TypeAlias = "Callable[[Answers, Work, np.random.Generator], None]"
"""Calls the answers with the questions that the generator draws, and writes what they return into the folder.
It runs in the learner's process, so it must not know the test inputs. Raises `Wrong` where an answer has the
wrong type."""

Judge: TypeAlias = "Callable[[Work, np.random.Generator], None]"
"""Reads the files in the folder and draws test inputs; raises `Wrong` if a part's claim does not hold. The
inputs come from a seed that the process with the learner's code never sees."""

_FOLDER = Path(__file__).parents[1] / "labs"
_EXPORTERS = ("TorchScript", "torch.export")
_OLDEST = re.compile(r"([\w-]+)\s*(?:\S*,)?>=([\d.]+)")

LABS = tuple(sorted(path.stem for path in _FOLDER.glob("lab*.toml")))
"""The labs' names: each is a TOML file in `onnxlab.labs`, and a notebook."""


@dataclass(frozen=True)
class Part:
    """A part that an instructor's own file of judges adds to an exercise.

    Attributes:
        title: What has to hold, as a claim about the learner's work: "the factor is an input".
        judge: Judges whether it does.
    """

    title: str
    judge: Judge


@dataclass(frozen=True)
class Judges:
    """What judges an exercise.

    Attributes:
        parts: A judge for each of the exercise's parts, in order.
        expected: Makes a right model for the questions, shown beside a learner's wrong one unless the part
            has a right model of its own. None where no part needs it.
    """

    parts: tuple[Judge, ...]
    expected: "Callable[[Work], bytes] | None" = None


@dataclass(frozen=True)
class Exercise:
    """One exercise, as its lab's TOML file states it.

    Attributes:
        id: Its name in kebab-case, for `check` and `hint`; in snake_case, that of its modules.
        title: What is to be done, in one line.
        minutes: How long it takes somebody who has read the chapter.
        answers: The names of the functions and classes that the learner writes.
        parts: What has to hold, each as a claim about the learner's work ("the factor is an input"), in the
            order in which they are reported.
        hints: Three, from a nudge to nearly the code.
        lab: The name of its lab.
        torch_export: Whether it may export with the exporter built on torch.export, whose modules are then
            imported before the time is counted.
        time_limit: Seconds of processor time for the answers.
        produce: Calls the answers, in place of the exercise's own module.
        judges: Judges them, in place of the exercise's own module.
    """

    id: str
    title: str
    minutes: int
    answers: tuple[str, ...]
    parts: tuple[str, ...]
    hints: tuple[str, str, str]
    lab: str = ""
    torch_export: bool = False
    time_limit: float = 20.0
    produce: "Produce | None" = field(default=None, compare=False, repr=False)
    judges: "Judges | None" = field(default=None, compare=False, repr=False)

    @property
    def points(self) -> int:
        """What it is worth: a point for five minutes."""
        return max(1, self.minutes // 5)

    @property
    def module(self) -> str:
        """The name of its modules, below their package: "lab04_asinh.asinh_symbolic"."""
        return f"{self.lab}.{self.id.replace('-', '_')}"

    @property
    def holds_for(self) -> str:
        """The versions that it was tested with: the pinned ones, or the oldest allowed."""
        return _tested_versions()


@dataclass(frozen=True)
class Lab:
    """One notebook of exercises; `after` is the last chapter to read before it, as "04_dynamic_shapes"."""

    name: str
    title: str
    after: str
    exercises: tuple[Exercise, ...]

    @property
    def minutes(self) -> int:
        """How long it takes."""
        return sum(exercise.minutes for exercise in self.exercises)

    @property
    def points(self) -> int:
        """What the lab is worth."""
        return sum(exercise.points for exercise in self.exercises)


@cache
def _tested_versions() -> str:
    pins = pinned_versions()
    oldest = {match[1]: match[2] for text in requires("onnxlab") or () if (match := _OLDEST.match(text))}
    versions = {name: pins.get(name) or oldest.get(name, "") for name in ("torch", "onnx", "onnxruntime")}
    return ", ".join(f"{name} {'.'.join(text.split('.')[:2])}" for name, text in versions.items() if text)


@cache
def lab(name: str) -> Lab:
    """Return a lab by its name or its number, as "lab04" or "lab4".

    Raises:
        UnknownExercise: If there is none of that name.

    Example:
        >>> lab("lab4").name
        'lab04_asinh'
    """
    full = re.sub(r"^lab(?=\d(?!\d))", "lab0", name)
    known = next((lab for lab in LABS if full in (lab, lab.partition("_")[0])), None)
    if known is None:
        raise UnknownExercise(
            "There is no lab {name!r}.", "", "The labs are {labs}.", name=name, labs=", ".join(LABS)
        )
    return _read(known)


@cache
def _read(name: str) -> Lab:
    table = tomllib.loads((_FOLDER / f"{name}.toml").read_text("utf-8"))
    rows: list[dict[str, Any]] = [
        {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        | {"parts": tuple(map(_part, row["parts"]))}
        for row in table["exercise"]
    ]
    return Lab(name, table["title"], table["after"], tuple(Exercise(**row, lab=name) for row in rows))


def _part(title: str) -> str:
    """Return a part's title; that of one exporter is two texts."""
    exporter, colon, rest = title.partition(": ")
    return Message.compose(colon, [exporter, rest]) if exporter in _EXPORTERS else title


def labs() -> tuple[Lab, ...]:
    """Return all labs in order."""
    return tuple(lab(name) for name in LABS)


def exercise(name: str) -> tuple[Lab, Exercise]:
    """Find an exercise and its lab.

    Raises:
        UnknownExercise: If there is none of that name; the nearest names are suggested.

    Example:
        >>> lab, record = exercise("asinh-symbolic")
        >>> lab.name, record.answers
        ('lab04_asinh', ('asinh_symbolic',))
    """
    if not isinstance(name, str):
        msg = Message("An exercise is named by a text; a {name} was passed.", name=type(name).__name__)
        then = 'Write the name first, in quotes, as check("asinh-symbolic", asinh_symbolic).'
        raise UnknownExercise(msg, "", then)
    pairs = {record.id: (lab, record) for lab in labs() for record in lab.exercises}
    if name in pairs:
        return pairs[name]
    wanted = name.replace("_", "-").lower()
    related = [candidate for candidate in pairs if wanted and wanted in candidate]
    near = related[:3] or get_close_matches(wanted, pairs, 3, 0.6)
    msg = Message("There is no exercise {name!r}.", name=name)
    raise UnknownExercise(
        msg, "", Message("Did you mean {near}?", near=", ".join(map(repr, near))) if near else ""
    )
