"""`onnxlab class serve`: everything that serves a class, started, watched and ended together."""

import contextlib
import fcntl
import http
import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from onnxlab.classroom.accounts import Accounts
from onnxlab.classroom.hub_settings import VARIABLE, ServeSettings
from onnxlab.classroom.hub_watch import Watcher
from onnxlab.classroom.learner_server import INSTRUCTOR, base_variables
from onnxlab.classroom.letterbox import Letters
from onnxlab.errors import OnnxLabError
from onnxlab.grading.process_tree import end_all
from onnxlab.grading.system_calls import die_with_parent, prctl

__all__ = ["HubFailed", "Stopped", "only_one", "runtime_folder", "serve"]

_PR_SET_CHILD_SUBREAPER = 36
_SECONDS_TO_START = 120.0
_SECONDS_TO_STOP = 30.0
_EVERY = 0.5
_OWN = Path(__file__).parent


class HubFailed(OnnxLabError):
    """The hub did not start, or ended by itself."""


class Stopped(BaseException):
    """Somebody asked for the end."""


def serve(settings: ServeSettings, ready: Callable[[], None], told: Callable[[str], None]) -> None:
    """Serve a class until this process gets SIGINT or SIGTERM; then leave nothing running.

    Args:
        settings: How.
        ready: Is called once learners can sign in.
        told: Is called with a line about what happens: a submission, a kernel that was ended.

    Raises:
        HubFailed: If the hub does not start, or ends.
    """
    prctl(_PR_SET_CHILD_SUBREAPER, 1)  # whatever is left by anything below becomes a child of this process
    for folder, mode in ((settings.private, 0o700), (settings.running, 0o700), (settings.notices, 0o711)):
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    (settings.hub / "logs").mkdir(mode=0o700, exist_ok=True)
    settings_file = settings.write()
    hub = None
    try:
        with _stopping(), ExitStack() as started:
            warm = [_start_servers(settings, started)]
            if settings.shared_kernels:
                warm.append(_start_kernels(settings, settings_file, started))
            hub = _start_hub(settings, settings_file, started)
            _wait_for(settings, hub)
            ready()
            _watch(settings, hub, warm, told)
    except Stopped:
        pass
    finally:
        _end(hub)


def _watch(
    settings: ServeSettings,
    hub: "subprocess.Popen[bytes]",
    warm: list["subprocess.Popen[bytes]"],
    told: Callable[[str], None],
) -> None:
    accounts = Accounts(settings.hub / "accounts.json")
    watcher = Watcher(settings, accounts, lambda name, why: told(f"{name}: {why}"))
    letters = Letters(
        settings.learners, settings.exchange, settings.hub / "delivered.txt", settings.instructor_user
    )
    while True:
        if hub.poll() is not None:
            raise _failed(settings, f"The hub ended by itself (exit code {hub.returncode}).")
        for process in warm:
            if process.poll() is not None:
                raise _failed(
                    settings, f"A part of the hub ended by itself (exit code {process.returncode})."
                )
        with contextlib.suppress(OSError):
            accounts.reload()
        watcher.look()
        for name in accounts.names():
            for lab in letters.deliver(name) if name != INSTRUCTOR else ():
                told(f"{name} handed in {lab}")
        time.sleep(_EVERY)


def _start_servers(settings: ServeSettings, started: ExitStack) -> "subprocess.Popen[bytes]":
    """Start the process that learners' servers are forked from."""
    listener = started.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(str(settings.servers_socket))
    listener.listen(128)
    return _start_warm(settings, "servers", listener, [], started)


def _start_kernels(settings: ServeSettings, file: Path, started: ExitStack) -> "subprocess.Popen[bytes]":
    """Start the process that learners' kernels are forked from."""
    listener = started.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    listener.bind(str(settings.kernels_socket))
    settings.kernels_socket.chmod(0o666)  # who connects is told by the system
    listener.listen(128)
    return _start_warm(settings, "kernels", listener, [str(file)], started)


def _start_warm(
    settings: ServeSettings, what: str, listener: socket.socket, arguments: list[str], started: ExitStack
) -> "subprocess.Popen[bytes]":
    log = started.enter_context((settings.hub / "logs" / f"{what}.log").open("ab"))
    return subprocess.Popen(
        [sys.executable, "-m", f"onnxlab.classroom.hub_{what}", str(listener.fileno()), *arguments],
        cwd="/",
        env=base_variables(),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[listener.fileno()],
        start_new_session=True,
        preexec_fn=_with_this_process,
    )


def _start_hub(settings: ServeSettings, file: Path, started: ExitStack) -> "subprocess.Popen[bytes]":
    log = started.enter_context((settings.hub / "logs" / "hub.log").open("ab"))
    variables: Mapping[str, str] = base_variables() | {
        VARIABLE: str(file),
        "HOME": str(settings.hub),
        "JUPYTERHUB_CRYPT_KEY": "",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "jupyterhub", "-f", str(_OWN / "hub_config.py")],
        cwd=settings.hub,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,  # Ctrl+C reaches this process only, which ends all in order
        preexec_fn=_with_this_process,
    )


def _with_this_process() -> None:
    die_with_parent(signal.SIGTERM)


def _wait_for(settings: ServeSettings, hub: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + _SECONDS_TO_START
    ip = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.ip, settings.ip)
    while time.monotonic() < until:
        if hub.poll() is not None:
            raise _failed(settings, f"The hub did not start (exit code {hub.returncode}).")
        if _answers(ip, settings.port, secure=settings.tls_key is not None):
            return
        time.sleep(0.1)
    raise _failed(settings, f"The hub did not start within {_SECONDS_TO_START:.0f} seconds.")


def _answers(ip: str, port: int, *, secure: bool) -> bool:
    """Whether the sign-in page can be had, through the proxy."""
    connection = (
        http.client.HTTPSConnection(ip, port, timeout=5, context=ssl._create_unverified_context())
        if secure
        else http.client.HTTPConnection(ip, port, timeout=5)
    )
    try:
        connection.request("GET", "/hub/login")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _failed(settings: ServeSettings, what: str) -> HubFailed:
    log = settings.hub / "logs" / "hub.log"
    lines = log.read_text("utf-8", "replace").splitlines()[-200:] if log.exists() else []
    reasons = [line for line in lines if "Error" in line or line.startswith(("[C", "[E"))]
    return HubFailed(what, reasons[-1].strip()[:300] if reasons else "", f"All it said: {log}")


def _end(hub: "subprocess.Popen[bytes] | None") -> None:
    """End the hub in order: it ends the servers, and they their kernels. Then end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if hub is not None and hub.poll() is None:
        hub.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            hub.wait(_SECONDS_TO_STOP)
    if not end_all(os.getpid()):
        msg = "Some processes of the class could not be ended."
        raise HubFailed(msg, "", "Look for them with: ps -ef")


@contextmanager
def _stopping() -> Iterator[None]:
    """Let Ctrl+C, SIGTERM and the end of the terminal end the block."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped

    before = {
        number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


@contextmanager
def runtime_folder() -> Iterator[Path]:
    """Give a folder with a short path, for sockets; removed in the end."""
    short = "/tmp" if len(tempfile.gettempdir()) > 30 else None
    with tempfile.TemporaryDirectory(prefix="onnxlab-class-", dir=short, ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name)


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Make sure that a class is served once at a time.

    Raises:
        HubFailed: If it is being served already.
    """
    with (folder / "hub" / "serving.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            msg = f"The class in {folder} is being served already."
            raise HubFailed(msg, "", "Stop that one first, with Ctrl+C where it runs.") from None
        yield
