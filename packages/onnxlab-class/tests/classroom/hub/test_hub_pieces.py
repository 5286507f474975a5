"""Parts of a class's hub: names and PINs, passwords, addresses, folders."""

import json
import os
import shutil
import socket
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from onnxlab.cli import main
from onnxlab.course.learner_folder import bring_up_to_date, course_files
from onnxlab_class.classroom.course.folder import ClassFolder
from onnxlab_class.classroom.hub import serve
from onnxlab_class.classroom.hub.accounts import (
    Accounts,
    AccountsUnreadable,
    WeakPassword,
    chosen_passwords,
    is_name,
    passwords,
    plain_name,
)
from onnxlab_class.classroom.hub.settings import Address, AddressRefused, HubSettings, address
from onnxlab_class.sandbox import landlock
from onnxlab_class.sandbox.users import SUBMISSIONS, throw_away_user

ROOT = Path(__file__).parents[5]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a class is served on Linux")


def test_a_name_is_safe_as_a_folder():
    for good in ("ada", "a", "ada-2", "x" * 30):
        assert is_name(good)
    for bad in ("", "Ada", "../ada", "ada/b", ".ada", "-a", "2ada", "ada b", "a\n", "x" * 31, "ädä", "a+b"):
        assert not is_name(bad), bad
    assert plain_name("  Ada ") == "ada"


def test_the_first_pin_is_kept_and_can_be_forgotten(tmp_path):
    pytest.importorskip("argon2")
    path = tmp_path / "accounts.json"
    accounts = Accounts(path)
    assert accounts.check_pin("ada", "1234")
    assert accounts.check_pin("ada", "1234")
    assert not accounts.check_pin("ada", "4321")
    assert "1234" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    again = Accounts(path)
    assert not again.check_pin("ada", "4321")
    assert again.ensure("ada").number == 0
    again.forget("ada", keep=True)
    assert again.check_pin("ada", "4321")
    assert not again.check_pin("ada", "1234")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives users")
def test_each_account_is_another_user(tmp_path):
    accounts = Accounts(tmp_path / "accounts.json")
    users = [accounts.user(accounts.ensure(name)) for name in ("ada", "bob", "eve")]
    assert len(set(users)) == 3
    assert all(user and user > 1000 for user in users)
    again = Accounts(tmp_path / "accounts.json")
    assert [again.user(again.ensure(name)) for name in ("ada", "bob", "eve")] == users


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives users")
def test_no_account_is_a_user_that_grading_takes(tmp_path):
    path = tmp_path / "accounts.json"
    path.write_text('{"first_user": 10000, "accounts": [{"name": "ada", "number": 0, "pin": ""}]}')
    for accounts in (Accounts(tmp_path / "new.json"), Accounts(path)):  # and of a class that had such ones
        user = accounts.user(accounts.ensure("ada"))
        assert not throw_away_user(SUBMISSIONS[0]) <= user <= throw_away_user(SUBMISSIONS[-1])


@pytest.mark.parametrize(
    "text", ["", "{}", '{"first_user": 1, "accounts": [{"name": "../x", "number": 0, "pin": ""}]}']
)
def test_a_damaged_file_of_accounts_is_said(tmp_path, text):
    (tmp_path / "accounts.json").write_text(text)
    with pytest.raises(AccountsUnreadable, match="cannot be read"):
        Accounts(tmp_path / "accounts.json")


def test_passwords_are_generated_and_stored(tmp_path, monkeypatch):
    path = tmp_path / "passwords.json"
    first = passwords(path, chosen_passwords({}))
    assert len(first.room) >= 12
    assert len(first.instructor) >= 20
    assert passwords(path, {}) == first
    monkeypatch.setenv("ONNXLAB_ROOM_PASSWORD", "seven green kites")
    changed = passwords(path, chosen_passwords({}))
    assert (changed.room, changed.instructor) == ("seven green kites", first.instructor)
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("weak", ["", "  ", "short", "aaaaaaaaaaaa", "password123", "jupyter2026!"])
def test_a_weak_room_password_is_refused(tmp_path, monkeypatch, weak):
    file = tmp_path / "password"
    file.write_text(weak)
    with pytest.raises(WeakPassword, match="too weak"):
        chosen_passwords({"room": file})
    monkeypatch.setenv("ONNXLAB_ROOM_PASSWORD", weak)
    with pytest.raises(WeakPassword, match="too weak"):
        chosen_passwords({})


def test_the_two_passwords_have_to_differ(tmp_path):
    with pytest.raises(WeakPassword, match="instructor's, too"):
        passwords(tmp_path / "kept", dict.fromkeys(("room", "instructor"), "seven-green-kites"))


def test_other_machines_reach_the_hub_with_tls_or_an_explicit_option_only(tmp_path):
    assert not address("127.0.0.1", 0, None, None).open_to_others
    with pytest.raises(AddressRefused, match="no TLS"):
        address("0.0.0.0", 0, None, None)
    assert address("0.0.0.0", 0, None, None, without_tls=True).open_to_others
    with pytest.raises(AddressRefused, match="go together"):
        address("127.0.0.1", 0, tmp_path / "key.pem", None)
    (tmp_path / "key.pem").write_text("no key")
    with pytest.raises(AddressRefused, match="cannot be used for TLS"):
        address("0.0.0.0", 0, tmp_path / "key.pem", tmp_path / "key.pem")
    with pytest.raises(AddressRefused, match="is no address"):
        address("everywhere", 0, None, None)
    with pytest.raises(AddressRefused, match="is not a port"):
        address("127.0.0.1", 70_000, None, None)


def test_a_port_in_use_is_named():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(AddressRefused, match=r"cannot listen[\s\S]*--port"):
            address("127.0.0.1", other.getsockname()[1], None, None)


def test_released_labs_lie_where_the_chapters_look_for_them(tmp_path):
    lab = tmp_path / "outbound" / "lab04_asinh"
    lab.mkdir(parents=True)
    text = "[next](../lab05_bitshift/lab05_bitshift.ipynb) [chapter](../notebooks/07_operator_support.ipynb)"
    (lab / "lab04_asinh.ipynb").write_text(text)
    files = course_files(ROOT, tmp_path / "outbound")
    assert {name for name in files if name.startswith("labs/lab")} == {"labs/lab04_asinh.ipynb"}
    expected = b"[next](lab05_bitshift.ipynb) [chapter](../notebooks/07_operator_support.ipynb)"
    assert files["labs/lab04_asinh.ipynb"] == expected
    home = tmp_path / "home"
    bring_up_to_date(home, files)
    assert (home / "labs" / "lab04_asinh.ipynb").read_bytes() == expected


def test_a_lab_is_reset_to_what_was_handed_out(tmp_path, monkeypatch, capsys):
    lab = tmp_path / "outbound" / "lab04_asinh"
    lab.mkdir(parents=True)
    shutil.copy(ROOT / "labs" / "lab04_asinh.ipynb", lab)
    home = tmp_path / "home"
    files = course_files(ROOT, tmp_path / "outbound")
    bring_up_to_date(home, files)
    mine = home / "labs" / "lab04_asinh.ipynb"
    for folder, work in (("labs", b"my work"), ("notebooks", None)):
        mine.unlink()
        if work is not None:
            mine.write_bytes(work)
        monkeypatch.chdir(home / folder)  # where a learner's kernels and terminals are
        assert main(["reset", "lab04"]) == 0
        assert mine.read_bytes() == files["labs/lab04_asinh.ipynb"]
    assert (home / "labs" / "lab04-before-reset_asinh.ipynb").read_bytes() == b"my work"
    assert "is untouched again. Your work is in labs/" in capsys.readouterr().out
    changes = bring_up_to_date(home, files | {"labs/lab04_asinh.ipynb": b"a new version"})
    assert changes.updated == ("labs/lab04_asinh.ipynb",), "it counts as not touched"


@pytest.fixture
def spawner(tmp_path):
    """The spawner of a hub that an ordinary user runs."""
    pytest.importorskip("jupyterhub")
    from onnxlab_class.classroom.hub.spawner import ConfinedSpawner

    settings = HubSettings(
        folder=tmp_path,
        runtime=tmp_path / "run",
        address=Address("127.0.0.1", 8000),
        hub_port=20_001,
        proxy_port=20_002,
        room_port=20_003,
        idle=60,
        memory=2000,
        processes=256,
        landlock=False,
    )
    confined = ConfinedSpawner(user=SimpleNamespace(name="ada", settings={}, url="/"), hub=None)
    confined.accounts, confined.settings = Accounts(tmp_path / "accounts.json"), settings
    return confined


@pytest.mark.skipif(shutil.which("bash") is None, reason="learners' terminals run bash")
def test_a_terminals_prompt_has_the_accounts_name(spawner, tmp_path):
    variables = spawner.user_env({}) | {"HOME": str(tmp_path)}
    (tmp_path / ".bashrc").write_text(r"PS1='\u says '" + "\n")
    done = subprocess.run(["bash", "-i"], env=variables, input="exit\n", text=True, capture_output=True)
    assert "ada says " in done.stderr, done.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--ip", "0.0.0.0"], "no TLS"),
        (["--port", "0", "--password-file", "/nowhere/at-all"], "cannot be read"),
        (["--memory", "1"], "--memory takes"),
        (["--ip", "nowhere"], "is no address"),
    ],
)
def test_what_is_wrong_is_said_in_three_lines(tmp_path, capsys, options, expected):
    pytest.importorskip("jupyterhub")
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "class.json").write_text(
        json.dumps({"format": 1, "name": "class", "version": "0", "made": "2026-11-21", "written": {}})
    )
    assert main(["class", "serve", str(tmp_path / "class"), *options]) in (1, 2)
    error = capsys.readouterr().err
    assert expected in error
    assert len(error.strip().splitlines()) <= 3


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives users")
def test_two_classes_that_are_served_have_no_user_in_common(tmp_path):
    text = '{"first_user": 10000, "accounts": [{"name": "ada", "number": 0, "pin": ""}]}'
    for name in ("one", "other"):
        (tmp_path / name).write_text(text)
    one, other = Accounts(tmp_path / "one"), Accounts(tmp_path / "other")
    with one.reserved_users():
        first = one.user(one.ensure("ada"))
        with other.reserved_users():
            pass
        assert other.user(other.ensure("ada")) != first
        again = Accounts(tmp_path / "other")  # as the hub's process reads it
        assert again.user(again.ensure("ada")) == other.user(other.ensure("ada"))
        assert one.user(one.ensure("ada")) == first
    with one.reserved_users():
        assert one.user(one.ensure("ada")) == first


@pytest.mark.parametrize("solutions", [False, True])
def test_a_class_hands_out_what_chapters_link_to_and_the_solutions_only_if_it_may(tmp_path, solutions):
    source = tmp_path / "source" / "lab04_asinh" / "lab04_asinh.ipynb"
    source.parent.mkdir(parents=True)
    source.write_text("the instructor's own")
    settings = types.SimpleNamespace(handed_out=tmp_path / "handed_out", solutions=solutions)
    serve._hand_out(ClassFolder(tmp_path, "class", "", ""), settings)
    assert [path.read_text() for path in settings.handed_out.glob("solutions/*")] == (
        ["the instructor's own"] if solutions else []
    )
    home = tmp_path / "home"
    bring_up_to_date(home, course_files(settings.handed_out))
    for name in ("labs/lab04_asinh.ipynb", "labs/zh/lab04_asinh.ipynb", "docs/course.md"):
        assert (home / name).is_file()
    assert not [path for path in home.rglob("*") if "solution" in path.name], "nothing lies in a home"


def test_a_learners_server_knows_where_solutions_are_or_that_there_are_none(spawner):
    variables = spawner.user_env({})
    assert variables["ONNXLAB_SOLUTIONS"] == "", "the default"
    spawner.settings = replace(spawner.settings, solutions=True)
    allowed = spawner.user_env({})
    assert allowed["ONNXLAB_SOLUTIONS"] == str(spawner.settings.handed_out / "solutions")


def test_jupyterlab_speaks_the_language_of_the_class():
    folder = Path(serve.__file__).parent / "server_settings" / "lab"
    english, chinese = (
        json.loads((path / "overrides.json").read_text("utf-8")) for path in (folder, folder / "zh")
    )
    assert chinese.pop("@jupyterlab/translation-extension:plugin") == {"locale": "zh_CN"}
    assert chinese == english
    assert (folder / "zh" / "page_config.json").read_bytes() == (folder / "page_config.json").read_bytes()


READS = """
import sys
from pathlib import Path
from onnxlab_class.classroom.hub import confinement
from onnxlab_class.classroom.hub.confinement import Confinement, confine, system_paths

place = Path(sys.argv[1])
confinement.COURSE_IN_WHEEL = place / "package" / "course"
confine(Confinement(None, str(place / "home"), readable=(*system_paths(), str(place / "package"))))
for name in ("course/labs/lab.ipynb", "course/solutions/lab.ipynb"):
    try:
        print((place / "package" / name).read_text())
    except PermissionError:
        print("refused")
"""


@pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
def test_a_learners_server_reads_the_labs_of_a_wheel_and_not_its_solutions(tmp_path):
    for name in ("package/course/labs", "package/course/solutions", "home"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "lab.ipynb").write_text(name)
    command = [sys.executable, "-c", READS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["package/course/labs", "refused"]
