"""The grader's results in nbgrader's gradebook: formgrader's view, manual scores, failures halfway."""

import contextlib
import copy
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import sqlalchemy

from class_support.nbgrader_course import (
    EXERCISES,
    LAB,
    SCRIPT,
    SETTINGS,
    comments,
    grade,
    graded,
    hand_in,
    named,
    nbgrader,
    notebook,
    points,
    root,
    small_course,
    write,
)
from onnxlab.kit.outcome import Status
from onnxlab_class.classroom.course.gradebook import GradebookUpdate, book, check_course
from onnxlab_class.classroom.course.graded_copy import inert
from onnxlab_class.classroom.course.nbgrader import Course, CourseUnusable, course_at
from onnxlab_class.grading.submissions import find

CHECKS = {f"check-{exercise.id}": exercise.points for exercise in EXERCISES}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("course")
    small_course(folder)
    return folder


@pytest.fixture
def course(pristine: Path, tmp_path: Path) -> Course:
    for name in ("nbgrader_config.py", "gradebook.db"):
        (tmp_path / name).write_bytes((pristine / name).read_bytes())
    shutil.copytree(pristine / "release", tmp_path / "release")
    return course_at(tmp_path)


def graded_copy(
    course: Course, student: str, assignment: str = LAB, name: str = LAB
) -> nbformat.NotebookNode:
    copied = nbformat.read(root(course) / "autograded" / student / assignment / f"{name}.ipynb", 4)
    nbformat.validate(copied)
    return copied


def formgrader(course: Course) -> dict[str, dict]:
    """The data of formgrader's page of submissions, by student."""
    from nbgrader.apps.api import NbGraderAPI

    api = NbGraderAPI(course.directory, config=course.settings)
    return {entry["student"]: entry for entry in api.get_submissions(LAB)}


def rows_of(folder: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(folder / "gradebook.db")) as database:
        return sorted(database.iterdump())


PASSED, WRONG, ERROR, UNTOUCHED = Status.PASSED, Status.INCORRECT, Status.ERROR, Status.NOT_ATTEMPTED


def test_formgrader_sees_points_comments_and_the_submission(course):
    hand_in(root(course), "ada", notebook())
    hand_in(root(course), "ben", notebook("labs"))
    hand_in(root(course), "cleo", notebook("labs"), when=None)
    hand_in(root(course), "dora", notebook("labs"))
    marks = {"ada": [PASSED] * 2, "ben": [PASSED, WRONG], "dora": [UNTOUCHED, ERROR]}
    assert grade(course, **marks) == GradebookUpdate(3, ())
    assert points(course) == {
        "ada": CHECKS,
        "ben": CHECKS | {f"check-{EXERCISES[1].id}": 0},
        "dora": dict.fromkeys(CHECKS, 0),
    }
    texts = comments(course, "ben")
    assert texts[EXERCISES[0].id] is None
    assert texts[EXERCISES[1].id] == (
        "Incorrect.\n\n"
        f"    does not hold: {EXERCISES[1].parts[-1]}\n"
        f"    Off by 0.5 {SCRIPT}\n"
        f"      for: x = 3 {SCRIPT}\n"
        "      right is: 1.5\n"
        "      yours gives: \ufffd[31mnan"
    )
    texts = comments(course, "dora")
    assert texts[EXERCISES[0].id] == "No response."
    assert texts[EXERCISES[1].id] == f"Error.\n\n    NameError: {SCRIPT}"
    submissions = formgrader(course)
    assert [submissions[name]["autograded"] for name in ("ada", "ben", "cleo")] == [True, True, False]
    assert [submissions[name]["needs_manual_grade"] for name in ("ada", "ben")] == [False, False]
    assert (submissions["ada"]["score"], submissions["ben"]["score"]) == (
        sum(CHECKS.values()),
        EXERCISES[0].points,
    )
    assert submissions["ada"]["timestamp"] == "2026-11-20T10:00:00"
    folder = root(course) / "autograded" / "ada" / LAB
    assert (folder / "submission_secret.txt").read_text() == "secret of ada"
    assert (folder / "timestamp.txt").read_text() == "2026-11-20 10:00:00 UTC"


@pytest.mark.parametrize("ours", ["lab05_bitshift.ipynb", "../lab05_bitshift/lab05_bitshift.ipynb"])
@pytest.mark.parametrize("theirs", ["lab05_bitshift.ipynb", "../lab05_bitshift/lab05_bitshift.ipynb"])
def test_the_courses_own_links_stay_links_wherever_they_lead_from(course, ours, theirs):
    released = root(course) / "release" / LAB / f"{LAB}.ipynb"
    released.write_text(released.read_text().replace("](lab05_bitshift.ipynb)", f"]({ours})"))
    handed = notebook("labs")
    for cell in handed.cells:
        cell.source = cell.source.replace("](lab05_bitshift.ipynb)", f"]({theirs})")
    handed.cells.append(nbformat.v4.new_markdown_cell("My [own](lab05_bitshift.ipynb)"))
    hand_in(root(course), "ada", handed)
    grade(course, ada=[UNTOUCHED] * 2)
    prose = [cell.source for cell in graded_copy(course, "ada").cells if cell.cell_type == "markdown"]
    assert prose[-1] == "My [own]\u200b(lab05_bitshift.ipynb)"
    assert f"[Lab 5: bit shifts]({theirs})" in "".join(prose)
    assert "\u200b" not in "".join(prose[:-1])


def by_hand(course: Course, **changes: object) -> None:
    """What an instructor does in formgrader to the second exercise."""
    with course.gradebook() as gradebook:
        row = gradebook.find_grade(f"check-{EXERCISES[1].id}", LAB, LAB, "ada")
        for name, value in changes.items():
            setattr(row, name, value)
        row.needs_manual_grade = False
        gradebook.find_comment(EXERCISES[1].id, LAB, LAB, "ada").manual_comment = "Nearly."
        gradebook.db.commit()


def needs_a_person(course: Course) -> bool:
    with course.gradebook() as gradebook:
        return bool(gradebook.find_submission(LAB, "ada").needs_manual_grade)


def test_what_a_person_gave_stays(course):
    hand_in(root(course), "ada", notebook("labs"))
    grade(course, ada=[PASSED, WRONG])
    by_hand(course, manual_score=2.5, extra_credit=1.0)
    grade(course, ada=[PASSED, WRONG])
    assert points(course)["ada"][f"check-{EXERCISES[1].id}"] == 3.5
    assert comments(course, "ada")[EXERCISES[1].id] == "Nearly."
    assert not needs_a_person(course)  # nothing is new about it

    hand_in(root(course), "ada", notebook(), when="2026-11-21 10:00:00 UTC")
    grade(course, ada=[PASSED] * 2)
    marks = points(course)["ada"]
    assert marks[f"check-{EXERCISES[1].id}"] == 3.5
    assert marks[f"check-{EXERCISES[0].id}"] == EXERCISES[0].points
    assert needs_a_person(course)  # the score was given for other work


def test_writing_twice_changes_nothing_and_what_was_handed_in_again_replaces(course):
    old = notebook("labs")
    named(old, EXERCISES[0].id).source += "\n# old"
    hand_in(root(course), "ada", old)
    grade(course, ada=[PASSED, WRONG])
    before = rows_of(root(course)), graded_copy(course, "ada")
    assert "# old" in str(before[1].cells)
    grade(course, ada=[PASSED, WRONG])
    assert (rows_of(root(course)), graded_copy(course, "ada")) == before
    hand_in(root(course), "ada", notebook(), when="2026-11-21 10:00:00 UTC")
    grade(course, ada=[PASSED] * 2)
    assert points(course)["ada"] == CHECKS
    assert set(comments(course, "ada").values()) == {None}
    assert formgrader(course)["ada"]["timestamp"] == "2026-11-21T10:00:00"
    assert "# old" not in str(graded_copy(course, "ada").cells)


def test_a_submission_the_grader_failed_over_is_not_zero(course):
    hand_in(root(course), "ada", notebook("labs"))
    hand_in(root(course), "ben", notebook("labs"))
    assert grade(course, ada=[PASSED] * 2).submissions == 1  # no rows for ben
    assert set(points(course)) == {"ada"}
    before = graded(course, {"ada": [PASSED] * 2})
    hand_in(root(course), "ada", notebook(), when="2026-11-21 10:00:00 UTC")
    assert write(course, before).submissions == 0  # rows of what she handed in before
    assert points(course)["ada"] == CHECKS
    submissions = formgrader(course)
    assert not submissions["ada"]["autograded"]
    assert not submissions["ben"]["autograded"]


def test_what_is_handed_in_while_grading_waits_for_the_next_run(course):
    path = hand_in(root(course), "ada", notebook("labs"))
    rows, submissions = graded(course, {"ada": [PASSED] * 2}), find(root(course)).submissions
    path.write_bytes(b"{}")
    graphs = {"picture": lambda model, highlight: "", "evidence": lambda name: None}
    ((student, _, reason),) = book(root(course), submissions, rows, **graphs).skipped
    assert (student, "handed in again" in reason) == ("ada", True)
    assert points(course) == {}


def test_cells_that_are_gone_doubled_or_renamed_cost_nobody_a_point(course):
    gone = notebook()
    gone.cells = [cell for cell in gone.cells if "nbgrader" not in cell.metadata]
    doubled = notebook()
    doubled.cells += copy.deepcopy(doubled.cells)
    renamed = notebook()
    for cell in renamed.cells:
        if "nbgrader" in cell.metadata:
            cell.metadata.nbgrader = {"grade_id": ["not", "a", "name"], "points": 1e9, "grade": True}
    broken = {"metadata": None, "cells": [{"cell_type": ["code"], "metadata": [], "source": {"a": 1}}, 3]}
    for student, book_ in {"gone": gone, "doubled": doubled, "renamed": renamed}.items():
        hand_in(root(course), student, book_)
    hand_in(root(course), "broken", str(broken).replace("'", '"').replace("None", "null").encode())
    hand_in(root(course), "nothing", b"")
    hand_in(root(course), "copy", notebook(), file=f"{LAB}-Copy1.ipynb")
    students = ["gone", "doubled", "renamed", "broken", "nothing", "copy"]
    assert grade(course, **{student: [PASSED] * 2 for student in students}).submissions == len(students)
    names = [name for exercise in EXERCISES for name in (exercise.id, f"check-{exercise.id}")]
    for student in students:
        assert points(course)[student] == CHECKS
        cells = graded_copy(course, student).cells
        grading = [cell.metadata.nbgrader for cell in cells if "nbgrader" in cell.metadata]
        assert [metadata.grade_id for metadata in grading] == names, student
        assert sum(metadata.get("points", 0) for metadata in grading) == sum(CHECKS.values())
        shown = [cell for cell in cells if cell.cell_type == "code" and cell.outputs]
        assert [cell.metadata.nbgrader.grade_id for cell in shown] == list(CHECKS)
    assert "missing from the submission" in str(graded_copy(course, "gone").cells)


@pytest.mark.slow
def test_nothing_of_a_student_acts_on_whoever_opens_it(course):
    hostile = notebook("labs")
    hostile.metadata.title = SCRIPT
    hostile.cells[0].source += SCRIPT
    answer = named(hostile, EXERCISES[0].id)
    answer.outputs = [nbformat.v4.new_output("display_data", {"text/html": SCRIPT})]
    answer.metadata.tags = [f'"{SCRIPT}']
    links = (
        "[a](javascript:alert(1)) ![b](x) [c]: javascript:alert(1)\n<https://x.org> $\\href{javascript:x}{y}$"
    )
    prose = nbformat.v4.new_markdown_cell(links, attachments={"x": {"image/svg+xml": SCRIPT}})
    hostile.cells += [prose, nbformat.v4.new_raw_cell(SCRIPT)]
    named(hostile, f"check-{EXERCISES[1].id}").source = f"print('{SCRIPT}')"
    hand_in(root(course), "eve", hostile)
    grade(course, eve=[WRONG, ERROR])
    copied = graded_copy(course, "eve")
    assert set(copied.metadata) == {"kernelspec", "language_info"}
    for cell in copied.cells:
        assert set(cell.metadata) <= {"nbgrader"}
        assert "attachments" not in cell
        if cell.cell_type == "markdown":
            assert not any(text in cell.source for text in ("<s", "<h", "](j", "](x", "]:", "\\href"))
        for output in cell.get("outputs", []):
            assert "<script" not in output.data["text/html"]
    assert named(copied, f"check-{EXERCISES[1].id}").source == 'check("asinh-translation", asinh_translation)'
    nbgrader(root(course), "generate_feedback", LAB)
    page = (root(course) / "feedback" / "eve" / LAB / f"{LAB}.html").read_text("utf-8")
    assert SCRIPT not in page
    assert 'href="javascript' not in page
    for text in (str(copied), page):
        assert "HIDDEN" not in text
        assert "require(" not in text


def test_prose_of_the_lab_itself_stays_as_it_is(course):
    hand_in(root(course), "ada", notebook())
    grade(course, ada=[PASSED] * 2)
    texts = [cell.source for cell in graded_copy(course, "ada").cells if cell.cell_type == "markdown"]
    assert texts == [cell.source for cell in notebook().cells if cell.cell_type == "markdown"]
    assert inert("`a<b` \\alpha a[0]: x") == "`a<\u200bb` \\\u200balpha a[0]\u200b: x"


def settings(course: Course, line: str) -> Course:
    file = root(course) / "nbgrader_config.py"
    file.write_text(f"{file.read_text()}{line}\n")
    return course_at(root(course))


def test_being_late_costs_what_the_instructor_said(course):
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(LAB, duedate="2026-11-19 10:00:00 UTC")
    hand_in(root(course), "ada", notebook())
    grade(course, ada=[PASSED] * 2)
    assert penalty(course) == (24 * 3600, None)  # late, and by default that costs nothing
    strict = settings(course, 'c.LateSubmissionPlugin.penalty_method = "zero"')
    grade(strict, ada=[PASSED] * 2)
    assert penalty(strict) == (24 * 3600, sum(CHECKS.values()))
    hand_in(root(course), "ada", notebook(), when="2026-11-18 10:00:00 UTC")
    grade(strict, ada=[PASSED] * 2)
    assert penalty(strict) == (0, None)


def test_a_plugin_for_late_work_that_raises_is_named(course):
    with course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(LAB, duedate="2026-11-19 10:00:00 UTC")
    hand_in(root(course), "ada", notebook("labs"))
    plugin = "from nbgrader.plugins import BasePlugin\nclass Own(BasePlugin):\n"
    plugin += "    def late_submission_penalty(self, *given):\n        raise KeyError('no such rule')\n"
    broken = settings(course, f"{plugin}c.AssignLatePenalties.plugin_class = Own")
    with pytest.raises(CourseUnusable, match="no such rule"):
        grade(broken, ada=[PASSED] * 2)
    assert points(course)["ada"] == CHECKS


def penalty(course: Course) -> tuple[float, float | None]:
    with course.gradebook() as gradebook:
        entry = gradebook.find_submission(LAB, "ada")
        return entry.total_seconds_late, entry.notebooks[0].late_submission_penalty


@pytest.mark.parametrize("when", [None, "", "yesterday", "9" * 5000, "2026-11-20 10:00:00 +9999999"])
def test_a_time_nobody_can_read_is_no_time(course, when):
    hand_in(root(course), "ada", notebook("labs"), when=when)
    assert grade(course, ada=[PASSED] * 2) == GradebookUpdate(1, ())
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(LAB, "ada").timestamp is None


def test_an_extension_without_a_due_date_is_no_reason_to_stop(course):
    hand_in(root(course), "ada", notebook("labs"))
    grade(course, ada=[WRONG] * 2)
    with course.gradebook() as gradebook:
        gradebook.grant_extension(LAB, "ada", days=1)
    assert grade(course, ada=[PASSED] * 2).submissions == 1


@pytest.mark.slow
def test_the_instructors_own_cells_and_points_count(course):
    source = root(course) / "source" / "ps1" / "problems.ipynb"
    source.parent.mkdir(parents=True)
    book_ = notebook()
    extra = copy.deepcopy(named(book_, f"check-{EXERCISES[0].id}"))
    extra.source, extra.id = "assert True", "extra"
    extra.metadata.nbgrader |= {"grade_id": "my-own", "points": 2}
    book_.cells.append(extra)
    named(book_, f"check-{EXERCISES[1].id}").metadata.nbgrader.points = 10
    nbformat.write(book_, source)
    course.generate("ps1")
    hand_in(root(course), "ada", notebook(), assignment="ps1")
    grade(course, ada=[PASSED] * 2)
    expected = CHECKS | {f"check-{EXERCISES[1].id}": 10, "my-own": 0}
    assert points(course, "ps1")["ada"] == expected
    with course.gradebook() as gradebook:
        assert gradebook.find_submission("ps1", "ada").needs_manual_grade  # nobody looked at the extra cell
        gradebook.find_grade("my-own", "problems", "ps1", "ada").auto_score = 2
        gradebook.db.commit()
    grade(course, ada=[PASSED] * 2)
    assert points(course, "ps1")["ada"] == expected | {"my-own": 2}
    assert "my-own" in str(graded_copy(course, "ada", "ps1", "problems"))


def test_what_nbgrader_does_not_know_is_named(course):
    hand_in(root(course), "ada", notebook(), assignment="ps9")
    hand_in(root(course), "ben", notebook("solutions", "lab02_dynamic_shapes"), file="lab02.ipynb")
    hand_in(root(course), "cleo", notebook())
    shutil.rmtree(root(course) / "release")
    rows = graded(course, {"ada": [PASSED] * 2, "ben": [PASSED] * 2, "cleo": [PASSED] * 2})
    result = write(course, rows)
    assert result.submissions == 0
    assert [(student, lab) for student, lab, _ in result.skipped] == [
        ("ada", LAB),
        ("ben", "lab02_dynamic_shapes"),
        ("cleo", LAB),
    ]
    assert "nbgrader generate_assignment ps9" in result.skipped[0][2]
    assert "no cells that check the exercises" in result.skipped[1][2]
    assert f"nbgrader generate_assignment {LAB}" in result.skipped[2][2]


def test_a_course_without_a_gradebook_is_refused_before_grading(tmp_path, course):
    check_course(root(course))
    with pytest.raises(CourseUnusable, match="is not nbgrader's course directory") as refused:
        check_course(tmp_path / "elsewhere")
    assert "class init" not in str(refused.value)  # it takes no folder of notebooks
    own = tmp_path / "own"
    own.mkdir()
    (own / "nbgrader_config.py").write_text(SETTINGS)
    with pytest.raises(CourseUnusable, match="onnxlab class init") as refused:
        check_course(own)
    assert "has no gradebook" in str(refused.value)
    (root(course) / "gradebook.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(CourseUnusable, match="cannot be used"):
        check_course(root(course))


@contextlib.contextmanager
def pragma(setting: str) -> Iterator[None]:
    """Set a pragma of SQLite for each connection that is made in the block."""

    def run(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA {setting}")

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", run)
    try:
        yield
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "connect", run)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Another process holds the lock for writing."""
    with contextlib.closing(sqlite3.connect(folder / "gradebook.db", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        with pragma("busy_timeout = 100"):  # milliseconds; sqlite3 waits for five seconds
            yield
        database.execute("ROLLBACK")


@pytest.mark.slow
def test_a_locked_gradebook_loses_nothing(course, capsys):
    for student in ("ada", "ben"):
        hand_in(root(course), student, notebook("labs"))
    grade(course, ada=[WRONG] * 2)
    before = rows_of(root(course))
    marks = {"ada": [PASSED] * 2, "ben": [PASSED] * 2}
    with locked(root(course)), pytest.raises(CourseUnusable, match="locked") as caught:
        grade(course, **marks)
    assert "same command again" in str(caught.value)
    assert capsys.readouterr() == ("", "")  # nbgrader's own lines about it are not ours
    assert rows_of(root(course)) == before
    assert grade(course, **marks).submissions == 2
    assert points(course) == {"ada": CHECKS, "ben": CHECKS}


@contextlib.contextmanager
def no_room(folder: Path) -> Iterator[None]:
    """The database can become no larger, as on a full disk."""
    with contextlib.closing(sqlite3.connect(folder / "gradebook.db")) as database:
        (pages,) = database.execute("PRAGMA page_count").fetchone()
    with pragma(f"max_page_count = {pages}"):
        yield


@pytest.mark.slow
def test_a_full_disk_loses_nothing_and_the_next_run_writes_the_rest(course, capsys):
    students = [f"s{number:02}" for number in range(15)]
    for student in students:
        hand_in(root(course), student, notebook("labs"))
    marks = {student: [PASSED, WRONG] for student in students}
    with no_room(root(course)), pytest.raises(CourseUnusable, match="database or disk is full") as caught:
        grade(course, **marks)
    assert len(str(caught.value).splitlines()) <= 3
    assert "results are safe" in str(caught.value)
    assert "same command again" in str(caught.value)
    assert capsys.readouterr() == ("", "")
    expected = CHECKS | {f"check-{exercise.id}": 0 for exercise in EXERCISES[1:]}
    before = points(course)
    assert len(before) < len(students)
    assert sum(row != expected for row in before.values()) <= 1  # the one that there was no room for
    assert grade(course, **marks) == GradebookUpdate(len(students), ())
    assert points(course) == dict.fromkeys(students, expected)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks the writer")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_run_that_is_killed_is_made_good_by_the_next(course):
    students = [f"s{number:02}" for number in range(12)]
    for student in students:
        hand_in(root(course), student, notebook("labs"))
    marks = {student: [PASSED, WRONG] for student in students}
    rows, chance, killed = graded(course, marks), random.Random(5), 0
    for target in (1, 4, 8):
        if (child := os.fork()) == 0:
            try:
                write(course, rows)
            finally:
                os._exit(0)
        while not (ended := os.waitpid(child, os.WNOHANG)[0]):
            if sum(1 for _ in (root(course) / "autograded").glob("*/*/*.ipynb")) >= target:
                break
        if not ended:
            time.sleep(chance.uniform(0, 0.02))  # between the copy and the transaction, or after it
            os.kill(child, signal.SIGKILL)
            killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        points(course)  # the gradebook can be read at any time
    assert killed
    assert write(course, rows) == GradebookUpdate(12, ())
    expected = {
        f"check-{exercise.id}": exercise.points * factor
        for exercise, factor in zip(EXERCISES, (1, 0), strict=True)
    }
    assert points(course) == dict.fromkeys(students, expected)
    assert all(
        entry["autograded"] and not entry["needs_manual_grade"] for entry in formgrader(course).values()
    )
    for student in students:
        graded_copy(course, student)
    names = {path.name for path in (root(course) / "autograded").rglob("*") if path.is_file()}
    assert names == {f"{LAB}.ipynb", "timestamp.txt", "submission_secret.txt"}


def test_a_folder_that_takes_nothing_stops_before_the_gradebook(course):
    hand_in(root(course), "ada", notebook("labs"))
    (root(course) / "autograded").write_text("in the way")
    before = rows_of(root(course))
    with pytest.raises(Exception, match="cannot be written"):
        grade(course, ada=[PASSED] * 2)
    assert rows_of(root(course)) == before
    (root(course) / "autograded").unlink()
    grade(course, ada=[PASSED] * 2)
    assert points(course)["ada"] == CHECKS
