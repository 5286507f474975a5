"""What a progress file says, reduced to what the page may show: states, counts, times, known titles."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from onnxlab.classroom.room_exercises import RoomExercise
from onnxlab.classroom.room_files import ProgressFile
from onnxlab.classroom.room_optout import OptedOut
from onnxlab.labs.outcome import USABLE, Status

__all__ = ["OPEN", "Cell", "Learner", "Sharing", "State", "learner"]

_EARLIEST = 1_577_836_800  # 2020: earlier times are none
_MOST = 9_999  # attempts that are shown


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


OPEN = Cell()


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
    return Learner(file.account, Sharing.SHOWN, {name: cell for name, cell in cells.items() if cell != OPEN})


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
