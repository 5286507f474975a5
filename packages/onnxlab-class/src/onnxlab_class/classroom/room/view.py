"""The state of a room at one moment: each learner's exercises, counts, and where learners are stuck.

Of a progress file only these are shown: states, counts, times, and titles of this package's exercises.
"""

import csv
import io
import json
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from onnxlab.kit.exercise import Exercise
from onnxlab.kit.outcome import USABLE, Status
from onnxlab.language import tr
from onnxlab.plain_text import escape_formula, plain
from onnxlab_class.classroom.room.progress_files import OptedOut, ProgressFile, ProgressFiles

_EARLIEST = 1_577_836_800  # 2020: earlier times are not valid
_MOST = 9_999  # attempts that are shown


class Sharing(StrEnum):
    """Whether a learner is shown on the page."""

    SHOWN = "shown"
    PRIVATE = "private"
    UNKNOWN = "unknown"
    """The file is damaged, too large, or not a regular file."""


class State(StrEnum):
    """The state of one learner's exercise."""

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
        failure: The outcome of the last check, if it failed: the title of a part, or another text.
        first_at: The time of the first check, in seconds since 1970; None if unknown.
        last_at: The time of the last check.
    """

    passed: bool = False
    attempts: int = 0
    failure: str = ""
    first_at: int | None = None
    last_at: int | None = None

    def state(self, now: float) -> State:
        """Return the state at a time."""
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
        cells: The exercises that they have begun: id -> cell.
    """

    account: str
    sharing: Sharing = Sharing.SHOWN
    cells: Mapping[str, Cell] = field(default_factory=dict)


def read_learner(
    file: ProgressFile, exercises: Sequence[Exercise], now: float, opted_out: OptedOut
) -> Learner:
    """Read a learner's file; of a learner who opted out, nothing but the account is returned.

    Args:
        file: The file, which is untrusted.
        exercises: All exercises; other entries of the file are ignored.
        now: The present time, to which later times in the file are reduced.
        opted_out: The accounts that opted out.
    """
    state = _state(file)
    private = None if state is None else state.get("onnxlab", {}).get("private")
    if opted_out.update(file.account, private if isinstance(private, bool) else None):
        return Learner(file.account, Sharing.PRIVATE)
    if state is None:
        return Learner(file.account, Sharing.UNKNOWN)
    cells = {
        exercise.id: _cell(state[exercise.id], exercise, now)
        for exercise in exercises
        if exercise.id in state
    }
    return Learner(file.account, Sharing.SHOWN, {name: cell for name, cell in cells.items() if cell != _OPEN})


def _state(file: ProgressFile) -> dict[str, dict[str, Any]] | None:
    """Return the content of a file; None if no check can have written it."""
    if file.content is None:
        return None
    try:
        state = json.loads(file.content or b"{}")
    except (ValueError, RecursionError):
        return None
    entries = isinstance(state, dict) and all(isinstance(entry, dict) for entry in state.values())
    return state if entries else None


def _cell(entry: dict[str, Any], exercise: Exercise, now: float) -> Cell:
    count = entry.get("attempts")
    attempts = min(max(count, 0), _MOST) if isinstance(count, int) and not isinstance(count, bool) else 0
    passed = entry.get("passed") is True
    failure = "" if passed or not attempts else _failure(entry, exercise)
    first, last = (_time(entry.get(key), now) for key in ("first_at", "last_at"))
    return Cell(passed, attempts, failure, first, last)


def _failure(entry: dict[str, Any], exercise: Exercise) -> str:
    """Return why the last check failed, as a text of this package: a text of the file is never shown."""
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
    """How learners are named: by number, or by account if the instructor requests it."""

    NUMBERS = "numbers"
    ACCOUNTS = "accounts"


class RoomNames:
    """The numbers of a room's learners: random for those who are present first, then in order of arrival."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def meet(self, accounts: Iterable[str]) -> None:
        """Give numbers to accounts without one."""
        newcomers = sorted(account for account in accounts if account not in self._numbers)
        secrets.SystemRandom().shuffle(newcomers)
        for account in newcomers:
            self._numbers[account] = len(self._numbers) + 1

    def number(self, account: str) -> int:
        """Return a learner's number."""
        return self._numbers[account]

    def name(self, account: str, names: Names) -> str:
        """Return the name of a learner on the page.

        Example:
            >>> room = RoomNames()
            >>> room.meet(["ada"])
            >>> [room.name("ada", names) for names in Names]
            ['1', 'ada']
        """
        return plain(account, 80) if names is Names.ACCOUNTS else str(self._numbers[account])


@dataclass(frozen=True)
class StuckPlace:
    """An exercise and the failure at which learners are stuck.

    Attributes:
        exercise: The exercise's id.
        failure: The title of the part that fails, or another text.
        stuck: How many learners are stuck there now.
        tried: How many learners had this failure last, including those who are stuck.
        since: When each stuck learner first checked the exercise, the earliest first.
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
        learners: The learners who are shown, by number.
        private: How many learners opted out.
        unknown: How many learners have a file that cannot be used.
    """

    now: float
    exercises: tuple[Exercise, ...]
    learners: tuple[Learner, ...]
    private: int
    unknown: int

    def counts(self, exercise: str) -> dict[State, int]:
        """Return how many of the shown learners are in each state of an exercise."""
        states = Counter(learner.cells.get(exercise, _OPEN).state(self.now) for learner in self.learners)
        return {state: states[state] for state in State}

    def last_check(self, exercise: str) -> int | None:
        """Return when any of the shown learners last checked an exercise, in seconds since 1970."""
        cells = (learner.cells.get(exercise, _OPEN) for learner in self.learners)
        return max((cell.last_at for cell in cells if cell.last_at is not None), default=None)

    def stuck_places(self) -> list[StuckPlace]:
        """Return the failures of exercises, those with most stuck learners first."""
        cells_of: dict[tuple[str, str], list[Cell]] = defaultdict(list)
        for learner in self.learners:
            for name, cell in learner.cells.items():
                if cell.failure:
                    cells_of[name, cell.failure].append(cell)
        places = []
        for (name, failure), cells in cells_of.items():
            stuck = [cell for cell in cells if cell.state(self.now) is State.STUCK]
            since = sorted(cell.first_at for cell in stuck if cell.first_at is not None)
            places.append(StuckPlace(name, failure, len(stuck), len(cells), tuple(since)))
        order = {exercise.id: number for number, exercise in enumerate(self.exercises)}
        return sorted(
            places, key=lambda place: (-place.stuck, -place.tried, order[place.exercise], place.failure)
        )


class Room:
    """A room, whose progress files are read again for each view.

    Args:
        folder: A class folder or a folder of progress files.
        exercises: All exercises.

    Raises:
        NoRoom: If there is no such folder.
    """

    def __init__(self, folder: Path, exercises: Sequence[Exercise]) -> None:
        self.exercises = tuple(exercises)
        self.names = RoomNames()
        self._files = ProgressFiles(folder)
        self._opted_out = OptedOut.of(folder)
        self._learners: dict[str, Learner] = {}

    def view(self, now: float | None = None) -> RoomView:
        """Read the files that have changed and return the present state.

        Raises:
            NoRoom: If the folder cannot be read any more.
        """
        moment = time.time() if now is None else now
        changed, gone = self._files.changes()
        for file in changed:
            self._learners[file.account] = read_learner(file, self.exercises, moment, self._opted_out)
        for account in gone:
            del self._learners[account]
        sharing = Counter(learner.sharing for learner in self._learners.values())
        shown = [learner for learner in self._learners.values() if learner.sharing is Sharing.SHOWN]
        self.names.meet(learner.account for learner in shown)
        shown.sort(key=lambda learner: self.names.number(learner.account))
        return RoomView(
            moment, self.exercises, tuple(shown), sharing[Sharing.PRIVATE], sharing[Sharing.UNKNOWN]
        )


def view_json(view: RoomView, room: RoomNames, names: Names, *, rows: bool) -> dict[str, Any]:
    """Return the room's state as the page's script reads it.

    Args:
        view: The room's state.
        room: The numbers of the learners.
        names: How learners are named.
        rows: Whether to include each learner, or the counts only.
    """
    state: dict[str, Any] = {
        "shown": len(view.learners),
        "private": view.private,
        "unknown": view.unknown,
        "exercises": [
            {
                "id": exercise.id,
                "lab": exercise.lab.partition("_")[0],
                "title": tr(exercise.title),
                "points": exercise.points,
                "last": view.last_check(exercise.id),
            }
            | view.counts(exercise.id)
            for exercise in view.exercises
        ],
        "stuck": [asdict(place) | {"failure": tr(place.failure)} for place in view.stuck_places()],
        "learners": [],
    }
    if rows:
        state["learners"] = [
            {
                "number": room.number(learner.account),
                "name": room.name(learner.account, names),
                "cells": {name: _cell_json(cell, view.now) for name, cell in learner.cells.items()},
            }
            for learner in view.learners
        ]
    return state


def _cell_json(cell: Cell, now: float) -> list[Any]:
    return [str(cell.state(now)), cell.attempts, tr(cell.failure), cell.first_at, cell.last_at]


def learners_csv(view: RoomView, room: RoomNames, names: Names) -> str:
    """Return a CSV row for each shown learner: each exercise's state, number of checks and failure.

    Names that a spreadsheet would take for a formula get an apostrophe before them.
    """
    heading: list[object] = ["learner", "passed"]
    for exercise in view.exercises:
        heading += [exercise.id, f"{exercise.id} checks", f"{exercise.id} does not hold"]
    rows: list[list[object]] = [heading]
    for learner in view.learners:
        cells = [learner.cells.get(exercise.id, _OPEN) for exercise in view.exercises]
        row: list[object] = [room.name(learner.account, names), sum(cell.passed for cell in cells)]
        for cell in cells:
            row += [cell.state(view.now), cell.attempts, cell.failure]
        rows.append(row)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows(
        [escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
    )
    return text.getvalue()
