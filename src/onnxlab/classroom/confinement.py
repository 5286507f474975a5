"""What keeps learners apart: each account's processes in a cage of their own, for good.

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
    use more memory or processes than allowed   no          no         no          no
    keep more in files that lie in memory       yes         yes        yes         yes
    fill the disk                               yes         yes        yes         yes

"Own user" is what root gives each account; "Landlock alone" is what an ordinary user has. Whoever reaches a
server's port still needs to be signed in as its learner or as an instructor. Ports are kept since Linux 6.7,
signals under Landlock alone since Linux 6.12; see `grading/landlock.py`. Without users of their own only the
watcher ends a fork bomb: on a machine that is busy already it may come too late, and the bomb takes it all.
"""

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from onnxlab.grading import landlock
from onnxlab.grading.landlock import Access
from onnxlab.grading.limits import resource
from onnxlab.grading.system_calls import LINUX, prctl
from onnxlab.grading.users import become, no_new_privileges

__all__ = ["Confinement", "confine", "system_places"]

_PR_SET_DUMPABLE = 4
_MAKE_FOLDERS = 1 << 7  # a right of Landlock's
_MB = 2**20
_FILE_MB, _OPEN_FILES, _MOST_OF_ALL = 1024, 4096, 4000
# Settings that programs read; not the folder itself, which holds what only root may read.
_ETC = (
    "alternatives bash.bashrc profile inputrc terminfo passwd group hosts hostname host.conf nsswitch.conf "
    "resolv.conf ld.so.cache ld.so.conf ld.so.conf.d localtime timezone mime.types fonts os-release "
    # Certificates, and not the keys beside them.
    "ssl/certs ssl/cert.pem ssl/openssl.cnf pki/ca-trust pki/tls/certs pki/tls/cert.pem pki/tls/openssl.cnf"
)


@dataclass(frozen=True)
class Confinement:
    """An account's cage.

    Attributes:
        user: The user that its processes are; None for the one there is.
        home: Its folder, which it may write and read.
        writable: Other places that it may write, as the folder of its sockets.
        readable: What it may read.
        lookup: What it may read by name only.
        bind: The TCP ports that it may listen on.
        connect: Those it may connect to.
        memory: Megabytes of all its processes; one alone cannot get much more at once.
        processes: Its processes and threads.
        landlock: Whether the kernel keeps it to these places.
    """

    user: int | None
    home: str
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    lookup: tuple[str, ...] = ()
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
        found = json.loads(text)
        lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
        return cls(**found | lists)

    def with_port(self, port: int) -> "Confinement":
        """Return it with a port of its own."""
        return replace(self, bind=(port, 0))  # 0: any that is free, as a kernel does


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


def confine(cage: Confinement) -> None:
    """Put this process into a cage, with all that it starts; it cannot be taken back.

    The process must have one thread.

    Raises:
        OSError: If the system does not allow it; then the process must end.
    """
    _limit(cage)
    if cage.user is not None:
        _become(cage)
    os.umask(0o077)
    if LINUX:
        prctl(_PR_SET_DUMPABLE, 1)  # so that the watcher sees what it uses
        no_new_privileges()
        if cage.landlock:
            _restrict(cage)
    os.chdir(cage.home)


def _become(cage: Confinement) -> None:
    """Become the account's user. Only where nothing could be read otherwise, keep the right to read.

    That is where Python lies in a folder that only root can enter. Then Landlock alone says what is read, so
    there has to be Landlock; and programs that are started keep that right, or none could be.
    """
    needed = [Path(place) for place in (sys.executable, sys.base_prefix, cage.home)]
    become(cage.user, needed, handed_down=True)
    if not cage.landlock and _holds_a_right():
        msg = f"user {cage.user} cannot reach {sys.base_prefix} or {cage.home}"
        raise PermissionError(0, msg)


def _holds_a_right() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    return any(line.startswith("CapEff:") and int(line.split()[1], 16) for line in lines)


def _restrict(cage: Confinement) -> None:
    places = [(Path(place), Access.READ) for place in cage.readable]
    places += [(Path(place), Access.LOOK_UP) for place in cage.lookup]
    places += [(Path(place), Access.WRITE) for place in (cage.home, *cage.writable)]
    places += [(Path(place), Access.DEVICE) for place in ("/dev/pts", "/dev/ptmx", "/dev/tty")]
    places += [(Path(place), Access.DEVICE) for place in ("/dev/random", "/dev/full")]
    if cage.user is not None:
        places.append((Path("/dev/shm"), Access.WRITE & ~_MAKE_FOLDERS))  # files are apart by their owner
    # Signals to others are refused by the owner of a process, too; where all have one, by Landlock alone.
    landlock.confine(places, bind=cage.bind, connect=cage.connect, apart=cage.user is None)


def _limit(cage: Confinement) -> None:
    """Set the limits that the kernel keeps for each process, and for a user of one's own."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def at_most(kind: int, most: int) -> None:
        _, allowed = resource.getrlimit(kind)
        most = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(kind, (most, most))

    if sys.platform == "linux":
        # Above the watcher's limit: it ends a kernel with a word why. This stops what it is too slow for.
        at_most(resource.RLIMIT_DATA, (2 * cage.memory + 1000) * _MB)
        # Where all are one user, all count together: the watcher is first, this is the last resort.
        at_most(resource.RLIMIT_NPROC, _MOST_OF_ALL if cage.user is None else cage.processes)
        at_most(resource.RLIMIT_MEMLOCK, 0)
        at_most(resource.RLIMIT_MSGQUEUE, 0)
    at_most(resource.RLIMIT_FSIZE, _FILE_MB * _MB)
    at_most(resource.RLIMIT_NOFILE, _OPEN_FILES)
    at_most(resource.RLIMIT_CORE, 0)
