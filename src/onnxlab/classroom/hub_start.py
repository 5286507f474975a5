"""What is found out and made before a class is served."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from onnxlab.classroom.accounts import Accounts
from onnxlab.classroom.course_folder import CLASS_FILE, open_class
from onnxlab.classroom.course_making import solutions_folder
from onnxlab.classroom.hub_address import Address, free_port
from onnxlab.classroom.hub_exchange import own_course, release_labs
from onnxlab.classroom.hub_passwords import Passwords, passwords, require_strong
from onnxlab.classroom.hub_serve import only_one, runtime_folder
from onnxlab.classroom.hub_settings import ServeSettings
from onnxlab.classroom.learner_server import INSTRUCTOR, account_cage, account_variables, prepare_places
from onnxlab.classroom.nbgrader_course import ClassroomMissing
from onnxlab.classroom.proxy import proxy_command
from onnxlab.errors import OnnxLabError
from onnxlab.grading import landlock
from onnxlab.grading.users import throw_away_user

__all__ = ["CannotServe", "Ready", "Wishes", "getting_ready", "require_parts"]


class CannotServe(OnnxLabError):
    """A class cannot be served on this machine, or not as it was asked for."""


@dataclass(frozen=True)
class Wishes:
    """What was asked for.

    Attributes:
        folder: The class folder; made where there is none.
        address: Where to listen.
        room_password: A file with the room's password; None for a variable, the last one, or a new one.
        instructor_password: The same for the instructor.
        idle: Minutes until a server that nobody uses is ended; 0 for never.
        memory: Megabytes for each learner.
        processes: Processes and threads for each learner.
        apart: Whether learners have to be kept apart by the system.
    """

    folder: Path
    address: Address
    room_password: Path | None = None
    instructor_password: Path | None = None
    idle: int = 60
    memory: int = 2000
    processes: int = 256
    apart: bool = True


@dataclass(frozen=True)
class Ready:
    """All that is needed to serve.

    Attributes:
        settings: For `serve`.
        passwords: To be shown.
        released: The labs that were released just now.
        notes: What the person who serves should know.
    """

    settings: ServeSettings
    passwords: Passwords
    released: list[str]
    notes: list[str]


@contextmanager
def getting_ready(wishes: Wishes) -> Iterator[Ready]:
    """Check and make everything, and keep it for the block.

    Raises:
        OnnxLabError: If the class cannot be served; the message says why.
    """
    require_parts(apart=wishes.apart)
    require_strong(os.environ, wishes.room_password, wishes.instructor_password)
    if not (wishes.folder / CLASS_FILE).exists():
        _make(wishes.folder)
    folder = open_class(wishes.folder)
    if not os.access(folder.path, os.W_OK):
        msg = f"{wishes.folder} cannot be written."
        raise CannotServe(msg, "The hub keeps accounts and learners' work there.", "Give another folder.")
    if wishes.apart and throw_away_user(0) is not None:
        _require_entrance(folder.path)
    folder.hub.mkdir(mode=0o700, exist_ok=True)
    with only_one(folder.path), runtime_folder() as runtime:
        found = passwords(
            folder.hub / "passwords.json", os.environ, wishes.room_password, wishes.instructor_password
        )
        accounts = Accounts(folder.hub / "accounts.json")
        account = accounts.ensure(INSTRUCTOR)
        owner = folder.path.stat().st_uid
        own = accounts.user(account)
        settings = ServeSettings(
            folder=folder.path,
            name=folder.name,
            course=solutions_folder(Path.cwd()).parent,
            runtime=runtime,
            ip=wishes.address.ip,
            port=wishes.address.port,
            hub_port=free_port(),
            room_port=free_port(),
            tls_key=_absolute(wishes.address.tls_key),
            tls_cert=_absolute(wishes.address.tls_cert),
            proxy=proxy_command(folder.hub),
            idle=wishes.idle,
            memory=wishes.memory,
            processes=wishes.processes,
            landlock=wishes.apart and landlock.abi() > 0,
            shared_kernels=own is not None,
            instructor_user=(owner or own) if own is not None else None,
        )
        own_course(folder, settings.instructor_user)
        settings.notices.mkdir()
        settings.notices.chmod(0o711)
        prepare_places(settings, account, settings.instructor_user)
        released = release_labs(
            folder,
            account_cage(settings, account, settings.instructor_user),
            account_variables(settings, account, settings.instructor_user),
        )
        yield Ready(settings, found, released, _notes(settings, own))


def require_parts(*, apart: bool = True) -> None:
    """Make sure that this machine can serve a class.

    Args:
        apart: Whether learners have to be kept apart by the system.

    Raises:
        CannotServe: If it cannot.
        ClassroomMissing: If a package is not installed.
    """
    if sys.platform != "linux":
        msg = "A class can be served on Linux only."
        why = "Servers are forked from a warm process, which is not safe elsewhere."
        raise CannotServe(msg, why, "Use a Linux machine; on Windows, WSL2.")
    missing = [
        name for name in ("jupyterhub", "jupyterhub_idle_culler", "nbgrader") if find_spec(name) is None
    ]
    if missing:
        msg = f"{', '.join(missing)}: not installed; a class needs it, a learner does not."
        raise ClassroomMissing(msg, "", 'In the course\'s folder: pip install -e ".[classroom]"')
    if apart and os.geteuid() and not landlock.abi():
        msg = "Nothing on this machine would keep learners out of each other's folders."
        why = "You are not root, and this kernel has no Landlock (Linux 5.13, switched on at boot)."
        raise CannotServe(msg, why, "Serve as root; or, if all trust each other, give --isolation none.")


def _require_entrance(folder: Path) -> None:
    """Make sure that other users than root can enter the folder; what is in it is closed to them."""
    for above in (folder, *folder.parents):
        if not above.stat().st_mode & stat.S_IXOTH:
            msg = f"Learners run as users of their own, and these cannot enter {above}."
            then = f"Give a folder elsewhere, as /srv/class; or run: chmod o+x {above}"
            raise CannotServe(msg, "Their work would be out of their reach.", then)


def _make(folder: Path) -> None:
    """Make the class in a process of its own: it loads torch, which this one need not keep."""
    done = subprocess.run(
        [sys.executable, "-m", "onnxlab.cli", "class", "init", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        what, _, rest = (done.stderr.strip() or done.stdout.strip()).partition("\n")
        raise CannotServe(what, *rest.splitlines()[:2])


def _notes(settings: ServeSettings, own: int | None) -> list[str]:
    notes = []
    if own is not None:
        notes.append(
            "Learners run as users of their own"
            + (", kept in their folders by Landlock." if settings.landlock else ".")
        )
    elif settings.landlock:
        notes.append("Learners run as you; Landlock keeps them in their folders.")
    else:
        notes.append("Learners run as you, and can read and change each other's work and yours.")
    if settings.landlock and landlock.lacking(landlock.abi()):
        notes.append(
            f"This kernel's Landlock does not control {', '.join(landlock.lacking(landlock.abi()))}."
        )
    return notes


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.absolute()
