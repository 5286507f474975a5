"""The room at one moment: who stands how, each exercise's counts, and where people are stuck."""

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from onnxlab.classroom.room_exercises import RoomExercise
from onnxlab.classroom.room_files import ProgressFiles
from onnxlab.classroom.room_learners import OPEN, Cell, Learner, Sharing, State, learner
from onnxlab.classroom.room_names import RoomNames
from onnxlab.classroom.room_optout import OptedOut

__all__ = ["Room", "RoomView", "StuckPlace"]


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

    def minutes(self, now: float) -> int | None:
        """Return how long half of those who are stuck have been at it; None if nobody is stuck."""
        return round((now - median(self.since)) / 60) if self.since else None


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
        found = Counter(each.cells.get(exercise, OPEN).state(self.now) for each in self.learners)
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
