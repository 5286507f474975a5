"""`onnxlab class init`: an nbgrader course that its instructor may change."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from class_support.nbgrader_course import LAB, ROOT, SETTINGS
from onnxlab import cli
from onnxlab.kit.exercise import LABS, labs
from onnxlab_class.classroom.course import folder as course_folder
from onnxlab_class.classroom.course.folder import (
    ClassRefused,
    course_name,
    digest,
    make_class,
    open_class,
    solutions_folder,
)
from onnxlab_class.classroom.course.nbgrader import CourseUnusable, course_at


@pytest.fixture
def course(class_folder: Path, tmp_path: Path) -> Path:
    """A copy of the class: nothing in it may refer to its old place."""
    return Path(shutil.copytree(class_folder, tmp_path / "moved"))


def snapshot(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): digest(path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_every_exercise_is_in_the_gradebook_with_its_points(course):
    assert open_class(course).name == "spring-2027"
    expected = {lab.name: {f"check-{task.id}": task.points for task in lab.exercises} for lab in labs()}
    with course_at(course).gradebook() as book:
        points = {
            assignment.name: {
                cell.name: cell.max_score
                for notebook in assignment.notebooks
                for cell in notebook.grade_cells
            }
            for assignment in book.assignments
        }
        assert points == expected


@pytest.mark.slow
def test_nbgrader_makes_the_same_labs(course):
    """nbgrader's generate_assignment has made the labs of a class, whose links lead from folder to folder."""
    for name in LABS:
        released = nbformat.read(course / "release" / name / f"{name}.ipynb", 4)
        ours = nbformat.read(ROOT / "labs" / f"{name}.ipynb", 4)
        sources = [
            re.sub(r"\.\./(lab\d\d_\w+)/\1\.ipynb", r"\1.ipynb", cell.source) for cell in released.cells
        ]
        assert sources == [cell.source for cell in ours.cells]
        assert [grading(cell) for cell in released.cells] == [grading(cell) for cell in ours.cells]


def grading(cell: nbformat.NotebookNode) -> dict[str, object]:
    keys = ("grade", "grade_id", "locked", "points", "schema_version", "solution", "task")
    metadata = cell.metadata.get("nbgrader", {})
    return json.loads(json.dumps({key: metadata[key] for key in keys if key in metadata}))


@pytest.mark.slow
def test_released_labs_have_no_solutions_and_link_to_the_next_lab(course):
    for name in LABS:
        text = (course / "release" / name / f"{name}.ipynb").read_text("utf-8")
        assert "SOLUTION" not in text
        assert "HIDDEN" not in text
        assert "require(" not in text
        assert "raise NotImplementedError()" in text
    assert (
        "(../lab05_bitshift/lab05_bitshift.ipynb)" in (course / "release" / LAB / f"{LAB}.ipynb").read_text()
    )


@pytest.mark.slow
def test_only_the_exchange_is_open_to_other_accounts(course):
    assert (course / "exchange").stat().st_mode & 0o777 == 0o777
    for name in ("source", "release", "submitted", "autograded", "feedback", "hub", "learners"):
        assert (course / name).stat().st_mode & 0o077 == 0, name
    assert (course / "gradebook.db").stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_init_again_changes_nothing(course):
    before = snapshot(course)
    again = make_class(course, start=ROOT)
    assert (again.new, again.added, again.updated, again.modified) == (False, (), (), ())
    assert snapshot(course) == before


@pytest.mark.slow
def test_init_again_adds_and_updates_but_keeps_what_is_the_instructors(course):
    edited = course / "source" / LAB / f"{LAB}.ipynb"
    book = nbformat.read(edited, 4)
    book.cells[0].source += "\n\nBring your own laptop."
    nbformat.write(book, edited)
    old = course / "source" / LABS[0] / f"{LABS[0]}.ipynb"  # as an earlier version wrote it
    old.write_text(old.read_text().replace("You will", "You shall"))
    record = json.loads((course / "class.json").read_text())
    record["written"][f"source/{LABS[0]}/{LABS[0]}.ipynb"] = digest(old.read_bytes())
    (course / "class.json").write_text(json.dumps(record))
    shutil.rmtree(course / "source" / LABS[1])
    shutil.rmtree(course / "release" / LABS[2])
    handed_in = course / "submitted" / "ada" / LAB / f"{LAB}.ipynb"
    handed_in.parent.mkdir(parents=True)
    handed_in.write_text("hers")
    with course_at(course).gradebook() as gradebook:
        gradebook.add_student("ada")
        gradebook.add_submission(LAB, "ada").notebooks[0].grades[0].manual_score = 2
        gradebook.db.commit()

    again = make_class(course, start=ROOT)
    assert again.modified == (f"source/{LAB}/{LAB}.ipynb",)
    assert again.updated == (f"source/{LABS[0]}/{LABS[0]}.ipynb",)
    assert again.added == (f"source/{LABS[1]}/{LABS[1]}.ipynb",)
    assert again.problems == ()
    assert "Bring your own laptop." in edited.read_text()
    assert "You shall" not in (course / "release" / LABS[0] / f"{LABS[0]}.ipynb").read_text()
    assert (course / "release" / LABS[2] / f"{LABS[2]}.ipynb").exists()
    assert handed_in.read_text() == "hers"
    with course_at(course).gradebook() as gradebook:
        assert gradebook.find_submission(LAB, "ada").score == 2
    assert make_class(course, start=ROOT).modified == again.modified  # and still so the next time


@pytest.mark.slow
def test_an_instructors_own_nbgrader_course_gets_the_labs(tmp_path, monkeypatch):
    monkeypatch.setattr(course_folder, "LABS", (LAB,))  # nbgrader takes half a second for each
    (tmp_path / "nbgrader_config.py").write_text(SETTINGS)
    (tmp_path / "source" / "ps1").mkdir(parents=True)
    (tmp_path / "notes.txt").write_text("mine")
    result = make_class(tmp_path, start=ROOT)
    assert result.folder.name == "small"
    assert result.modified == ("nbgrader_config.py",)
    assert (tmp_path / "nbgrader_config.py").read_text() == SETTINGS
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "release" / LAB).is_dir()


@pytest.mark.slow
def test_settings_without_the_courses_name_are_said(course):
    config = course / "nbgrader_config.py"
    config.write_text("\n".join(line for line in config.read_text().splitlines() if "course_id" not in line))
    again = make_class(course, start=ROOT)
    assert again.modified == ("nbgrader_config.py",)
    (problem,) = again.problems
    assert 'course_id = "spring-2027"' in problem


@pytest.mark.slow
def test_the_command_prints_its_own_words_only(class_folder):
    stdout, stderr = json.loads((class_folder.parent / "init.json").read_text())
    assert stderr == ""
    exercises, points = sum(len(lab.exercises) for lab in labs()), sum(lab.points for lab in labs())
    assert f"{len(LABS)} labs, {exercises} exercises, {points} points" in stdout
    assert len(stdout.splitlines()) == 3
    assert "Made the class 'spring-2027'" in stdout


def test_without_nbgrader_the_command_says_what_to_install(tmp_path):
    """A learner's environment: the package is there, nbgrader is not."""
    program = (
        "import sys; sys.modules['nbgrader'] = None\n"
        "from onnxlab.cli import main\n"
        f"sys.exit(main(['class', 'init', {str(tmp_path / 'class')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert 'pip install -e "packages/onnxlab-class[classroom]"' in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "class").exists()


def test_a_folder_of_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "letters.txt").write_text("dear")
    assert cli.main(["class", "init", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]
    with pytest.raises(ClassRefused, match="is not a folder"):
        make_class(tmp_path / "letters.txt", start=ROOT)


def test_names_that_nbgrader_cannot_use_are_refused(tmp_path):
    for name in ("a b", "a/b", "a+b", "", ".", "-x"):
        with pytest.raises(ClassRefused, match="cannot be the name"):
            make_class(tmp_path / "class", name, start=ROOT)
    assert course_name("onnx_2027.a-b", tmp_path) == "onnx_2027.a-b"


def test_a_class_keeps_its_name(tmp_path):
    record = {"format": 1, "name": "first", "version": "0.1.0", "made": "2027-01-01", "written": {}}
    (tmp_path / "class.json").write_text(json.dumps(record))
    with pytest.raises(ClassRefused, match="'first', not 'second'"):
        make_class(tmp_path, "second", start=ROOT)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "name": 3}', "[" * 100_000])
def test_a_damaged_class_file_is_said_and_not_believed(tmp_path, text):
    (tmp_path / "class.json").write_text(text)
    with pytest.raises(ClassRefused, match=r"class\.json cannot be read"):
        open_class(tmp_path)


def test_a_class_of_a_newer_version_is_refused(tmp_path):
    (tmp_path / "class.json").write_text('{"format": 99}')
    with pytest.raises(ClassRefused, match="newer version"):
        open_class(tmp_path)
    with pytest.raises(ClassRefused, match="onnxlab class init"):
        open_class(tmp_path / "nothing")


def test_settings_that_raise_are_named(tmp_path):
    (tmp_path / "nbgrader_config.py").write_text("raise ValueError('no such room')")
    with pytest.raises(CourseUnusable, match="ValueError: no such room"):
        course_at(tmp_path)


def test_solutions_are_found_from_inside_the_checkout_and_from_elsewhere(tmp_path):
    assert solutions_folder(ROOT / "labs") == ROOT / "solutions"
    other = tmp_path / "checkout"
    (other / "notebooks").mkdir(parents=True)
    (other / "solutions").mkdir()
    (other / "solutions" / f"{LAB}.ipynb").touch()
    assert solutions_folder(other / "notebooks") == other / "solutions"
    assert any(solutions_folder(tmp_path).glob("lab*.ipynb"))  # the one the package runs from
