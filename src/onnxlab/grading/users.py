"""Becoming somebody who owns nothing, and giving up every privilege."""

import contextlib
import ctypes
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from onnxlab.grading.system_calls import LINUX, checked, libc, prctl

__all__ = ["become", "can_isolate", "no_new_privileges", "throw_away_user"]

_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 8, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAP_CHOWN, _CAP_KILL, _CAP_SETGID, _CAP_SETUID, _CAP_SYS_ADMIN = 0, 5, 6, 7, 21
_CAP_DAC_READ_SEARCH = 2  # reads any file and folder; what may be read is Landlock's to say
_FIRST, _KEPT = 200_000, 1000
_CAPABILITY_VERSION = 0x20080522


def throw_away_user(place: int) -> int | None:
    """Return a user for a submission.

    Args:
        place: A number that no other submission has at the same time.

    Returns:
        A user's number that nobody has; None if this process cannot become another user: it is not root's, or
        it is that of a container's root who is nobody outside. Then submissions run as the user there is.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return None
    if not LINUX:
        return _FIRST + place
    if not all(_has(one) for one in (_CAP_CHOWN, _CAP_KILL, _CAP_SETGID, _CAP_SETUID)):
        return None
    users, groups = (_mapped(Path("/proc/self", name)) for name in ("uid_map", "gid_map"))
    both = [(max(a, c), min(b, d)) for a, b in users for c, d in groups]
    for first in (_FIRST, *(end - _KEPT for _, end in both)):  # or the last ones that there are
        if any(start <= first + place < end for start, end in both) and first > 0:
            return first + place
    return None


def can_isolate() -> bool:
    """Whether this process may make namespaces without becoming root of one of its own."""
    return _has(_CAP_SYS_ADMIN)


def become(user: int | None, readable: Sequence[Path], *, handed_down: bool = False) -> None:
    """Become a user, if this process is root's, and keep no capability.

    Except for one: where Python itself lies in a folder that only root can enter (root's home), the right
    to read any file is kept, since nothing could be imported without it.

    Args:
        user: The user and group. It must be nobody else's, or two submissions could disturb each other.
        readable: What has to be readable afterwards.
        handed_down: Whether programs that this process runs have that right, too.

    Raises:
        OSError: If the user cannot be changed, or if root names none.
    """
    root = os.geteuid() == 0
    if root and not user and throw_away_user(0):
        raise PermissionError(0, "root has to name a user that a submission runs as")
    if not root and user not in (None, os.geteuid()):
        raise PermissionError(0, f"only root can become user {user}")
    if LINUX:
        if root and user and handed_down:
            _make_inheritable(_CAP_DAC_READ_SEARCH)  # not possible any more once the bounds are dropped
        _drop_bounds()
    if root and user:
        if LINUX:
            prctl(_PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    if LINUX:
        kept = 1 << _CAP_DAC_READ_SEARCH if root and user and not _can_read(readable) else 0
        _keep_only(kept, kept if handed_down else 0)
        if kept and handed_down:
            prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH)


def no_new_privileges() -> None:
    """Give up gaining privileges by running a program. Without it neither Landlock nor a filter is allowed.

    Raises:
        OSError: If the kernel does not know this.
    """
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _has(capability: int) -> bool:
    """Whether this process has a capability now."""
    lines = Path("/proc/self/status").read_bytes().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith(b"CapEff:"))
    return bool(effective >> capability & 1)


def _mapped(table: Path) -> list[tuple[int, int]]:
    """Return the ranges of users or groups that exist in this namespace: first, and one after the last."""
    rows = ([int(word) for word in line.split()] for line in table.read_bytes().splitlines())
    return [(first, first + count) for first, _, count in rows]


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


def _make_inheritable(capability: int) -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    sets = ctypes.create_string_buffer(struct.calcsize("=6I"))
    checked(libc.capget(header, sets))
    words = list(struct.unpack("=6I", sets.raw))
    words[2] |= 1 << capability  # effective, permitted, inheritable; then the same for numbers above 31
    checked(libc.capset(header, struct.pack("=6I", *words)))


def _keep_only(capabilities: int, inheritable: int) -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    low = capabilities & 0xFFFFFFFF
    checked(libc.capset(header, struct.pack("=6I", low, low, inheritable, 0, 0, 0)))
