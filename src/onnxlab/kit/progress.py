"""A learner's progress: what was tried and passed, in one small file of their own.

The file is for display only: nothing is graded from it. A damaged one is set aside, a missing one is empty.
In a class, the instructor's page reads it too (`onnxlab class room`); a learner can ask to be left out there.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

from onnxlab.files import CannotWrite, write_atomically
from onnxlab.kit.exercise import Exercise, Lab, labs
from onnxlab.kit.outcome import Outcome, Status
from onnxlab.message import Message

_State = dict[str, dict[str, Any]]
"""The entry of each exercise, by its id."""

_LEARNER = "onnxlab"  # the entry for what the learner has chosen; no exercise has this name


@dataclass(frozen=True)
class Standing:
    """How a learner stands with one exercise.

    Attributes:
        passed: Whether it was ever passed.
        attempts: How often it was checked with an answer in it.
        last: How the last check ended, if there was one.
        hints: How many were given.
    """

    lab: Lab
    exercise: Exercise
    passed: bool
    attempts: int
    last: Status | None
    hints: int

    @property
    def word(self) -> str:
        """One of "passed", "tried" and "open"."""
        return "passed" if self.passed else "tried" if self.attempts else "open"

    @property
    def points(self) -> int:
        """The points so far."""
        return self.exercise.points if self.passed else 0


def state_file() -> Path:
    """Return where the file is: in the user's folder for state, or where ONNXLAB_STATE says."""
    path = os.environ.get("ONNXLAB_STATE")
    return Path(path) if path else platformdirs.user_state_path("onnxlab") / "progress.json"


def standings() -> tuple[list[Standing], str]:
    """Return how the learner stands with every exercise, and a message if the file was damaged."""
    state, message = read_entries(state_file())
    return [
        _standing(state.get(exercise.id, {}), lab, exercise) for lab in labs() for exercise in lab.exercises
    ], message


def record(outcome: Outcome) -> str:
    """Record a check's outcome, unless the exercise was not attempted.

    Of a failed check the title of the first part that does not hold is kept: a text of the exercise's own,
    nothing that the learner wrote.

    Returns:
        A message if the file was damaged or cannot be written; the outcome itself does not depend on it.
    """
    if outcome.status is Status.NOT_ATTEMPTED:
        return ""

    def note(entry: dict[str, Any]) -> None:
        now, failed = int(time.time()), outcome.first_failure
        before = entry.get("passed") is True
        if outcome.passed and not before:
            entry["passed_at"] = now
        entry.update(
            attempts=_count(entry, "attempts") + 1,
            last=str(outcome.status),
            first_at=_count(entry, "first_at") or now,
            last_at=now,
            passed=before or outcome.passed,
            failing=failed.title if failed else "",
        )

    return change_entry(outcome.exercise, note)


def set_private(private: bool) -> str:
    """Set whether an instructor's page leaves this learner out; return a message if that fails."""
    return change_entry(_LEARNER, lambda entry: entry.update(private=private))


def is_private() -> bool:
    """Tell whether an instructor's page leaves this learner out."""
    return read_entries(state_file())[0].get(_LEARNER, {}).get("private") is True


def choose_track(name: str) -> str:
    """Keep the track that the learner follows, "" for none; return a message if that fails."""
    return change_entry(_LEARNER, lambda entry: entry.update(track=name))


def chosen_track() -> str:
    """Return the name of the track that the learner follows; "" for none."""
    return str(read_entries(state_file())[0].get(_LEARNER, {}).get("track", ""))


def next_hint(exercise: Exercise) -> tuple[int, str]:
    """Return the number and text of the next hint; after the last one, the last one again."""
    number = 0

    def count(entry: dict[str, Any]) -> None:
        nonlocal number
        number = min(_count(entry, "hints") + 1, len(exercise.hints))
        entry["hints"] = number

    change_entry(exercise.id, count)
    number = number or 1  # where the state cannot be kept, every hint is the first
    return number, exercise.hints[number - 1]


def all_hints(exercise: Exercise) -> None:
    """Record that a learner has seen all hints, or what says as much."""
    change_entry(exercise.id, lambda entry: entry.update(hints=len(exercise.hints)))


def change_entry(name: str, change: Callable[[dict[str, Any]], None], file: Path | None = None) -> str:
    """Change an entry of the file, or of another; return a message if it was damaged or is read-only."""
    path = file or state_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):  # two notebooks may be open at once
            state, message = read_entries(path, locked=True)
            change(state.setdefault(name, {}))
            write_atomically(path, json.dumps(state, indent=1), mode=0o600)
            return message
    except CannotWrite as error:
        return Message("Progress is not kept: {reason}", reason=error.what)
    except OSError as error:  # a read-only or full disk must not keep a check from ending
        return Message("Progress is not kept: {path} cannot be written ({error}).", path=path, error=error)


def _locked(path: Path) -> FileLock:
    return FileLock(path.with_suffix(".lock"), timeout=5)


def read_entries(path: Path, *, locked: bool = False) -> tuple[_State, str]:
    """Return the entries, and a message if the file is damaged, and set aside, or cannot be read."""
    try:
        return _parsed(path), ""
    except OSError as error:
        return {}, Message(
            "{path} cannot be read ({error}); nothing is shown as done.", path=path, error=error
        )
    except (ValueError, RecursionError):
        if locked:
            return {}, _set_aside(path)
    # Another notebook may be replacing the damaged file at this moment: only who holds the lock moves it.
    try:
        with _locked(path):
            return read_entries(path, locked=True)
    except OSError:
        return {}, Message("The progress file {path} is damaged and cannot be moved.", path=path)


def _parsed(path: Path) -> _State:
    """Return the entries; none if there is no file."""
    try:
        state = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(state, dict) or not all(isinstance(entry, dict) for entry in state.values()):
        raise ValueError(path)
    return state


def _set_aside(path: Path) -> str:
    for number in range(1, 1000):
        aside = path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")
        if aside.exists():
            continue
        try:
            path.replace(aside)
        except OSError:
            break
        return Message(
            "The progress file was damaged. It is now {aside.name}; a new one begins. No work is lost.",
            aside=aside,
        )
    return Message("The progress file {path} is damaged and cannot be moved.", path=path)


def _standing(entry: dict[str, Any], lab: Lab, exercise: Exercise) -> Standing:
    last = next((status for status in Status if status == entry.get("last")), None)
    passed = entry.get("passed") is True
    return Standing(lab, exercise, passed, _count(entry, "attempts"), last, _count(entry, "hints"))


def _count(entry: dict[str, Any], key: str) -> int:
    value = entry.get(key, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
