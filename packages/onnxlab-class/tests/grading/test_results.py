"""The table of grades, the counts and the class summary."""

import csv
import io

import pytest

from class_support.graded_class import EXERCISES, HOSTILE, LAB, SCRIPT, outcomes, submission
from onnxlab.kit.exercise import lab
from onnxlab.kit.outcome import Finding, Outcome, Status
from onnxlab_class.grading.grades import (
    NOT_GRADED,
    NOT_SUBMITTED,
    Counts,
    count,
    standings,
    summary_text,
    write_grades,
)
from onnxlab_class.grading.marking import with_points_for_parts
from onnxlab_class.grading.reports import summary_html
from onnxlab_class.grading.results import Graded, Ledger

STUDENTS = ["ada", "bob", *HOSTILE]


@pytest.fixture
def rows(tmp_path) -> list[Graded]:
    with Ledger(tmp_path / "out", {"level": "full"}, 12345678901) as ledger:
        for number, student in enumerate(STUDENTS):
            ledger.record(submission(student), outcomes(number), note=f"cell 2: {SCRIPT}", seconds=1.5)
        ledger.record(submission("ada", lab="lab01_control_flow"), outcomes(1)[:2])
        return list(ledger.rows())


def table(tmp_path, rows, failures=()) -> dict[str, dict[str, str]]:
    write_grades(tmp_path / "grades.csv", rows, failures)
    text = (tmp_path / "grades.csv").read_bytes().decode()  # with line ends as they are
    return {line["student"]: line for line in csv.DictReader(io.StringIO(text, newline=""))}


def test_one_line_for_each_student(tmp_path, rows):
    grades = table(tmp_path, rows)
    assert len(grades) == len(STUDENTS)
    for line in grades.values():
        assert None not in line
        assert None not in line.values()
        labs = [int(line[lab]) for lab in (LAB, "lab01_control_flow")]
        assert int(line["total"]) == sum(labs)
    ids = [exercise.id for exercise in EXERCISES]
    assert [grades["bob"][f"{name} status"] for name in ids][2:] == ["timed out", "not attempted"]
    assert grades["ada"][ids[0]] == str(EXERCISES[0].points)


def test_lab_not_submitted_is_said_and_counts_nothing(tmp_path):
    rows = [
        Graded("ada", "lab01_x", "one", "passed", 3, 3, "", {}),
        Graded("ada", "lab02_y", "two", "incorrect", 0, 4, "", {}),
        Graded("bob", "lab02_y", "two", "passed", 4, 4, "", {}),
    ]
    grades = table(tmp_path, rows)
    assert grades["bob"]["one status"] == NOT_SUBMITTED
    assert (grades["bob"]["one"], grades["bob"]["lab01_x"], grades["bob"]["total"]) == ("0", "0", "4")
    assert grades["ada"]["possible in all labs"] == grades["bob"]["possible in all labs"] == "7"
    assert grades["ada"]["possible in labs handed in"] == "7"
    assert grades["bob"]["possible in labs handed in"] == "4"


def test_what_is_possible_does_not_depend_on_other_students(tmp_path):
    bitshift = sum(exercise.points for exercise in lab("lab05_bitshift").exercises)
    rows = [Graded("ada", "lab01_x", "one", "passed", 3, 3, "", {})]
    failures = [("bob", "lab05_bitshift")]
    alone = table(tmp_path, rows, failures)["ada"]["possible in all labs"]
    rows += [
        Graded("cid", "lab05_bitshift", exercise.id, "passed", exercise.points, exercise.points, "", {})
        for exercise in lab("lab05_bitshift").exercises
    ]
    beside_another = table(tmp_path, rows, failures)["ada"]["possible in all labs"]
    assert alone == beside_another == str(3 + bitshift)


def test_failure_of_the_grader_is_no_zero(tmp_path):
    rows = [
        Graded("ada", "lab01_x", "one", "passed", 3, 3, "", {}),
        Graded("bob", "lab01_x", "one", "passed", 3, 3, "", {}),
    ]
    grades = table(tmp_path, rows, {("ada", "lab01_x"): "died", ("eve", "lab02_y"): "died"})
    assert (grades["ada"]["total"], grades["ada"]["one"], grades["ada"]["one status"]) == ("", "", NOT_GRADED)
    assert (grades["eve"]["total"], grades["eve"]["lab02_y"]) == ("", "")
    assert (grades["bob"]["total"], grades["bob"]["possible in labs handed in"]) == ("3", "3")
    assert grades["ada"]["possible in labs handed in"] == ""


@pytest.mark.parametrize("name", ["=1", "+1", "-1", "@a", "\t=1", " =1", "'=1", "\uff1d1", "\r=1", "\n=1"])
def test_names_are_no_formulas(tmp_path, name):
    (student,) = table(tmp_path, [Graded(name, "lab01_x", "one", "passed", 3, 3, "", {})])
    assert student == f"'{name}"


def test_counts(rows):
    counts = count(rows, {("eve", LAB): "died"})
    assert (counts.students, counts.submissions, counts.failed) == (len(STUDENTS), len(STUDENTS) + 1, 1)
    assert sum(counts.statuses.values()) == len(rows)
    line = counts.line()
    assert "11 submissions, 10 students" in line
    assert "not graded, as the grader failed: 1" in line
    assert count([]) == Counts(0, 0, {})


def test_standings_count_every_row_and_put_like_mistakes_together(rows):
    of_class = standings(rows)
    assert sum(standing.students for standing in of_class) == len(rows)
    assert [standing.exercise for standing in of_class][-4:] == [exercise.id for exercise in EXERCISES]
    wrong = [
        Graded(
            "s", "lab01_x", "one", "incorrect", 0, 3, "", {"findings": [{"holds": False, "message": text}]}
        )
        for text in ["off by 0.5", "off by 0.5", "off by -1e-05", "no Log", "a", "a", "b"]
    ]
    assert standings(wrong)[0].mistakes == (("off by 0.5", 3), ("a", 2), ("b", 1))


def test_summary_for_a_terminal_gives_no_orders_to_it(rows):
    text = summary_text(standings(rows), 80)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert all(len(line) <= 80 for line in text.splitlines())
    assert all(exercise.id in text for exercise in EXERCISES)
    assert summary_text([])


def test_summary_page(rows):
    text = summary_html(standings(rows))
    assert SCRIPT not in text
    assert text.count('class="bar"') == len(EXERCISES) + 2
    assert "12345678901" not in text
    assert summary_html([])


@pytest.mark.parametrize(
    ("status", "holds", "points"),
    [
        (Status.INCORRECT, (True, True, False), 4),
        (Status.INCORRECT, (True, False, None, None), 1),
        (Status.INCORRECT, (False, None), 0),
        (Status.INCORRECT, (), 0),
        (Status.ERROR, (), 0),
        (Status.PASSED, (True, True), 6),
    ],
)
def test_parts_that_hold_give_points_rounded_down(status, holds, points):
    findings = tuple(Finding(str(number), held) for number, held in enumerate(holds))
    full = 6 if status is Status.PASSED else 0
    assert with_points_for_parts(Outcome("one", status, full, 6, findings)).points == points


def test_a_ledger_of_a_course_with_other_exercises_is_still_reported(tmp_path):
    rows = [
        Graded("ada", "lab05_bitshift", "uses-bitshift", "passed", 2, 2, "", {"findings": []}),
        Graded("ada", "lab05_bitshift", "rshift-symbolic", "incorrect", 0, 6, "", {"findings": []}),
    ]
    grades = table(tmp_path, rows)
    assert (grades["ada"]["uses-bitshift"], grades["ada"]["total"]) == ("2", "2")
    assert grades["ada"]["possible in labs handed in"] == "8"
    of_class = standings(rows)
    assert [standing.exercise for standing in of_class] == ["uses-bitshift", "rshift-symbolic"]
    assert "uses-bitshift" in summary_html(of_class)
    assert "uses-bitshift" in summary_text(of_class)
