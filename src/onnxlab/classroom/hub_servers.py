"""A process with everything of a learner's server loaded, from which each server is forked in a moment.

`hub_serve.py` starts it; the hub asks it through a Unix socket that only the hub's user can reach. A
connection is one server: a line asks for it, a line says its process, a line says that it ended. If the
connection ends, so does the server. The process itself runs nobody's code and keeps one thread. It reads no
request either: those hold tokens, and its memory is in every fork. The fork reads its own.
"""

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from onnxlab.classroom.server_fork import become_server, keep, read_request
from onnxlab.grading.system_calls import LINUX, die_with_parent

__all__ = ["main"]

_SECONDS_TO_STOP = 10.0


@dataclass
class _Server:
    """A connection, and the server that was asked for through it."""

    connection: socket.socket
    process: int = 0
    """The keeper of the server, which ends with it."""
    handle: int = -1
    """The keeper as a descriptor, from which its end is heard."""
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
                elif key.data in self._servers:  # not one that ended a moment ago
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
        try:
            process = os.fork()
        except OSError:  # there are as many processes as the machine allows
            os.close(tell)
            os.close(hear)
            self._forget(server)
            return
        if not process:
            try:
                self._waiting.close()
                others = [each for each in self._servers if each is not server]
                descriptors = [hear, self._listener.fileno(), *(each.handle for each in others)]
                for descriptor in (*descriptors, *(each.connection.fileno() for each in others)):
                    if descriptor >= 0:
                        os.close(descriptor)
                request = read_request(server.connection)
                keep(lambda: become_server(request), tell)
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
        self._forget(server)

    def _forget(self, server: _Server) -> None:
        if server.connection.fileno() >= 0:
            with contextlib.suppress(KeyError):
                self._waiting.unregister(server.connection)
            server.connection.close()
        self._servers.remove(server)

    def _say(self, server: _Server, message: dict[str, int]) -> None:
        with contextlib.suppress(OSError):
            server.connection.sendall(json.dumps(message).encode() + b"\n")


def _load() -> None:
    """Import all that a server needs, so that its pages of memory are shared by all."""
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
