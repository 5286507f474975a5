"""The instructor's guide: minutes and points are those of the chapters and the labs, in both languages."""

import re
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

from class_support.nbgrader_course import ROOT
from onnxlab.kit.exercise import labs

CHAPTERS = {path.stem.partition("_")[0]: path for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))}
LABS = {lab.name.partition("_")[0]: lab for lab in labs()}
FOLDER = Path(__file__).parents[3] / "docs"
GUIDES = ("instructor.md", "instructor.zh.md")


def minutes(path) -> int:
    opening = "\n".join(cell.source for cell in nbformat.read(path, 4).cells[:2])
    (number,) = re.findall(r"\*\*Time:\*\* (\d+) minutes", opening)
    return int(number)


TIMES = {name: minutes(path) for name, path in CHAPTERS.items() if name != "99"}  # a page to look things up
LAB_TIMES = {name: minutes(ROOT / "labs" / f"{lab.name}.ipynb") for name, lab in LABS.items()}


@pytest.mark.parametrize("guide", GUIDES)
def test_the_tables_have_every_chapters_minutes_and_every_labs_points(guide):
    text = (FOLDER / guide).read_text("utf-8")
    chapters = re.findall(r"^\| \[(\w+)\]\([./]+/notebooks/\S+\) [^|]* \| (\d+) \|", text, re.MULTILINE)
    assert {name: int(time) for name, time in chapters} == TIMES
    rows = re.findall(r"^\| (lab\d+) [^|]* \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    expected = {name: (LAB_TIMES[name], lab.points) for name, lab in LABS.items()}
    assert {name: (int(time), int(points)) for name, time, points in rows} == expected


@pytest.mark.parametrize("guide", GUIDES)
def test_the_plans_give_a_whole_chapter_or_lab_its_own_minutes(guide):
    text = (FOLDER / guide).read_text("utf-8")
    rows = re.findall(
        r"^\| (\d+)-(\d+) \| (?:chapter |\u7b2c )?(lab\d+|\d+\w?)(?: \u7ae0)? \|", text, re.MULTILINE
    )
    assert [name for _, _, name in rows] == ["00", "00", "01", "02", "lab01"]
    for start, end, name in rows:
        assert int(end) - int(start) == (TIMES | LAB_TIMES)[name]
    plans = [
        [int(number) for number in span] for span in re.findall(r"^\| (\d+)-(\d+) \|", text, re.MULTILINE)
    ]
    for (_, end), (start, _) in pairwise(plans):
        assert start in (end, 0)


@pytest.mark.parametrize("guide", GUIDES)
def test_the_hours_of_all_chapters_are_their_sum(guide):
    text = (FOLDER / guide).read_text("utf-8")
    (hours,) = re.findall(r"about (\d+) hours by|\u5168\u90e8\u7ae0\u8282\u7ea6 (\d+) \u5c0f\u65f6", text)
    assert abs(int("".join(hours)) - sum(TIMES.values()) / 60) <= 0.5
    assert abs(15 - sum(LAB_TIMES.values()) / 60) <= 0.5  # "the labs fifteen"


@pytest.mark.parametrize("lab", LABS.values(), ids=str)
def test_a_labs_page_says_its_exercises_points(lab):
    opening = nbformat.read(ROOT / "labs" / f"{lab.name}.ipynb", 4).cells[0].source
    assert re.findall(r"\*\*Points:\*\* (\d+)\.", opening) == [str(lab.points)]
