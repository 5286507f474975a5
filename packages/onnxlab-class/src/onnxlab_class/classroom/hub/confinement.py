"""Confines the processes of an account, irrevocably, by a user of its own, resource limits and Landlock.

What a learner's code can do, as a test tries it:

    attempt                                     own user    Landlock   only own    nothing
                                                + Landlock  alone      user
    read another learner's folder               no          no         no          yes
    read the hub's secrets                      no          no         no          yes
    read the solutions                          no          no         if readable yes
    write outside of the own folder             no          no         /tmp        yes
    signal or trace another learner's process   no          no         no          yes
    hear what another's kernel runs and returns no          no         no          yes
    reach another server's port                 no          no         yes         yes
    listen on a port, also the own server's     no          no         yes         yes
    fetch from the network by TCP               no          no         yes         yes
    send by UDP                                 yes         yes        yes         yes
    see that another process runs               yes         yes        yes         yes
    use more memory in one process than allowed no          no         no          no
    use more in many processes                  yes         yes        yes         yes
    start processes without end                 no          yes        no          yes
    fill the disk                               yes         yes        yes         yes

Root gives each account a user of its own; where an ordinary user serves, there is Landlock alone. Whoever
reaches a server's port still has to sign in as its learner or as the instructor. Landlock controls ports
since Linux 6.7 and signals since Linux 6.12; see `sandbox/landlock.py`.
"""

import contextlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import onnxlab
import onnxlab_class
from onnxlab.machine import COURSE_IN_WHEEL
from onnxlab_class.sandbox import landlock
from onnxlab_class.sandbox.landlock import Access
from onnxlab_class.sandbox.libc import LINUX, limit, resource
from onnxlab_class.sandbox.users import become, no_new_privileges

_MAKE_FOLDERS = 1 << 7  # a right of Landlock's
_MB = 2**20
_FILE_MB, _OPEN_FILES, _SHARED_PROCESSES = 1024, 4096, 4000
_OOM_SCORE = 500  # of 1000: if the memory is used up, the kernel ends learners' processes before the hub's
# Settings that programs read; not all of /etc, parts of which only root may read.
_ETC = (
    "alternatives bash.bashrc profile inputrc terminfo passwd group hosts hostname host.conf nsswitch.conf "
    "resolv.conf ld.so.cache ld.so.conf ld.so.conf.d localtime timezone mime.types fonts os-release "
    # Certificates, and not the keys beside them.
    "ssl/certs ssl/cert.pem ssl/openssl.cnf pki/ca-trust pki/tls/certs pki/tls/cert.pem pki/tls/openssl.cnf"
)


@dataclass(frozen=True)
class Confinement:
    """What the processes of an account may do.

    Attributes:
        user: The id of the account's own user; None for the user that runs the hub.
        home: Its home, which they may read and write.
        writable: Other paths that they may write, as the folder of the sockets.
        readable: Paths that they may read.
        connect: TCP ports that they may connect to.
        memory: Megabytes of data that one process may have.
        processes: How many processes and threads there may be, if the user is the account's own.
        landlock: Whether Landlock restricts them to these paths and ports.
    """

    user: int | None
    home: str
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    connect: tuple[int, ...] = ()
    memory: int = 2000
    processes: int = 256
    landlock: bool = True

    def as_json(self) -> str:
        """Return it as JSON, for another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Confinement":
        """Return the confinement that `as_json` wrote."""
        values = json.loads(text)
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**values | lists)


def system_paths() -> tuple[str, ...]:
    """Return the paths that every account may read: programs, Python, its packages and the course's."""
    system = [
        "/usr",
        "/lib",
        "/lib64",
        "/bin",
        "/sbin",
        "/opt",
        "/proc",
        "/sys/devices/system",
        "/sys/bus/pci/devices",  # onnxruntime looks for a GPU, and prints a warning if it may not
        "/sys/class/drm",
        "/run/resolvconf",
    ]
    own = [str(Path(file).parents[1]) for file in (onnxlab.__file__, onnxlab_class.__file__)]
    python_paths = [sys.prefix, sys.base_prefix, *own]
    return tuple(dict.fromkeys([*system, *(f"/etc/{name}" for name in _ETC.split()), *python_paths]))


def confine(confinement: Confinement) -> None:
    """Confine this process and all that it starts, irrevocably.

    The process must have one thread.

    Raises:
        OSError: If the system does not allow it; the process must then end.
    """
    _limit(confinement)
    if confinement.user is not None:
        _become(confinement)
    os.umask(0o077)
    if LINUX:
        no_new_privileges()
        if confinement.landlock:
            _restrict(confinement)
    os.chdir(confinement.home)


def _become(confinement: Confinement) -> None:
    """Become the account's user. If Python lies in a folder that only root can enter, keep the right to read.

    Landlock alone then restricts reading, so Landlock is required. Programs that are started inherit the
    right, because none could be read otherwise.
    """
    needed = [Path(path) for path in (sys.executable, sys.base_prefix, confinement.home)]
    if become(confinement.user, needed, handed_down=True) and not confinement.landlock:
        msg = f"user {confinement.user} cannot reach {sys.base_prefix} or {confinement.home}"
        raise PermissionError(0, msg)


def _restrict(confinement: Confinement) -> None:
    # A wheel's; those that the instructor allows lie among the files that are handed out.
    solutions = COURSE_IN_WHEEL / "solutions"
    hidden = {solutions.resolve()} if solutions.is_dir() else set()
    rules = [rule for path in confinement.readable for rule in landlock.without(Path(path), hidden)]
    rules += [(Path(path), Access.WRITE) for path in (confinement.home, *confinement.writable)]
    rules += [(Path(path), Access.DEVICE) for path in ("/dev/pts", "/dev/ptmx", "/dev/tty")]
    rules += [(Path(path), Access.DEVICE) for path in ("/dev/random", "/dev/full")]
    if confinement.user is not None:
        rules.append((Path("/dev/shm"), Access.WRITE & ~_MAKE_FOLDERS))  # their owners keep the files apart
    # Users cannot signal each other; where all learners are one user, Landlock forbids it.
    apart = confinement.user is None
    landlock.confine(rules, connect=confinement.connect, apart=apart)


def _limit(confinement: Confinement) -> None:
    """Set the kernel's limits for each process and, for an account with a user of its own, for the user."""
    if sys.platform == "linux":
        limit(resource.RLIMIT_DATA, confinement.memory * _MB)  # beyond it, Python raises MemoryError
        # Where all learners are one user, their processes count together.
        processes = _SHARED_PROCESSES if confinement.user is None else confinement.processes
        limit(resource.RLIMIT_NPROC, processes)
        limit(resource.RLIMIT_MEMLOCK, 0)
        limit(resource.RLIMIT_MSGQUEUE, 0)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    limit(resource.RLIMIT_FSIZE, _FILE_MB * _MB)
    limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    limit(resource.RLIMIT_CORE, 0)
