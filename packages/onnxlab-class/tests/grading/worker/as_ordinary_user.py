"""Runs a program as another user, from a test of root's: `python as_ordinary_user.py USER HOME PROGRAM ...`.

Python may lie in a folder that only root can enter, as /root is. Then that folder is one that everybody can
enter, with nothing in it but the places that are needed; only in this program and what it starts.
"""

import ctypes
import os
import site
import sys
from pathlib import Path

from onnxlab_class.sandbox.libc import checked, libc

NEW_MOUNTS, BIND, EVERYWHERE, PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
NEEDED = [Path(place) for place in dict.fromkeys([sys.prefix, sys.base_prefix, *site.getsitepackages()])]


def mount(source: str, target: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, str(target), kind, data)]
    checked(libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3]))


def open_up(needed: list[Path]) -> None:
    """Mount over each folder that only its owner can enter one that has only the needed folders in it."""
    closed = {top for place in needed for top in place.parents if not top.stat().st_mode & 0o001}
    tops = {top for top in closed if not closed & set(top.parents)}
    if not tops:
        return
    checked(libc.unshare(NEW_MOUNTS))
    mount("none", Path("/"), None, EVERYWHERE | PRIVATE)
    descriptors = {place: os.open(place, os.O_PATH) for place in needed if tops & set(place.parents)}
    for top in tops:
        mount("tmpfs", top, "tmpfs", 0, "mode=755")
    for place, opened in descriptors.items():
        place.mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{opened}", place, None, BIND | EVERYWHERE)


def main() -> None:
    user, home = int(sys.argv[1]), sys.argv[2]
    repository = Path(__file__).parents[5]
    open_up([*NEEDED, repository / "src", repository / "packages"])
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    os.environ.update(HOME=home, USER="ordinary", TMPDIR=home)
    os.chdir(home)
    os.execv(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
