"""The live page's room: untrusted progress files, opt-out, counts, tables."""

import csv
import io
import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple
from urllib.error import HTTPError

import pytest

from class_support.learners import EXERCISES, failed, passed, people, progress_file, write
from onnxlab.kit import progress
from onnxlab.kit.outcome import Finding, Outcome, Status
from onnxlab.language import speaking, speech
from onnxlab_class.classroom.room.progress_files import LARGEST, ProgressFiles
from onnxlab_class.classroom.room.server import RoomHandler
from onnxlab_class.classroom.room.view import Names, Room, RoomNames, Sharing, State, learners_csv, view_json

NOW = 1_800_000_000
ASINH = next(exercise for exercise in EXERCISES if exercise.id == "asinh-symbolic")
links = pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="needs links")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "learners").mkdir()
    (tmp_path / "class.json").write_text(
        json.dumps({"format": 1, "name": "", "version": "", "made": "", "written": {}})
    )
    return tmp_path


def room_view(folder, now=NOW):
    return Room(folder, EXERCISES).view(now)


def cell(folder, account="ada", name=ASINH.id, now=NOW):
    (learner,) = [learner for learner in room_view(folder, now).learners if learner.account == account]
    return learner.cells.get(name)


def sharing(folder, account="ada"):
    room = Room(folder, EXERCISES)
    room.view(NOW)
    return room._learners[account].sharing


def test_what_a_check_records_is_what_the_room_shows(folder, monkeypatch):
    monkeypatch.setenv("ONNXLAB_STATE", str(progress_file(folder, "ada")))
    held, fails = Finding(ASINH.parts[0], True), Finding(ASINH.parts[1], False, "secret")
    for _ in range(3):
        assert progress.record(Outcome(ASINH.id, Status.INCORRECT, 0, 4, (held, fails))) == ""
    view = Room(folder, EXERCISES).view()
    assert view.counts(ASINH.id)[State.STUCK] == 1
    (place,) = view.stuck_places()
    assert (place.exercise, place.failure, place.stuck, place.tried) == (ASINH.id, ASINH.parts[1], 1, 1)
    assert "secret" not in progress_file(folder, "ada").read_text()
    progress.record(Outcome(ASINH.id, Status.PASSED, 4, 4))
    view = Room(folder, EXERCISES).view()
    assert (view.counts(ASINH.id)[State.PASSED], view.stuck_places()) == (1, [])


@pytest.mark.parametrize(
    ("attempts", "first", "last", "state"),
    [
        (1, 60, 30, State.TRIED),
        (3, 60, 30, State.STUCK),
        (1, 700, 650, State.STUCK),
        (9, 9000, 3700, State.TRIED),  # gone, or at something else
    ],
)
def test_stuck_is_three_checks_or_ten_minutes_within_the_last_hour(folder, attempts, first, last, state):
    write(folder, "ada", {ASINH.id: failed(ASINH, 0, attempts, NOW - first, NOW - last)})
    assert cell(folder).state(NOW) is state


def test_a_file_of_an_earlier_version_has_no_times(folder):
    write(folder, "ada", {ASINH.id: {"attempts": 5, "last": "incorrect", "passed": False}})
    old = cell(folder)
    assert (old.state(NOW), old.failure) == (State.TRIED, "not right yet")


@pytest.mark.parametrize(
    ("last", "failure"), [("error", "the code raises an error"), ("timed out", "it takes too long")]
)
def test_an_error_and_a_time_limit_are_failures_too(folder, last, failure):
    write(folder, "ada", {ASINH.id: failed(ASINH, 0, 1, NOW - 9, NOW - 9) | {"last": last, "failing": ""}})
    assert cell(folder).failure == failure


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[1]",
        b'{"asinh-symbolic": 3}',
        b"\xff\xfe",
        b"\0" * 100,
        b"[" * 60_000,
        b'{"a": ' * 9_000,
        b"1" * 60_000,
        b" " * (LARGEST + 1),
    ],
    ids=["half", "list", "number", "not UTF-8", "zeros", "deep list", "deep object", "long", "large"],
)
def test_a_damaged_file_is_unknown_and_nothing_else_happens(folder, content):
    write(folder, "grace", {ASINH.id: passed(NOW)})
    write(folder, "ada", {}).write_bytes(content)
    view = room_view(folder)
    assert (view.unknown, [learner.account for learner in view.learners]) == (1, ["grace"])
    assert progress_file(folder, "ada").read_bytes() == content


@pytest.mark.parametrize(
    "entry",
    [
        {"attempts": "x", "last": [], "passed": "yes", "failing": {}, "first_at": "now", "last_at": None},
        {"attempts": True, "first_at": -1, "last_at": 1e300},
        {"attempts": -4, "last": "error"},
        {"attempts": 2.5, "failing": ["a"]},
        {},
    ],
)
def test_odd_values_count_as_nothing(folder, entry):
    write(folder, "ada", {ASINH.id: entry, "unknown": entry, "onnxlab": {"private": 1}})
    assert sharing(folder) is Sharing.SHOWN
    assert cell(folder) is None


def test_no_text_of_a_progress_file_gets_onto_the_page(folder):
    evil = "<img src=x onerror=alert(1)>"
    state = {
        ASINH.id: {"attempts": 10**30, "last": evil, "failing": evil, "first_at": 10**15, "last_at": 10**15}
    }
    write(folder, "ada", state | {evil: {"attempts": 1, "failing": evil}})
    room = Room(folder, EXERCISES)
    text = json.dumps(view_json(room.view(NOW), room.names, Names.ACCOUNTS, rows=True))
    assert "onerror" not in text
    assert cell(folder).attempts == 9_999
    assert cell(folder).last_at == NOW, "nobody has checked anything in the future"


@links
@pytest.mark.parametrize("what", ["file", "state folder", "learner", "device", "pipe", "folder"])
def test_links_devices_and_pipes_are_neither_followed_nor_opened(folder, tmp_path, what):
    target = tmp_path / "elsewhere" / ".onnxlab"
    target.mkdir(parents=True)
    (target / "progress.json").write_text(json.dumps({ASINH.id: passed(NOW)}))
    path = progress_file(folder, "ada")
    if what == "learner":
        path.parents[1].symlink_to(target.parent)
        assert room_view(folder).learners == ()
        return
    path.parents[1].mkdir()
    if what == "state folder":
        path.parent.symlink_to(target)
    else:
        path.parent.mkdir()
        make = {
            "file": lambda: path.symlink_to(target / "progress.json"),
            "device": lambda: path.symlink_to("/dev/zero"),
            "pipe": lambda: os.mkfifo(path),
            "folder": lambda: path.mkdir(),
        }
        make[what]()
    assert sharing(folder) is Sharing.UNKNOWN


@links
def test_a_link_that_replaces_a_file_after_it_was_read_is_not_followed(folder, tmp_path):
    room = Room(folder, EXERCISES)
    path = write(folder, "ada", {ASINH.id: passed(NOW)})
    assert room.view(NOW).counts(ASINH.id)[State.PASSED] == 1
    other = tmp_path / "other.json"
    other.write_text(json.dumps({exercise.id: passed(NOW) for exercise in EXERCISES}))
    path.unlink()
    path.symlink_to(other)
    view = room.view(NOW)
    assert (view.learners, view.unknown) == ((), 1)


def test_a_learner_without_a_file_has_begun_nothing_and_the_instructor_is_none(folder):
    (folder / "learners" / "ada").mkdir()
    (folder / "learners" / ".hidden").mkdir()
    write(folder, "instructor", {ASINH.id: passed(NOW)})
    view = room_view(folder)
    assert [(learner.account, dict(learner.cells)) for learner in view.learners] == [("ada", {})]
    assert view.counts(ASINH.id) == {State.OPEN: 1, State.TRIED: 0, State.STUCK: 0, State.PASSED: 0}


def test_a_folder_of_files_is_a_room_too(tmp_path):
    (tmp_path / "ada.json").write_text(json.dumps({ASINH.id: passed(NOW)}))
    (tmp_path / "notes.txt").write_text("")
    assert [learner.account for learner in room_view(tmp_path).learners] == ["ada"]


def test_a_class_that_nobody_has_come_to_is_empty(tmp_path):
    (tmp_path / "class.json").write_text(
        json.dumps({"format": 1, "name": "", "version": "", "made": "", "written": {}})
    )
    (tmp_path / "release").mkdir()
    room = Room(tmp_path, EXERCISES)
    assert room.view(NOW).learners == ()
    write(tmp_path, "ada", {})
    assert len(room.view(NOW).learners) == 1


def test_opting_out_removes_a_row_and_its_failures_at_once(folder, monkeypatch):
    write(folder, "grace", {})
    monkeypatch.setenv("ONNXLAB_STATE", str(progress_file(folder, "ada")))
    part = Finding(ASINH.parts[0], False)
    for _ in range(3):
        progress.record(Outcome(ASINH.id, Status.INCORRECT, 0, 4, (part,)))
    room = Room(folder, EXERCISES)
    assert len(room.view().stuck_places()) == 1
    progress.set_private(True)
    view = room.view()
    text = json.dumps(view_json(view, room.names, Names.ACCOUNTS, rows=True))
    assert (view.private, view.stuck_places(), "ada" in text) == (1, [], False)
    assert "ada" not in learners_csv(view, room.names, Names.ACCOUNTS)
    assert view.counts(ASINH.id)[State.STUCK] == 0
    progress.set_private(False)
    assert len(room.view().stuck_places()) == 1


def test_a_learner_who_opted_out_stays_hidden_without_their_file(folder):
    (folder / "hub").mkdir()
    path = write(folder, "ada", {ASINH.id: passed(NOW), "onnxlab": {"private": True}})
    write(folder, "grace", {})
    room = Room(folder, EXERCISES)
    assert room.view(NOW).private == 1
    for content in (b"{", b"", b"{}", None, json.dumps({ASINH.id: passed(NOW)}).encode()):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        for reader in (room, Room(folder, EXERCISES)):  # and after the next start
            view = reader.view(NOW)
            accounts = [learner.account for learner in view.learners]
            assert (view.private, view.unknown, accounts) == (1, 0, ["grace"])
    write(folder, "ada", {"onnxlab": {"private": False}})
    assert len(Room(folder, EXERCISES).view(NOW).learners) == 2
    write(folder, "ada", {})
    assert len(Room(folder, EXERCISES).view(NOW).learners) == 2, "who asked to be shown again is shown"
    (folder / "hub" / "not_shown.json").write_text("3")
    assert len(Room(folder, EXERCISES).view(NOW).learners) == 2


def test_stuck_places_are_sorted_by_the_number_of_stuck_learners(folder):
    first, second = EXERCISES[0], EXERCISES[1]
    for number in range(3):
        write(folder, f"a{number}", {first.id: failed(first, 1, 4, NOW - 600 * (number + 1), NOW)})
    write(
        folder,
        "b0",
        {first.id: failed(first, 1, 1, NOW - 30, NOW), second.id: failed(second, 0, 5, NOW - 60, NOW)},
    )
    view = room_view(folder)
    assert [astuple(place) for place in view.stuck_places()] == [
        (first.id, first.parts[1], 3, 4, (NOW - 1800, NOW - 1200, NOW - 600)),
        (second.id, second.parts[0], 1, 1, (NOW - 60,)),
    ]
    assert view.counts(first.id) == {State.OPEN: 0, State.TRIED: 1, State.STUCK: 3, State.PASSED: 0}


def test_no_names_unless_asked_and_no_rows_for_the_projector(folder):
    people(folder, 130)
    room = Room(folder, EXERCISES)
    view = room.view()
    state = view_json(view, room.names, Names.NUMBERS, rows=True)
    assert "learner-0" not in json.dumps(state)
    assert len({learner["name"] for learner in state["learners"]}) == len(view.learners)
    assert "learner-0" in json.dumps(view_json(view, room.names, Names.ACCOUNTS, rows=True))
    assert view_json(view, room.names, Names.ACCOUNTS, rows=False)["learners"] == []


def test_numbers_stay_and_do_not_follow_the_alphabet():
    accounts = [f"{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    room = RoomNames()
    room.meet(accounts)
    before = [room.number(account) for account in accounts]
    assert sorted(before) == list(range(1, 27))
    assert before != sorted(before)
    room.meet(["0", *accounts])
    assert ([room.number(account) for account in accounts], room.number("0")) == (before, 27)


def test_only_what_changed_is_read_again(folder):
    people(folder, 500)
    files = ProgressFiles(folder)
    assert len(files.changes()[0]) == 500
    assert files.changes() == ([], [])
    write(folder, "learner-007", {})
    changed, gone = files.changes()
    assert ([file.account for file in changed], gone) == (["learner-007"], [])


def test_a_learner_who_is_gone_is_gone(folder):
    path = write(folder, "ada", {})
    room = Room(folder, EXERCISES)
    assert len(room.view().learners) == 1
    path.unlink()
    path.parent.rmdir()
    path.parents[1].rmdir()
    assert room.view().learners == ()


def test_csv_holds_what_is_shown_and_no_formula(folder):
    for account in ("=HYPERLINK(1)", "@ada", " -grace", 'Ada, "x"'):
        write(folder, account, {ASINH.id: failed(ASINH, 0, 3, NOW - 60, NOW)})
    room = Room(folder, EXERCISES)
    view = room.view(NOW)
    rows = list(csv.DictReader(io.StringIO(learners_csv(view, room.names, Names.ACCOUNTS))))
    assert sorted(row["learner"] for row in rows) == ["' -grace", "'=HYPERLINK(1)", "'@ada", 'Ada, "x"']
    assert rows[0][ASINH.id] == "stuck"
    assert rows[0]["asinh-symbolic checks"] == "3"
    assert rows[0]["asinh-symbolic does not hold"] == ASINH.parts[0]
    assert {
        row["learner"] for row in csv.DictReader(io.StringIO(learners_csv(view, room.names, Names.NUMBERS)))
    } == set("1234")


@contextmanager
def served(folder):
    command = [sys.executable, "-m", "onnxlab.cli", "class", "room", str(folder), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("The room is at http://127.0.0.1:"), line + process.stderr.read()
        yield line.split()[-1]
    finally:
        process.terminate()
        _, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (0, "")


def ask(address):
    with urllib.request.urlopen(address, timeout=120) as reply:
        return reply.status, reply.read()


@pytest.mark.slow
def test_the_server_answers_below_its_secret_only_and_sends_a_known_state_once(folder):
    write(folder, "ada", {ASINH.id: passed(NOW)})
    write(folder, "ben", {exercise.id: failed(exercise, 1, 1, NOW, NOW) for exercise in EXERCISES})
    with served(folder) as address:
        status, body = ask(address + "state")
        state = json.loads(body)
        assert (status, state["shown"], "ada" in body.decode()) == (200, 2, False)
        keys = ("lab", "id", "title", "points")
        assert [[entry[key] for key in keys] for entry in state["exercises"]] == [
            [exercise.lab[:5], exercise.id, exercise.title, exercise.points] for exercise in EXERCISES
        ]
        assert {place["failure"] for place in state["stuck"]} == {exercise.parts[1] for exercise in EXERCISES}
        assert ask(f"{address}state?seen={state['version']}")[0] == 204
        assert b"ada" in ask(address + "learners.csv?names=accounts")[1]
        for wrong in ("state?names=x", "room_server.py", "../state"):
            with pytest.raises(HTTPError) as refused:
                ask(address + wrong)
            assert refused.value.code in (400, 404)
        root = address[: address.index("/", 8) + 1]
        for without in ("", "state", "room.js"):
            with pytest.raises(HTTPError) as refused:
                ask(root + without)
            assert refused.value.code == 404


def test_no_folder_and_no_port_are_messages(tmp_path, capsys):
    from onnxlab.cli import main

    def code(*arguments):
        # In a thread of its own: after a browser test Playwright's event loop runs in this one.
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(main, ["class", "room", *map(str, arguments)]).result()

    assert code(tmp_path / "no") == 2
    assert "There is no folder" in capsys.readouterr().err
    assert code(tmp_path, "--no-browser", "--port", 99999) == 2
    assert "99999 is not a port" in capsys.readouterr().err
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert code(tmp_path, "--no-browser", "--port", port) == 2
    assert f"Port {port} cannot be used" in capsys.readouterr().err


@pytest.mark.release
def test_the_page_of_a_chinese_class_is_in_chinese():
    with speaking(speech("zh")):
        page = RoomHandler.page(None).decode()
    assert '<html lang="zh">' in page
    words = json.loads(re.search(r'id="words">(.*?)</script>', page)[1])
    assert len(words) > 20
    assert not [text for text, shown in words.items() if not re.search(r"[\u4e00-\u9fff]", shown)]
    for text, shown in words.items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", shown))
    body = re.sub(r"<(script|style)[ >].*?</\1>|<[^>]*>|&\w+;", " ", page, flags=re.DOTALL)
    assert set(re.findall("[A-Za-z]{2,}", body)) == {"CSV", "JupyterLab"}
