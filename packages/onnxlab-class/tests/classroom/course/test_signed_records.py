"""Signed records: made from graded work, and whatever a forger changes is noticed."""

import json
import re
import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from class_support.graded_class import EXERCISES, HOSTILE, outcome, submission
from onnxlab import cli
from onnxlab_class.classroom.course.signed_records import write_records
from onnxlab_class.classroom.hub.homes import make_home
from onnxlab_class.grading.results import Ledger

RESULTS = Path("results")
UNUSUAL = [*HOSTILE, " \n"]
SOME = sum(exercise.points for exercise in EXERCISES[:2])


def make_class(folder: Path) -> Path:
    folder.mkdir()
    content = {"format": 1, "name": folder.name, "version": "1", "made": "2026-11-28", "written": {}}
    (folder / "class.json").write_text(json.dumps(content))
    return folder


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A class with two homes, the results of a run, in which ada passed two exercises, and its records."""
    place = tmp_path_factory.mktemp("signed")
    folder, results = make_class(place / "spring"), place / "results"
    (folder / "learners").mkdir()
    for name in ("ada", "bob"):
        make_home(folder / "learners", name, None)
    with Ledger(results, {}) as ledger:
        for name in ("ada", "bob", *UNUSUAL):
            kinds = (0, 0, 1, 4) if name == "ada" else (0, 1, 2, 3)
            outcomes = [outcome(exercise, kind) for exercise, kind in zip(EXERCISES, kinds, strict=True)]
            ledger.record(submission(name), outcomes)
    assert cli.main(["class", "record", str(folder), str(results), "--name", "ada=Ada Lovelace"]) == 0
    return place


@pytest.fixture(autouse=True)
def here(signed, tmp_path, monkeypatch):
    """A copy of it all, which is the working directory."""
    shutil.copytree(signed, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def test_a_record_is_given_out_and_verified(capsys):
    assert len(list(RESULTS.joinpath("records").iterdir())) == 2 * (2 + len(UNUSUAL))
    (RESULTS / "feedback").mkdir()
    (RESULTS / "feedback" / "ada.html").touch()
    assert cli.main(["class", "feedback", "spring", "results"]) == 0
    home = Path("spring") / "learners" / "ada" / "feedback"
    page = home / "onnxlab-record.html"
    assert {path.name for path in home.iterdir()} == {page.name, "onnxlab-record.svg", "results.html"}
    page.write_bytes(page.read_bytes().replace(b"\n", b"\r\n"))  # as some mail programs send it
    capsys.readouterr()
    assert cli.main(["class", "verify", "spring", str(page), str(page.with_suffix(".svg"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert "signed by this class: Ada Lovelace · The whole course · " in line
        assert f" · {SOME} of " in line
        assert line.endswith("Graded and signed by the class spring")
    assert "known: heading-fault" in page.read_text("utf-8"), "a chapter counts where its exercise was passed"
    assert "predictions" not in page.read_text("utf-8")
    assert Path("spring", "hub", "record_key").stat().st_mode & 0o777 == 0o600
    assert Path("spring", "hub", ".gitignore").read_text() == "*\n"


def test_points_for_a_part_of_an_exercise_make_no_chapter_known():
    """As `onnxlab grade --parts` gives them."""
    heading = next(exercise for exercise in EXERCISES if exercise.id == "heading-fault")
    with Ledger(RESULTS, {}) as ledger:
        ledger.record(submission("cleo"), [replace(outcome(heading, 1), points=1)])
    assert cli.main(["class", "record", "spring", "results"]) == 0
    page = (RESULTS / "records" / "cleo.html").read_text("utf-8")
    assert "<td>1 / " in page
    assert "known: heading-fault" not in page


def signature(text: str) -> str:
    return text.splitlines()[-1]


@pytest.mark.parametrize("ending", ["html", "svg"])
@pytest.mark.parametrize(
    "forge",
    [
        lambda own, _: own.replace("Ada Lovelace", "Eve"),
        lambda own, _: own.replace(f"{SOME} of", f"{SOME + 9} of"),
        lambda own, other: own.replace(signature(own), signature(other)),
        lambda own, other: other.replace("bob", "Ada").replace(signature(other), signature(own)),
        lambda own, _: own + "<p>and more</p>",
        lambda own, _: own + signature(own) + "\n",
        lambda own, _: "<p>and more</p>" + own,
        lambda own, _: own.replace(signature(own) + "\n", ""),
        lambda own, _: signature(own) + "\n",
        lambda own, _: "",
        lambda own, _: re.sub("signature .{64}", f"signature {0:064}", own),
    ],
)
def test_a_forgery_is_noticed(capsys, ending, forge):
    own, other = ((RESULTS / "records" / f"{name}.{ending}").read_text("utf-8") for name in ("ada", "bob"))
    forged = RESULTS / "records" / f"forged.{ending}"
    forged.write_text(forge(own, other), "utf-8")
    assert forged.read_text("utf-8") != own
    capsys.readouterr()
    assert cli.main(["class", "verify", "spring", str(forged)]) == 1
    assert "not signed by this class, or changed since" in capsys.readouterr().out


def test_another_class_did_not_sign_it(capsys):
    other = make_class(Path("autumn"))
    assert cli.main(["class", "verify", "autumn", "results/records/ada.html"]) == 2
    assert "The class 'autumn' has no key to be read" in capsys.readouterr().err
    assert cli.main(["class", "record", "autumn", "results"]) == 0
    (other / "class.json").write_text((other / "class.json").read_text().replace("autumn", "spring"))
    assert cli.main(["class", "verify", "autumn", "results/records/ada.html"]) == 0  # its own, made last
    assert cli.main(["class", "verify", "spring", "results/records/ada.html"]) == 1


def test_a_file_that_cannot_be_read_takes_no_verdict_from_the_others(capsys):
    own = RESULTS / "records" / "ada.html"
    (forged := Path("forged.html")).write_text("<p>")
    arguments = map(str, ("gone.html", own, RESULTS, forged))
    assert cli.main(["class", "verify", "spring", *arguments]) == 2
    printed = capsys.readouterr()
    assert [line.partition(":")[0] for line in printed.out.splitlines()] == [str(own), str(forged)]
    refused = printed.err.splitlines()
    assert [line.partition(" cannot be read")[0] for line in refused] == ["gone.html", str(RESULTS)]


def test_two_first_runs_at_once_sign_with_one_key(monkeypatch):
    make_class(Path("autumn"))
    drawn, draw, runs = [], secrets.token_bytes, ThreadPoolExecutor(2)
    run = partial(write_records, Path("autumn"), RESULTS, {})

    def draw_while_another_run_begins(size: int) -> bytes:
        drawn.append(draw(size))
        if len(drawn) == 1:
            wait([runs.submit(run)], timeout=1)  # it ends before that only if it does not wait for the key
        return drawn[-1]

    monkeypatch.setattr(secrets, "token_bytes", draw_while_another_run_begins)
    with runs:
        runs.submit(run).result()
    assert [Path("autumn", "hub", "record_key").read_bytes()] == drawn
    assert cli.main(["class", "verify", "autumn", str(RESULTS / "records" / "ada.html")]) == 0


def test_work_that_is_not_graded_yet_has_no_record(capsys):
    with Ledger(RESULTS, {}) as ledger:
        ledger.failed(submission("bob", 1), "the machine broke down")
    assert cli.main(["class", "record", "spring", "results"]) == 1
    printed = capsys.readouterr()
    assert "left: bob: the newest work is not graded yet" in printed.err
    assert f"Signed the records of {1 + len(UNUSUAL)} learners" in printed.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["record", "spring", "."], "There are no results to be read in ."),
        (["record", ".", "results"], ". is not a class"),
        (["record", "spring", "results", "--name", "eve=Eve"], "has no graded work by eve"),
        (["record", "spring", "results", "--name", "ada"], "--name takes a learner and a name"),
        (["record", "spring", "results", "--name", "=Eve"], "--name takes a learner and a name"),
        (["record", "spring", "results", "--name", "ada= "], "cannot be the name on a record"),
        (["record", "spring", "results", "--track", "fast"], "There is no track 'fast'."),
        (["verify", "autumn", "results/records/ada.html"], "record_key is damaged: it has 4 bytes, not 32"),
    ],
)
def test_bad_input_is_refused_in_words(capsys, arguments, said):
    hub = make_class(Path("autumn")) / "hub"
    hub.mkdir()
    (hub / "record_key").write_bytes(b"half")
    assert cli.main(["class", *arguments]) == 2
    assert said in capsys.readouterr().err
