"""Learners' homes: making them, collecting labs from them, and putting feedback into them.

A learner can put a link anywhere in a home, and whoever serves the class may be root. So no link is followed,
also none that replaces a folder meanwhile: every folder is opened from the one above it, and owners and modes
are changed of open files, not of paths.
"""

import contextlib
import os
import secrets
import stat
import time
from collections.abc import Collection as Container
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.files import FOLDERS_STAY_OPEN, FileTooLarge, open_folder, open_untrusted, write_atomically
from onnxlab.kit.exercise import LABS
from onnxlab.language import LANGUAGES
from onnxlab_class.classroom.course.folder import CLASS_FILE, RECORDS
from onnxlab_class.classroom.hub.settings import INSTRUCTOR
from onnxlab_class.grading.submissions import LARGEST, is_untouched, safe_name

FEEDBACK = "feedback"
"""The folder of a home that feedback pages are put into."""


class HomesNotFound(OnnxLabError):
    """A folder has no homes, or they cannot be read safely."""


@dataclass(frozen=True)
class Collection:
    """The outcome of `take_labs` or `give_feedback`.

    Attributes:
        files: Learner -> number of files that were copied.
        left: What was not copied, and why.
        untouched: How many labs were not copied, because nobody has worked in them.
    """

    files: dict[str, int]
    left: tuple[str, ...]
    untouched: int = 0


def make_home(homes: Path, name: str, user: int | None) -> None:
    """Make a home, or give an existing one to its account's user.

    Args:
        homes: The folder of the homes.
        name: The home's name.
        user: The user's id; None for the user that runs this.

    Raises:
        OSError: If something else has the home's name.
    """
    with open_folder(homes) as folder:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
        with open_folder(name, folder=folder) as home:
            owner = os.fstat(home).st_uid
            if user is None or owner == user:
                return
            for _, names, files, inside in os.fwalk(".", dir_fd=home):  # does not follow links
                for below in [*names, *files]:
                    info = os.stat(below, dir_fd=inside, follow_symlinks=False)
                    # Not a hard link: it may name a file of somebody else.
                    if info.st_uid == owner and (stat.S_ISDIR(info.st_mode) or info.st_nlink == 1):
                        os.chown(below, user, user, dir_fd=inside, follow_symlinks=False)
            os.fchown(home, user, user)  # last, so that an interrupted change is completed at the next start


def take_labs(
    folder: Path,
    into: Path | None = None,
    *,
    labs: Sequence[str] = LABS,
    handed_out: Container[str] = frozenset(),
) -> Collection:
    """Copy the labs out of every home, with their modification times.

    Of a lab in several languages, the one with more answers is copied; one without code of the learner's own
    is not.

    Args:
        folder: A class folder, or the folder of the homes.
        into: The target, for `<into>/<learner>/<lab>.ipynb`; None for the class's `submitted/`, arranged as
            nbgrader collects. Older copies are replaced.
        labs: The labs to copy.
        handed_out: The code cells of the labs as they were handed out.

    Raises:
        HomesNotFound: If there is no such folder, or this system cannot read it safely.
        CannotWrite: If a copy cannot be written.
    """
    if into is None and not (folder / CLASS_FILE).is_file():
        raise HomesNotFound(
            f"{folder} is not a class: it has no submitted/ to copy to.",
            "",
            "Say where to: onnxlab class take DIR INTO",
        )
    files: dict[str, int] = {}
    homes, left = _homes(folder)
    untouched = 0
    for home in homes:
        try:
            with contextlib.ExitStack() as stack:
                editions = [stack.enter_context(open_folder(home, "labs"))]
                for language in LANGUAGES:
                    with contextlib.suppress(FileNotFoundError):  # "en" has no folder of its own
                        editions.append(stack.enter_context(open_folder(language, folder=editions[0])))
                for lab in labs:
                    found = []
                    for edition in editions:
                        try:
                            found.append(_read(edition, f"{lab}.ipynb"))
                        except FileNotFoundError:
                            continue
                        except OSError as error:
                            left.append(f"{home.name}, {lab}: {error.strerror}")
                    touched = [file for file in found if not is_untouched(file[0], handed_out)]
                    untouched += bool(found) and not touched
                    if touched:
                        content, changed = min(touched, key=_open_answers)
                        _write_submission(folder, into, home.name, lab, content, changed)
                        files[home.name] = files.get(home.name, 0) + 1
        except FileNotFoundError:
            continue  # has never signed in
        except OSError as error:
            left.append(f"{home.name}: {error.strerror}")
    return Collection(files, tuple(left), untouched)


def give_feedback(folder: Path, results: Path) -> Collection:
    """Copy each learner's page of a grading run into their home, as `feedback/<name of the results>.html`.

    Their signed record, where there is one, lies beside it.

    Args:
        folder: A class folder, or the folder of the homes.
        results: The folder that `onnxlab grade --out` wrote.

    Raises:
        HomesNotFound: If there is no such folder, or it has no pages.
    """
    if not any((results / "feedback").glob("*.html")):
        raise HomesNotFound(
            f"There are no feedback pages in {results}.",
            "",
            f"Grade first: onnxlab grade {folder} --out {results}",
        )
    files: dict[str, int] = {}
    homes, left = _homes(folder)
    for home in homes:
        name = safe_name(home.name)
        pages = {
            results / "feedback" / f"{name}.html": f"{results.absolute().name}.html",
            results / RECORDS / f"{name}.html": "onnxlab-record.html",
            results / RECORDS / f"{name}.svg": "onnxlab-record.svg",
        }
        try:
            for page in filter(Path.is_file, pages):
                with open_folder(home) as opened:
                    _write_page(opened, pages[page], page.read_bytes())
                files[home.name] = 1
        except OSError as error:
            left.append(f"{home.name}: {error.strerror}")
    return Collection(files, tuple(left))


def _open_answers(file: tuple[bytes, int]) -> tuple[int, int]:
    """Order the editions of a lab: first the one with the fewest open answers, of these the newest."""
    content, changed = file
    return content.count(b"raise NotImplementedError()"), -changed


def _homes(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the homes, and a message for each entry that is none."""
    if not FOLDERS_STAY_OPEN:
        raise HomesNotFound(
            "Homes cannot be read safely on this system: a learner's link could lead anywhere.",
            "",
            "Do this on Linux or macOS.",
        )
    # No folder's name says that this is a class: a learner can have it.
    homes = folder / "learners" if (folder / CLASS_FILE).is_file() else folder
    if not homes.is_dir():
        raise HomesNotFound(
            f"There is no folder {folder}.", "", "Name the class's folder, or the folder of the homes."
        )
    entries = sorted(home for home in homes.iterdir() if home.name != INSTRUCTOR)
    hidden = [home for home in entries if home.name.startswith(".")]
    left = [f"{home.name}: It is hidden" for home in hidden if home.is_dir()]  # a .gitignore is nobody's home
    return [home for home in entries if home not in hidden], left


def _read(folder: int, name: str) -> tuple[bytes, int]:
    """Return the content and the modification time of a regular file; now, if no clock can have set that."""
    with open_untrusted(name, folder=folder) as file:
        content, changed = file.read(LARGEST + 1), os.fstat(file.fileno()).st_mtime_ns
    if len(content) > LARGEST:
        raise FileTooLarge(LARGEST)
    now = time.time_ns()
    return content, changed if 0 <= changed <= now else now


def _write_submission(
    folder: Path, into: Path | None, learner: str, lab: str, content: bytes, changed: int
) -> None:
    copy = into / learner / f"{lab}.ipynb" if into else folder / "submitted" / learner / lab / f"{lab}.ipynb"
    copy.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(copy, content)
    os.utime(copy, ns=(changed, changed))
    if into is None:  # nbgrader's note of when it was handed in
        date = datetime.fromtimestamp(changed / 1e9, UTC)
        write_atomically(copy.with_name("timestamp.txt"), f"{date:%Y-%m-%d %H:%M:%S.%f} UTC")


def _write_page(home: int, name: str, content: bytes) -> None:
    """Write a page into a home's folder `feedback`; both belong to the home's owner."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(FEEDBACK, 0o700, dir_fd=home)
    with open_folder(FEEDBACK, folder=home) as folder:
        owner, unfinished = os.fstat(home), f".{secrets.token_hex(8)}"
        if os.fstat(folder).st_uid == os.geteuid() == 0:  # just made by root
            os.fchown(folder, owner.st_uid, owner.st_gid)
        # O_EXCL: a new file of this process, even if somebody puts a link in its place meanwhile.
        file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
        with os.fdopen(file, "wb") as writing:
            if os.geteuid() == 0:
                os.fchown(writing.fileno(), owner.st_uid, owner.st_gid)
            writing.write(content)
        os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
