"""The system calls that Python has no function for."""

import ctypes
import os
import platform
import sys
from typing import Any

__all__ = ["LINUX", "checked", "die_with_parent", "let_look", "libc", "prctl", "processor"]

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
    """Change or read something of this process.

    Raises:
        OSError: If it cannot be.
    """
    padded = (*arguments, 0, 0, 0, 0)[:4]
    return checked(libc.prctl(option, *(ctypes.c_ulong(argument) for argument in padded)))


def die_with_parent(signal_number: int) -> None:
    """Get a signal when the process that forked this one ends. Lost when the user changes: set it after."""
    prctl(_PR_SET_PDEATHSIG, signal_number)


def let_look(allowed: bool) -> None:
    """Let the same user's other processes trace this one and open its memory and variables, or not.

    A fork inherits this. A program that is started can be looked into until it says otherwise.
    """
    if LINUX:
        prctl(_PR_SET_DUMPABLE, int(allowed))


def processor() -> str:
    """Return the name of the processor's system calls: "x86_64", "aarch64" or another."""
    machine = platform.machine().lower()
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return f"{machine}, 32 bits"
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
