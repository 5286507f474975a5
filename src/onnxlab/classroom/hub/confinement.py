"""What keeps learners apart: each account's processes are confined by the system, for good.

What somebody's code can do, as it is tried by a test:

    attempt                                     own user    Landlock   only own    nothing
                                                + Landlock  alone      user
    read another learner's folder               no          no         no          yes
    read the hub's secrets                      no          no         no          yes
    read the solutions                          no          no         if readable yes
    write outside of the own folder             no          no         /tmp        yes
    signal or trace another learner's process   no          no         no          yes
    reach another server's port                 no          no         yes         yes
    fetch from the network by TCP               no          no         yes         yes
    send by UDP                                 yes         yes        yes         yes
    see that another process runs               yes         yes        yes         yes
    use more memory in one process than allowed no          no         no          no
    use more in many processes                  yes         yes        yes         yes
    start processes without end                 no          yes        no          yes
    fill the disk                               yes         yes        yes         yes

"Own user" is what root gives each account; "Landlock alone" is what an ordinary user has. Whoever reaches a
server's port still needs to be signed in as its learner or as an instructor. Ports are kept since Linux 6.7,
signals under Landlock alone since Linux 6.12; see `sandbox/landlock.py`.

`python -m onnxlab.classroom.hub.confinement CONFINEMENT HANDED_OUT [options of jupyterhub-singleuser]` is a
learner's server. The hub's spawner starts it as the hub's user; it confines itself, brings the home up to
date, and the single-user server replaces it: nothing that the hub's user had in memory is left.
"""

import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from onnxlab.classroom.hub.learner_folder import bring_up_to_date, handed_out
from onnxlab.errors import OnnxLabError
from onnxlab.sandbox import landlock
from onnxlab.sandbox.landlock import Access
from onnxlab.sandbox.levels import resource
from onnxlab.sandbox.libc import LINUX, die_with_parent
from onnxlab.sandbox.users import become, no_new_privileges

__all__ = ["Confinement", "confine", "main", "system_places"]

_MAKE_FOLDERS = 1 << 7  # a right of Landlock's
_MB = 2**20
_FILE_MB, _OPEN_FILES, _MOST_OF_ALL = 1024, 4096, 4000
_ENDED_FIRST = 500  # of 1000: where the machine's memory is used up, learners' processes end before the hub's
# Settings that programs read; not the folder itself, which holds what only root may read.
_ETC = (
    "alternatives bash.bashrc profile inputrc terminfo passwd group hosts hostname host.conf nsswitch.conf "
    "resolv.conf ld.so.cache ld.so.conf ld.so.conf.d localtime timezone mime.types fonts os-release "
    # Certificates, and not the keys beside them.
    "ssl/certs ssl/cert.pem ssl/openssl.cnf pki/ca-trust pki/tls/certs pki/tls/cert.pem pki/tls/openssl.cnf"
)


@dataclass(frozen=True)
class Confinement:
    """What an account's processes are kept to.

    Attributes:
        user: The user that its processes are; None for the one there is.
        home: Its folder, which it may write and read.
        writable: Other places that it may write, as the folder of its sockets.
        readable: What it may read.
        bind: The TCP ports that it may listen on.
        connect: Those it may connect to.
        memory: Megabytes of data that one process may have.
        processes: Its processes and threads, if the user is its own.
        landlock: Whether the kernel keeps it to these places.
    """

    user: int | None
    home: str
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    bind: tuple[int, ...] = ()
    connect: tuple[int, ...] = ()
    memory: int = 2000
    processes: int = 256
    landlock: bool = True

    def as_json(self) -> str:
        """Return it as text, for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Confinement":
        """Return what `as_json` made a text of."""
        values = json.loads(text)
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**values | lists)


def system_places() -> tuple[str, ...]:
    """Return what every account may read: the system's programs, Python, its packages and this one."""
    import onnxlab

    system = [
        "/usr",
        "/lib",
        "/lib64",
        "/bin",
        "/sbin",
        "/opt",
        "/proc",
        "/sys/devices/system",
        "/sys/bus/pci/devices",  # onnxruntime looks whether there is a GPU, and complains if it may not
        "/sys/class/drm",
        "/run/resolvconf",
    ]
    own = [sys.prefix, sys.base_prefix, str(Path(onnxlab.__file__).parents[1])]
    return tuple(dict.fromkeys([*system, *(f"/etc/{name}" for name in _ETC.split()), *own]))


def confine(to: Confinement) -> None:
    """Confine this process and all that it starts; it cannot be taken back.

    The process must have one thread.

    Raises:
        OSError: If the system does not allow it; then the process must end.
    """
    _limit(to)
    if to.user is not None:
        _become(to)
    os.umask(0o077)
    if LINUX:
        no_new_privileges()
        if to.landlock:
            _restrict(to)
    os.chdir(to.home)


def _become(to: Confinement) -> None:
    """Become the account's user. Only where nothing could be read otherwise, keep the right to read.

    That is where Python lies in a folder that only root can enter. Then Landlock alone says what is read, so
    there has to be Landlock; and programs that are started keep that right, or none could be.
    """
    needed = [Path(place) for place in (sys.executable, sys.base_prefix, to.home)]
    become(to.user, needed, handed_down=True)
    if not to.landlock and _holds_a_right():
        msg = f"user {to.user} cannot reach {sys.base_prefix} or {to.home}"
        raise PermissionError(0, msg)


def _holds_a_right() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    return any(line.startswith("CapEff:") and int(line.split()[1], 16) for line in lines)


def _restrict(to: Confinement) -> None:
    places = [(Path(place), Access.READ) for place in to.readable]
    places += [(Path(place), Access.WRITE) for place in (to.home, *to.writable)]
    places += [(Path(place), Access.DEVICE) for place in ("/dev/pts", "/dev/ptmx", "/dev/tty")]
    places += [(Path(place), Access.DEVICE) for place in ("/dev/random", "/dev/full")]
    if to.user is not None:
        places.append((Path("/dev/shm"), Access.WRITE & ~_MAKE_FOLDERS))  # files are apart by their owner
    # Signals to others are refused by the owner of a process, too; where all have one, by Landlock alone.
    landlock.confine(places, bind=to.bind, connect=to.connect, apart=to.user is None)


def _limit(to: Confinement) -> None:
    """Set the limits that the kernel keeps for each process, and for a user of one's own."""

    def at_most(kind: int, most: int) -> None:
        _, allowed = resource.getrlimit(kind)
        most = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(kind, (most, most))

    if sys.platform == "linux":
        at_most(resource.RLIMIT_DATA, to.memory * _MB)  # then Python says MemoryError
        # Where all are one user, all count together: this is the last resort.
        at_most(resource.RLIMIT_NPROC, _MOST_OF_ALL if to.user is None else to.processes)
        at_most(resource.RLIMIT_MEMLOCK, 0)
        at_most(resource.RLIMIT_MSGQUEUE, 0)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(str(_ENDED_FIRST))
    at_most(resource.RLIMIT_FSIZE, _FILE_MB * _MB)
    at_most(resource.RLIMIT_NOFILE, _OPEN_FILES)
    at_most(resource.RLIMIT_CORE, 0)


def main(arguments: list[str]) -> NoReturn:
    """Become a learner's server, confined."""
    confinement, course, *options = arguments
    confine(Confinement.from_json(Path(confinement).read_text("utf-8")))
    if LINUX:
        die_with_parent(signal.SIGTERM)  # not before: a change of user takes it away
    try:
        for line in bring_up_to_date(Path.cwd(), handed_out(Path(course))).lines():
            print(line, flush=True)
    except (OSError, OnnxLabError) as error:
        # A full disk, or a file where a folder belongs: the server starts all the same.
        print(f"The course was not brought up to date: {error}", flush=True)
    # -P: no module is imported from the home.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "jupyterhub.singleuser", *options])


if __name__ == "__main__":
    main(sys.argv[1:])
