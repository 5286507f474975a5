"""One warm process for a whole class: it runs as root, and its kernels as the learners who ask for them.

What it does as root for somebody who connects: it looks up who that is (the system tells), counts their
kernels, forks. The fork is confined by the caller's function and checked, and only then, as the learner,
reads what is wanted. So nothing of a learner's is ever read or run as root.
"""

import contextlib
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from onnxlab.kernels.becoming import become
from onnxlab.kernels.messages import say
from onnxlab.kernels.nursery import Nursery
from onnxlab.kernels.packages import Loaded
from onnxlab.kernels.preloading import load

__all__ = ["NotConfined", "serve"]

_READ_ANYTHING = 1 << 2  # CAP_DAC_READ_SEARCH: a confinement may leave it where Landlock says what is read


class NotConfined(Exception):
    """A fork still is more than the learner's."""


def serve(
    listener: socket.socket,
    admit: Callable[[int], bool],
    prepare: Callable[[int], None],
    *,
    settle: Callable[[], None] = lambda: None,
    most: int = 4,
) -> None:
    """Load the packages and fork kernels for the users that are admitted, until the address is taken away.

    To be called in a process that was started for this, with an environment that holds no secrets and nothing
    heavy or threaded imported: the forks have its memory. Returns in the warm process at its end, and in each
    fork after its kernel; the process should then end.

    Args:
        listener: A listening SOCK_SEQPACKET socket whose address the learners can reach.
        admit: Tells whether a user may have kernels. Called in the warm process.
        prepare: Confines the fork it is called in to a user, for good. If it raises, there is no kernel.
        settle: Called in the fork when its variables are the learner's, before the kernel begins.
        most: How many living kernels a user may have.

    Raises:
        NotLikeFresh: If forks of this process would not be like fresh kernels.
    """
    import resource  # Windows has none

    if sys.path and not sys.flags.safe_path:
        del sys.path[0]
    preloaded = load()
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))  # two for each kernel
    nursery = Nursery(listener, admit=admit, outdated=Loaded.now().changed, most=most, idle=None)
    if not (new := nursery.serve()):
        return
    connection, peer = new
    try:
        prepare(peer.user)
        require_confined(peer.user)
    except BaseException as error:
        say(connection, refused=f"the kernel could not be confined ({type(error).__name__})")
        print(f"user {peer.user}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    become(connection, peer, preloaded, settle)


def require_confined(user: int) -> None:
    """See that this process is a user's, and cannot be anything else again.

    Raises:
        NotConfined: With what is left.
    """
    if user == 0 or os.getresuid() != (user, user, user) or 0 in (*os.getresgid(), *os.getgroups()):
        msg = f"its users are {os.getresuid()}, its groups {os.getresgid()} and {os.getgroups()}"
        raise NotConfined(msg)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("CapInh", "CapPrm", "CapEff", "CapAmb")) and int(line[7:], 16) & ~_READ_ANYTHING:
            msg = f"it has rights left: {line}"
            raise NotConfined(msg)
    with contextlib.suppress(PermissionError):
        os.setuid(0)
        msg = "it can become root"
        raise NotConfined(msg)
