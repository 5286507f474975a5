"""The C library, for the system calls that Python has no function for."""

import ctypes
import os
import sys
from typing import Any

resource: Any
try:  # now: a confined process may not be able to import anything any more
    import resource
except ImportError:  # Windows
    resource = None

__all__ = ["LINUX", "checked", "die_with_parent", "libc", "prctl", "resource", "set_dumpable"]

LINUX = sys.platform == "linux"
libc: Any = ctypes.CDLL(None, use_errno=True) if LINUX else None
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def checked(result: int) -> int:
    """Return what a call returned.

    Raises:
        OSError: If it failed.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def prctl(option: int, *arguments: int) -> int:
    """Change or read an attribute of this process.

    Raises:
        OSError: If it cannot be.
    """
    padded = (*arguments, 0, 0, 0, 0)[:4]
    return checked(libc.prctl(option, *(ctypes.c_ulong(argument) for argument in padded)))


def die_with_parent(signal_number: int) -> None:
    """Get a signal when the process that forked this one ends (PR_SET_PDEATHSIG).

    A change of user takes it away: call this after.
    """
    prctl(_PR_SET_PDEATHSIG, signal_number)


def set_dumpable(allowed: bool) -> None:
    """Let the same user's other processes trace this one and open its memory and variables (PR_SET_DUMPABLE).

    A fork inherits this. A program that is started can be looked into until it says otherwise.
    """
    if LINUX:
        prctl(_PR_SET_DUMPABLE, int(allowed))
