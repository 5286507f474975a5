"""A class's hub as the tests use it, and learners who sign in and run cells as a browser would."""

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
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from onnxlab_class.classroom.hub.accounts import Accounts
from onnxlab_class.sandbox.libc import die_with_parent
from onnxlab_class.sandbox.users import become
from onnxlab_class.sandbox.watcher import descendants

ROOT = Path(__file__).parents[4]
ROOM_PASSWORD, INSTRUCTOR_PASSWORD = "seven-green-kites", "the-instructor-only-knows"
PIN = "2468"
_PYTHON = [Path(sys.base_prefix), Path(sys.prefix)]

# A cell that leaves a daemon, which does not care for signals that ask it to end, and prints its id. From a
# second later on the daemon does what comes last.
DAEMON = """
import os, signal, sys, time, warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads, into the cell's output
reader, writer = os.pipe()
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.write(writer, str(os.getpid()).encode())
    time.sleep(1)
    {before}
    while True:
        {act}
        time.sleep(0.001)
print(os.read(reader, 20).decode())
"""


@dataclass(frozen=True)
class Hub:
    """A hub that runs.

    Attributes:
        url: Its address, ending with a slash.
        folder: The class folder.
        process: The command.
    """

    url: str
    folder: Path
    process: "subprocess.Popen[str]"


def finish(work: Coroutine[Any, Any, Any]) -> Any:
    """Run it to its end in a thread of its own: a browser test in the same process keeps a loop running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@contextmanager
def hub(
    folder: Path, *options: str, user: int | None = None, python: str = sys.executable, seconds: float = 240.0
) -> Iterator[Hub]:
    """Serve a class for the length of a block, as somebody else if root is asked to."""

    def begin() -> None:
        if user is not None:
            become(user, _PYTHON, handed_down=True)
        die_with_parent(signal.SIGTERM)

    variables = os.environ | {
        "ONNXLAB_ROOM_PASSWORD": ROOM_PASSWORD,
        "ONNXLAB_INSTRUCTOR_PASSWORD": INSTRUCTOR_PASSWORD,
    }
    command = [python, "-m", "onnxlab.cli", "class", "serve", str(folder), "--port", "0", *options]
    log = folder.with_name(f"{folder.name}.log")
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=variables | ({} if user is None else {"HOME": str(folder.parent), "USER": "teacher"}),
            stdout=out,
            stderr=out,
            text=True,
            preexec_fn=begin,
        )
    try:
        deadline = time.monotonic() + seconds
        while not (address := re.search(r"(https?://\S+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text() + logs(folder)
            time.sleep(0.2)
        yield Hub(address[1], folder, process)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(180)
            finally:
                process.kill()


@contextmanager
def copied(class_folder: Path) -> Iterator[Path]:
    """A copy of the class, where learners, who may be users of their own, get in."""
    with tempfile.TemporaryDirectory(prefix="onnxlab-test-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(shutil.copytree(class_folder, Path(name, "class")))


def python_with_user_site(folder: Path) -> str:
    """A Python with a user site, as in an environment made with --system-site-packages."""
    if site.ENABLE_USER_SITE:
        return sys.executable
    environment = folder / "venv"
    for copy in ("-al", "-a"):  # hard links, if it is the same file system
        if not subprocess.run(["cp", copy, sys.prefix, environment]).returncode:
            break
    settings = environment / "pyvenv.cfg"
    text = settings.read_text()
    settings.unlink()  # a hard link
    settings.write_text(text.replace("packages = false", "packages = true"))
    for above in (folder, *folder.parents[:2]):
        above.chmod(0o755)
    return str(environment / "bin" / Path(sys.executable).name)


def logs(folder: Path) -> str:
    """Return the ends of the hub's and the servers' logs."""
    return "".join(f"\n== {log.name}\n{log.read_text()[-3000:]}" for log in folder.glob("hub/logs/*.log"))


def below(process: int) -> list[int]:
    """Return a process and all below it, by their ids."""
    return [process, *(child.id for child in descendants(process))]


def command_lines(process: int) -> dict[int, str]:
    """Return the command lines of a process and of all below it, by their ids."""
    lines = {}
    for number in below(process):
        with suppress(OSError):  # it ended in between
            lines[number] = Path(f"/proc/{number}/cmdline").read_text()
    return lines


def processes_of(user: int | None) -> list[int]:
    """Return the running processes of a user."""
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            lines = dict(line.split(":", 1) for line in (path / "status").read_text().splitlines())
        except (OSError, ValueError):
            continue  # it ended in between
        if lines["Uid"].split()[0] == str(user) and not lines["State"].strip().startswith("Z"):
            processes.append(int(path.name))
    return processes


def user_of(room: Hub, name: str) -> int | None:
    """Return the user of a learner; None if learners run as the hub's own."""
    accounts = Accounts(room.folder / "hub" / "accounts.json")
    return accounts.user(accounts.ensure(name))


def runtime_of(room: Hub) -> Path:
    """Return the temporary folder of a class, which the command lines of its processes name."""
    commands = "".join(command_lines(room.process.pid).values())
    (folder,) = {Path(path) for path in re.findall(r"/[^\0]*?/onnxlab-class-\w+", commands)}
    return folder


def gone(processes: Callable[[], object], seconds: float = 120) -> bool:
    """Tell whether there are no processes left within some seconds."""
    until = time.monotonic() + seconds
    while processes() and time.monotonic() < until:
        time.sleep(0.5)
    return not processes()


def alive(processes: list[int]) -> list[int]:
    """Return those of some processes that run."""
    states = {process: Path(f"/proc/{process}/stat") for process in processes}
    return [process for process, stat in states.items() if stat.exists() and ") Z " not in stat.read_text()]


def kill(room: Hub, parts: Sequence[str], daemon: int) -> None:
    """Kill parts of a class as the kernel does when the memory is used up, and see that nothing stays.

    Args:
        room: The class.
        parts: Of "command", "keeper" and "hub".
        daemon: A process that a learner has left running.
    """
    by_command, runtime = command_lines(room.process.pid), runtime_of(room)
    running = list(by_command)
    assert daemon in running
    ids = {
        "command": room.process.pid,
        "keeper": next(process for process in running[1:] if "class\0serve" in by_command[process]),
        "hub": next(process for process, text in by_command.items() if "jupyterhub_config" in text),
    }
    for part in parts:
        os.kill(ids[part], signal.SIGKILL)
    room.process.wait(120)
    ended = gone(lambda: alive(running) + [runtime][: runtime.exists()])
    assert ended, [by_command[process] for process in alive(running)]


@dataclass
class Seat:
    """Somebody at a browser, without the browser."""

    hub: Hub
    name: str
    pin: str = PIN
    password: str = ROOM_PASSWORD
    kernel: str = ""
    address: str = "127.0.0.1"
    _session: Any = None
    _socket: Any = None
    timings: dict[str, float] = field(default_factory=dict)

    async def __aenter__(self) -> "Seat":
        # A browser's own words: the hub asks for the XSRF token as it does of one.
        headers = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "same-origin"}
        timeout = aiohttp.ClientTimeout(total=180)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(local_addr=(self.address, 0)),
            headers=headers,
            timeout=timeout,
            cookie_jar=aiohttp.CookieJar(unsafe=True),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._socket is not None:
            await self._socket.close()
        await self._session.close()

    async def get(self, path: str) -> tuple[int, str]:
        """Get a page below the hub's address."""
        async with self._session.get(self.hub.url + path) as reply:
            return reply.status, await reply.text()

    async def sign_in(self, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Fill in the form; return the status and the text of what comes then, without going on."""
        _, page = await self.get("hub/login")
        token = re.search(r'name="_xsrf" value="([^"]+)"', page)
        assert token, page
        form = {"_xsrf": token[1], "username": self.name, "password": self.password, "pin": self.pin}
        url = self.hub.url + "hub/login"
        async with self._session.post(url, data=form, headers=headers, allow_redirects=False) as reply:
            return reply.status, await reply.text()

    async def start_server(self, seconds: float = 180.0) -> None:
        """Ask for a server, again where the last one is still ending; wait, sign in to it."""
        start = time.monotonic()
        while True:
            await self.get("hub/spawn")
            status, page = await self.get(f"user/{self.name}/api/status")
            if status == 200 and page.startswith("{"):
                break
            late = time.monotonic() > start + seconds
            assert not late, f"{self.name}: {status} {page[:300]} {logs(self.hub.folder)}"
            await asyncio.sleep(0.5)
        self.timings["server"] = time.monotonic() - start

    def _token(self) -> dict[str, str]:
        from yarl import URL

        cookies = self._session.cookie_jar.filter_cookies(URL(f"{self.hub.url}user/{self.name}/"))
        return {"X-XSRFToken": cookies["_xsrf"].value, "Sec-Fetch-Mode": "cors"} if "_xsrf" in cookies else {}

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the own server's API; return the reply."""
        url = f"{self.hub.url}user/{self.name}/{path}"
        async with self._session.request(method, url, json=body, headers=self._token()) as reply:
            text = await reply.text()
            assert reply.status < 300, f"{self.name}: {method} {path}: {reply.status} {text[:500]}"
            return json.loads(text) if text else None

    async def ask_hub(self, method: str, path: str) -> tuple[int, str]:
        """Send a request to the hub's API, as its pages do; return the status and the text."""
        from yarl import URL

        cookies = self._session.cookie_jar.filter_cookies(URL(f"{self.hub.url}hub/"))
        headers = {"X-XSRFToken": cookies["_xsrf"].value, "Sec-Fetch-Mode": "cors"}
        async with self._session.request(method, f"{self.hub.url}hub/api/{path}", headers=headers) as reply:
            return reply.status, await reply.text()

    async def stop_server(self, name: str = "") -> None:
        """Do what the hub's page does: ask for the end of a server, the own one by default."""
        status, text = await self.ask_hub("DELETE", f"users/{name or self.name}/server")
        assert status in (202, 204), text

    async def open_kernel(self) -> None:
        """Start a kernel and connect to it."""
        start = time.monotonic()
        self.kernel = (await self.ask("POST", "api/kernels", {"name": "python3"}))["id"]
        await self.connect()
        self.timings["kernel"] = time.monotonic() - start

    async def connect(self) -> None:
        """Connect to the kernel."""
        url = f"{self.hub.url}user/{self.name}/api/kernels/{self.kernel}/channels"
        headers = {"Origin": self.hub.url.rstrip("/"), "Sec-Fetch-Mode": "websocket"}
        self._socket = await self._session.ws_connect(url, headers=headers, max_msg_size=0)

    async def run(self, code: str, seconds: float = 120.0) -> str:
        """Run a cell; return what it printed, or the error."""
        message = {
            "header": {
                "msg_id": uuid.uuid4().hex,
                "msg_type": "execute_request",
                "username": self.name,
                "session": uuid.uuid4().hex,
                "date": "",
                "version": "5.3",
            },
            "parent_header": {},
            "metadata": {},
            "content": {"code": code, "silent": False, "allow_stdin": False, "stop_on_error": False},
            "channel": "shell",
        }
        await self._socket.send_str(json.dumps(message))
        return await asyncio.wait_for(self._result(message["header"]["msg_id"]), seconds)  # type: ignore[index]

    async def _result(self, request: str) -> str:
        text = ""
        while True:
            raw = await self._socket.receive()
            if raw.type == aiohttp.WSMsgType.BINARY:  # a message with buffers: the state of a live graph
                continue
            assert raw.type == aiohttp.WSMsgType.TEXT, f"{self.name}: {raw.type}; so far {text[-500:]}"
            message = json.loads(raw.data)
            state = message["content"].get("execution_state")
            if state in ("restarting", "dead"):
                return text + "(kernel died)"
            if message.get("parent_header", {}).get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                text += content["text"]
            elif message["msg_type"] in ("execute_result", "display_data"):
                text += content["data"].get("text/plain", "") + "\n"
            elif message["msg_type"] == "error":
                text += f"{content['ename']}: {content['evalue']}\n"
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return text


@asynccontextmanager
async def learner(room: Hub, name: str) -> AsyncIterator[Seat]:
    """A learner with a server, which may run already, and a new kernel."""
    async with Seat(room, name) as seat:
        assert (await seat.sign_in())[0] == 302
        await seat.start_server()
        await seat.open_kernel()
        yield seat
