"""Landlock (landlock(7)): rules for the files, ports and processes that this process may still reach.

They hold for all that it starts, too, and cannot be undone. The kernel's version (ABI) decides what Landlock
controls; each version adds to the one before:

    ABI 1 (Linux 5.13)  files and folders; tracing of other processes
    ABI 2 (Linux 5.19)  moving files between folders (before, it is always refused)
    ABI 3 (Linux 6.2)   truncating files
    ABI 4 (Linux 6.7)   TCP
    ABI 5 (Linux 6.10)  control of devices
    ABI 6 (Linux 6.12)  signals to processes outside, abstract Unix sockets
"""

import ctypes
import os
import stat
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import IntFlag
from pathlib import Path

from onnxlab_class.sandbox.libc import LINUX, checked, libc

# landlock_create_ruleset, landlock_add_rule, landlock_restrict_self: the same numbers on every processor
_SYS_CREATE, _SYS_ADD, _SYS_RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_RULE_BELOW_PATH, _RULE_PORT = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE = 1 << 6, 1 << 11
_TRUNCATE, _CONTROL_DEVICE = 1 << 14, 1 << 15
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _CONTROL_DEVICE

_RIGHTS = (0, 13, 14, 15, 15, 16)  # how many rights on files each ABI knows
_TCP_BIND, _TCP_CONNECT = 1, 2
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11  # LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, LANDLOCK_SCOPE_SIGNAL
_HARMLESS = {
    "/dev/null": _READ_FILE | _WRITE_FILE | _TRUNCATE,
    "/dev/zero": _READ_FILE,
    "/dev/urandom": _READ_FILE,
    "/proc/cpuinfo": _READ_FILE,  # PyTorch picks its routines by what the processor can do
    "/proc/meminfo": _READ_FILE,
    "/sys/devices/system/cpu": _READ_FILE | _READ_DIR,
}


class Access(IntFlag):
    """What may be done with a path and all that is below it."""

    LOOK_UP = _READ_FILE
    """Read files whose names are known, but not list a folder."""
    LIST = _READ_DIR
    """See names, but read no file."""
    READ = _EXECUTE | _READ_FILE | _READ_DIR
    DEVICE = _READ_FILE | _WRITE_FILE | _READ_DIR | _CONTROL_DEVICE
    """Use the devices in a folder, such as terminals."""
    WRITE = (1 << _RIGHTS[-1]) - 1 & ~(_MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE | _CONTROL_DEVICE)
    """Everything but devices."""


_SINCE = {3: "truncating files", 4: "TCP", 6: "signals to other processes and abstract Unix sockets"}


def abi() -> int:
    """Return the version of this kernel's Landlock; 0 if it has none."""
    if not LINUX:
        return 0
    return max(
        0,
        int(libc.syscall(ctypes.c_long(_SYS_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_VERSION))),
    )


def lacking(version: int) -> tuple[str, ...]:
    """Return what a version does not control.

    Example:
        >>> lacking(4)
        ('signals to other processes and abstract Unix sockets',)
    """
    return tuple(control for since, control in _SINCE.items() if version < since)


def without(place: Path, hidden: Collection[Path]) -> Iterator[tuple[Path, Access]]:
    """Yield what `confine` takes to let a process read a place, but for some files and folders in it.

    Landlock's rules only add rights. So a folder with something hidden in it gets no rule that lets its files
    be read: each of its entries gets one of its own. The names of what is hidden can still be listed.

    Args:
        place: A file or folder.
        hidden: The files and folders, resolved.
    """
    place = place.resolve()
    if place in hidden:
        return
    if not any(place in path.parents for path in hidden):
        yield place, Access.READ
        return
    yield place, Access.LIST
    for entry in place.iterdir():
        if not entry.is_symlink():  # what it points to has a rule of its own, or none
            yield from without(entry, hidden)


def confine(
    places: Iterable[tuple[Path, Access]],
    *,
    bind: Sequence[int] = (),
    connect: Sequence[int] = (),
    apart: bool = True,
) -> None:
    """Restrict this process to the named paths and ports, and to a few harmless devices.

    Call `no_new_privileges` before. A path that does not exist is left out.

    Args:
        places: Files and folders, with the access to them.
        bind: The TCP ports that it may listen on.
        connect: The TCP ports that it may connect to, on any machine.
        apart: Whether its signals and abstract sockets reach only processes that it starts.

    Raises:
        OSError: If this kernel has no Landlock, or a path cannot be opened.
    """
    version = abi()
    if version < 1:
        raise OSError(0, "this kernel has no Landlock (Linux 5.13, switched on at boot)")
    rights = (1 << _RIGHTS[min(version, len(_RIGHTS) - 1)]) - 1
    # The kernel refuses rights that it does not know, and allows what a ruleset does not handle.
    fields = [rights]
    if version >= 4:
        fields.append(_TCP_BIND | _TCP_CONNECT)
    if version >= 6 and apart:
        fields.append(_ABSTRACT_SOCKETS_AND_SIGNALS)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    rules = checked(
        libc.syscall(
            ctypes.c_long(_SYS_CREATE), attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)
        )
    )
    try:
        for place, access in places:
            _allow(rules, place, access & rights)
        for place_of_all, allowed in _HARMLESS.items():
            _allow(rules, Path(place_of_all), allowed & rights)
        for ports, access_to_port in ((bind, _TCP_BIND), (connect, _TCP_CONNECT)) if version >= 4 else ():
            for port in ports:
                _add(rules, _RULE_PORT, struct.pack("=QQ", access_to_port, port))
        checked(libc.syscall(ctypes.c_long(_SYS_RESTRICT), ctypes.c_int(rules), ctypes.c_uint(0)))
    finally:
        os.close(rules)


def _allow(rules: int, place: Path, allowed: int) -> None:
    try:
        opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            allowed &= _FOR_FILES  # the kernel refuses a rule with a folder's rights for a file
        _add(rules, _RULE_BELOW_PATH, struct.pack("=Qi", allowed, opened))
    finally:
        os.close(opened)


def _add(rules: int, kind: int, rule: bytes) -> None:
    checked(
        libc.syscall(ctypes.c_long(_SYS_ADD), ctypes.c_int(rules), ctypes.c_int(kind), rule, ctypes.c_uint(0))
    )
