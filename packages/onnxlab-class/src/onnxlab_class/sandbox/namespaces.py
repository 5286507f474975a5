"""New namespaces (namespaces(7)) for the network, processes, IPC objects and mounts.

The calling process stays in its own process namespace; its next fork is process 1 of the new one, and when
that ends, the kernel ends all others in it. All mounts but one folder become read-only, since Landlock alone
does not protect the mode, the owner and the times of the same user's files.
"""

import ctypes
import errno
import os
import struct
from pathlib import Path

from onnxlab_class.sandbox.libc import checked, libc, set_dumpable

_NEW_MOUNTS = 0x00020000
_NEW_IPC = 0x08000000
_NEW_USERS = 0x10000000
_NEW_PROCESSES = 0x20000000
_NEW_NETWORK = 0x40000000

_MS_READ_ONLY, _MS_NO_SETUID, _MS_NO_DEVICES, _MS_NO_PROGRAMS = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_SYS_MOUNT_SETATTR = 442  # the same number on every processor
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_READ_ONLY, _NO_SETUID, _NO_DEVICES = 0x1, 0x2, 0x4


def isolate(folder: Path, *, users_too: bool) -> None:
    """Enter new namespaces in which only one folder can be written.

    Args:
        folder: The folder.
        users_too: Enter a new user namespace first, as an ordinary user may, which gives this process the
            right to the others. It has no other users: the confined process cannot become another one.

    Raises:
        OSError: If the system forbids it.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        checked(
            libc.unshare(
                _NEW_PROCESSES | _NEW_NETWORK | _NEW_IPC | _NEW_MOUNTS | (_NEW_USERS if users_too else 0)
            )
        )
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSPC, errno.EINVAL):
            raise
        hint = "user namespaces are switched off" if users_too else "CAP_SYS_ADMIN is missing"
        raise OSError(error.errno, f"new namespaces are forbidden ({hint})") from None
    if users_too:
        _keep_identity(user, group)
    try:
        _make_read_only_except(os.fsencode(folder))
    except OSError as error:
        raise OSError(error.errno, f"mounts cannot be made read-only: {error.strerror}") from None


def mount_processes() -> None:
    """Mount a `/proc` that shows only the processes of this one's namespace, in mounts of its own.

    Nothing changes where the system forbids it: in a user namespace where parts of `/proc` are covered, as
    containers do.
    """
    flags = _MS_READ_ONLY | _MS_NO_SETUID | _MS_NO_DEVICES | _MS_NO_PROGRAMS
    checked(libc.unshare(_NEW_MOUNTS))  # the watcher's `/proc` stays
    libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(flags), None)


def _keep_identity(user: int, group: int) -> None:
    """Map this user and no other into the new user namespace."""
    set_dumpable(True)  # else its files in /proc belong to root
    try:
        for name, text in (
            ("setgroups", b"deny"),  # the kernel wants this before an ordinary user writes gid_map
            ("uid_map", b"%d %d 1" % (user, user)),
            ("gid_map", b"%d %d 1" % (group, group)),
        ):
            Path("/proc/self", name).write_bytes(text)
    except OSError as error:
        raise OSError(error.errno, f"no user can be mapped into a new namespace: {error.strerror}") from None


def _make_read_only_except(folder: bytes) -> None:
    nothing = None
    # Private first: mounts must not pass between this namespace and the one outside.
    checked(libc.mount(b"none", b"/", nothing, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), nothing))
    # The folder becomes a mount of its own, which can stay writable.
    checked(libc.mount(folder, folder, nothing, ctypes.c_ulong(_MS_BIND), nothing))
    _set_mount(b"/", _AT_RECURSIVE, _READ_ONLY, 0)
    _set_mount(folder, 0, _NO_SETUID | _NO_DEVICES, _READ_ONLY)


def _set_mount(path: bytes, flags: int, switch_on: int, switch_off: int) -> None:
    attributes = struct.pack("=4Q", switch_on, switch_off, 0, 0)
    checked(
        libc.syscall(
            ctypes.c_long(_SYS_MOUNT_SETATTR),
            ctypes.c_int(_AT_FDCWD),
            path,
            ctypes.c_uint(flags),
            attributes,
            ctypes.c_size_t(len(attributes)),
        )
    )
