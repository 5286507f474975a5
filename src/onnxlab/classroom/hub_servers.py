"""A process with everything of a learner's server loaded, from which each server is forked in a moment.

`hub_serve.py` starts it; the hub asks it through a Unix socket that only the hub's user can reach. A
connection is one server: a line asks for it, a line says its process, a line says that it ended. If the
connection ends, so does the server. The process itself runs nobody's code and keeps one thread. It reads no
request either: those hold tokens, and its memory is in every fork. The fork reads its own.
"""

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from onnxlab.classroom.confinement import Confinement, confine
from onnxlab.grading.process_tree import end_all
from onnxlab.grading.system_calls import LINUX, die_with_parent, prctl

__all__ = ["Request", "main"]

_LARGEST = 1 << 20
_PR_SET_CHILD_SUBREAPER = 36
_SECONDS_TO_STOP, _SECONDS_TO_ASK = 10.0, 10.0


@dataclass(frozen=True)
class Request:
    """A server that is to be started.

    Attributes:
        cage: The account's cage, as JSON.
        environment: All variables of the server.
        arguments: Its options.
        log: The file for what it says.
        course: The course's folder; "" to leave the learner's as it is.
        exchange: The class's part of nbgrader's exchange.
        place: The folder that it works in.
    """

    cage: str
    environment: dict[str, str]
    arguments: list[str]
    log: str
    course: str = ""
    exchange: str = ""
    place: str = ""

    def as_line(self) -> bytes:
        """Return it as it is sent."""
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass
class _Server:
    """A connection, and the server that was asked for through it."""

    connection: socket.socket
    process: int = 0
    """The keeper of the server, which ends with it."""
    handle: int = -1
    kill_at: float = 0.0


def main(arguments: list[str]) -> None:
    """Serve on the listening socket whose descriptor is the first argument, until it is ended."""
    if LINUX:
        die_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _load()
    with socket.socket(fileno=int(arguments[0])) as listener:
        _Serving(listener).run()


class _Serving:
    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._waiting = selectors.DefaultSelector()
        self._servers: list[_Server] = []

    def run(self) -> NoReturn:
        self._listener.setblocking(False)
        self._waiting.register(self._listener, selectors.EVENT_READ)
        while True:
            for key, _ in self._waiting.select(1.0):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Server):
                    if key.fd == key.data.handle:
                        self._ended(key.data)
                    else:
                        self._hear(key.data)
            for server in self._servers:
                if server.kill_at and time.monotonic() > server.kill_at and server.process:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(server.process, signal.SIGKILL)  # and then the server, by its parent's end

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            server = _Server(connection)
            self._servers.append(server)
            self._waiting.register(connection, selectors.EVENT_READ, server)

    def _hear(self, server: _Server) -> None:
        if not server.process:
            self._start(server)
            return
        try:
            heard = server.connection.recv(1024)
        except OSError:
            heard = b""
        if not heard:
            self._waiting.unregister(server.connection)
            server.connection.close()
        self._stop(server)  # whatever it says: there is nothing else to ask of a running server

    def _start(self, server: _Server) -> None:
        threads = len(list(Path("/proc/self/task").iterdir())) if LINUX else 1
        if threads != 1:
            msg = f"{threads} threads before a fork"
            raise RuntimeError(msg)
        hear, tell = os.pipe()
        process = os.fork()
        if not process:
            try:
                self._waiting.close()
                others = [each.connection for each in self._servers if each is not server]
                for descriptor in (hear, self._listener.fileno(), *(each.fileno() for each in others)):
                    if descriptor >= 0:
                        os.close(descriptor)
                request = _request(server.connection)
                keep(lambda: _become_server(request), tell)
            finally:
                os._exit(1)
        os.close(tell)
        with os.fdopen(hear, "rb") as said:
            number = int(said.read() or b"0")
        server.process = process
        server.handle = os.pidfd_open(process)
        self._waiting.register(server.handle, selectors.EVENT_READ, server)
        self._say(server, {"keeper": process, "process": number})

    def _stop(self, server: _Server) -> None:
        if not server.kill_at:
            server.kill_at = time.monotonic() + _SECONDS_TO_STOP
            with contextlib.suppress(ProcessLookupError):
                os.kill(server.process, signal.SIGTERM)

    def _ended(self, server: _Server) -> None:
        self._waiting.unregister(server.handle)
        os.close(server.handle)
        _, status = os.waitpid(server.process, 0)
        self._say(server, {"code": os.waitstatus_to_exitcode(status)})
        if server.connection.fileno() >= 0:
            with contextlib.suppress(KeyError):
                self._waiting.unregister(server.connection)
            server.connection.close()
        self._servers.remove(server)

    def _say(self, server: _Server, message: dict[str, int]) -> None:
        with contextlib.suppress(OSError):
            server.connection.sendall(json.dumps(message).encode() + b"\n")


def _request(connection: socket.socket) -> Request:
    """Read what is asked for, in the fork. What asked and went away ends it."""
    received = b""
    with connection:
        connection.settimeout(_SECONDS_TO_ASK)
        while not received.endswith(b"\n"):
            more = connection.recv(_LARGEST)
            if not more or len(received) > _LARGEST:
                os._exit(1)
            received += more
    return Request(**json.loads(received))


def keep(serve: Callable[[], NoReturn], tell: int) -> NoReturn:
    """Fork once more: the fork serves, and this process sees that it leaves nothing behind.

    This one stays as it is, outside of the cage. What loses its parent in there becomes its child.

    Args:
        serve: What the fork does.
        tell: Where the number of the fork is written.
    """
    if LINUX:
        die_with_parent(signal.SIGTERM)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
    own = os.getpid()
    process = os.fork()
    if not process:
        os.close(tell)
        try:
            serve()
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 0)
        except BaseException as error:
            print(f"The server ended: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)

    def pass_on(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)

    signal.signal(signal.SIGTERM, pass_on)
    os.write(tell, str(process).encode())
    os.close(tell)
    code = 1
    with contextlib.suppress(ChildProcessError):
        while True:
            ended, status = os.waitpid(-1, 0)
            if ended == process:
                code = os.waitstatus_to_exitcode(status)
                break
    end_all(own)
    os._exit(code if code >= 0 else 128 - code)


def _become_server(request: Request) -> NoReturn:
    """Be a learner's server from now on."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    _redirect(request.log)
    os.environ.clear()
    os.environ.update(request.environment)
    if hasattr(time, "tzset"):
        time.tzset()
    cage = Confinement.from_json(request.cage)
    confine(cage)
    if LINUX:
        die_with_parent(signal.SIGKILL)  # not before: a change of user takes it away
    from onnxlab.classroom.naming import name_this_user

    name_this_user()
    if request.course:
        _bring_up_to_date(request)
    if request.place:
        os.chdir(request.place)
    from jupyterhub.singleuser.extension import main as serve

    sys.argv = ["jupyterhub-singleuser", *request.arguments]
    serve()
    sys.exit(0)


def _redirect(log: str) -> None:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    for source, target in ((nowhere, 0), (said, 1), (said, 2)):
        os.dup2(source, target)
    os.close(nowhere)
    os.close(said)


def _bring_up_to_date(request: Request) -> None:
    from onnxlab.classroom.learner_folder import bring_up_to_date, handed_out, link_assignments
    from onnxlab.classroom.letterbox import make_letterbox

    home, exchange = Path.cwd(), Path(request.exchange)
    brought = bring_up_to_date(home, handed_out(Path(request.course), exchange / "outbound"))
    link_assignments(home)
    make_letterbox(home, exchange)
    for line in brought.lines():
        print(line, flush=True)


def _load() -> None:
    """Import all that a server needs, so that its pages of memory are shared by all."""
    import importlib

    for name in (
        "argon2",
        "jupyter_client.ioloop",
        "jupyter_server.serverapp",
        "jupyter_server_terminals.app",
        "jupyterhub.singleuser.extension",
        "jupyterlab.labapp",
        "nbconvert.exporters",
        "nbgrader.server_extensions.assignment_list.handlers",
        "onnxlab.classroom.hub_notice",
        "onnxlab.classroom.learner_folder",
    ):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # memory that the collector never touches stays shared with the forks


if __name__ == "__main__":
    main(sys.argv[1:])
