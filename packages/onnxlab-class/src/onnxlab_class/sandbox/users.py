"""Throw-away users: become a Unix user who owns nothing, and give up every capability (capabilities(7)).

Where root serves a class or grades, each account and each submission has a user of its own that is not in
`/etc/passwd`. The ranges below divide the user IDs among them.
"""

import contextlib
import ctypes
import functools
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from onnxlab_class.sandbox.libc import LINUX, checked, libc, prctl

# Indices of throw-away users. The ranges must not overlap, or a submission could write in a learner's home.
# Index 0 is for the probe of the sandbox.
ACCOUNTS = range(10_000, 60_000)
"""For the accounts of classes, which keep them as long as their folders exist."""
SUBMISSIONS = range(60_000, 80_000)
"""For the submissions that are being graded."""
# For a container that has only a thousand users.
FEW_SUBMISSIONS = range(50)
FEW_ACCOUNTS = range(50, 1000)

_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 8, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAP_CHOWN, _CAP_KILL, _CAP_SETGID, _CAP_SETUID, _CAP_SYS_ADMIN = 0, 5, 6, 7, 21
_CAP_DAC_READ_SEARCH = 2  # to read any file and folder; Landlock still restricts which
_FIRST, _LAST = 200_000, 1000
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_SLOTS = 64  # of one grading run; two runs at the same time then seldom share users


def submission_user(slot: int) -> int | None:
    """Return the user that a submission runs as.

    Args:
        slot: A number that no other submission of this run has at the same time.

    Returns:
        As `throw_away_user`.
    """
    index = os.getpid() * _SLOTS + slot
    user = throw_away_user(SUBMISSIONS[index % len(SUBMISSIONS)])
    if user is None and slot in FEW_SUBMISSIONS:
        user = throw_away_user(FEW_SUBMISSIONS[slot])
    return user


def throw_away_user(index: int) -> int | None:
    """Return the ID of a user that does not exist otherwise.

    Args:
        index: Which one, from 0. See the ranges above.

    Returns:
        The ID; None if this process cannot become another user: it does not run as root, or as the root of a
        container without other users. Then submissions run as the present user.
    """
    if not LINUX or os.geteuid() != 0:
        return None
    if not all(_has(capability) for capability in (_CAP_CHOWN, _CAP_KILL, _CAP_SETGID, _CAP_SETUID)):
        return None
    users, groups = (_mapped(Path("/proc/self", name)) for name in ("uid_map", "gid_map"))
    both = [(max(a, c), min(b, d)) for a, b in users for c, d in groups]
    for first in (_FIRST, *(end - _LAST for _, end in both)):  # or the last thousand
        if any(start <= first + index < end for start, end in both) and first > 0:
            return first + index
    return None


def can_isolate() -> bool:
    """Whether this process may make namespaces without a new user namespace."""
    return _has(_CAP_SYS_ADMIN)


def become(user: int | None, readable: Sequence[Path], *, handed_down: bool = False) -> bool:
    """Become a user, if this process runs as root, and give up all capabilities.

    There is one exception: if Python is in a folder that only root can enter (root's home), the right to read
    any file is kept, since nothing could be imported without it.

    Args:
        user: The user and group. Two submissions with the same one could disturb each other.
        readable: The paths that must be readable afterwards.
        handed_down: Whether programs that this process runs keep that right, too.

    Returns:
        Whether it was kept.

    Raises:
        OSError: If the user cannot be changed, or if this is root and the user is None.
    """
    root = os.geteuid() == 0
    if root and not user and throw_away_user(0):
        raise PermissionError(0, "root has to name a user that a submission runs as")
    if not root and user not in (None, os.geteuid()):
        raise PermissionError(0, f"only root can become user {user}")
    if root and user and handed_down:
        _make_inheritable(_CAP_DAC_READ_SEARCH)  # impossible once the bounding set is empty
    _drop_bounds()
    if root and user:
        prctl(_PR_SET_KEEPCAPS, 1)  # else setuid clears the permitted set
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    capability = 1 << _CAP_DAC_READ_SEARCH if root and user and not _can_read(readable) else 0
    _keep_only(capability, capability if handed_down else 0)
    if capability and handed_down:  # the ambient set is what a program run by execve keeps
        prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH)
    return bool(capability)


def no_new_privileges() -> None:
    """Keep programs from giving this process privileges (PR_SET_NO_NEW_PRIVS): set-user-ID has no effect.

    Without it the kernel allows only root to use Landlock or a seccomp filter.

    Raises:
        OSError: If the kernel does not support it.
    """
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


@functools.cache  # called for every account of a class
def _has(capability: int) -> bool:
    """Whether this process has a capability in its effective set."""
    lines = Path("/proc/self/status").read_bytes().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith(b"CapEff:"))
    return bool(effective >> capability & 1)


@functools.cache  # the map of a process's users never changes
def _mapped(table: Path) -> list[tuple[int, int]]:
    """Return the ranges of users or groups in this namespace: the first, and one after the last."""
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
    """Empty the capability bounding set (PR_CAPBSET_DROP): no program can give a capability back."""
    with contextlib.suppress(OSError):  # no right to, and so no capability to drop; or past the last one
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
