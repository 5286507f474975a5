"""A class's hub as the tests use it, and learners who sign in and run cells as a browser would."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from onnxlab_class.sandbox.libc import die_with_parent
from onnxlab_class.sandbox.users import become
from onnxlab_class.sandbox.watcher import descendants

ROOT = Path(__file__).parents[4]
ROOM_PASSWORD, INSTRUCTOR_PASSWORD = "seven-green-kites", "the-instructor-only-knows"
PIN = "2468"
_PYTHON = [Path(sys.base_prefix), Path(sys.prefix)]


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
        """Do what the hub's page does: ask for a server, wait, sign in to it."""
        start = time.monotonic()
        await self.get("hub/spawn")
        until = start + seconds
        while True:
            status, page = await self.get(f"user/{self.name}/api/status")
            if status == 200 and page.startswith("{"):
                break
            assert time.monotonic() < until, f"{self.name}: {status} {page[:300]} {logs(self.hub.folder)}"
            await asyncio.sleep(0.5)
            await self.get(f"user/{self.name}/lab")
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
