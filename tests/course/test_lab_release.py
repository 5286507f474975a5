"""The labs: generated from the solutions, accepted by nbgrader; a learner's work is never lost."""

import ast
import re
import shutil
from pathlib import Path

import nbformat
import pytest

from onnxlab.course import lab_release
from onnxlab.course.lab_release import LabNotInSync, course_root, release, reset, stamp
from onnxlab.course.notebooks import read, write
from onnxlab.errors import UnknownExercise
from onnxlab.kit.exercise import LABS, lab
from tools.author.sync import out_of_sync, sync

ROOT = Path(__file__).parents[2]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A course folder with one lab in it."""
    for folder in ("solutions", "labs", "notebooks"):
        (tmp_path / folder).mkdir()
    for folder in ("solutions", "labs"):
        shutil.copy(ROOT / folder / "lab04_asinh.ipynb", tmp_path / folder)
    return tmp_path


def answered(path: Path) -> bytes:
    """Type an answer into a lab as a learner would."""
    notebook = read(path)
    cell = next(cell for cell in notebook["cells"] if "NotImplementedError" in cell["source"])
    cell["source"] = cell["source"].replace("raise NotImplementedError()", "return 'mine'")
    cell["execution_count"] = 3
    write(notebook, path)
    return path.read_bytes()


def test_labs_are_in_sync():
    assert out_of_sync(ROOT) == []
    assert [path.stem for path in sorted((ROOT / "labs").glob("*.ipynb"))] == list(LABS)


@pytest.mark.parametrize("name", LABS)
def test_lab_carries_no_solution(name):
    text = (ROOT / "labs" / f"{name}.ipynb").read_text("utf-8")
    assert "BEGIN SOLUTION" not in text
    assert "HIDDEN TESTS" not in text
    assert "require(" not in text


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [(".", "After a restart of the kernel, run the first"), ("zh", "第一个代码单元格")],
)
@pytest.mark.parametrize("name", LABS)
def test_a_lab_says_which_cell_to_run_after_a_restart(name, folder, sentence):
    cells = read(ROOT / "labs" / folder / f"{name}.ipynb")["cells"]
    assert sentence in "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    first = next(cell["source"] for cell in cells if cell["cell_type"] == "code")
    imports = [node for node in ast.walk(ast.parse(first)) if isinstance(node, ast.ImportFrom)]
    assert {"check", "hint"} <= {name.name for node in imports for name in node.names}


@pytest.mark.parametrize("name", LABS)
def test_points_in_the_metadata_are_those_of_the_records(name):
    cells = read(ROOT / "labs" / f"{name}.ipynb")["cells"]
    graded = [
        cell["metadata"]["nbgrader"] for cell in cells if "points" in cell["metadata"].get("nbgrader", {})
    ]
    assert {metadata["grade_id"]: metadata["points"] for metadata in graded} == {
        f"check-{exercise.id}": exercise.points for exercise in lab(name).exercises
    }


def test_stamping_twice_changes_nothing(course):
    solution = read(course / "solutions" / "lab04_asinh.ipynb")
    assert stamp(solution, "lab04_asinh") == stamp(stamp(solution, "lab04_asinh"), "lab04_asinh")


def test_a_changed_solution_is_found_and_synced(course):
    path = course / "solutions" / "lab04_asinh.ipynb"
    notebook = read(path)
    notebook["cells"][0]["source"] += "\n\nMore."
    write(notebook, path)
    assert "labs/lab04_asinh.ipynb is not what the solution gives" in out_of_sync(course)
    assert course / "labs" / "lab04_asinh.ipynb" in sync(course)
    assert out_of_sync(course) == []


def with_other_solution(course: Path, between: str) -> Path:
    """Write something else where a solution stands that the judge knows, too."""
    path = course / "solutions" / "lab14_speed.ipynb"
    notebook = read(ROOT / "solutions" / path.name)
    for cell in notebook["cells"]:
        if "def let_it_fuse(" in cell["source"]:
            cell["source"] = re.sub(r"    ### BEGIN.*END SOLUTION", between, cell["source"], flags=re.DOTALL)
    write(notebook, path)
    return path


@pytest.mark.parametrize("body", ["", "    ...\n", "    return None\n\n"])
def test_sync_fills_a_solution_whatever_stands_in_its_place(course, body):
    complete = (ROOT / "solutions" / "lab14_speed.ipynb").read_bytes()
    between = f"    ### BEGIN SOLUTION\n{body}    ### END SOLUTION"
    path = with_other_solution(course, between)
    sync(course)
    assert path.read_bytes() == complete


def test_sync_refuses_a_solution_that_has_no_place_in_its_notebook(course):
    with_other_solution(course, "    pass")
    with pytest.raises(LabNotInSync, match=r"no place for the solution let_it_fuse\(\)"):
        sync(course)


def test_sync_leaves_a_learners_work_alone(course):
    work = answered(course / "labs" / "lab04_asinh.ipynb")
    assert sync(course) == []
    assert (course / "labs" / "lab04_asinh.ipynb").read_bytes() == work


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda source: source.replace("asinh-symbolic", "no-such-exercise"), "without a record"),
        (
            lambda source: "" if source.startswith('check("asinh-symbolic"') else source,
            "has no cell that checks",
        ),
        (lambda source: source.replace("### BEGIN SOLUTION", "# begin"), "no solution stands above it"),
    ],
)
def test_a_solution_that_does_not_fit_its_exercises_is_refused(course, change, expected):
    notebook = read(course / "solutions" / "lab04_asinh.ipynb")
    for cell in notebook["cells"]:
        cell["source"] = change(cell["source"])
    with pytest.raises(LabNotInSync, match=expected):
        stamp(notebook, "lab04_asinh")


def test_no_solutions_at_all(tmp_path):
    with pytest.raises(LabNotInSync, match="There are no solutions"):
        sync(tmp_path)


def test_reset_gives_the_untouched_lab_and_keeps_the_work(course):
    path = course / "labs" / "lab04_asinh.ipynb"
    untouched = path.read_bytes()
    work = [answered(path)]
    _, first = reset("lab04", course)
    assert path.read_bytes() == untouched
    work.append(answered(path))
    _, second = reset("lab04_asinh", course)
    assert [first.read_bytes(), second.read_bytes()] == work
    assert reset("lab04", course) == (path, None)  # nothing to keep
    assert len(list(path.parent.iterdir())) == 3


def test_reset_repairs_a_damaged_and_a_missing_lab(course):
    path = course / "labs" / "lab04_asinh.ipynb"
    untouched = path.read_bytes()
    path.write_bytes(b"\xff not a notebook")
    _, backup = reset("lab04", course)
    assert backup.read_bytes() == b"\xff not a notebook"
    path.unlink()
    assert reset("lab04", course) == (path, None)
    assert path.read_bytes() == untouched


def test_reset_says_what_is_missing(course, tmp_path):
    with pytest.raises(UnknownExercise, match="no lab 'lab99'"):
        reset("lab99", course)
    (course / "solutions" / "lab04_asinh.ipynb").unlink()
    with pytest.raises(LabNotInSync, match=r"lab04_asinh\.ipynb is not in"):
        reset("lab04", course)


def test_course_root_is_found_from_inside(course):
    assert course_root(course / "labs") == course


def test_release_replaces_whole_regions():
    cell = nbformat.v4.new_code_cell(
        "def f(x):\n    '''Doc.'''\n    ### BEGIN SOLUTION\n    y = x\n    return y\n    ### END SOLUTION\n",
        metadata={"nbgrader": lab_release._grading("f", solution=True)},
    )
    source = release(nbformat.v4.new_notebook(cells=[cell]))["cells"][0]["source"]
    assert source == "def f(x):\n    '''Doc.'''\n    # YOUR CODE HERE\n    raise NotImplementedError()\n"
