"""The C library, for the system calls that Python has no function for."""

import ctypes
import os
import sys
from typing import Any

resource: Any
try:  # at once: a confined process may not be allowed to import
    import resource
except ImportError:  # Windows
    resource = None


LINUX = sys.platform == "linux"
libc: Any = ctypes.CDLL(None, use_errno=True) if LINUX else None
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36


def checked(result: int) -> int:
    """Return what a call returned.

    Raises:
        OSError: If it failed.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def limit(kind: int, most: int, above: int = 0) -> None:
    """Lower a limit of this process (setrlimit(2)); the hard one is `above` more."""
    allowed = resource.getrlimit(kind)[1]
    if allowed != resource.RLIM_INFINITY:
        most = min(most, allowed)
        above = min(above, allowed - most)
    resource.setrlimit(kind, (most, most + above))


def prctl(option: int, *arguments: int) -> int:
    """Change or read an attribute of this process.

    Raises:
        OSError: If it cannot be.
    """
    padded = (*arguments, 0, 0, 0, 0)[:4]
    return checked(libc.prctl(option, *(ctypes.c_ulong(argument) for argument in padded)))


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when its parent ends (PR_SET_PDEATHSIG).

    A change of user resets this: call it after.
    """
    prctl(_PR_SET_PDEATHSIG, signal_number)


def become_subreaper() -> None:
    """Make orphans among this process's descendants its children, not init's (PR_SET_CHILD_SUBREAPER)."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_dumpable(allowed: bool) -> None:
    """Allow or forbid that the same user's processes trace this one or read its memory (PR_SET_DUMPABLE).

    A fork inherits this; a program that is started is dumpable again.
    """
    if LINUX:
        prctl(_PR_SET_DUMPABLE, int(allowed))
