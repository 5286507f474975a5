"""What the page shows, as JSON for the browser and as CSV for a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from onnxlab.classroom.room_learners import OPEN, Cell, State
from onnxlab.classroom.room_names import Names, RoomNames
from onnxlab.classroom.room_view import RoomView
from onnxlab.grading.plain_text import guarded

__all__ = ["exercises_csv", "learners_csv", "view_json"]


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
            {
                "id": each.id,
                "lab": each.lab,
                "title": each.title,
                "points": each.points,
                **view.counts(each.id),
            }
            for each in view.exercises
        ],
        "stuck": [
            {
                "exercise": one.exercise,
                "failure": one.failure,
                "stuck": one.stuck,
                "tried": one.tried,
                "since": one.since,
            }
            for one in view.stuck_places()
        ],
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
        cells = [one.cells.get(each.id, OPEN) for each in view.exercises]
        row: list[object] = [room.name(one.account, names), sum(cell.passed for cell in cells)]
        for cell in cells:
            row += [cell.state(view.now), cell.attempts, cell.failure]
        rows.append(row)
    return _csv(rows)


def exercises_csv(view: RoomView) -> str:
    """Return a row for each exercise: how many stand how, and what fails most often."""
    rows: list[list[object]] = [
        [
            "lab",
            "exercise",
            "learners",
            *State,
            "most often does not hold",
            "for how many",
            "stuck for minutes",
        ]
    ]
    places = view.stuck_places()
    for each in view.exercises:
        counts = view.counts(each.id)
        worst = next((place for place in places if place.exercise == each.id), None)
        most: Sequence[object] = ("", "", "")
        if worst is not None:
            minutes = worst.minutes(view.now)
            most = (worst.failure, worst.tried, "" if minutes is None else minutes)
        rows.append([each.lab, each.id, len(view.learners), *(counts[state] for state in State), *most])
    return _csv(rows)


def _csv(rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows([guarded(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue()
