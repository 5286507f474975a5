"""A lab that nobody changed was not handed in: the same for `take`, `grade`, the index and the gradebook."""

import csv
import shutil
from pathlib import Path

import nbformat
import pytest

from class_support.nbgrader_course import ROOT
from onnxlab import cli
from onnxlab.kit.exercise import LABS
from onnxlab_class.classroom.course.handed_out import code_handed_out
from onnxlab_class.grading.submissions import NotebookUnreadable, cells_of, find, is_untouched, read

LAB, OTHER = "lab07_pooling_indices", "lab02_dynamic_shapes"
STUB = "raise NotImplementedError()"


def lab_of(name: str = LAB, edition: str = "") -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "labs" / edition / f"{name}.ipynb", 4)


def saved(notebook: nbformat.NotebookNode) -> bytes:
    return nbformat.writes(notebook).encode()


@pytest.fixture(scope="module")
def code() -> frozenset[str]:
    return code_handed_out(ROOT)


@pytest.mark.parametrize("edition", ["", "zh"])
@pytest.mark.parametrize("name", LABS)
def test_every_lab_as_it_is_handed_out_is_untouched_and_its_solution_is_not(code, name, edition):
    assert is_untouched((ROOT / "labs" / edition / f"{name}.ipynb").read_bytes(), code)
    assert not is_untouched((ROOT / "solutions" / f"{name}.ipynb").read_bytes(), code)


def run_with_outputs(notebook):
    for number, cell in enumerate(cell for cell in notebook.cells if cell.cell_type == "code"):
        cell.execution_count = number + 1
        cell.outputs = [nbformat.v4.new_output("stream", text="NotImplementedError\n")]
        cell.metadata["execution"] = {"iopub.execute_input": "2027-01-01T00:00:00Z"}


def saved_by_jupyterlab(notebook):
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["language_info"] = {"name": "python", "version": "3.13.1"}
    for cell in notebook.cells:
        cell.id = f"new-{id(cell)}"
        cell.metadata["editable"] = True


def with_notes(notebook):
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell("My notes: what is an index?"))
    notebook.cells[0].source += " Read."


def with_an_empty_cell(notebook):
    notebook.cells.append(nbformat.v4.new_code_cell(" \n"))


def with_other_line_ends(notebook):
    for cell in notebook.cells:
        cell.source = cell.source.replace("\n", "  \r\n") + "\n\n"


def without_a_cell(notebook):
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    notebook.cells.remove(code[-1])


def answered(notebook):
    cell = next(cell for cell in notebook.cells if STUB in cell.source)
    cell.source = cell.source.replace(STUB, "return 1")


def tried_above_the_stub(notebook):
    cell = next(cell for cell in notebook.cells if STUB in cell.source)
    cell.source = cell.source.replace(STUB, f"print(1)\n    {STUB}")


def answered_in_a_new_cell(notebook):
    notebook.cells.append(nbformat.v4.new_code_cell("def to_global_indices(*arguments):\n    return 1"))


@pytest.mark.parametrize(
    ("change", "untouched"),
    [
        *(
            (change, True)
            for change in (run_with_outputs, saved_by_jupyterlab, with_notes, with_an_empty_cell)
        ),
        *((change, True) for change in (with_other_line_ends, without_a_cell)),
        *((change, False) for change in (answered, tried_above_the_stub, answered_in_a_new_cell)),
    ],
)
def test_only_code_counts(code, change, untouched):
    notebook = lab_of()
    change(notebook)
    assert is_untouched(saved(notebook), code) is untouched


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"cells": []}', b'{"cells": [{"cell_type": "markdown", "source": "a"}]}']
)
def test_what_has_no_code_is_handed_in_and_graded_as_it_is(code, data):
    assert not is_untouched(data, code)


def test_a_lab_that_the_instructor_changed_counts_as_handed_out(tmp_path):
    notebook = lab_of()
    notebook.cells.append(nbformat.v4.new_code_cell("print('look at this first')"))
    (tmp_path / "release" / LAB).mkdir(parents=True)
    (tmp_path / "release" / LAB / f"{LAB}.ipynb").write_bytes(saved(notebook))
    assert not is_untouched(saved(notebook), code_handed_out(tmp_path))
    (tmp_path / "nbgrader_config.py").touch()
    assert is_untouched(saved(notebook), code_handed_out(tmp_path))


def test_an_untouched_newer_file_does_not_replace_the_work(tmp_path, code):
    work = lab_of()
    answered(work)
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / f"{LAB}.ipynb").write_bytes(saved(work))
    (tmp_path / "ada" / f"{LAB} (1).ipynb").write_bytes(saved(lab_of()))
    intake = find(tmp_path, handed_out=code)
    assert [one.path.name for one in intake.submissions] == [f"{LAB}.ipynb"]
    assert (intake.untouched, intake.ignored, intake.without) == (1, (), {})


def test_eight_megabytes_of_nothing_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "lab.ipynb"
    path.write_bytes(b'{"cells": [' + b"{}," * (2 * 2**20) + b"{}]}")
    with pytest.raises(NotebookUnreadable, match="no notebook would hold"):
        cells_of(read(path))


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A class: ada answered lab 7 and ran lab 2, bob ran lab 7, carol never came."""
    folder = tmp_path / "my-class"
    for name in ("ada", "bob"):
        (folder / "learners" / name / "labs").mkdir(parents=True)
        for lab in LABS:
            shutil.copy(ROOT / "labs" / f"{lab}.ipynb", folder / "learners" / name / "labs")
    (folder / "learners" / "carol").mkdir()
    (folder / "class.json").write_text("{}")
    work, ran = lab_of(), lab_of(OTHER)
    answered(work)
    run_with_outputs(ran)
    (folder / "learners" / "ada" / "labs" / f"{LAB}.ipynb").write_bytes(saved(work))
    (folder / "learners" / "ada" / "labs" / f"{OTHER}.ipynb").write_bytes(saved(ran))
    (folder / "learners" / "bob" / "labs" / f"{LAB}.ipynb").write_bytes(saved(ran))
    return folder


def test_take_leaves_what_nobody_changed(room, capsys):
    assert cli.main(["class", "take", str(room)]) == 0
    assert [path.name for path in (room / "submitted").glob("*/*/*.ipynb")] == [f"{LAB}.ipynb"]
    printed = capsys.readouterr().out
    assert f"Not handed in, as nobody has changed the code in it: {2 * len(LABS) - 1} labs." in printed
    assert "Copied 1 lab of 1 learner" in printed


@pytest.mark.parametrize(("names", "files"), [(["lab07"], 1), (["7", "lab2"], 1), (["lab02"], 0)])
def test_take_of_one_lab(room, tmp_path, names, files):
    options = [text for name in names for text in ("--lab", name)]
    assert cli.main(["class", "take", str(room), str(tmp_path / "taken"), *options]) == 0
    assert len(list((tmp_path / "taken").glob("*/*.ipynb"))) == files


@pytest.mark.parametrize(
    "command", [["class", "take", "x", "y"], ["grade", "x", "--out", "y"], ["class", "room", "x"]]
)
def test_a_lab_that_is_not_there_gets_a_suggestion(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").mkdir()
    assert cli.main([*command, "--lab", "lab02_dynamic_shape"]) == 2
    assert capsys.readouterr().err == (
        "There is no lab 'lab02_dynamic_shape'.\nDid you mean lab02_dynamic_shapes?\n"
    )


@pytest.mark.slow
def test_grade_says_who_handed_in_what(room, tmp_path, capsys):
    for lab in (LAB, OTHER):  # handed in by mail, as a class that is collected by hand
        (room / "submitted" / "bob" / lab).mkdir(parents=True)
        shutil.copy(ROOT / "labs" / f"{lab}.ipynb", room / "submitted" / "bob" / lab)
    assert cli.main(["class", "take", str(room)]) == 0
    (room / "submitted" / "ada" / OTHER).mkdir(parents=True)
    other = lab_of(OTHER)
    answered(other)
    (room / "submitted" / "ada" / OTHER / f"{OTHER}.ipynb").write_bytes(saved(other))
    out = tmp_path / "out"
    assert cli.main(["grade", str(room), "--out", str(out), "--lab", "lab7"]) == 0
    printed = capsys.readouterr().out
    assert "1 submission, 1 to grade" in printed
    assert "Nothing handed in: bob, carol" in printed
    rows = {row["student"]: row for row in csv.DictReader((out / "grades.csv").read_text().splitlines())}
    statuses = {name: row["to-global-indices status"] for name, row in rows.items()}
    assert statuses == {"ada": statuses["ada"], "bob": "not submitted", "carol": "not submitted"}
    assert statuses["ada"] != "not submitted"
    assert OTHER not in rows["ada"]
    index = (out / "index.html").read_text("utf-8")
    assert index.count("&ndash;") == 2
    assert [page.name for page in (out / "feedback").iterdir()] == ["ada.html"]
    assert "16 labs" not in (out / "feedback" / "ada.html").read_text("utf-8")
    assert cli.main(["class", "feedback", str(room), str(out)]) == 0
    assert not (room / "learners" / "bob" / "feedback").exists()
