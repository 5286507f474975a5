"""Collecting labs from learners' homes and putting feedback into them, with planted links."""

import contextlib
import json
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onnxlab import cli
from onnxlab_class.classroom.hub.homes import give_feedback, make_home, take_labs
from onnxlab_class.grading.submissions import LARGEST

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="homes are not read there")
LAB = "lab04_asinh.ipynb"


@pytest.fixture
def homes(tmp_path):
    """A class of which ada and bob have a lab."""
    for name in ("ada", "bob"):
        (tmp_path / "class" / "learners" / name / "labs").mkdir(parents=True)
        (tmp_path / "class" / "learners" / name / "labs" / LAB).write_text(name)
    (tmp_path / "class" / "class.json").write_text("{}")
    return tmp_path / "class" / "learners"


def test_labs_are_copied_with_their_time_and_nothing_else(homes, tmp_path):
    labs = homes / "ada" / "labs"
    os.utime(labs / LAB, (1e9, 1e9))
    for other in ("lab04-new_asinh.ipynb", "lab04-before-reset_asinh.ipynb", "mine.ipynb"):
        (labs / other).write_text("")
    (homes / "instructor" / "labs").mkdir(parents=True)
    (homes / "instructor" / "labs" / LAB).write_text("the solution")
    (homes / "never-came").mkdir()
    into = tmp_path / "taken"
    collection = take_labs(homes.parent, into)
    assert collection.files == {"ada": 1, "bob": 1}
    assert collection.left == ()
    assert sorted(str(path.relative_to(into)) for path in into.rglob("*.ipynb")) == [
        f"ada/{LAB}",
        f"bob/{LAB}",
    ]
    assert (into / "ada" / LAB).stat().st_mtime == 1e9
    assert take_labs(homes, into) == collection  # the homes themselves may be named


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no file system here keeps such a date")
def test_of_a_lab_in_two_languages_the_one_with_answers_is_taken_though_the_other_is_newer(homes, tmp_path):
    stub = "raise NotImplementedError()"
    for name, english, chinese in (("ada", stub, "an answer"), ("bob", "an answer", stub)):
        labs = homes / name / "labs"
        (labs / "zh").mkdir()
        for file, text in ((labs / LAB, english), (labs / "zh" / LAB, chinese)):
            file.write_text(text)
            os.utime(file, (2e9 if text == stub else 1e9, 1e9))
    assert take_labs(homes.parent, tmp_path / "taken").files == {"ada": 1, "bob": 1}
    for name in ("ada", "bob"):
        assert (tmp_path / "taken" / name / LAB).read_text() == "an answer"


@pytest.mark.parametrize("year", [-5000, 33_658])
def test_a_lab_of_an_impossible_date_counts_as_of_now(year):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        labs = Path(name, "learners", "ada", "labs")
        labs.mkdir(parents=True)
        (labs / LAB).write_text("ada")
        Path(name, "class.json").write_text("{}")
        seconds = round((year - 1970) * 365.2425 * 86_400)
        os.utime(labs / LAB, (seconds, seconds))
        before = time.time()
        assert take_labs(Path(name)).files == {"ada": 1}
        copy = Path(name, "submitted", "ada", LAB[:-6], LAB)
        noted = copy.with_name("timestamp.txt").read_text()
        assert (
            before - 1 <= datetime.strptime(noted, "%Y-%m-%d %H:%M:%S.%f %Z").replace(tzinfo=UTC).timestamp()
        )
        assert before - 1 <= copy.stat().st_mtime <= time.time() + 1


def test_no_link_leads_to_another_learners_work(homes, tmp_path, capsys):
    (homes / "eve").mkdir()
    (homes / "eve" / "labs").symlink_to(homes / "ada" / "labs")
    (homes / "mallory" / "labs").mkdir(parents=True)
    (homes / "mallory" / "labs" / LAB).symlink_to(homes / "ada" / "labs" / LAB)
    (homes / "trudy").symlink_to(homes / "ada")
    assert cli.main(["class", "take", str(homes.parent), str(tmp_path / "taken")]) == 0
    printed = capsys.readouterr()
    assert sorted(path.name for path in (tmp_path / "taken").iterdir()) == ["ada", "bob"]
    assert "2 labs of 2 learners" in printed.out
    left = [line.split(": ")[:2] for line in printed.err.splitlines()]
    assert left == [["left", name] for name in ("eve", "mallory, lab04_asinh", "trudy")]


def test_what_is_no_notebook_file_is_said_and_not_waited_for(homes, tmp_path):
    labs = homes / "ada" / "labs"
    os.mkfifo(labs / "lab01_control_flow.ipynb")
    (labs / "lab02_dynamic_shapes.ipynb").mkdir()
    with (labs / "lab03_trace_breakers.ipynb").open("wb") as large:
        large.truncate(LARGEST + 1)
    collection = take_labs(homes, tmp_path / "taken")
    assert collection.files == {"ada": 1, "bob": 1}
    assert len(collection.left) == 3


def test_a_folder_without_labs_is_said_in_three_lines(homes, tmp_path, capsys):
    (tmp_path / "notes").mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / "notes" / name).write_text("")
    (homes / "ada" / "labs" / LAB).unlink()
    (homes / "bob" / "labs" / LAB).unlink()
    for folder, expected in (
        (tmp_path / "notes", "left: a.md: Not a directory; and 2 others\n"),
        (homes.parent, ""),
    ):
        assert cli.main(["class", "take", str(folder), str(tmp_path / "taken")]) == 2
        output = capsys.readouterr()
        assert f"There are no learners' labs in {folder}.\n{expected}Name a class" in output.err
        assert output.err.count("\n") <= 3
        assert output.out == ""
    assert not (tmp_path / "taken").exists()


def test_a_class_collects_where_nbgrader_looks(homes, capsys):
    folder = homes.parent
    (folder / "class.json").unlink()
    assert cli.main(["class", "take", str(folder)]) == 2
    assert "is not a class" in capsys.readouterr().err
    (folder / "class.json").write_text(json.dumps({"format": 1}))
    os.utime(homes / "ada" / "labs" / LAB, (1e9, 1e9))
    assert cli.main(["class", "take", str(folder)]) == 0
    place = folder / "submitted" / "ada" / "lab04_asinh"
    assert (place / LAB).read_text() == "ada"
    assert (place / "timestamp.txt").read_text() == "2001-09-09 01:46:40.000000 UTC"
    assert "2 labs of 2 learners" in capsys.readouterr().out


@pytest.fixture
def results(tmp_path):
    """The results of grading ada and bob."""
    (tmp_path / "results" / "feedback").mkdir(parents=True)
    for name in ("ada", "bob"):
        (tmp_path / "results" / "feedback" / f"{name}.html").write_text(f"feedback for {name}")
    return tmp_path / "results"


def test_each_learner_finds_their_own_page(homes, results, capsys):
    (homes / "eve").mkdir()
    for _ in range(2):  # and the next one takes its place
        assert cli.main(["class", "feedback", str(homes.parent), str(results)]) == 0
    assert "2 learners will find feedback/results.html" in capsys.readouterr().out
    for name in ("ada", "bob"):
        assert [page.name for page in (homes / name / "feedback").iterdir()] == ["results.html"]
        assert (homes / name / "feedback" / "results.html").read_text() == f"feedback for {name}"
        assert (homes / name / "feedback" / "results.html").stat().st_mode & 0o777 == 0o600
    assert not (homes / "eve" / "feedback").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["take", "nowhere", "taken"], "There is no folder nowhere"),
        (["feedback", "class", "."], "There are no feedback pages in ."),
    ],
)
def test_what_is_not_there_is_said(homes, tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["class", *arguments]) == 2
    assert said in capsys.readouterr().err


ROOT_ONLY = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root gives users")
ADA, BOB = 261_001, 261_002


def facts(*places: Path) -> list[tuple[int, int, int, bytes]]:
    """Owner, group, mode and content of files and folders, with what is in them."""
    statuses = []
    for place in places:
        for path in (place, *sorted(place.rglob("*"))) if place.is_dir() else (place,):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            statuses.append((status.st_uid, status.st_gid, status.st_mode, content))
    return statuses


@pytest.fixture
def foreign(tmp_path):
    """A folder with a file of somebody else."""
    folder = tmp_path / "foreign"
    folder.mkdir(mode=0o700)
    (folder / "results.html").write_text("theirs")
    (folder / "results.html").chmod(0o640)
    return folder


@ROOT_ONLY
def test_a_home_is_given_to_its_user_with_all_that_is_in_it(homes):
    make_home(homes, "ada", ADA)
    make_home(homes, "new", BOB)
    assert {status[0] for status in facts(homes / "ada")} == {ADA}
    assert [status[:2] for status in facts(homes / "new")] == [(BOB, BOB)]
    assert (homes / "new").stat().st_mode & 0o777 == 0o700


@ROOT_ONLY
def test_root_gives_nothing_away_through_links_in_a_home(homes, foreign, tmp_path):
    """Planted by somebody who owned the home before: a class that was served by an ordinary user."""
    (homes / "eve").symlink_to(foreign)
    (homes / "ada" / "folder").symlink_to(foreign)
    (homes / "ada" / "file").symlink_to(foreign / "results.html")
    os.link(foreign / "results.html", homes / "ada" / "second-name")
    before = facts(foreign)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        make_home(homes, "eve", BOB)
    make_home(homes, "ada", ADA)
    assert facts(foreign) == before
    assert (homes / "ada").stat().st_uid == ADA


@ROOT_ONLY
@pytest.mark.parametrize("plant", ["home", "feedback", "page", "pipe", "second name", "folder"])
def test_root_writes_a_page_through_no_planted_link(homes, results, foreign, plant):
    make_home(homes, "bob", BOB)
    home = homes / "bob"
    page = home / "feedback" / "results.html"
    if plant == "home":
        home.rename(homes / "away")
        home.symlink_to(foreign)
    elif plant == "feedback":
        (home / "feedback").symlink_to(foreign)
    else:
        page.parent.mkdir()
        if plant == "page":
            page.symlink_to(foreign / "results.html")
        elif plant == "pipe":
            os.mkfifo(page)
        elif plant == "second name":
            os.link(foreign / "results.html", page)
        else:
            page.mkdir()
    before = facts(foreign)
    collection = give_feedback(homes.parent, results)
    assert facts(foreign) == before
    if plant in ("page", "pipe", "second name"):  # the name is the learner's, and now the page's
        assert facts(page)[0][0] == BOB
        assert not page.is_symlink()
        assert page.read_text() == "feedback for bob"
    else:
        assert [line.partition(":")[0] for line in collection.left] == ["bob"]
    assert collection.files["ada"] == 1


@ROOT_ONLY
def test_root_writes_no_page_elsewhere_while_links_come_and_go(homes, results, foreign):
    """A learner swaps the folder for a link as fast as they can."""
    make_home(homes, "bob", BOB)
    swapping = os.fork()
    if not swapping:
        try:
            os.setgid(BOB)
            os.setuid(BOB)
            os.chdir(homes / "bob")
            while True:
                for swap in (
                    lambda: Path("feedback").mkdir(),
                    lambda: Path("feedback").rename("away"),
                    lambda: Path("feedback").symlink_to(foreign),
                    lambda: Path("feedback").unlink(),
                    lambda: Path("away", "results.html").unlink(missing_ok=True),
                    lambda: Path("away").rmdir(),
                ):
                    with contextlib.suppress(OSError):
                        swap()
        finally:
            os._exit(0)
    try:
        before = facts(foreign)
        for _ in range(300):
            give_feedback(homes.parent, results)
        assert facts(foreign) == before
    finally:
        os.kill(swapping, 9)
        os.waitpid(swapping, 0)


@pytest.mark.parametrize("name", ["hub", "learners"])
def test_the_hubs_own_folders_are_no_links(tmp_path, foreign, name):
    pytest.importorskip("jupyterhub")
    from onnxlab_class.classroom.course.folder import ClassFolder
    from onnxlab_class.classroom.hub.serve import CannotServe, secure_folders

    (tmp_path / "class").mkdir()
    (tmp_path / "class" / name).symlink_to(foreign)
    before = facts(foreign)
    with pytest.raises(CannotServe, match="not a folder of the class's own"):
        secure_folders(ClassFolder(tmp_path / "class", "class", "1", "2026-11-21"))
    assert facts(foreign) == before


@ROOT_ONLY
@pytest.mark.parametrize("name", ["logs", "jupyterhub.sqlite"])
def test_root_takes_over_the_hubs_folder_from_whoever_made_the_class_and_follows_no_link_in_it(
    tmp_path, foreign, name
):
    pytest.importorskip("jupyterhub")
    from onnxlab_class.classroom.course.folder import ClassFolder
    from onnxlab_class.classroom.hub.serve import CannotServe, secure_folders

    folder = ClassFolder(tmp_path / "class", "class", "1", "2026-11-21")
    for place in (folder.path, folder.hub, folder.learners):
        place.mkdir()
        os.chown(place, ADA, ADA)
    secure_folders(folder)
    assert [place.stat().st_uid for place in (folder.path, folder.hub, folder.learners)] == [ADA, 0, 0]
    (folder.hub / "logs").rmdir()
    (folder.hub / name).symlink_to(foreign)
    before = facts(foreign)
    with pytest.raises(CannotServe, match=f"{name} is a link"):
        secure_folders(folder)
    assert facts(foreign) == before
