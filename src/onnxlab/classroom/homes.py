"""Taking every learner's labs out of the homes as they are now, whether they were handed in or not.

A home is its learner's: no link in it is followed, also none that takes the place of a folder meanwhile,
nothing is waited for, and only ordinary files of a reasonable size are taken.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.grading.intake import LARGEST
from onnxlab.grading.whole_files import write_whole
from onnxlab.labs.exercise import LABS

__all__ = ["HomesNotFound", "Taken", "take_labs"]

_ACCOUNT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_NOT_A_LEARNER = {"instructor"}
_SAFELY = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")  # not on Windows
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


class HomesNotFound(OnnxLabError):
    """There are no homes where they were said to be."""


@dataclass(frozen=True)
class Taken:
    """What was copied.

    Attributes:
        labs: How many notebooks of each learner.
        left: What was not copied, and why.
    """

    labs: dict[str, int]
    left: tuple[str, ...]


def take_labs(folder: Path, into: Path) -> Taken:
    """Copy `<home>/labs/<lab>.ipynb` of every learner to `<into>/<learner>/<lab>.ipynb`.

    The copies have the originals' time of change, which decides where there is more than one.

    Args:
        folder: A class folder, or the folder of the homes.
        into: Where to; what lies there of the same names is replaced.

    Raises:
        HomesNotFound: If there is no such folder, or this system cannot read it safely.
        CannotWrite: If a copy cannot be written.
    """
    if not _SAFELY:
        msg = "Homes cannot be read safely on this system: a learner's link could lead anywhere."
        raise HomesNotFound(msg, "", "Do this on Linux or macOS.")
    homes = folder / "learners" if (folder / "learners").is_dir() else folder
    if not homes.is_dir():
        msg = f"There is no folder {folder}."
        raise HomesNotFound(msg, "", "Name the class's folder, or the folder of the homes.")
    labs: dict[str, int] = {}
    left: list[str] = []
    for home in sorted(homes.iterdir()):
        if home.name in _NOT_A_LEARNER or not _ACCOUNT.fullmatch(home.name):
            continue
        try:
            place = _folder(home / "labs")
        except FileNotFoundError:
            continue  # has never signed in
        except OSError as error:
            left.append(f"{home.name}: {error.strerror}")
            continue
        try:
            for lab in LABS:
                _take(place, into, home.name, lab, labs, left)
        finally:
            os.close(place)
    return Taken(labs, tuple(left))


def _take(place: int, into: Path, learner: str, lab: str, labs: dict[str, int], left: list[str]) -> None:
    try:
        found = _read(place, f"{lab}.ipynb")
    except FileNotFoundError:
        return
    except OSError as error:
        left.append(f"{learner}, {lab}: {error.strerror}")
        return
    if found is None:
        left.append(f"{learner}, {lab}: not an ordinary file of up to {LARGEST // 2**20} MB")
        return
    content, changed = found
    copy = into / learner / f"{lab}.ipynb"
    copy.parent.mkdir(parents=True, exist_ok=True)
    write_whole(copy, content)
    os.utime(copy, ns=(changed, changed))
    labs[learner] = labs.get(learner, 0) + 1


def _folder(path: Path) -> int:
    """Open a folder in a home, and neither through a link."""
    home = os.open(path.parent, _FOLDER)
    try:
        return os.open(path.name, _FOLDER, dir_fd=home)
    finally:
        os.close(home)


def _read(place: int, name: str) -> tuple[bytes, int] | None:
    with os.fdopen(os.open(name, _FILE, dir_fd=place), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None
        content = file.read(LARGEST + 1)
    return None if len(content) > LARGEST else (content, status.st_mtime_ns)
