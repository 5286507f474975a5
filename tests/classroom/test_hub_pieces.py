"""The pieces of a class's hub, one by one: names and PINs, passwords, addresses, folders, letterboxes."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from onnxlab.classroom.accounts import Account, Accounts, AccountsUnreadable, is_name, plain_name
from onnxlab.classroom.hub_address import AddressRefused, address
from onnxlab.classroom.hub_passwords import WeakPassword, passwords
from onnxlab.classroom.hub_settings import ServeSettings
from onnxlab.classroom.learner_folder import bring_up_to_date, handed_out, link_assignments
from onnxlab.classroom.learner_server import account_variables, prepare_places
from onnxlab.classroom.letterbox import Letters, make_letterbox
from onnxlab.cli import main

ROOT = Path(__file__).parents[2]
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
    assert again.get("ada").number == 0
    again.forget_pin("ada")
    assert again.check_pin("ada", "4321")
    assert not again.check_pin("ada", "1234")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives users")
def test_each_account_is_another_user(tmp_path):
    accounts = Accounts(tmp_path / "accounts.json")
    users = [accounts.user(accounts.ensure(name)) for name in ("ada", "bob", "eve")]
    assert len(set(users)) == 3
    assert all(user and user > 1000 for user in users)
    assert [
        Accounts(tmp_path / "accounts.json").user(each) for each in map(accounts.get, ("ada", "bob", "eve"))
    ] == users
    assert accounts.of_user(users[1]).name == "bob"


@pytest.mark.parametrize(
    "text", ["", "{}", '{"first_user": 1, "accounts": [{"name": "../x", "number": 0, "pin": ""}]}']
)
def test_a_damaged_file_of_accounts_is_said(tmp_path, text):
    (tmp_path / "accounts.json").write_text(text)
    with pytest.raises(AccountsUnreadable, match="cannot be read"):
        Accounts(tmp_path / "accounts.json")


def test_passwords_are_drawn_and_kept(tmp_path):
    kept = tmp_path / "passwords.json"
    first = passwords(kept, {}, None, None)
    assert len(first.room) >= 12
    assert len(first.instructor) >= 20
    assert passwords(kept, {}, None, None) == first
    assert (
        passwords(kept, {"ONNXLAB_ROOM_PASSWORD": "seven green kites"}, None, None).room
        == "seven green kites"
    )
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("weak", ["", "  ", "short", "aaaaaaaaaaaa", "password123", "jupyter2026!"])
def test_a_weak_room_password_is_refused(tmp_path, weak):
    file = tmp_path / "password"
    file.write_text(weak)
    with pytest.raises(WeakPassword, match="too weak"):
        passwords(tmp_path / "kept", {}, file, None)
    with pytest.raises(WeakPassword, match="too weak"):
        passwords(tmp_path / "kept", {"ONNXLAB_ROOM_PASSWORD": weak}, None, None)


def test_the_two_passwords_have_to_differ(tmp_path):
    same = {"ONNXLAB_ROOM_PASSWORD": "seven-green-kites", "ONNXLAB_INSTRUCTOR_PASSWORD": "seven-green-kites"}
    with pytest.raises(WeakPassword, match="instructor's, too"):
        passwords(tmp_path / "kept", same, None, None)


def test_others_reach_the_hub_only_if_somebody_says_so(tmp_path):
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


@pytest.mark.parametrize("name", ["T-", "a folder-", "ünf-", "a#b-", "temporary-" * 9])
def test_sockets_lie_where_a_url_can_name_them(monkeypatch, name):
    from onnxlab.classroom.hub_serve import runtime_folder

    with tempfile.TemporaryDirectory(prefix=name, dir="/tmp") as unfit:
        for place in (unfit, "/var/tmp"):
            monkeypatch.setattr("tempfile.tempdir", place)
            with runtime_folder() as runtime:
                named = f"http+unix://{str(runtime / 'hub' / 'proxy').replace('/', '%2F')}"
                assert unquote(urlsplit(named).hostname) == str(runtime / "hub" / "proxy")
                assert len(str(runtime)) < 50
                assert runtime.is_relative_to("/var/tmp") is (place == "/var/tmp")
            assert not runtime.exists()


def test_a_port_that_is_taken_is_said():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AddressRefused, match=r"cannot listen[\s\S]*--port"):
            address("127.0.0.1", taken.getsockname()[1], None, None)


def test_a_learners_work_is_never_overwritten(tmp_path):
    home = tmp_path / "home"
    first = {"labs/a.ipynb": b"one", "labs/b.ipynb": b"one", "notebooks/c.ipynb": b"one"}
    assert len(bring_up_to_date(home, first).added) == 3
    assert bring_up_to_date(home, first) == bring_up_to_date(home, first)
    (home / "labs/a.ipynb").write_bytes(b"my work")
    (home / "notebooks/c.ipynb").unlink()
    second = dict.fromkeys(first, b"two")
    brought = bring_up_to_date(home, second)
    assert (home / "labs/a.ipynb").read_bytes() == b"my work"
    assert (home / "labs/a.new-version.ipynb").read_bytes() == b"two"
    assert (home / "labs/b.ipynb").read_bytes() == b"two"
    assert (brought.added, brought.updated) == (("notebooks/c.ipynb",), ("labs/b.ipynb",))
    assert brought.lines() == ["A new version, beside your own: labs/a.new-version.ipynb"]
    again = bring_up_to_date(home, second)
    assert again.added == again.updated == again.beside == ()
    third = dict.fromkeys(first, b"three")
    assert bring_up_to_date(home, third).beside == ("labs/a.new-version-2.ipynb",)


def test_released_labs_lie_where_the_chapters_look_for_them(tmp_path):
    lab = tmp_path / "outbound" / "lab04_asinh"
    lab.mkdir(parents=True)
    text = "[next](../lab05_bitshift/lab05_bitshift.ipynb) [chapter](../notebooks/07_operator_support.ipynb)"
    (lab / "lab04_asinh.ipynb").write_text(text)
    files = handed_out(ROOT, tmp_path / "outbound")
    assert {name for name in files if name.startswith("labs/")} == {"labs/lab04_asinh.ipynb"}
    expected = b"[next](lab05_bitshift.ipynb) [chapter](../notebooks/07_operator_support.ipynb)"
    assert files["labs/lab04_asinh.ipynb"] == expected
    home = tmp_path / "home"
    bring_up_to_date(home, files)
    link_assignments(home)
    link_assignments(home)
    submitted = home / "assignments" / "lab04_asinh" / "lab04_asinh.ipynb"
    assert submitted.is_symlink()
    assert submitted.read_bytes() == expected


def test_a_lab_is_reset_to_what_was_handed_out(tmp_path, monkeypatch, capsys):
    lab = tmp_path / "outbound" / "lab04_asinh"
    lab.mkdir(parents=True)
    shutil.copy(ROOT / "labs" / "lab04_asinh.ipynb", lab)
    home = tmp_path / "home"
    files = handed_out(ROOT, tmp_path / "outbound")
    bring_up_to_date(home, files)
    mine = home / "labs" / "lab04_asinh.ipynb"
    for folder, work in (("labs", b"my work"), ("notebooks", None)):
        mine.unlink()
        if work is not None:
            mine.write_bytes(work)
        monkeypatch.chdir(home / folder)  # where a learner's kernels and terminals are
        assert main(["reset", "lab04"]) == 0
        assert mine.read_bytes() == files["labs/lab04_asinh.ipynb"]
    assert (home / "labs" / "lab04_asinh.before-reset-1.ipynb").read_bytes() == b"my work"
    assert "is untouched again. Your work is in labs/" in capsys.readouterr().out
    brought = bring_up_to_date(home, files | {"labs/lab04_asinh.ipynb": b"a new version"})
    assert brought.updated == ("labs/lab04_asinh.ipynb",), "it counts as not touched"


@pytest.fixture
def settings(tmp_path):
    """How a class is served, as `onnxlab class serve` decides it for an ordinary user."""
    for name in ("learners", "run", "run/notices"):
        (tmp_path / name).mkdir()
    return ServeSettings(
        folder=tmp_path,
        name="class",
        course=ROOT,
        runtime=tmp_path / "run",
        ip="127.0.0.1",
        port=8000,
        hub_port=20_001,
        room_port=20_002,
        tls_key=None,
        tls_cert=None,
        proxy=(),
        idle=60,
        memory=2000,
        processes=256,
        landlock=False,
        shared_kernels=False,
        instructor_user=None,
    )


def test_what_the_hub_leaves_word_in_can_be_read_by_the_learner_and_the_rest_by_nobody_else(settings):
    before = os.umask(0o077)  # the hub's own
    try:
        prepare_places(settings, Account("ada", 0), None)
    finally:
        os.umask(before)
    assert (settings.notices / "ada").stat().st_mode & 0o777 == 0o644
    assert (settings.learners / "ada").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(shutil.which("bash") is None, reason="learners' terminals run bash")
def test_a_terminals_prompt_has_the_accounts_name(settings):
    variables = account_variables(settings, Account("ada", 0), None) | {"HOME": str(settings.folder)}
    (settings.folder / ".bashrc").write_text(r"PS1='\u says '" + "\n")
    done = subprocess.run(["bash", "-i"], env=variables, input="exit\n", text=True, capture_output=True)
    assert "ada says " in done.stderr, done.stderr


class Box:
    """A learner's letterbox, the exchange it leads to, and what nbgrader would put in."""

    def __init__(self, folder: Path) -> None:
        self.learners, self.exchange = folder / "learners", folder / "exchange" / "class"
        (self.exchange / "inbound").mkdir(parents=True)
        (self.learners / "ada").mkdir(parents=True)
        make_letterbox(self.learners / "ada", self.exchange)
        self.inbound = self.learners / "ada" / ".onnxlab" / "exchange" / "class" / "inbound"
        self.delivered = folder / "delivered.txt"

    def letters(self) -> Letters:
        return Letters(self.learners, self.exchange, self.delivered, None)

    def put(self, name: str, *, finished: bool = True) -> Path:
        letter = self.inbound / name
        letter.mkdir()
        (letter / "lab04_asinh.ipynb").write_text("{}")
        (letter / "timestamp.txt").write_text("2026-11-21 08:49:51.466459 UTC")
        (letter / "malware.sh").write_text("")
        letter.chmod(0o777 if finished else 0o755)
        return letter

    def arrived(self) -> list[str]:
        return sorted(each.name for each in (self.exchange / "inbound").iterdir())


LETTER = "+lab04_asinh+2026-11-21 08:49:51.466459 UTC+bZbkYpCwl6sd"


def test_a_letter_is_delivered_once(tmp_path):
    box = Box(tmp_path)
    letter = box.put(f"ada{LETTER}", finished=False)
    letters = box.letters()
    assert letters.deliver("ada") == []
    letter.chmod(0o777)
    assert letters.deliver("ada") == ["lab04_asinh"]
    assert letters.deliver("ada") == []
    assert box.letters().deliver("ada") == []  # nor after the next start
    assert box.arrived() == [f"ada{LETTER}"]
    files = sorted(each.name for each in (box.exchange / "inbound" / f"ada{LETTER}").iterdir())
    assert files == ["lab04_asinh.ipynb", "timestamp.txt"]
    assert letters.deliver("nobody") == []


def test_nobody_hands_in_as_somebody_else(tmp_path):
    box = Box(tmp_path)
    for name in (f"bob{LETTER}", "ada", f"ada+..{LETTER}", f"ada{LETTER} x"):
        box.put(name)
    box.letters().deliver("ada")
    assert box.arrived() == []


def test_a_letterbox_that_leads_elsewhere_delivers_nothing(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_text("the solutions")
    box = Box(tmp_path)
    linked = box.put(f"ada{LETTER}")
    (linked / "lab04_asinh.ipynb").unlink()
    (linked / "lab04_asinh.ipynb").symlink_to(secret)
    whole = box.put(f"ada{LETTER}2")
    whole.rename(tmp_path / "away")
    whole.symlink_to(tmp_path / "away")
    pipe = box.put(f"ada{LETTER}3")
    (pipe / "lab04_asinh.ipynb").unlink()
    os.mkfifo(pipe / "lab04_asinh.ipynb")
    huge = box.put(f"ada{LETTER}4")
    with (huge / "lab04_asinh.ipynb").open("wb") as file:
        file.truncate(30 * 2**20)
    box.letters().deliver("ada")
    assert box.arrived() == []
    box.inbound.rename(tmp_path / "elsewhere")
    box.inbound.symlink_to(tmp_path / "elsewhere")
    assert box.letters().deliver("ada") == []


def test_a_letterbox_shows_the_classes_own_labs(tmp_path):
    box = Box(tmp_path)
    own = box.inbound.parent
    (own / "outbound").unlink()
    (own / "outbound").mkdir()  # as somebody might
    make_letterbox(box.learners / "ada", box.exchange)
    assert (own / "outbound").readlink() == box.exchange / "outbound"
    assert (own / "feedback").readlink() == box.exchange / "feedback"


def test_the_proxys_lock_names_no_registry():
    folder = ROOT / "src" / "onnxlab" / "classroom" / "proxy_package"
    lock = json.loads((folder / "package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert "node_modules/configurable-http-proxy" in packages
    assert all("integrity" in each and "resolved" not in each for each in packages.values())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ip", "0.0.0.0"], "no TLS"),
        (["--port", "0", "--password-file", "/nowhere/at-all"], "cannot be read"),
        (["--memory", "1"], "--memory takes"),
        (["--ip", "nowhere"], "is no address"),
    ],
)
def test_what_is_wrong_is_said_in_three_lines(tmp_path, options, said):
    pytest.importorskip("jupyterhub")
    command = [sys.executable, "-m", "onnxlab.cli", "class", "serve", str(tmp_path / "class"), *options]
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "class.json").write_text(
        json.dumps({"format": 1, "name": "class", "version": "0", "made": "2026-11-21", "written": {}})
    )
    tmp_path.chmod(0o755)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert said in done.stderr or "cannot enter" in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) <= 3
