"""What learners try against a served class: to become root, to get in, and to stay when it has ended."""

import asyncio
import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("jupyterhub")

from yarl import URL

from class_support.hub import INSTRUCTOR_PASSWORD, Hub, Seat, command_lines, finish, hub, processes_of
from onnxlab_class.classroom.course.folder import open_class
from onnxlab_class.classroom.hub.accounts import Accounts

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
def room(python, class_folder) -> Iterator[Hub]:
    """A class, served."""
    with copied(class_folder) as folder, hub(folder, "--idle", "60", python=python) as running:
        yield running


@contextmanager
def copied(class_folder: Path) -> Iterator[Path]:
    """A copy of the class, where learners, who are users of their own, get in."""
    with tempfile.TemporaryDirectory(prefix="onnxlab-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(shutil.copytree(class_folder, Path(name, "class")))


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
            await seat.open_kernel()

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


# A daemon, which does not care for signals that ask it to end. The cell prints its id; from a second later on
# it does what comes last.
DAEMON = """
import os, signal, sys, time
reader, writer = os.pipe()
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.write(writer, str(os.getpid()).encode())
    time.sleep(1)
    while True:
        {act}
        time.sleep(0.001)
print(os.read(reader, 20).decode())
"""
ACTS = {
    "sleeps": "pass",
    "kills its server": "os.kill(-1, signal.SIGKILL)",
    "kills whatever would end it": """
        for other in os.listdir("/proc"):
            try:
                if "kill" in open(f"/proc/{other}/cmdline").read():
                    os.kill(int(other), signal.SIGKILL)
            except OSError:
                pass""",
}


def user_of(room: Hub, name: str) -> int:
    """The user of a learner."""
    accounts = Accounts(room.folder / "hub" / "accounts.json")
    user = accounts.user(accounts.ensure(name))
    assert user
    return user


@asynccontextmanager
async def learner(room: Hub, name: str) -> AsyncIterator[Seat]:
    """A learner with a server and a kernel."""
    async with Seat(room, name) as seat:
        assert (await seat.sign_in())[0] == 302
        await seat.start_server()
        await seat.open_kernel()
        yield seat


def runtime_of(room: Hub) -> Path:
    """The temporary folder of a class, which the command lines of its processes name."""
    commands = "".join(command_lines(room.process.pid).values())
    return Path(re.findall(r"/[^\0]*?/onnxlab-class-\w+", commands)[0])


def gone(processes: Callable[[], object], seconds: float = 60) -> bool:
    """Whether there are no processes left within some seconds."""
    until = time.monotonic() + seconds
    while processes() and time.monotonic() < until:
        time.sleep(0.5)
    return not processes()


@pytest.mark.parametrize(
    "act",
    ["kills its server", pytest.param("sleeps", marks=pytest.mark.release), "kills whatever would end it"],
)
def test_a_daemon_ends_with_its_learners_server(room, act):
    async def leave_a_daemon() -> None:
        async with learner(room, "daemon") as seat:
            daemon = int(await seat.run(DAEMON.format(act=ACTS[act])))
            assert daemon in processes_of(user)
            if act == "kills its server":
                assert gone(lambda: set(processes_of(user)) - {daemon})
            else:
                await asyncio.sleep(1.5)
            await seat.stop_server()

    user = user_of(room, "daemon")
    finish(leave_a_daemon())
    assert gone(lambda: processes_of(user))


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
        async with learner(room, "forger") as seat:
            return await seat.run(FORGE)

    assert str([-1] * 20) in finish(forge()), "no descriptor of the server's can be had"
    log = (room.folder / "hub" / "logs" / "server-forger.log").read_text()
    assert "Kernel started" in log
    assert "forged" not in log


def test_signing_out_ends_copies_of_the_cookies(room):
    async def sign_out() -> None:
        async with learner(room, "leaver") as seat, Seat(room, "thief") as thief:
            for cookie in seat._session.cookie_jar:
                thief._session.cookie_jar.update_cookies(
                    {cookie.key: cookie}, URL(f"{room.url.rstrip('/')}{cookie['path']}")
                )
            for path in ("hub/home", "user/leaver/lab"):
                assert "hub/login" not in await address(thief, path)
            await seat.get("hub/logout")
            for path in ("hub/home", "user/leaver/lab", "user/leaver/api/contents"):
                assert "hub/login" in await address(thief, path)

    async def address(seat: Seat, path: str) -> str:
        """Where a page leads."""
        async with seat._session.get(room.url + path) as reply:
            return str(reply.url)

    finish(sign_out())


@pytest.mark.parametrize("name", ["traefik", "routes"])  # "settings" is reserved
def test_a_learners_name_is_never_that_of_a_file_of_the_hubs(room, name):
    private = runtime_of(room) / "hub"

    async def start() -> None:
        async with Seat(room, name) as seat:
            assert (await seat.sign_in())[0] == 302
            await seat.start_server()

    before = {path: path.read_bytes() for path in private.iterdir() if path.is_file()}
    finish(start())
    changed = [path for path, content in before.items() if path.read_bytes() != content]
    assert {path.name for path in changed} <= {"routes.toml"}
    assert not (private / f"{name}.json").exists() or name == "settings"


def test_guesses_are_refused_whatever_address_they_claim_to_come_from(room):
    """The last test of this room: newcomers wait after it."""

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


@pytest.mark.parametrize(
    "killed",
    [
        ["keeper"],
        ["command", "hub"],
        pytest.param(["hub"], marks=pytest.mark.release),
        pytest.param(["command"], marks=pytest.mark.release),
    ],
    ids=" and ".join,
)
def test_nothing_stays_when_processes_of_the_class_are_killed(killed, class_folder):
    """As the kernel does when the machine's memory is used up."""

    async def leave_a_daemon(room: Hub) -> int:
        async with learner(room, "ada") as seat:
            return int(await seat.run(DAEMON.format(act="pass")))

    with copied(class_folder) as folder, hub(folder) as room:
        daemon = finish(leave_a_daemon(room))
        by_command = command_lines(room.process.pid)
        running = list(by_command)
        runtime = runtime_of(room)
        user = user_of(room, "ada")
        assert daemon in processes_of(user)
        assert runtime.exists()
        ids = {
            "command": room.process.pid,
            "keeper": next(process for process in running[1:] if "class\0serve" in by_command[process]),
            "hub": next(process for process, text in by_command.items() if "jupyterhub_config" in text),
        }
        for part in killed:
            os.kill(ids[part], signal.SIGKILL)
        room.process.wait(120)
        ended = gone(lambda: alive(running) + processes_of(user) + [runtime][: runtime.exists()])
        assert ended, [by_command.get(process) for process in alive(running)]


def alive(processes: list[int]) -> list[int]:
    """Those of some processes that run."""
    states = {process: Path(f"/proc/{process}/stat") for process in processes}
    return [process for process, stat in states.items() if stat.exists() and ") Z " not in stat.read_text()]
