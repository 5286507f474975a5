"""`onnxlab class serve`: everything that serves a class, started, watched and ended together."""

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from onnxlab.classroom.accounts import Accounts
from onnxlab.classroom.hub_disk import DiskWatcher
from onnxlab.classroom.hub_parts import Part, answers, start_hub, start_kernels, start_servers
from onnxlab.classroom.hub_processes import remove_shared_memory
from onnxlab.classroom.hub_settings import ServeSettings
from onnxlab.classroom.hub_watch import Watcher
from onnxlab.classroom.learner_server import INSTRUCTOR, learner_users
from onnxlab.classroom.letterbox import Letters
from onnxlab.errors import OnnxLabError
from onnxlab.grading.plain_text import plain
from onnxlab.grading.process_tree import end_all
from onnxlab.grading.system_calls import prctl

__all__ = ["HubFailed", "Stopped", "only_one", "runtime_folder", "serve"]

_PR_SET_CHILD_SUBREAPER = 36
_SECONDS_TO_START = 120.0
_SECONDS_TO_STOP = 30.0
_EVERY = 0.5
_MOST_STARTS = 20


class HubFailed(OnnxLabError):
    """The hub did not start, or ended by itself."""


class Stopped(BaseException):
    """Somebody asked for the end."""


def serve(settings: ServeSettings, ready: Callable[[], None], told: Callable[[str], None]) -> None:
    """Serve a class until this process gets SIGINT or SIGTERM; then leave nothing running.

    Args:
        settings: How.
        ready: Is called once learners can sign in.
        told: Is called with a line about what happens: a submission, a kernel that was ended, a full disk.

    Raises:
        HubFailed: If the hub does not start, or ends.
    """
    prctl(_PR_SET_CHILD_SUBREAPER, 1)  # whatever is left by anything below becomes a child of this process
    for folder in (settings.private, settings.running, settings.users):
        folder.mkdir(mode=0o700, exist_ok=True)
    (settings.hub / "logs").mkdir(mode=0o700, exist_ok=True)
    settings.write()
    hub = None
    try:
        with _stopping():
            servers = start_servers(settings)
            kernels = start_kernels(settings) if settings.shared_kernels else None
            hub = start_hub(settings)
            _wait_for(settings, hub)
            ready()
            _watch(settings, {"hub": hub, "servers": servers}, kernels, told)
    except Stopped:
        pass
    finally:
        _end(hub)
        accounts = Accounts(settings.hub / "accounts.json")
        remove_shared_memory(learner_users(accounts))


def _watch(
    settings: ServeSettings, needed: dict[str, Part], kernels: Part | None, told: Callable[[str], None]
) -> NoReturn:
    accounts = Accounts(settings.hub / "accounts.json")
    watcher = Watcher(settings, accounts, lambda name, why: told(f"{name}: {why}"))
    disk = DiskWatcher(settings.learners, told)
    letters = Letters(
        settings.learners, settings.exchange, settings.hub / "delivered.txt", settings.instructor_user
    )
    started_again, trouble = 0, ""
    while True:
        for name, part in needed.items():
            if part.poll() is not None:
                raise _failed(settings, name, f"The hub ended by itself (exit code {part.returncode}).")
        if kernels is not None and kernels.poll() is not None and started_again < _MOST_STARTS:
            started_again += 1  # packages were changed, for one; meanwhile each kernel starts alone
            kernels = start_kernels(settings)
        accounts.reload()
        try:
            watcher.look()
            disk.look()
            for name in accounts.names():
                for lab in letters.deliver(name) if name != INSTRUCTOR else ():
                    told(f"{name} handed in {lab}")
            trouble = ""
        except OSError as error:  # a full disk, for one: the class goes on
            if trouble != str(error):
                trouble = str(error)
                told(f"Something cannot be written: {trouble}.")
        time.sleep(_EVERY)


def _wait_for(settings: ServeSettings, hub: Part) -> None:
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until:
        if hub.poll() is not None:
            raise _failed(settings, "hub", f"The hub did not start (exit code {hub.returncode}).")
        if answers(settings):
            return
        time.sleep(0.3)
    raise _failed(settings, "hub", f"The hub did not start within {_SECONDS_TO_START:.0f} seconds.")


def _failed(settings: ServeSettings, part: str, what: str) -> HubFailed:
    log = settings.hub / "logs" / f"{part}.log"
    lines = log.read_text("utf-8", "replace").splitlines()[-200:] if log.exists() else []
    reasons = [line for line in lines if "Error" in line.partition(":")[0] or line.startswith(("[C", "[E"))]
    return HubFailed(what, plain(reasons[-1].strip(), 300) if reasons else "", f"All it said: {log}")


def _end(hub: Part | None) -> None:
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
    """Give a folder for sockets, with a short and plain path; removed in the end."""
    # The proxy's socket is the host in a URL: without capitals, and with nothing that ends a host.
    own = tempfile.gettempdir()
    place = own if re.fullmatch(r"[a-z0-9/._-]{1,30}", own) else "/tmp"
    with tempfile.TemporaryDirectory(prefix="onnxlab-class-", dir=place, ignore_cleanup_errors=True) as name:
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
