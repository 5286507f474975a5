"""The exercises that a room works at, without the libraries they are judged with.

The page runs for as long as the class does. Loading the labs loads torch, which is 250 MB: another process
does that, once, and says what they are called.
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass

from onnxlab.errors import OnnxLabError

__all__ = ["ExercisesNotLoaded", "RoomExercise", "loaded_exercises", "room_exercises"]


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

    Example:
        >>> [each.id for each in room_exercises() if each.lab == "lab01"]
        ['loop-count-as-input', 'branch-on-data']
    """
    command = [sys.executable, "-m", "onnxlab.classroom.room.exercises"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        msg = "The labs cannot be loaded."
        why = (done.stderr.strip().splitlines() or [""])[-1]
        raise ExercisesNotLoaded(msg, why, "Run: python3 course.py test --fast")
    rows = json.loads(done.stdout)
    return tuple(RoomExercise(**{**row, "parts": tuple(row["parts"])}) for row in rows)


def loaded_exercises() -> tuple[RoomExercise, ...]:
    """Return every exercise in order; loads the labs into this process."""
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


if __name__ == "__main__":
    print(json.dumps([asdict(each) for each in loaded_exercises()]))
