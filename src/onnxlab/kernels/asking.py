"""Jupyter's end: find the warm process, or start it, and ask it for a kernel."""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from onnxlab.kernels.messages import LARGEST, NoFork, Request
from onnxlab.kernels.peer import Peer
from onnxlab.kernels.process import ForkedProcess
from onnxlab.kernels.surroundings import import_time, key, personal

__all__ = ["ask"]

_LOADING = 60.0  # seconds a warm process may take for its first answer, on a busy machine
_ATTEMPTS = 5  # one may be about to end, or find that packages changed, and take a moment to be gone
_MOMENT = 0.1  # seconds, longer each time


def ask(request: Request, streams: Sequence[int], options: Sequence[str] = ()) -> ForkedProcess:
    """Have a kernel forked. Blocks, seconds if the warm process has to be started.

    Args:
        request: The kernel that is wanted.
        streams: Its descriptors 0, 1 and 2.
        options: Options of Python that stood before `-m`.

    Raises:
        NoFork: With the reason.
    """
    message = request.encoded()
    if len(message) > LARGEST:
        msg = f"its environment and arguments are {len(message)} bytes, and {LARGEST} can be passed on"
        raise NoFork(msg)
    reason = ""
    for attempt in range(_ATTEMPTS):
        time.sleep(attempt * _MOMENT)
        connection = _connect(request, options)
        try:
            connection.settimeout(_LOADING)
            process = int(_answer(connection, "process"))
            # Only now: of one who refuses, an answer would be lost with the request that was not read.
            socket.send_fds(connection, [message], list(streams))
            _answer(connection, "started")
            return ForkedProcess(process, connection)
        except _Again as again:
            reason = str(again)
        except NoFork:
            connection.close()
            raise
        except TimeoutError:
            reason = f"the warm process did not answer in {_LOADING:g} seconds"
            break
        except OSError as error:  # it ended just now
            reason = f"the warm process ended ({error.strerror})"
        connection.close()
    connection.close()
    raise NoFork(reason)


class _Again(Exception):
    """This warm process takes nobody any more; the next may."""


def _answer(connection: socket.socket, name: str) -> Any:  # noqa: ANN401 (what JSON holds)
    """Return what the warm process or the fork says under a name.

    Raises:
        NoFork: If it says why there will be no kernel.
        _Again: If it ends.
    """
    answer = json.loads(connection.recv(LARGEST) or b"{}")
    if "refused" in answer:
        raise NoFork(str(answer["refused"]))
    if "outdated" in answer:
        msg = f"{answer['outdated']} changed"
        raise _Again(msg)
    if name not in answer:
        msg = "the warm process ended before the kernel began"
        raise _Again(msg)
    return answer[name]


def _connect(request: Request, options: Sequence[str]) -> socket.socket:
    """Return a connection to the warm process for this request; start it if there is none."""
    if shared := request.variables.get("ONNXLAB_KERNELS_SOCKET"):
        if connection := _connected(Path(shared), {0, os.geteuid()}):
            return connection
        msg = f"nobody answers at {shared}"
        raise NoFork(msg)
    try:
        folder = _folder()
        path = folder / f"{key(options, request.variables)}.sock"
        if connection := _connected(path, {os.geteuid()}):
            return connection
        with _locked(path.with_suffix(".lock")):
            if not (connection := _connected(path, {os.geteuid()})):
                _start(path, request, options)
                connection = _connected(path, {os.geteuid()})
    except OSError as error:
        msg = f"a warm process could not be started: {error}"
        raise NoFork(msg) from None
    if not connection:
        msg = "a warm process was started and does not listen"
        raise NoFork(msg)
    return connection


def _connected(path: Path, trusted: set[int]) -> socket.socket | None:
    """Return a connection, None if nobody listens.

    Raises:
        NoFork: If it is somebody else who listens.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    if (user := Peer.of(connection).user) not in trusted:
        connection.close()
        msg = f"user {user} listens at {path}"
        raise NoFork(msg)
    return connection


def _folder() -> Path:
    """Return the folder of the addresses, which is this user's alone.

    Raises:
        NoFork: If it is another's.
    """
    if given := os.environ.get("ONNXLAB_KERNELS_FOLDER") or os.environ.get("XDG_RUNTIME_DIR"):
        folder = Path(given) / "onnxlab-kernels"
    else:
        folder = Path(tempfile.gettempdir()) / f"onnxlab-kernels-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        msg = f"{folder} is not a folder of this user alone"
        raise NoFork(msg)
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl  # Windows has none

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start(path: Path, request: Request, options: Sequence[str]) -> None:
    """Start a warm process that listens already: who connects while it loads is served when it has."""
    idle = os.environ.get("ONNXLAB_KERNELS_IDLE", "300")
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(128)
        with path.with_suffix(".log").open("w") as log:
            # It starts another process and ends: what stays is not a child of Jupyter's.
            started = subprocess.run(
                [sys.executable, *options, "-m", "onnxlab.kernels.warm", str(listener.fileno()), idle],
                check=False,
                pass_fds=[listener.fileno()],
                cwd=path.parent,
                env={**import_time(request.variables), **personal(request.variables)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
    if started.returncode:
        path.unlink(missing_ok=True)
        msg = (
            f"a warm process could not be started, code {started.returncode}: see {path.with_suffix('.log')}"
        )
        raise NoFork(msg)
