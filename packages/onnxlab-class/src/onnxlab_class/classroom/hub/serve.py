"""`onnxlab class serve`: prepares a class, runs JupyterHub, and ends everything that it started."""

import contextlib
import fcntl
import functools
import http
import http.client
import os
import signal
import ssl
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from onnxlab.course.learner_folder import course_files
from onnxlab.errors import OnnxLabError
from onnxlab.files import open_folder, write_atomically
from onnxlab.plain_text import plain
from onnxlab_class.classroom.course.folder import CLASS_FILE, ClassFolder, open_class, solutions_folder
from onnxlab_class.classroom.course.nbgrader import ClassroomMissing
from onnxlab_class.classroom.hub.accounts import Accounts, Passwords, chosen_passwords, passwords
from onnxlab_class.classroom.hub.settings import INSTRUCTOR, VARIABLE, Address, HubSettings, free_port
from onnxlab_class.sandbox import landlock
from onnxlab_class.sandbox.libc import become_subreaper, die_with_parent
from onnxlab_class.sandbox.users import throw_away_user
from onnxlab_class.sandbox.watcher import end_all

_PARTS = ("jupyterhub", "jupyterhub_idle_culler", "jupyterhub_traefik_proxy", "nbgrader")
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS_TO_START = 120.0
_SECONDS_TO_STOP = 30.0
_LONGEST_PLACE = 30  # characters: the path of a socket may have 107


class CannotServe(OnnxLabError):
    """A class cannot be served on this machine or with these options."""


class HubFailed(OnnxLabError):
    """The hub did not start, or ended by itself."""


class _Stopped(BaseException):
    """A signal has asked this process to stop."""


def serve(
    folder: Path,
    address: Address,
    password_files: dict[str, Path | None],
    ready: Callable[[Passwords, list[str]], None],
    *,
    idle: int,
    memory: int,
    processes: int,
    apart: bool,
    language: str = "en",
    solutions: bool = False,
) -> None:
    """Serve a class until this process gets SIGINT, SIGTERM or SIGHUP; then leave nothing running.

    Args:
        folder: The class folder; made if there is none.
        address: Where to listen.
        password_files: Files with the passwords, for `chosen_passwords`.
        ready: Called once learners can sign in, with the passwords and notes for the instructor.
        idle: Minutes until a server that nobody uses is ended; 0 for never.
        memory: Megabytes of data that each process of a learner may have.
        processes: Processes and threads that each learner may have.
        apart: Whether the system has to isolate learners from each other.
        language: The edition that learners begin with, and the language of the room's page.
        solutions: Whether learners can compare with a solution after a pass.

    Raises:
        OnnxLabError: If the class cannot be served, or the hub does not start or ends by itself.
    """
    require_parts(apart=apart)
    chosen = chosen_passwords(password_files)
    if not (folder / CLASS_FILE).exists():
        _make_class(folder)
    course = open_class(folder)
    if not os.access(course.path, os.W_OK):
        raise CannotServe(
            f"{folder} cannot be written.",
            "The hub keeps accounts and learners' work there.",
            "Give another folder.",
        )
    own_users = throw_away_user(0) is not None
    if apart and own_users:
        _require_entrance(course.path)
    secure_folders(course)
    with _serving_lock(course.path), _runtime_folder() as runtime:
        hub_port = free_port()
        room_port = free_port(exclude={hub_port})
        settings = HubSettings(
            folder=course.path,
            runtime=runtime,
            address=address,
            hub_port=hub_port,
            room_port=room_port,
            proxy_port=free_port(exclude={hub_port, room_port}),
            idle=idle,
            memory=memory,
            processes=processes,
            landlock=apart and landlock.abi() > 0,
            language=language,
            solutions=solutions,
        )
        _hand_out(course, settings)
        stored = passwords(course.hub / "passwords.json", chosen)
        accounts = Accounts(course.hub / "accounts.json")
        with accounts.reserved_users():
            accounts.ensure(INSTRUCTOR)
            _run(settings, lambda: ready(stored, _notes(settings, own_users=own_users)))


def require_parts(*, apart: bool = True) -> None:
    """Check that this machine can serve a class.

    Args:
        apart: Whether the system has to isolate learners from each other.

    Raises:
        CannotServe: If it cannot.
        ClassroomMissing: If a package is not installed.
    """
    if sys.platform != "linux":
        msg = "A class can be served on Linux only."
        why = "Learners are kept apart by Landlock and by users of their own, which only Linux has."
        raise CannotServe(msg, why, "Use a Linux machine; on Windows, WSL2.")
    missing = [name for name in _PARTS if find_spec(name) is None]
    if missing:
        raise ClassroomMissing(
            f"{', '.join(missing)}: not installed; a class needs it, a learner does not.",
            "",
            'In the course\'s folder: pip install -e "packages/onnxlab-class[classroom]"',
        )
    if apart and os.geteuid() and not landlock.abi():
        msg = "Nothing on this machine would keep learners out of each other's folders."
        why = "You are not root, and this kernel has no Landlock (Linux 5.13, switched on at boot)."
        raise CannotServe(msg, why, "Serve as root; or, if all trust each other, give --isolation none.")


def secure_folders(folder: ClassFolder) -> None:
    """Make the folders of the hub and of the homes, and set their modes and owners, without following links.

    Each gets a .gitignore of its own, as a virtual environment has: a class may lie in somebody's clone, and
    passwords and learners' work do not belong into git.

    Raises:
        CannotServe: If something else has one of their names.
    """
    for place, mode in ((folder.learners, 0o711), (folder.hub, 0o700)):
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        try:
            with open_folder(place) as opened:
                os.fchmod(opened, mode)
                if os.geteuid() == 0:  # so that no other user can change them while root trusts them
                    os.fchown(opened, 0, -1)
        except OSError as error:
            raise CannotServe(
                f"{place} is not a folder of the class's own: {error.strerror}.",
                "The hub would change what it leads to.",
                "Move it away.",
            ) from None
        if not (place / ".gitignore").exists():
            write_atomically(place / ".gitignore", "*\n", mode=0o600)
    links = [path for path in folder.hub.rglob("*") if path.is_symlink()]
    if links:
        raise CannotServe(f"{links[0]} is a link.", "The hub would write where it leads.", "Remove it.")
    (folder.hub / "logs").mkdir(mode=0o700, exist_ok=True)


def _hand_out(folder: ClassFolder, settings: HubSettings) -> None:
    """Copy the files for every home to a place that learners may read; the class's folders are closed."""
    labs = folder.release if any(folder.release.glob("*/*.ipynb")) else None
    files = course_files(solutions_folder(Path.cwd()).parent, labs)
    if settings.solutions:
        files |= {f"solutions/{path.name}": path.read_bytes() for path in folder.source.glob("*/*.ipynb")}
    for name, content in files.items():
        write_atomically(settings.handed_out / name, content)
    for path in (settings.handed_out, *settings.handed_out.glob("**/")):
        path.chmod(0o755)


def _run(settings: HubSettings, ready: Callable[[], None]) -> None:
    hub = None
    try:
        with _stop_on_signals():
            _fork_keeper()
            settings.confinements.mkdir(mode=0o700, parents=True)
            settings.write()
            hub = _start_hub(settings)
            _wait_for(settings, hub)
            ready()
            hub.returncode = _reap_until_end_of(hub.pid)
            raise _failed(settings, f"The hub ended by itself (exit code {hub.returncode}).")
    except _Stopped:
        pass
    finally:
        _end(hub)


def _fork_keeper() -> None:
    """Go on in a child, the keeper, which outlives the killing of this process or of the hub, and cleans up.

    This process passes on signals, waits for the keeper, and exits with its exit code. If the keeper is
    killed, it is this process that cleans up.

    Raises:
        SystemExit: In this process.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    become_subreaper()  # orphans of the class become children of this process, or of the keeper
    command = os.getpid()
    keeper = os.fork()
    if not keeper:
        os.setpgid(0, 0)  # Ctrl+C reaches the command only, which passes it on
        become_subreaper()
        die_with_parent(signal.SIGTERM)
        if os.getppid() != command:
            raise _Stopped
        return
    handle = os.pidfd_open(keeper)

    def pass_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)

    for number in _STOPPING:
        signal.signal(number, pass_on)
    raise SystemExit(abs(_reap_until_end_of(keeper)))


def _reap_until_end_of(child: int) -> int:
    """Wait for a child and return its exit code; reap orphans meanwhile."""
    while True:
        process, status = os.wait()
        if process == child:
            return os.waitstatus_to_exitcode(status)


def _start_hub(settings: HubSettings) -> "subprocess.Popen[bytes]":
    """Start JupyterHub, which starts the proxy, the services and the servers; it logs into `hub/logs/`."""
    from onnxlab_class.classroom.hub.spawner import base_variables

    config = Path(__file__).with_name("jupyterhub_config.py")
    with (settings.hub / "logs" / "hub.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-m", "jupyterhub", "-f", str(config)],
            cwd=settings.hub,
            env=base_variables() | {"HOME": str(settings.private), VARIABLE: str(settings.file)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            umask=0o077,
            start_new_session=True,  # Ctrl+C reaches this process only, which ends all in order
            preexec_fn=functools.partial(die_with_parent, signal.SIGTERM),
        )


def _wait_for(settings: HubSettings, hub: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until:
        if hub.poll() is not None:
            raise _failed(settings, f"The hub did not start (exit code {hub.returncode}).")
        if _sign_in_page_answers(settings):
            return
        time.sleep(0.3)
    raise _failed(settings, f"The hub did not start within {_SECONDS_TO_START:.0f} seconds.")


def _sign_in_page_answers(settings: HubSettings) -> bool:
    """Tell whether the proxy delivers the sign-in page."""
    address = settings.address
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address.ip, address.host)
    url = f"http{'s' * (address.tls_key is not None)}://{host}:{address.port}/hub/login"
    anybodys = HTTPSHandler(context=ssl._create_unverified_context())  # it may be self-signed
    try:
        with build_opener(ProxyHandler({}), anybodys).open(url, timeout=5) as reply:
            return bool(reply.status == http.HTTPStatus.OK)
    except (OSError, http.client.HTTPException):
        return False


def _failed(settings: HubSettings, what: str) -> HubFailed:
    log = settings.hub / "logs" / "hub.log"
    lines = log.read_text("utf-8", "replace").splitlines()[-200:] if log.exists() else []
    reasons = [line for line in lines if "Error" in line.partition(":")[0] or line.startswith(("[C", "[E"))]
    return HubFailed(what, plain(reasons[-1].strip(), 300) if reasons else "", f"All it said: {log}")


def _end(hub: "subprocess.Popen[bytes] | None") -> None:
    """End the hub, which ends its servers and their kernels; then end all processes that are left."""
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)
    if hub is not None and hub.poll() is None:
        hub.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            hub.wait(_SECONDS_TO_STOP)
    if not end_all(os.getpid()):
        raise HubFailed("Some processes of the class could not be ended.", "", "Look for them with: ps -ef")


@contextmanager
def _stop_on_signals() -> Iterator[None]:
    """Raise `_Stopped` in the block on Ctrl+C, SIGTERM or SIGHUP."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stopped

    before = {number: signal.signal(number, stop) for number in _STOPPING}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


@contextmanager
def _runtime_folder() -> Iterator[Path]:
    """Make a temporary folder with a short path, for sockets."""
    default = tempfile.gettempdir()
    parent = default if len(default) <= _LONGEST_PLACE else "/tmp"
    with tempfile.TemporaryDirectory(prefix="onnxlab-class-", dir=parent, ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name)


@contextmanager
def _serving_lock(folder: Path) -> Iterator[None]:
    """Lock the class: it can be served once at a time."""
    with (folder / "hub" / "serving.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise HubFailed(
                f"The class in {folder} is being served already.",
                "",
                "Stop that one first, with Ctrl+C where it runs.",
            ) from None
        yield


def _require_entrance(folder: Path) -> None:
    """Make sure that other users than root can enter the folder; what is in it is closed to them."""
    for above in (folder, *folder.parents):
        if not above.stat().st_mode & stat.S_IXOTH:
            msg = f"Learners run as users of their own here, and cannot enter {above}."
            then = f"Give a folder elsewhere, as /srv/class; or run: chmod o+x {above}"
            raise CannotServe(msg, "Their work would be out of their reach.", then)


def _make_class(folder: Path) -> None:
    """Make the class in a process of its own, because this needs torch, which need not stay in memory."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "onnxlab.cli", "class", "init", str(folder)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        what, _, rest = (done.stderr.strip() or done.stdout.strip()).partition("\n")
        raise CannotServe(what, *rest.splitlines()[:2])


def _notes(settings: HubSettings, *, own_users: bool) -> list[str]:
    if own_users and settings.landlock:
        notes = ["Learners run as users of their own, kept in their folders by Landlock."]
    elif own_users:
        notes = ["Learners run as users of their own."]
    elif settings.landlock:
        notes = ["Learners run as you; Landlock keeps them in their folders."]
    else:
        notes = ["Learners run as you, and can read and change each other's work and yours."]
    if settings.solutions:
        notes.append("Learners can compare with a solution after a pass, and can find its file before.")
    lacking = landlock.lacking(landlock.abi())
    if settings.landlock and lacking:
        notes.append(f"This kernel's Landlock does not control {', '.join(lacking)}.")
    return notes
