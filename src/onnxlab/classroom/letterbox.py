"""Handing in: each learner has a letterbox of their own, and the class's exchange gets what arrives there.

A learner's nbgrader submits into `.onnxlab/exchange/` in their home, whose released labs and feedback are
links to the class's. Nobody else can look into it, and what comes out of it bears its owner's name, so
nobody can hand in as somebody else. Only notebooks are taken, and nbgrader's two notes beside them.
"""

import os
import re
import shutil
import stat
from itertools import islice
from pathlib import Path

__all__ = ["Letters", "make_letterbox"]

_LETTERBOX = Path(".onnxlab", "exchange")
_NAME = re.compile(
    r"(?P<student>[a-z0-9_-]+)\+(?P<lab>[A-Za-z0-9_.-]+)\+(?P<when>[0-9 :.-]+ [A-Z]+)\+[A-Za-z0-9_=-]+"
)
_NOTES = ("timestamp.txt", "submission_secret.txt")
_FINISHED = 0o777  # the mode that nbgrader gives a submission last of all
_MOST_FILES, _MOST_BYTES = 10, 20 * 2**20
_MOST_LETTERS, _MOST_NAMES = 500, 1000  # of one learner; in one letter, with what is not taken


def make_letterbox(home: Path, exchange: Path) -> None:
    """Make a learner's exchange. To be called as the learner.

    Args:
        home: The learner's folder.
        exchange: The class's part of nbgrader's exchange.
    """
    own = home / _LETTERBOX / exchange.name
    (own / "inbound").mkdir(parents=True, exist_ok=True)
    for name in ("outbound", "feedback"):
        link = own / name
        if not link.is_symlink() or link.readlink() != exchange / name:
            if link.is_symlink() or link.is_file():
                link.unlink()
            elif link.is_dir():
                shutil.rmtree(link)
            link.symlink_to(exchange / name)


class Letters:
    """What was handed in, on its way from the letterboxes to the class's exchange."""

    def __init__(self, learners: Path, exchange: Path, delivered: Path, owner: int | None) -> None:
        """Remember what was delivered before.

        Args:
            learners: The homes.
            exchange: The class's part of the exchange.
            delivered: The file with the names of what was delivered.
            owner: Whom the delivered files belong to; None for whoever runs this.
        """
        self._learners, self._exchange = learners, exchange
        self._delivered, self._owner = delivered, owner
        self._done: set[str] = set()
        if delivered.exists():
            self._done = set(delivered.read_text("utf-8").splitlines())

    def deliver(self, account: str) -> list[str]:
        """Take over what an account has handed in since the last time; return the labs' names."""
        arrived = []
        try:
            box = _open_below(self._learners / account, [*_LETTERBOX.parts, self._exchange.name, "inbound"])
        except OSError:
            return []
        try:
            for name in _names(box, _MOST_LETTERS):
                found = _NAME.fullmatch(name)
                if name in self._done or not found or found["student"] != account:
                    continue
                if self._take(box, name):
                    arrived.append(found["lab"])
        finally:
            os.close(box)
        return arrived

    def _take(self, box: int, name: str) -> bool:
        try:
            letter = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=box)
        except OSError:
            return False
        try:
            if stat.S_IMODE(os.fstat(letter).st_mode) != _FINISHED:
                return False  # nbgrader is still at it
            content = _read(letter)
        finally:
            os.close(letter)
        if content is None:
            self._note(name)
            return False
        unfinished = self._exchange / f".arriving-{os.getpid()}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        for file_name, data in content.items():
            (unfinished / file_name).write_bytes(data)
        if self._owner is not None:
            for path in (*unfinished.iterdir(), unfinished):
                os.chown(path, self._owner, self._owner)
        self._note(name)  # now: what could not be written, on a full disk for one, is tried again
        unfinished.rename(self._exchange / "inbound" / name)
        return True

    def _note(self, name: str) -> None:
        with self._delivered.open("a", encoding="utf-8") as file:
            file.write(name + "\n")
        self._done.add(name)


def _open_below(folder: Path, names: list[str]) -> int:
    """Open a folder below another without following a link that its owner may have put there."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    for name in names:
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
        finally:
            os.close(opened)
        opened = inner
    return opened


def _names(folder: int, most: int) -> list[str]:
    """Return what is in a folder; of one that somebody filled with names without end, only some."""
    with os.scandir(folder) as entries:
        return sorted(each.name for each in islice(entries, most))


def _read(letter: int) -> dict[str, bytes] | None:
    """Return the files of a submission; None if it is too large, or holds no notebook."""
    content: dict[str, bytes] = {}
    left, owner = _MOST_BYTES, os.fstat(letter).st_uid
    for name in _names(letter, _MOST_NAMES):
        if not (name.endswith(".ipynb") or name in _NOTES) or name.startswith("."):
            continue
        try:
            opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=letter)
        except OSError:
            return None
        with os.fdopen(opened, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != owner or len(content) >= _MOST_FILES:
                return None
            content[name] = file.read(left + 1)
        left -= len(content[name])
        if left < 0:
            return None
    return content if any(name.endswith(".ipynb") for name in content) else None
