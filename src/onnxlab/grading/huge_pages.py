"""A process's memory in huge pages of 2 MB: a fork copies a list of pages, and theirs is short.

With torch loaded a process has some 80,000 pages of its own. Each fork lists them again, and each end of a
fork takes them from the list: about 18 ms together, 4 ms in huge pages. What a fork writes is still copied in
small pages.
"""

import ctypes
from pathlib import Path

from onnxlab.grading.system_calls import LINUX, libc

__all__ = ["use_huge_pages"]

_HUGE = 2 << 20
_MADV_COLLAPSE = 25  # Linux 6.1; older kernels refuse it


def use_huge_pages() -> int:
    """Put the memory that this process wrote itself into huge pages, as far as the system has some.

    Returns:
        How many bytes are in regions of which this was asked and done.
    """
    if not LINUX:
        return 0
    done = 0
    for start, end in _own_regions(Path("/proc/self/maps").read_text("utf-8", "replace")):
        for place in range(start, end, _HUGE):  # one that cannot be moved does not keep the others
            done += _HUGE * (not libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(_HUGE), _MADV_COLLAPSE))
    return done


def _own_regions(maps: str) -> list[tuple[int, int]]:
    """Return where whole huge pages fit into memory that can be written and is no file's.

    Example:
        >>> _own_regions("00300000-00900000 rw-p 00000000 00:00 0  [heap]") == [(0x400000, 0x800000)]
        True
    """
    found = []
    for line in maps.splitlines():
        place, rights, _, _, file, *name = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in place.split("-"))
        start, end = -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE
        if rights == "rw-p" and file == "0" and name not in (["[stack]"],) and start < end:
            found.append((start, end))
    return found
