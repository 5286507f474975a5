"""What learners try against a served class: to become root, to get in, and to stay when it has ended."""

import asyncio
import json
import os
import signal
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("jupyterhub")

from onnxlab_class.classroom.course.folder import open_class
from onnxlab_class.classroom.hub.accounts import Accounts
from tests.support.hub import INSTRUCTOR_PASSWORD, Hub, Seat, below, finish, hub

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a class is served on Linux"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives users"),
]

# A line of Python that notes who runs it: the user and the capabilities in effect.
NOTE = """import os; open({file!r}, "a").write(f"{{os.getuid()}} " + \
[line for line in open("/proc/self/status") if line.startswith("CapEff")][0])
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> str:
    """A Python with a user site, as in an environment made with --system-site-packages."""
    if site.ENABLE_USER_SITE:
        return sys.executable
    environment = tmp_path_factory.mktemp("environment") / "venv"
    for copy in ("-al", "-a"):  # hard links, if it is the same file system
        if not subprocess.run(["cp", copy, sys.prefix, environment]).returncode:
            break
    settings = environment / "pyvenv.cfg"
    text = settings.read_text()
    settings.unlink()  # a hard link
    settings.write_text(text.replace("packages = false", "packages = true"))
    for folder in (environment.parent, *environment.parents[1:3]):
        folder.chmod(0o755)
    return str(environment / "bin" / Path(sys.executable).name)


@pytest.fixture(scope="module")
def room(python) -> Iterator[Hub]:
    """A new class, served."""
    with tempfile.TemporaryDirectory(prefix="onnxlab-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)  # learners are users of their own, who have to get in
        with hub(Path(name, "class"), "--idle", "60", python=python) as running:
            yield running


def plant(home: Path, noted: Path) -> None:
    """Put a line into every file of a home that Python runs when it starts."""
    packages = f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    line = NOTE.format(file=str(noted))
    for name in (f"{packages}/first.pth", f"{packages}/usercustomize.py", "sitecustomize.py", "json.py"):
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(line)
        os.chown(file, home.stat().st_uid, home.stat().st_uid)


def test_no_line_of_a_learner_runs_as_anybody_else(room):
    home = open_class(room.folder).learners / "mallory"

    async def come_back() -> None:
        async with Seat(room, "mallory") as seat:
            assert (await seat.sign_in())[0] == 302
            await seat.start_server()
            await seat.stop_server()
            plant(home, home / "noted")
            await seat.start_server()

    finish(come_back())
    accounts = Accounts(room.folder / "hub" / "accounts.json")
    noted = {tuple(line.split()) for line in (home / "noted").read_text().splitlines()}
    assert {user for user, *_ in noted} == {str(accounts.user(accounts.ensure("mallory")))}, noted


# The page that a learner's server sends a visitor to, so that the hub says who the visitor is.
AUTHORIZE = (
    "hub/api/oauth2/authorize?response_type=code&state=any&client_id=jupyterhub-user-mallory"
    "&redirect_uri=/user/mallory/oauth_callback"
)


def test_an_instructor_has_no_rights_that_a_learners_page_could_ask_for(room):
    async def visit() -> None:
        async with Seat(room, "mallory") as learner:
            assert (await learner.sign_in())[0] == 302
            await learner.start_server()
        async with Seat(room, "instructor", password=INSTRUCTOR_PASSWORD, pin="") as seat:
            assert (await seat.sign_in())[0] == 302
            status, page = await seat.get(AUTHORIZE)
            assert status == 403, page
            own = json.loads((await seat.ask_hub("GET", "user"))[1])
            assert not own["admin"]
            assert not {"access:servers", "tokens", "admin:users", "admin:servers"} & set(own["scopes"])
            for path in ("users/mallory/tokens", "users/other"):
                assert (await seat.ask_hub("POST", path))[0] == 403, path
            # What an instructor does at /hub/admin: look, end a server, delete a forgotten PIN.
            assert (await seat.get("hub/admin"))[0] == 200
            assert (await seat.get("services/room/"))[0] == 200
            assert "mallory" in (await seat.ask_hub("GET", "users"))[1]
            await seat.stop_server("mallory")
            await learner_has_no_server(seat)
            assert (await seat.ask_hub("DELETE", "users/mallory"))[0] == 204

    async def learner_has_no_server(seat: Seat) -> None:
        for _ in range(120):
            if json.loads((await seat.ask_hub("GET", "users/mallory"))[1])["server"] is None:
                return
            await asyncio.sleep(0.5)
        raise AssertionError("the server has not ended")

    finish(visit())
    accounts = json.loads((room.folder / "hub" / "accounts.json").read_text())["accounts"]
    assert {account["name"]: bool(account["pin"]) for account in accounts}["mallory"] is False


def test_guesses_are_refused_whatever_address_they_claim_to_come_from(room):
    async def guess(number: int) -> int:
        claimed = dict.fromkeys(("X-Forwarded-For", "X-Real-Ip"), f"10.0.{number % 250}.1")
        async with Seat(room, f"guess-{number}", password="not-the-password") as seat:
            return (await seat.sign_in(claimed))[0]

    async def flood() -> list[int]:
        answers: list[int] = []
        for first in range(0, 300, 50):
            answers += await asyncio.gather(*map(guess, range(first, first + 50)))
        async with Seat(room, "honest", address="127.0.0.2") as seat:
            assert (await seat.sign_in())[0] == 302
        return answers

    answers = finish(flood())
    assert set(answers) == {403, 429}
    assert answers[:50] == [403] * 50, "a class makes typing errors"
    assert answers.count(429) > 50


@pytest.mark.parametrize("killed", [["hub"], ["command"], ["command", "hub"]], ids=" and ".join)
def test_nothing_stays_when_processes_of_the_class_are_killed(tmp_path_factory, killed):
    """As the kernel does when the machine's memory is used up."""

    async def sign_in_to(room: Hub) -> None:
        async with Seat(room, "ada") as seat:
            assert (await seat.sign_in())[0] == 302
            await seat.start_server()

    with tempfile.TemporaryDirectory(prefix="onnxlab-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        with hub(Path(name, "class")) as room:
            finish(sign_in_to(room))
            running = below(room.process.pid)
            by_command = {process: Path(f"/proc/{process}/cmdline").read_text() for process in running}
            ids = {
                "command": room.process.pid,
                "hub": next(process for process, text in by_command.items() if "jupyterhub_config" in text),
            }
            for part in killed:
                os.kill(ids[part], signal.SIGKILL)
            room.process.wait(120)
            until = time.monotonic() + 120
            while (left := alive(running)) and time.monotonic() < until:
                time.sleep(0.5)
    assert not left, [by_command[process] for process in left]


def alive(processes: list[int]) -> list[int]:
    """Those of some processes that run."""
    states = {process: Path(f"/proc/{process}/stat") for process in processes}
    return [process for process, stat in states.items() if stat.exists() and ") Z " not in stat.read_text()]
