"""Becoming somebody who owns nothing, and giving up every privilege."""

import contextlib
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from onnxlab.grading.system_calls import LINUX, checked, libc, prctl

__all__ = ["NOBODY", "become", "no_new_privileges"]

NOBODY = 65534

_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 8, 24, 38
_CAP_DAC_READ_SEARCH = 2  # reads any file and folder; what may be read is Landlock's to say
_CAPABILITY_VERSION = 0x20080522


def become(user: int | None, readable: Sequence[Path]) -> None:
    """Become a user, if this process is root's, and keep no capability.

    Except for one: where Python itself lies in a folder that only root can enter (`/root/.pyenv`), the right
    to read any file is kept, since nothing could be imported without it.

    Args:
        user: The user and group. It must be nobody else's, or two submissions could disturb each other.
        readable: What has to be readable afterwards.

    Raises:
        OSError: If the user cannot be changed, or if root names none.
    """
    root = os.geteuid() == 0
    if root and not user:
        raise PermissionError(0, "root has to name a user that a submission runs as")
    if not root and user not in (None, os.geteuid()):
        raise PermissionError(0, f"only root can become user {user}")
    if LINUX:
        _drop_bounds()
    if root and user:
        if LINUX:
            prctl(_PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    if LINUX:
        _keep_only(1 << _CAP_DAC_READ_SEARCH if root and not _can_read(readable) else 0)


def no_new_privileges() -> None:
    """Give up gaining privileges by running a program. Without it neither Landlock nor a filter is allowed.

    Raises:
        OSError: If the kernel does not know this.
    """
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _can_read(places: Sequence[Path]) -> bool:
    # Not Path.is_dir(): it raises where a folder above cannot be entered.
    return all(
        os.access(place, os.R_OK | (os.X_OK if os.path.isdir(place) else 0))  # noqa: PTH112
        for place in places
        if _exists(place)
    )


def _exists(place: Path) -> bool:
    try:
        place.stat()
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    return True


def _drop_bounds() -> None:
    with contextlib.suppress(
        OSError
    ):  # not allowed to, and then there is nothing to lose; or past the last one
        for capability in range(64):
            prctl(_PR_CAPBSET_DROP, capability)


def _keep_only(capabilities: int) -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    low = capabilities & 0xFFFFFFFF
    checked(libc.capset(header, struct.pack("=6I", low, low, 0, 0, 0, 0)))
