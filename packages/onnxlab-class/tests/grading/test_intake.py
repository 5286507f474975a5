"""The submissions in folders of every layout, and the messages about the other files."""

import hashlib
import os
import random
import socket
import string
import sys

import pytest

from onnxlab_class.grading.submissions import (
    LARGEST,
    CannotRead,
    Intake,
    NoSubmissions,
    NotebookUnreadable,
    find,
    read,
    safe_name,
)

LABS = ("lab01_control_flow", "lab04_asinh", "lab14_other")
DATA = b'{"cells": []}'


def put(root, name: str, data: bytes = DATA, age: int = 1_000_000):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (age, age))
    return path


def pairs(intake: Intake) -> list[tuple[str, str]]:
    return [(submission.student, submission.lab) for submission in intake.submissions]


def reasons(intake: Intake, root) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): reason for path, reason in intake.ignored}


@pytest.mark.parametrize("marked_by", ["class.json", "nbgrader_config.py", ""])
def test_nbgraders_tree(tmp_path, marked_by):
    below = "submitted/" if marked_by else ""
    put(tmp_path, marked_by or "README.md")
    put(tmp_path, f"{below}ada/lab04_asinh/lab04_asinh.ipynb")
    put(tmp_path, f"{below}ada/lab04_asinh/timestamp.txt")
    put(tmp_path, f"{below}ada/ps1/lab01_control_flow.ipynb")
    put(tmp_path, f"{below}bob/lab04/answer.ipynb")
    put(tmp_path, f"{below}bob/week 2/answer.ipynb")
    intake = find(tmp_path, LABS)
    assert pairs(intake) == [("ada", "lab01_control_flow"), ("ada", "lab04_asinh"), ("bob", "lab04_asinh")]
    assert list(reasons(intake, tmp_path)) == [f"{below}bob/week 2/answer.ipynb"]


def test_course_folder_shows_only_what_was_submitted(tmp_path):
    put(tmp_path, "nbgrader_config.py")
    put(tmp_path, "source/lab04_asinh/lab04_asinh.ipynb")
    put(tmp_path, "release/lab04_asinh/lab04_asinh.ipynb")
    put(tmp_path, "submitted/ada/lab04_asinh/lab04_asinh.ipynb")
    assert pairs(find(tmp_path, LABS)) == [("ada", "lab04_asinh")]
    assert pairs(find(tmp_path / "submitted", LABS)) == [("ada", "lab04_asinh")]


def test_folder_of_students(tmp_path):
    put(tmp_path, "ada/lab04_asinh.ipynb")
    put(tmp_path, "ada/LAB1 my copy.ipynb")
    put(tmp_path, "ada/notes.ipynb")
    put(tmp_path, "ada/lab14_other.zip")
    put(tmp_path, "ada/cat.png")
    intake = find(tmp_path, LABS)
    assert pairs(intake) == [("ada", "lab01_control_flow"), ("ada", "lab04_asinh")]
    ignored = reasons(intake, tmp_path)
    assert set(ignored) == {"ada/notes.ipynb", "ada/lab14_other.zip"}
    assert "which lab" in ignored["ada/notes.ipynb"]
    assert "not a notebook" in ignored["ada/lab14_other.zip"]


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("ada_lab04_asinh.ipynb", "ada"),
        ("lab04_asinh_ada.ipynb", "ada"),
        ("lab04-ada.ipynb", "ada"),
        ("lab4 - Ada Lovelace.ipynb", "Ada Lovelace"),
        ("ada_lab04_asinh (1).ipynb", "ada"),
        ("ada_lab04_asinh-Copy2.ipynb", "ada"),
        ("ada_lab04_asinh copy.ipynb", "ada"),
        ("ada_lab04_asinh copy 2 (3) (1).ipynb", "ada"),
        ("ada_lab04_asinh (1)-3.ipynb", "ada"),
        ("lab04_asinh copycat.ipynb", "copycat"),
        ("ada_12_345_lab04_asinh-3.ipynb", "ada_12_345"),
        ("ada_lab04_asinh_final.IPYNB", "ada_final"),
        ("lab04_asinh_12345.ipynb", "12345"),
        ("lab04_asinh.ipynb", "downloads"),
        ("lab04_asinh (2).ipynb", "downloads"),
        ("=HYPERLINK(1)_lab04_asinh.ipynb", "=HYPERLINK(1)"),
    ],
)
def test_student_of_a_single_file(tmp_path, name, student):
    root = tmp_path / "downloads"
    path = put(root, name)
    assert pairs(find(root, LABS)) == [(student, "lab04_asinh")]
    assert pairs(find(path, LABS)) == [(student, "lab04_asinh")]


@pytest.mark.timeout(60)  # a reader that tries every way to divide a name takes longer than anybody waits
def test_no_file_name_keeps_the_reader_busy(tmp_path):
    chance = random.Random(5)
    pieces = ("  copy", "copy", " ", "_", "-", "(", ")", "(1)", "12", "lab04", "lab0", "a", "lab04_asinh")
    names = {"eve_lab04" + "  copy" * 38 + " x", "eve_lab04" + " (1)" * 55 + "x", "lab" + "0" * 240}
    names |= {"".join(chance.choice(pieces) * 9 for _ in range(99))[:240] for _ in range(200)}
    names |= {"eve_lab04" + (chance.choice(pieces) * 240)[:230] + "x" for _ in range(50)}
    for name in names:
        put(tmp_path, f"{name}.ipynb")
    intake = find(tmp_path, LABS)
    read_names = {path.stem for path, _ in intake.ignored} | {entry.path.stem for entry in intake.submissions}
    assert read_names == names


def test_folder_with_a_labs_name_holds_single_files(tmp_path):
    put(tmp_path, "lab04/ada.ipynb")
    put(tmp_path, "lab04/bob_lab04_asinh.ipynb")
    put(tmp_path, "lab04/lab04_asinh.ipynb")
    put(tmp_path, "lab04/deeper/lab04_asinh.ipynb")
    for root in (tmp_path, tmp_path / "lab04"):
        intake = find(root, LABS)
        submissions = pairs(intake)
        assert ("ada", "lab04_asinh") in submissions
        assert ("bob", "lab04_asinh") in submissions
        assert "whose" in reasons(intake, tmp_path)["lab04/lab04_asinh.ipynb"]


@pytest.mark.parametrize("name", ["lab040_x_ada.ipynb", "collab04.ipynb", "lab05.ipynb", "mylab04x.ipynb"])
def test_other_words_are_no_labs(tmp_path, name):
    put(tmp_path, name)
    assert pairs(find(tmp_path, LABS)) == []


def test_newest_of_two_counts_and_the_other_is_named(tmp_path):
    put(tmp_path, "ada/lab04_asinh.ipynb", b"old", 1000)
    put(tmp_path, "ada/lab04_asinh-Copy1.ipynb", b"new", 2000)
    put(tmp_path, "bob/lab04_asinh-2.ipynb", b"two", 1000)
    put(tmp_path, "bob/lab04_asinh-10.ipynb", b"ten", 1000)
    intake = find(tmp_path, LABS)
    assert [submission.digest for submission in intake.submissions] == [
        hashlib.sha256(b).hexdigest() for b in (b"new", b"ten")
    ]
    assert set(reasons(intake, tmp_path)) == {"ada/lab04_asinh.ipynb", "bob/lab04_asinh-2.ipynb"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows asks for rights to make links")
def test_links_pipes_and_sockets_are_not_followed(tmp_path, monkeypatch):
    secret = put(tmp_path, "elsewhere/lab04_asinh.ipynb")
    root = tmp_path / "class"
    (root / "ada").mkdir(parents=True)
    (root / "ada" / "lab04_asinh.ipynb").symlink_to(secret)
    (root / "bob").symlink_to(secret.parent)
    (root / "eve").mkdir()
    os.mkfifo(root / "eve" / "lab04_asinh.ipynb")
    with socket.socket(socket.AF_UNIX) as listening:
        (root / "s").mkdir()
        monkeypatch.chdir(root / "s")  # a socket's address has at most a hundred characters
        listening.bind("lab01_control_flow.ipynb")
    intake = find(root, LABS)
    assert intake.submissions == ()
    assert set(reasons(intake, root)) == {
        "ada/lab04_asinh.ipynb",
        "bob",
        "eve/lab04_asinh.ipynb",
        "s/lab01_control_flow.ipynb",
    }
    for path in (root / "ada/lab04_asinh.ipynb", root / "eve/lab04_asinh.ipynb", root):
        with pytest.raises(NotebookUnreadable, match="ordinary") as caught:
            read(path)
        assert caught.type is NotebookUnreadable


def test_too_large_too_deep_and_hidden(tmp_path):
    put(tmp_path, "ada/lab04_asinh.ipynb", b" " * (LARGEST + 1))
    put(tmp_path, "bob/lab04_asinh.ipynb", b" " * LARGEST)
    put(tmp_path, "bob/a/b/lab01_control_flow.ipynb")
    put(tmp_path, "bob/.ipynb_checkpoints/lab04_asinh-checkpoint.ipynb")
    put(tmp_path, "__MACOSX/bob/._lab04_asinh.ipynb")
    put(tmp_path, "bob/.lab01_control_flow.ipynb")
    put(tmp_path, ".hidden/lab04_asinh.ipynb")
    intake = find(tmp_path, LABS)
    assert pairs(intake) == [("bob", "lab04_asinh")]
    ignored = reasons(intake, tmp_path)
    assert set(ignored) == {"ada/lab04_asinh.ipynb", "bob/a/b", "bob/.lab01_control_flow.ipynb", ".hidden"}
    assert "8 MB" in ignored["ada/lab04_asinh.ipynb"]


def test_empty_folder_in_place_of_a_notebook_is_named(tmp_path):
    for name in ("ada/lab04_asinh.ipynb", "bob/lab04_asinh/lab04_asinh.ipynb", "cy_lab04.ipynb", "dee"):
        (tmp_path / name).mkdir(parents=True)
    intake = find(tmp_path, LABS)
    assert intake.submissions == ()
    ignored = reasons(intake, tmp_path)
    assert set(ignored) == {"ada/lab04_asinh.ipynb", "bob/lab04_asinh/lab04_asinh.ipynb", "cy_lab04.ipynb"}
    assert "empty folder" in ignored["ada/lab04_asinh.ipynb"]


def test_unreadable_has_a_digest_of_its_own(tmp_path, monkeypatch):
    put(tmp_path, "ada/lab04_asinh.ipynb")

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    (submission,) = find(tmp_path, LABS).submissions
    with pytest.raises(CannotRead, match="Permission denied"):
        read(submission.path)
    assert (
        submission.digest
        == hashlib.sha256(b"unreadable The file cannot be read: Permission denied.").hexdigest()
    )


def test_nothing_there(tmp_path):
    assert find(tmp_path, LABS) == Intake((), ())
    with pytest.raises(NoSubmissions, match="not there"):
        find(tmp_path / "none")
    with pytest.raises(NoSubmissions, match="not a notebook"):
        find(put(tmp_path, "lab04_asinh.py"))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.ipynb")
        with pytest.raises(NoSubmissions, match="neither"):
            find(tmp_path / "pipe.ipynb")


HOSTILE = [
    "../../etc",
    "a b",
    "a\nb",
    "=cmd|' /C calc'!A0",
    "<script>alert(1)</script>",
    "ada' OR 1=1",
    "名前",
    "\u202eada",
    "con",
    "COM1",
    "nul",
    "-rf",
    "$(reboot)",
    "x" * 240,
    "lab99",
    "a.b",
    "Ada",
    "ada",
    "ada-",
    "\x1b[2J",
    "\udc80",
    ".",
    "",
]


def test_safe_names_are_safe_and_unique():
    rng = random.Random(6)
    students = {
        *HOSTILE,
        *("".join(rng.choices(string.printable, k=rng.randint(1, 30))) for _ in range(2000)),
    }
    students |= {safe_name(student) for student in students}  # a name can be another student's file name
    names = {safe_name(student) for student in students}
    assert len(names) == len(students)
    for name in names:
        assert 0 < len(name) <= 60
        assert set(name) <= set(string.ascii_lowercase + string.digits + "_-")
        assert not name.startswith("-")
        assert name not in {"con", "nul", "com1"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
def test_hostile_names_are_only_names(tmp_path):
    students = [name for name in HOSTILE if name and "/" not in name and name != "."]
    for student in students:
        put(tmp_path, f"{student}/lab04_asinh.ipynb")
    intake = find(tmp_path, LABS)
    assert {name.student for name in intake.submissions} == set(students)
    assert intake == find(tmp_path, LABS)
