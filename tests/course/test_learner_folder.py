"""A learner's own folder: made, and renewed after an update of the course without loss of work."""

import json
import re
import shutil
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_output

from onnxlab.cli import main
from onnxlab.course import learner_folder, workbook
from onnxlab.course.fresh import fresh
from onnxlab.course.notebooks import read, write

ROOT = Path(__file__).parents[2]
CHAPTER, OTHER, LAB = (
    "notebooks/04_dynamic_shapes.ipynb",
    "notebooks/00_start_here.ipynb",
    "labs/lab04_asinh.ipynb",
)


@pytest.fixture
def course(tmp_path):
    """A small clone: two chapters, a lab and its solution."""
    clone = tmp_path / "clone"
    for name in (CHAPTER, OTHER, LAB, "solutions/lab04_asinh.ipynb"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    return clone


@pytest.fixture
def folder(course):
    """The learner's folder in it."""
    assert workbook.main([str(course), str(course / workbook.NAME)]) == 0
    return course / workbook.NAME


def update(course, capsys):
    """Start the course again; return what is printed."""
    capsys.readouterr()
    assert workbook.main([str(course), str(course / workbook.NAME)]) == 0
    return capsys.readouterr().out.splitlines()


def change(path, text="# changed"):
    """Change a text of a notebook."""
    notebook = read(path)
    notebook["cells"][0]["source"] = f"{text}\n{notebook['cells'][0]['source']}"
    write(notebook, path)


def run(path):
    """Leave in a notebook what running and saving it in JupyterLab leaves, and no more."""
    notebook = read(path)
    notebook["metadata"]["language_info"]["version"] = "3.12.1"
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"] = 7
            cell["outputs"] = [new_output("stream", text="x")]
            cell["metadata"]["scrolled"] = True
    notebook["cells"].append(new_code_cell(""))
    write(notebook, path)


def outputs(path):
    return [output for cell in read(path)["cells"] for output in cell.get("outputs", ())]


def test_a_new_folder_has_no_output_and_every_link_leads_somewhere(tmp_path):
    assert workbook.main([str(ROOT), str(tmp_path)]) == 0
    notebooks = [path for path in tmp_path.rglob("*.ipynb") if ".onnxlab" not in path.parts]
    assert len(notebooks) == len([*ROOT.glob("notebooks/**/*.ipynb"), *ROOT.glob("labs/**/*.ipynb")])
    for path in notebooks:
        cells = read(path)["cells"]
        assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")], path
        text = "".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
        links = re.findall(r"\]\(([\w./]+\.(?:ipynb|md|png|webp))\)", text)
        assert [link for link in links if not (path.parent / link).exists()] == [], path
    originals = read(ROOT / CHAPTER)["cells"]
    assert [cell["source"] for cell in read(tmp_path / CHAPTER)["cells"]] == [c["source"] for c in originals]


def test_what_was_not_touched_is_renewed_even_if_it_was_run(course, folder, capsys):
    run(folder / CHAPTER)
    assert update(course, capsys) == []
    assert outputs(folder / CHAPTER), "without an update, outputs stay"
    change(course / CHAPTER)
    assert update(course, capsys)[:1] == ["Your notebooks: 1 renewed, 0 added. Your work is kept."]
    assert read(folder / CHAPTER)["cells"][0]["source"].startswith("# changed")
    assert update(course, capsys) == []


def test_new_outputs_of_the_course_renew_nothing(course, folder, capsys):
    run(course / CHAPTER)
    assert update(course, capsys) == []


def test_what_was_changed_stays_and_the_new_version_is_put_beside_it_once(course, folder, capsys):
    change(folder / CHAPTER, "mine")
    mine = (folder / CHAPTER).read_bytes()
    assert update(course, capsys) == []
    change(course / CHAPTER)
    beside = "notebooks/04-new_dynamic_shapes.ipynb"
    assert update(course, capsys)[-1] == f"A new version is beside your own: {beside}."
    assert (folder / CHAPTER).read_bytes() == mine
    assert read(folder / beside)["cells"][0]["source"].startswith("# changed")
    assert outputs(folder / beside) == []
    assert update(course, capsys) == []
    change(course / CHAPTER, "# changed again")
    assert update(course, capsys)[-1].endswith(" notebooks/04-new-2_dynamic_shapes.ipynb.")


def test_what_was_deleted_comes_back_and_a_new_chapter_is_added(course, folder, capsys):
    (folder / CHAPTER).unlink()
    shutil.copy(course / OTHER, course / "notebooks" / "05_new.ipynb")
    assert update(course, capsys)[:1] == ["Your notebooks: 0 renewed, 2 added. Your work is kept."]
    assert outputs(folder / CHAPTER) == outputs(folder / "notebooks/05_new.ipynb") == []


def test_an_update_names_what_it_changed_and_quotes_what_is_new_in_the_changelog(course, folder, capsys):
    changelog = "# Changelog\n\n- An old entry,\n  of two lines.\n"
    (course / "CHANGELOG.md").write_text(changelog)
    assert update(course, capsys) == []
    page = folder / workbook.NEWS
    assert not page.exists()
    change(course / CHAPTER, "# 04 · Changed")
    shutil.copy(course / OTHER, course / "notebooks" / "05_new.ipynb")
    change(folder / LAB, "mine")
    change(course / LAB)
    new = "- Chapter 04 is longer,\n  see [the list](docs/refute.md).\n- [The standard](https://onnx.ai).\n"
    (course / "CHANGELOG.md").write_text(changelog.replace("- An", f"{new}- An"))
    printed = update(course, capsys)
    assert printed[:2] == [
        "Your notebooks: 1 renewed, 1 added. Your work is kept.",
        f"Which, and what changed: {page}",
    ]
    told = page.read_text("utf-8")
    assert f"- [04 · Changed]({CHAPTER})" in told
    assert "- [00 · Start here](notebooks/05_new.ipynb)" in told
    assert "- [labs/lab04-new_asinh.ipynb](labs/lab04-new_asinh.ipynb)" in told
    assert "- Chapter 04 is longer,\n  see the list.\n- [The standard](https://onnx.ai).\n" in told
    assert "An old entry" not in told
    for name in re.findall(r"\]\((?!http)(.*?)\)", told):
        assert (folder / name).is_file(), name
    before = page.stat().st_mtime_ns
    assert update(course, capsys) == []
    assert page.stat().st_mtime_ns == before


def test_an_update_of_another_edition_is_no_news(course, folder, capsys):
    (course / "notebooks" / "zh").mkdir()
    shutil.copy(course / CHAPTER, course / "notebooks" / "zh" / "04_dynamic_shapes.ipynb")
    assert update(course, capsys) == []
    assert (folder / "notebooks/zh/04_dynamic_shapes.ipynb").is_file()
    assert not (folder / workbook.NEWS).exists()


def test_an_update_that_was_cut_off_is_completed(course, folder, capsys, monkeypatch):
    change(folder / OTHER, "mine")
    for name in (CHAPTER, OTHER, LAB):
        change(course / name)
    written = []

    def failing(path, *arguments, **named):
        if len(written) == 1:
            (path.parent / ".writing-half").write_bytes(b"{")
            raise KeyboardInterrupt  # as sudden as a power cut: nothing is tidied up, no state is written
        written.append(path)
        return write_atomically(path, *arguments, **named)

    write_atomically = learner_folder.write_atomically
    monkeypatch.setattr(learner_folder, "write_atomically", failing)
    with pytest.raises(KeyboardInterrupt):
        workbook.main([str(course), str(folder)])
    monkeypatch.setattr(learner_folder, "write_atomically", write_atomically)
    update(course, capsys)
    for name in (CHAPTER, LAB):
        assert fresh((folder / name).read_bytes()) == fresh((course / name).read_bytes())
    assert read(folder / OTHER)["cells"][0]["source"].startswith("mine")
    assert len(list(folder.rglob("*-new_*"))) == 1
    assert not list(folder.rglob(".writing-*"))
    assert update(course, capsys) == []


def test_a_damaged_record_costs_no_work(course, folder, capsys):
    change(folder / CHAPTER, "mine")
    (folder / learner_folder.HANDED_OUT).write_text('{"notebooks/')
    change(course / CHAPTER)
    update(course, capsys)
    assert read(folder / CHAPTER)["cells"][0]["source"].startswith("mine")


def test_a_folder_of_the_version_that_handed_out_outputs_is_renewed(course, folder, capsys):
    old = (course / CHAPTER).read_bytes()
    (folder / CHAPTER).write_bytes(old)
    record = json.loads((folder / learner_folder.HANDED_OUT).read_text())
    record[CHAPTER] = learner_folder.hashlib.sha256(old).hexdigest()
    (folder / learner_folder.HANDED_OUT).write_text(json.dumps(record))
    change(course / CHAPTER)
    assert update(course, capsys)[:1] == ["Your notebooks: 1 renewed, 0 added. Your work is kept."]
    assert outputs(folder / CHAPTER) == []


def test_a_folder_that_cannot_be_written_is_said(course, folder, capsys):
    (folder / CHAPTER).unlink()
    (folder / "notebooks").rename(folder / "elsewhere")
    (folder / "notebooks").write_text("a file")
    assert workbook.main([str(course), str(folder)]) == 1
    assert "notebooks" in capsys.readouterr().err


def test_a_chapter_is_shown_with_outputs_and_taken_back_to_new(course, folder, capsys, monkeypatch):
    monkeypatch.chdir(course)  # an ordinary terminal: the commands find the learner's folder in the clone
    assert main(["show", "4"]) == 0
    assert (folder / CHAPTER).read_bytes() == (course / CHAPTER).read_bytes()
    assert main(["reset", "04"]) == 0
    assert outputs(folder / CHAPTER) == []
    assert not list(folder.rglob("*before-reset*"))
    assert update(course, capsys) == []

    change(folder / CHAPTER, "mine")
    monkeypatch.chdir(folder / "labs")
    capsys.readouterr()
    assert main(["show", "04_dynamic_shapes"]) == 0
    copy = "notebooks/04-before-reset_dynamic_shapes.ipynb"
    assert capsys.readouterr().out == f"{CHAPTER} has all its outputs. Your work is in {copy}.\n"
    assert read(folder / copy)["cells"][0]["source"].startswith("mine")


@pytest.mark.slow
def test_a_lab_is_found_in_the_learners_folder(course, folder, capsys, monkeypatch):
    monkeypatch.chdir(course)
    before = (course / LAB).read_bytes()
    texts = read(course / LAB)
    texts["cells"] = [cell for cell in texts["cells"] if cell["cell_type"] == "markdown"]
    for root in (course, folder):
        write(texts, root / LAB)  # nothing to run
    assert main(["check", "lab4"]) == 1  # nothing is passed yet
    printed, error = capsys.readouterr()
    assert "workbook/labs/lab04_asinh.ipynb: running it" in printed
    assert printed.count("not attempted") == 2
    assert error == ""
    assert main(["check", LAB]) == 1
    assert f"That is the course's own notebook. Yours is {folder / LAB}." in capsys.readouterr().err
    (course / LAB).write_bytes(before)
    assert main(["reset", "lab04"]) == 0
    assert fresh((folder / LAB).read_bytes()) == fresh(before)
    assert (course / LAB).read_bytes() == before
    assert (folder / "labs/lab04-before-reset_asinh.ipynb").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "lab04"], "of each exercise that is passed, a solution is shown"),
        (["show", "44"], "There is no chapter 44"),
        (["reset", "lab44"], "There is no lab 'lab44'"),
    ],
)
def test_what_cannot_be_shown_is_said(folder, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(folder)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) <= 3


def test_without_a_learners_folder_no_chapter_of_the_course_is_replaced(course, monkeypatch, capsys):
    monkeypatch.chdir(course)
    before = (course / CHAPTER).read_bytes()
    assert main(["reset", "04"]) == 2
    assert "is the course itself" in capsys.readouterr().err
    assert (course / CHAPTER).read_bytes() == before
