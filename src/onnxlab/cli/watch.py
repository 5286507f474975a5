"""`onnxlab watch`: one exercise of a lab after the other, checked at each save, and single keys."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from onnxlab.course.chapters import own_copy
from onnxlab.course.lab_check import check_notebook, read_lab
from onnxlab.course.notebooks import NotebookUnreadable
from onnxlab.kit.exercise import Exercise, lab
from onnxlab.kit.outcome import Outcome, Status
from onnxlab.kit.progress import standings
from onnxlab.language import tr
from onnxlab.notebook.labs.checks import report_text
from onnxlab.notebook.labs.standings import exercise_text, next_hints, next_text
from onnxlab.plain_text import aligned, plain

if sys.platform == "win32":
    import msvcrt
else:
    import select
    import termios
    import tty

_BETWEEN_LOOKS = 0.5  # seconds
_BAR = 24  # characters


class Keys:
    """Single keys of a terminal, without Enter; where the input is no terminal, none come."""

    def __enter__(self) -> "Keys":
        """Let the terminal hand out each key at once; Ctrl+C still ends the program."""
        self.active = sys.stdin is not None and sys.stdin.isatty()
        if self.active and sys.platform != "win32":
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back as it was."""
        if self.active and sys.platform != "win32":
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def read(self, seconds: float) -> str:
        """Return the key that is pressed within some seconds; "" if none is."""
        if not self.active:
            time.sleep(seconds)
        elif sys.platform == "win32":
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                if msvcrt.kbhit():
                    return msvcrt.getwch().lower()
                time.sleep(0.05)
        elif select.select([sys.stdin], [], [], seconds)[0]:
            pressed = os.read(sys.stdin.fileno(), 1)
            return pressed.decode("ascii", "replace").lower() if pressed else "q"  # the terminal is gone
        return ""


def watch(path: Path) -> int:
    """Check a lab's notebook at each save, until all is passed or the learner ends it; return the exit code.

    Raises:
        NotebookUnreadable: If it is missing or is not a notebook.
        UnknownExercise: If no lab has its name.
    """
    exercises = lab(read_lab(path)[0]).exercises
    outcomes: Sequence[Outcome] = ()
    place, checked = 0, 0
    if own := own_copy(path):
        print(tr("That is the course's own notebook. Yours is {own}.", own=plain(own)), file=sys.stderr)
    with Keys() as keys:
        while True:
            if (saved := _saved(path, checked)) != checked:
                checked = saved
                print(tr("{path}: running it ...", path=plain(path)), flush=True)
                try:
                    outcomes = check_notebook(path)
                except NotebookUnreadable as error:
                    print(tr(str(error)), file=sys.stderr)
                else:
                    if all(outcome.passed for outcome in outcomes):
                        print(_bar(outcomes))
                        print(next_text(standings()[0]))
                        return 0
                    if outcomes[place].passed:
                        print(tr("Passed: {title}", title=tr(exercises[place].title)))
                        place = _following(outcomes, place)
                    _show(exercises[place], outcomes[place])
                _prompt(outcomes, keys)
            key = keys.read(_BETWEEN_LOOKS)
            if key == "q":
                return 0
            if key == "c":
                checked = 0
            elif key == "h":
                print(next_hints(exercises[place])[-1])
            elif key == "n" and outcomes:
                place = _following(outcomes, place)
                _show(exercises[place], outcomes[place])
            elif key == "l" and outcomes:
                print("\n".join(_listed(exercises, outcomes, place)))
            if key in ("h", "n", "l"):
                _prompt(outcomes, keys)


def _saved(path: Path, before: int) -> int:
    """Return when a file was saved; the time before while an editor replaces it."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return before


def _following(outcomes: Sequence[Outcome], place: int) -> int:
    """Return the next exercise that is not passed, after the last one the first.

    >>> done, left = (Outcome("", status, 0, 1) for status in (Status.PASSED, Status.NOT_ATTEMPTED))
    >>> _following([left, done, left], 0), _following([left, done, left], 2), _following([done, left], 1)
    (2, 0, 1)
    """
    left = [number for number, outcome in enumerate(outcomes) if not outcome.passed]
    return min((number for number in left if number > place), default=left[0])


def _show(record: Exercise, outcome: Outcome) -> None:
    """Print what an exercise asks, and what is wrong with the answer, if there is one."""
    print(f"\n{exercise_text(record)}")
    if outcome.status is not Status.NOT_ATTEMPTED:
        print(f"\n{report_text(record, outcome)}")


def _listed(exercises: Sequence[Exercise], outcomes: Sequence[Outcome], place: int) -> list[str]:
    rows = [
        (">" if number == place else "", record.id, tr(outcome.status), tr(record.title))
        for number, (record, outcome) in enumerate(zip(exercises, outcomes, strict=True))
    ]
    return aligned([("", tr("exercise"), tr("outcome"), tr("title")), *rows])


def _bar(outcomes: Sequence[Outcome]) -> str:
    """Return a line of progress.

    >>> print(_bar([Outcome("", Status.PASSED, 2, 2), Outcome("", Status.NOT_ATTEMPTED, 0, 3)]))
    [############............] 1 of 2 exercises, 2 of 5 points
    """
    passed, points = sum(o.passed for o in outcomes), sum(o.points for o in outcomes)
    filled = _BAR * passed // len(outcomes)
    line = tr(
        "{passed} of {count} exercises, {points} of {possible} points",
        passed=passed,
        count=len(outcomes),
        points=points,
        possible=sum(o.possible for o in outcomes),
    )
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {line}"


def _prompt(outcomes: Sequence[Outcome], keys: Keys) -> None:
    if outcomes:
        print(f"\n{_bar(outcomes)}")
    if keys.active:
        print(tr("It is checked at each save. h: hint, n: next, l: list, c: check now, q: end"), flush=True)
    else:
        print(tr("Waiting for the next save; Ctrl+C ends it."), flush=True)
