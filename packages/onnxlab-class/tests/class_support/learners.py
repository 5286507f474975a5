"""A class that works at the labs: progress files as learners' checks leave them, drawn from a seed."""

import json
import random
import time
from pathlib import Path

from onnxlab.kit.exercise import Exercise, labs

EXERCISES = tuple(exercise for lab in labs() for exercise in lab.exercises)


def progress_file(folder: Path, account: str) -> Path:
    """Where a learner of a class folder has their progress."""
    return folder / "learners" / account / ".onnxlab" / "progress.json"


def write(folder: Path, account: str, state: object) -> Path:
    """Put a learner's progress in its place, in one step as `record` does."""
    path = progress_file(folder, account)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(state), "utf-8")
    new.replace(path)
    return path


def passed(at: int) -> dict[str, object]:
    return {
        "attempts": 1,
        "last": "passed",
        "passed": True,
        "first_at": at,
        "last_at": at,
        "passed_at": at,
        "failing": "",
    }


def failed(exercise: Exercise, part: int, attempts: int, first: int, last: int) -> dict[str, object]:
    return {
        "attempts": attempts,
        "last": "incorrect",
        "passed": False,
        "first_at": first,
        "last_at": last,
        "failing": exercise.parts[part],
    }


def people(folder: Path, many: int, seed: int = 1) -> None:
    """Make a class: each learner has come some way, and works at an exercise or two; some are private."""
    draw = random.Random(seed)
    now = int(time.time())
    for number in range(many):
        state: dict[str, dict[str, object]] = {}
        way = min(len(EXERCISES), max(0, round(draw.gauss(9, 5))))
        for exercise in EXERCISES[:way]:
            if draw.random() < 0.88:
                state[exercise.id] = passed(now - draw.randrange(60, 7000))
        for exercise in EXERCISES[way : way + draw.choice((0, 1, 1, 2))]:
            first = now - draw.randrange(30, 2400)
            part = min(int(draw.expovariate(1.2)), len(exercise.parts) - 1)
            state[exercise.id] = failed(
                exercise, part, draw.randrange(1, 9), first, now - draw.randrange(0, 30)
            )
            if draw.random() < 0.15:
                state[exercise.id] |= {"last": "error", "failing": ""}
        if draw.random() < 0.05:
            state["onnxlab"] = {"private": True}
        write(folder, f"learner-{number:03d}", state)
