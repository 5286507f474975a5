"""Becoming a user who owns nothing, and giving up every capability(7).

Where root runs a class or grades, each account and each submission is a Unix user of its own that is in no
`/etc/passwd`. Here is who gets which numbers.
"""

import contextlib
import ctypes
import functools
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from onnxlab.sandbox.libc import LINUX, checked, libc, prctl

__all__ = [
    "ACCOUNTS",
    "FEW_ACCOUNTS",
    "FEW_SUBMISSIONS",
    "SUBMISSIONS",
    "become",
    "can_isolate",
    "no_new_privileges",
    "submission_user",
    "throw_away_user",
]

# Places, as `throw_away_user` takes them: no two ranges may meet, or a submission could write a learner's
# home. Place 0 is what a probe of the sandbox runs as.
ACCOUNTS = range(10_000, 60_000)
"""The places of accounts of classes, which keep them for as long as their folders are there."""
SUBMISSIONS = range(60_000, 80_000)
"""The places of submissions that are being graded."""
# A container may have only a thousand users to spare: then these.
FEW_SUBMISSIONS = range(50)
FEW_ACCOUNTS = range(50, 1000)

_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 8, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAP_CHOWN, _CAP_KILL, _CAP_SETGID, _CAP_SETUID, _CAP_SYS_ADMIN = 0, 5, 6, 7, 21
_CAP_DAC_READ_SEARCH = 2  # reads any file and folder; what may be read is Landlock's to say
_FIRST, _KEPT = 200_000, 1000
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_SIDE_BY_SIDE = 64  # places of one grading run, so that two runs at a time seldom share users


def submission_user(place: int) -> int | None:
    """Return the user that a submission runs as.

    Args:
        place: A number that no other submission of this run has at the same time.

    Returns:
        As `throw_away_user`.
    """
    own = os.getpid() * _SIDE_BY_SIDE + place
    user = throw_away_user(SUBMISSIONS[own % len(SUBMISSIONS)])
    if user is None and place in FEW_SUBMISSIONS:
        user = throw_away_user(FEW_SUBMISSIONS[place])
    return user


def throw_away_user(place: int) -> int | None:
    """Return a user that nobody is.

    Args:
        place: Which one, from 0. See the ranges above.

    Returns:
        A user's number that nobody has; None if this process cannot become another user: it is not root's, or
        it is that of a container's root who is nobody outside. Then submissions run as the user there is.
    """
    if not LINUX or os.geteuid() != 0:
        return None
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
    if root and user and handed_down:
        _make_inheritable(_CAP_DAC_READ_SEARCH)  # not possible any more once the bounding set is empty
    _drop_bounds()
    if root and user:
        prctl(_PR_SET_KEEPCAPS, 1)  # or setuid clears the permitted set; what to keep is known only after it
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    kept = 1 << _CAP_DAC_READ_SEARCH if root and user and not _can_read(readable) else 0
    _keep_only(kept, kept if handed_down else 0)
    if kept and handed_down:  # the ambient set is what a program run by execve keeps
        prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH)


def no_new_privileges() -> None:
    """Give up gaining privileges by running a program (PR_SET_NO_NEW_PRIVS): set-user-ID bits have no effect.

    Without it the kernel allows neither Landlock nor a filter to who is not root.

    Raises:
        OSError: If the kernel does not know this.
    """
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


@functools.cache  # asked for every account of a class; a process that loses one asks no more
def _has(capability: int) -> bool:
    """Whether this process has a capability in its effective set."""
    lines = Path("/proc/self/status").read_bytes().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith(b"CapEff:"))
    return bool(effective >> capability & 1)


@functools.cache  # a process's map of users is written once
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
    """Empty the capability bounding set (PR_CAPBSET_DROP): no program that is run can have one again."""
    with contextlib.suppress(OSError):  # not allowed to, and then there is nothing to lose; or past the last
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
