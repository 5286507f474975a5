"""Ways through the course for one purpose, with the minutes of its notebooks, and past what somebody knows.

The web site is built with this module in an environment without the packages of a learner: it needs none.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.kit.exercise import exercise
from onnxlab.machine import COURSE_IN_WHEEL
from onnxlab.message import Message

_CLONE = Path(__file__).resolve().parents[3]
COURSE = _CLONE if (_CLONE / "notebooks").is_dir() else COURSE_IN_WHEEL
"""The folder of the course itself, whose notebooks nobody has changed."""

DECISIVE = 3
"""How many of a chapter's predictions, the last ones, show that it is known."""

_TRACKS = Path(__file__).parents[1] / "assets" / "tracks.toml"
_TIME = re.compile(r"\*\*(?:Time|用时)\W*(\d+)")


@dataclass(frozen=True)
class Track:
    """A way through the course.

    Attributes:
        titles: What somebody comes with, by language.
        steps: Its chapters and labs, in order, as "04_dynamic_shapes".
    """

    name: str
    titles: Mapping[str, str]
    steps: tuple[str, ...]

    @property
    def minutes(self) -> int:
        """The minutes of all its steps, as the notebooks say."""
        return sum(minutes_of(COURSE / notebook_of(step)) for step in self.steps)


class UnknownTrack(OnnxLabError):
    """No track has a name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "There is no track {name!r}.", "", "The tracks are {names}.", name=name, names=", ".join(tracks())
        )


@cache
def tracks() -> dict[str, Track]:
    """Return the tracks by name."""
    rows = _table()["track"]
    languages = ("en", "zh")
    return {
        row["name"]: Track(row["name"], {key: row[key] for key in languages}, tuple(row["steps"]))
        for row in rows
    }


def requested_track(name: str) -> Track | None:
    """Return a track; None for "all" and for "", the whole course.

    Raises:
        UnknownTrack: If no track has that name.
    """
    if name not in (*tracks(), "all", ""):
        raise UnknownTrack(name)
    return tracks().get(name)


def exercise_for(chapter: str) -> str:
    """Return the exercise that, passed, shows that a chapter is known; "" if its last predictions do."""
    return str(_table()["exercises"].get(chapter, ""))


def short_way(chapter: str) -> str:
    """Return what marks a chapter as known, for somebody who would rather not read it."""
    if not (name := exercise_for(chapter)):
        return Message("Know this chapter? Get its last {n} predictions right to skip it.", n=DECISIVE)
    lab, _ = exercise(name)
    return Message("Know this chapter? Pass {name} in {lab.name} to skip it.", name=name, lab=lab)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(_TRACKS.read_text("utf-8"))


def notebook_of(step: str) -> Path:
    """Return where the course has the notebook of a chapter or lab.

    >>> notebook_of("lab04_asinh").as_posix()
    'labs/lab04_asinh.ipynb'
    """
    return Path("labs" if step.startswith("lab") else "notebooks", f"{step}.ipynb")


@cache  # a notebook with its outputs takes long to parse, and a class has many records
def title_of(step: str, language: str) -> str:
    """Return the title of a chapter or lab in its notebook of a language, or else in the English one."""
    path = COURSE / notebook_of(step)
    translated = path.parent / language / path.name
    return heading_of(translated if translated.is_file() else path)[0]


def minutes_of(notebook: Path) -> int:
    """Return the minutes that a notebook says in its first cell; 0 where it says none."""
    return heading_of(notebook)[1]


def heading_of(notebook: Path) -> tuple[str, int]:
    """Return the title and the minutes that a notebook says in its first cell; 0 where it says none."""
    first = "".join(json.loads(notebook.read_text("utf-8"))["cells"][0]["source"])
    time = _TIME.search(first)
    return first.partition("\n")[0].removeprefix("# "), int(time[1]) if time else 0
