"""What learners try against a served class: to become root, to get in, and to stay when it has ended."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("jupyterhub")

from yarl import URL

from class_support.hub import (
    DAEMON,
    INSTRUCTOR_PASSWORD,
    Hub,
    Seat,
    alive,
    copied,
    finish,
    gone,
    hub,
    kill,
    learner,
    processes_of,
    user_of,
)
from onnxlab_class.classroom.course.folder import open_class
from onnxlab_class.classroom.hub.homes import make_home

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a class is served on Linux"),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives users"),
]

# A line of Python that notes who runs it: the user and the capabilities in effect.
NOTE = """import os; open({file!r}, "a").write(f"{{os.getuid()}} " + \
[line for line in open("/proc/self/status") if line.startswith("CapEff")][0])
"""


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
            make_home(home.parent, "mallory", user_of(room, "mallory"))
            plant(home, home / "noted")
            await seat.start_server()
            await seat.open_kernel()
            await seat.stop_server()

    finish(come_back())
    noted = {tuple(line.split()) for line in (home / "noted").read_text().splitlines()}
    assert {user for user, *_ in noted} == {str(user_of(room, "mallory"))}, noted


# The page that a learner's server sends a visitor to, so that the hub says who the visitor is.
AUTHORIZE = (
    "hub/api/oauth2/authorize?response_type=code&state=any&client_id=jupyterhub-user-bob"
    "&redirect_uri=/user/bob/oauth_callback"
)


def test_an_instructor_has_no_rights_that_a_learners_page_could_ask_for(room):
    async def visit() -> None:
        async with (
            learner(room, "bob"),
            Seat(room, "instructor", password=INSTRUCTOR_PASSWORD, pin="") as seat,
        ):
            assert (await seat.sign_in())[0] == 302
            status, page = await seat.get(AUTHORIZE)
            assert status == 403, page
            own = json.loads((await seat.ask_hub("GET", "user"))[1])
            assert not own["admin"]
            assert not {"access:servers", "tokens", "admin:users", "admin:servers"} & set(own["scopes"])
            for path in ("users/bob/tokens", "users/other"):
                assert (await seat.ask_hub("POST", path))[0] == 403, path
            # What an instructor does at /hub/admin: look, end a server, delete a forgotten PIN.
            assert (await seat.get("hub/admin"))[0] == 200
            assert (await seat.get("services/room/"))[0] == 200
            assert '"bob"' in (await seat.ask_hub("GET", "users"))[1]
            await seat.stop_server("bob")
            for _ in range(120):
                if json.loads((await seat.ask_hub("GET", "users/bob"))[1])["server"] is None:
                    break
                await asyncio.sleep(0.5)
            assert (await seat.ask_hub("DELETE", "users/bob"))[0] == 204

    finish(visit())
    accounts = json.loads((room.folder / "hub" / "accounts.json").read_text())["accounts"]
    assert {account["name"]: bool(account["pin"]) for account in accounts}["bob"] is False


# Once it has killed its server, and everything else of its learner, it goes for whatever would end it.
KILL = "os.kill(-1, signal.SIGKILL)"
FIGHT = """
        for other in os.listdir("/proc"):
            try:
                if "kill" in open(f"/proc/{other}/cmdline").read():
                    os.kill(int(other), signal.SIGKILL)
            except OSError:
                pass"""


def test_a_daemon_ends_with_its_learners_server_which_it_has_killed(room):
    async def leave_a_daemon() -> None:
        async with learner(room, "eve") as seat:
            daemons.append(int(await seat.run(DAEMON.format(before=KILL, act=FIGHT))))

    daemons = list[int]()
    finish(leave_a_daemon())
    assert gone(lambda: processes_of(user_of(room, "eve")))
    assert not alive(daemons)


def test_a_learners_server_is_asked_by_its_learner_only(room):
    """Whatever answers at a learner's port, nobody else sees it: all servers have the hub's origin."""
    paths = (
        "user/mallory/lab",
        "user/mallory/api",
        "user/mallory//lab",
        "user/bob/../mallory/lab",
        "user/bob/..%2fmallory/lab",
        "user/bob/%2e%2e/mallory/lab",
    )

    async def visit() -> None:
        async with learner(room, "mallory"), learner(room, "bob") as bob, Seat(room, "nobody") as stranger:
            async with Seat(room, "instructor", password=INSTRUCTOR_PASSWORD, pin="") as instructor:
                assert (await instructor.sign_in())[0] == 302
                for number, visitor in enumerate((bob, stranger, instructor)):
                    for path in paths:
                        url = URL(f"{room.url}{path}?visitor={number}", encoded=True)
                        async with visitor._session.get(url) as reply:
                            text = await reply.text()
                        assert reply.url.port == URL(room.url).port
                        assert reply.status in (400, 403, 404) or "hub/login" in str(reply.url), (path, text)
            # Whoever has lost the cookie of the gate gets a new one on the way.
            bob._session.cookie_jar.clear(lambda cookie: cookie.key == "onnxlab-visitor")
            status, page = await bob.get("user/bob/lab?bob=himself")
            assert status == 200, page

    finish(visit())
    assert "bob=himself" in (room.folder / "hub/logs/server-bob.log").read_text()
    assert "visitor=" not in (room.folder / "hub/logs/server-mallory.log").read_text()


# Tries to open the log for writing, by each descriptor of each process of the learner's.
FORGE = """
import glob, os
for path in [*glob.glob("/proc/[0-9]*/fd/*"), "/proc/self/fd/1", "/proc/self/fd/2"]:
    try:
        with open(path, "a") as file:
            file.write("forged\\n")
    except OSError:
        pass
for number in range(100):
    try:
        os.write(number, b"forged\\n") if "log" in os.readlink(f"/proc/self/fd/{number}") else None
    except OSError:
        pass
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
server = os.pidfd_open(os.getppid())
print([libc.syscall(438, server, number, 0) for number in range(20)])  # pidfd_getfd
"""


def test_a_cell_cannot_write_the_log_of_its_server(room):
    async def forge() -> str:
        async with learner(room, "bob") as seat:
            return await seat.run(FORGE)

    assert str([-1] * 20) in finish(forge()), "no descriptor of the server's can be had"
    log = (room.folder / "hub" / "logs" / "server-bob.log").read_text()
    assert "Kernel started" in log
    assert "forged" not in log


def test_signing_out_ends_copies_of_the_cookies(room):
    async def sign_out() -> None:
        async with learner(room, "bob") as seat, Seat(room, "thief") as thief:
            for cookie in seat._session.cookie_jar:
                thief._session.cookie_jar.update_cookies(
                    {cookie.key: cookie}, URL(f"{room.url.rstrip('/')}{cookie['path']}")
                )
            for path in ("hub/home", "user/bob/lab"):
                assert "hub/login" not in await address(thief, path)
            await seat.get("hub/logout")
            for path in ("hub/home", "user/bob/lab", "user/bob/api/contents"):
                assert "hub/login" in await address(thief, path)

    async def address(seat: Seat, path: str) -> str:
        """Where a page leads."""
        async with seat._session.get(room.url + path) as reply:
            return str(reply.url)

    finish(sign_out())


def test_guesses_are_refused_whatever_address_they_claim_to_come_from(room):
    async def guess(number: int) -> int:
        claimed = dict.fromkeys(("X-Forwarded-For", "X-Real-Ip"), f"10.0.{number % 250}.1")
        password, address = "not-the-password", "127.0.0.3"
        async with Seat(room, f"guess-{number}", password=password, address=address) as seat:
            return (await seat.sign_in(claimed))[0]

    async def flood() -> list[int]:
        answers: list[int] = []
        for first in range(0, 200, 50):
            answers += await asyncio.gather(*map(guess, range(first, first + 50)))
        async with Seat(room, "honest") as seat:
            assert (await seat.sign_in())[0] == 302
        return answers

    answers = finish(flood())
    assert set(answers) == {403, 429}
    assert answers[:50] == [403] * 50, "a class makes typing errors"
    assert answers.count(429) > 20


@pytest.mark.release
@pytest.mark.parametrize("killed", ["keeper", "hub", "command"])
def test_nothing_stays_when_processes_of_the_class_are_killed(killed, class_folder):
    """test_hub.py kills the keeper of an ordinary user, and the command with the hub."""

    async def leave_a_daemon(room: Hub) -> int:
        async with learner(room, "ada") as seat:
            return int(await seat.run(DAEMON.format(before="", act="pass")))

    with copied(class_folder) as folder, hub(folder) as room:
        kill(room, [killed], finish(leave_a_daemon(room)))
