"""The room at one moment: who stands how, each exercise's counts, and where people are stuck.

A progress file is reduced to what the page may show: states, counts, times, titles that are known here.

The page runs for as long as the class does. Loading the labs loads torch, which is 250 MB: another process
does that, once, and says what the exercises are called.
"""

import csv
import io
import json
import secrets
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from onnxlab.classroom.room.progress_files import OptedOut, ProgressFile, ProgressFiles
from onnxlab.errors import OnnxLabError
from onnxlab.labs.kit.outcome import USABLE, Status
from onnxlab.plain_text import guarded, plain

__all__ = [
    "ExercisesNotLoaded",
    "Names",
    "Room",
    "RoomExercise",
    "RoomNames",
    "RoomView",
    "Sharing",
    "State",
    "learners_csv",
    "loaded_exercises",
    "room_exercises",
    "view_json",
]

_EARLIEST = 1_577_836_800  # 2020: earlier times are none
_MOST = 9_999  # attempts that are shown


class ExercisesNotLoaded(OnnxLabError):
    """The labs cannot be loaded."""


@dataclass(frozen=True)
class RoomExercise:
    """An exercise as the page shows it.

    Attributes:
        id: Its name.
        lab: Its lab, as "lab04".
        title: What is to be done, in one line.
        points: What it is worth.
        parts: The titles of its parts: what can fail.
    """

    id: str
    lab: str
    title: str
    points: int
    parts: tuple[str, ...]


def room_exercises() -> tuple[RoomExercise, ...]:
    """Return every exercise in order.

    Raises:
        ExercisesNotLoaded: If the labs cannot be loaded.
    """
    command = [sys.executable, "-m", "onnxlab.classroom.room.view"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        msg = "The labs cannot be loaded."
        why = (done.stderr.strip().splitlines() or [""])[-1]
        raise ExercisesNotLoaded(msg, why, "Run: python3 course.py test --fast")
    rows = json.loads(done.stdout)
    return tuple(RoomExercise(**{**row, "parts": tuple(row["parts"])}) for row in rows)


def loaded_exercises() -> tuple[RoomExercise, ...]:
    """Return every exercise in order; loads the labs into this process.

    Example:
        >>> [each.id for each in loaded_exercises() if each.lab == "lab01"]
        ['loop-count-as-input', 'branch-on-data']
    """
    from onnxlab.labs.kit.exercise import labs

    return tuple(
        RoomExercise(
            each.id,
            one.name.partition("_")[0],
            each.title,
            each.points,
            tuple(part.title for part in each.parts),
        )
        for one in labs()
        for each in one.exercises
    )


class Sharing(StrEnum):
    """Whether a learner is shown."""

    SHOWN = "shown"
    PRIVATE = "private"
    UNKNOWN = "unknown"
    """The file is damaged, too large, or no file."""


class State(StrEnum):
    """How a learner stands with an exercise."""

    OPEN = "open"
    TRIED = "tried"
    STUCK = "stuck"
    """Not passed after three checks or ten minutes, and checked within the last hour."""
    PASSED = "passed"


@dataclass(frozen=True)
class Cell:
    """One learner and one exercise.

    Attributes:
        passed: Whether it was ever passed.
        attempts: How often it was checked.
        failure: What the last failed check said: the title of a part, or a word for another end.
        first_at: When it was first checked, in seconds since 1970; None if nobody knows.
        last_at: When it was last checked.
    """

    passed: bool = False
    attempts: int = 0
    failure: str = ""
    first_at: int | None = None
    last_at: int | None = None

    def state(self, now: float) -> State:
        """Return how the learner stands with it now."""
        if self.passed:
            return State.PASSED
        if not self.attempts:
            return State.OPEN
        if self.first_at is None or self.last_at is None or now - self.last_at > 3600:
            return State.TRIED
        return State.STUCK if self.attempts >= 3 or now - self.first_at >= 600 else State.TRIED


_OPEN = Cell()


@dataclass(frozen=True)
class Learner:
    """One learner.

    Attributes:
        account: Their account.
        sharing: Whether they are shown.
        cells: Where they have begun: exercise -> how it stands.
    """

    account: str
    sharing: Sharing = Sharing.SHOWN
    cells: Mapping[str, Cell] = field(default_factory=dict)


def learner(
    file: ProgressFile, exercises: Sequence[RoomExercise], now: float, opted_out: OptedOut
) -> Learner:
    """Return what a file says. A learner who asked not to be shown leaves nothing but a count.

    Args:
        file: The file, whatever it holds.
        exercises: What there is; anything else in the file is passed over.
        now: Later times than this one are this one.
        opted_out: Those who asked not to be shown before.
    """
    state = _state(file)
    asked = None if state is None else state.get("onnxlab", {}).get("private")
    if opted_out.still(file.account, asked if isinstance(asked, bool) else None):
        return Learner(file.account, Sharing.PRIVATE)
    if state is None:
        return Learner(file.account, Sharing.UNKNOWN)
    cells = {each.id: _cell(state[each.id], each, now) for each in exercises if each.id in state}
    return Learner(file.account, Sharing.SHOWN, {name: cell for name, cell in cells.items() if cell != _OPEN})


def _state(file: ProgressFile) -> dict[str, dict[str, Any]] | None:
    """Return what is in a file; None if that is nothing that a check would have written."""
    if file.content is None:
        return None
    try:
        found = json.loads(file.content or b"{}")
    except (ValueError, RecursionError):
        return None
    entries = isinstance(found, dict) and all(isinstance(entry, dict) for entry in found.values())
    return found if entries else None


def _cell(entry: dict[str, Any], exercise: RoomExercise, now: float) -> Cell:
    given = entry.get("attempts")
    attempts = min(max(given, 0), _MOST) if isinstance(given, int) and not isinstance(given, bool) else 0
    passed = entry.get("passed") is True
    failure = "" if passed or not attempts else _failure(entry, exercise)
    first, last = (_time(entry.get(key), now) for key in ("first_at", "last_at"))
    return Cell(passed, attempts, failure, first, last)


def _failure(entry: dict[str, Any], exercise: RoomExercise) -> str:
    """Return a text of ours: what a file says is compared with what is known, and never shown itself."""
    last = entry.get("last")
    if last == Status.ERROR:
        return "the code raises an error"
    if last == Status.TIMED_OUT:
        return "it takes too long"
    title = entry.get("failing")
    return title if title in (*exercise.parts, USABLE) else "not right yet"


def _time(value: object, now: float) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool) or value < _EARLIEST:
        return None
    return min(value, int(now))


class Names(StrEnum):
    """How learners are named: by a number, or by their account if the instructor asks."""

    NUMBERS = "numbers"
    ACCOUNTS = "accounts"


class RoomNames:
    """The numbers of a room: drawn at random for those who are there, then in the order of coming."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def meet(self, accounts: Iterable[str]) -> None:
        """Give numbers to those who have none."""
        new = sorted(account for account in accounts if account not in self._numbers)
        secrets.SystemRandom().shuffle(new)
        for account in new:
            self._numbers[account] = len(self._numbers) + 1

    def number(self, account: str) -> int:
        """Return a learner's number."""
        return self._numbers[account]

    def name(self, account: str, names: Names) -> str:
        """Return what a learner is called.

        Example:
            >>> room = RoomNames()
            >>> room.meet(["ada"])
            >>> [room.name("ada", names) for names in Names]
            ['1', 'ada']
        """
        return plain(account, 80) if names is Names.ACCOUNTS else str(self._numbers[account])


@dataclass(frozen=True)
class StuckPlace:
    """An exercise and what does not hold in it.

    Attributes:
        exercise: The exercise's id.
        failure: The title of the part that fails, or how the check ended otherwise.
        stuck: How many learners are stuck there now.
        tried: How many have it as their last result, with those.
        since: When each of those who are stuck first checked the exercise, the earliest first.
    """

    exercise: str
    failure: str
    stuck: int
    tried: int
    since: tuple[int, ...]


@dataclass(frozen=True)
class RoomView:
    """The room at one moment.

    Attributes:
        now: The moment, in seconds since 1970.
        exercises: All exercises, in order.
        learners: Those who are shown, by number.
        private: How many asked not to be shown.
        unknown: How many have a file that cannot be used.
    """

    now: float
    exercises: tuple[RoomExercise, ...]
    learners: tuple[Learner, ...]
    private: int
    unknown: int

    def counts(self, exercise: str) -> dict[State, int]:
        """Return how many of those who are shown stand how with an exercise."""
        found = Counter(each.cells.get(exercise, _OPEN).state(self.now) for each in self.learners)
        return {state: found[state] for state in State}

    def stuck_places(self) -> list[StuckPlace]:
        """Return where people are stuck: most of those who are stuck now first."""
        found: dict[tuple[str, str], list[Cell]] = defaultdict(list)
        for one in self.learners:
            for name, cell in one.cells.items():
                if cell.failure:
                    found[name, cell.failure].append(cell)
        places = []
        for (name, failure), cells in found.items():
            stuck = [cell for cell in cells if cell.state(self.now) is State.STUCK]
            since = sorted(cell.first_at for cell in stuck if cell.first_at is not None)
            places.append(StuckPlace(name, failure, len(stuck), len(cells), tuple(since)))
        order = {each.id: number for number, each in enumerate(self.exercises)}
        return sorted(
            places, key=lambda place: (-place.stuck, -place.tried, order[place.exercise], place.failure)
        )


class Room:
    """A room that is looked at again and again.

    Args:
        folder: A class folder or a folder of progress files.
        exercises: What is worked at.

    Raises:
        NoRoom: If there is no such folder.
    """

    def __init__(self, folder: Path, exercises: Sequence[RoomExercise]) -> None:
        self.exercises = tuple(exercises)
        self.names = RoomNames()
        self._files = ProgressFiles(folder)
        self._opted_out = OptedOut.of(folder)
        self._learners: dict[str, Learner] = {}

    def look(self, now: float | None = None) -> RoomView:
        """Read what has changed and return the room as it is now.

        Raises:
            NoRoom: If the folder cannot be read any more.
        """
        moment = time.time() if now is None else now
        changed, gone = self._files.changes()
        for file in changed:
            self._learners[file.account] = learner(file, self.exercises, moment, self._opted_out)
        for account in gone:
            del self._learners[account]
        sharing = Counter(each.sharing for each in self._learners.values())
        shown = [each for each in self._learners.values() if each.sharing is Sharing.SHOWN]
        self.names.meet(each.account for each in shown)
        shown.sort(key=lambda each: self.names.number(each.account))
        return RoomView(
            moment, self.exercises, tuple(shown), sharing[Sharing.PRIVATE], sharing[Sharing.UNKNOWN]
        )


def view_json(view: RoomView, room: RoomNames, names: Names, *, rows: bool) -> dict[str, Any]:
    """Return the room for the page.

    Args:
        view: The room.
        room: What the learners are called.
        names: In which of the ways.
        rows: Whether learners are in it at all; without, it is counts only.
    """
    found: dict[str, Any] = {
        "shown": len(view.learners),
        "private": view.private,
        "unknown": view.unknown,
        "exercises": [
            {"id": each.id, "lab": each.lab, "title": each.title, "points": each.points}
            | view.counts(each.id)
            for each in view.exercises
        ],
        "stuck": [asdict(place) for place in view.stuck_places()],
        "learners": [],
    }
    if rows:
        found["learners"] = [
            {
                "number": room.number(one.account),
                "name": room.name(one.account, names),
                "cells": {name: _cell_json(cell, view.now) for name, cell in one.cells.items()},
            }
            for one in view.learners
        ]
    return found


def _cell_json(cell: Cell, now: float) -> list[Any]:
    return [str(cell.state(now)), cell.attempts, cell.failure, cell.first_at, cell.last_at]


def learners_csv(view: RoomView, room: RoomNames, names: Names) -> str:
    """Return a row for each learner who is shown: how each exercise stands, its checks, what does not hold.

    Names that a spreadsheet would take for a formula get an apostrophe before them.
    """
    heading: list[object] = ["learner", "passed"]
    for each in view.exercises:
        heading += [each.id, f"{each.id} checks", f"{each.id} does not hold"]
    rows: list[list[object]] = [heading]
    for one in view.learners:
        cells = [one.cells.get(each.id, _OPEN) for each in view.exercises]
        row: list[object] = [room.name(one.account, names), sum(cell.passed for cell in cells)]
        for cell in cells:
            row += [cell.state(view.now), cell.attempts, cell.failure]
        rows.append(row)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue()


if __name__ == "__main__":
    print(json.dumps([asdict(each) for each in loaded_exercises()]))
