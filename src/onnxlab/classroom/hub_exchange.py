"""The class's exchange: whose it is, and the labs in it."""

import os
import sys
from pathlib import Path

from onnxlab.classroom.confinement import Confinement, confine
from onnxlab.classroom.course_folder import ClassFolder
from onnxlab.errors import OnnxLabError
from onnxlab.grading.whole_files import write_whole

__all__ = ["ExchangeUnusable", "own_course", "release_labs"]

_PARTS = ("source", "release", "submitted", "autograded", "feedback", "exchange", "gradebook.db")


class ExchangeUnusable(OnnxLabError):
    """The labs cannot be released to the class's exchange."""


def own_course(folder: ClassFolder, instructor: int | None) -> None:
    """Make the course the instructor's, where root serves it: nbgrader asks who owns the exchange.

    What holds passwords and learners' work is kept out of git, as virtual environments keep themselves.

    Args:
        folder: The class.
        instructor: The user that the instructor's server runs as; None if it is whoever runs this.
    """
    for place, mode in ((folder.learners, 0o711), (folder.hub, 0o700), (folder.exchange, 0o755)):
        place.mkdir(exist_ok=True)
        place.chmod(mode)
    for place in (folder.learners, folder.hub):  # a class can lie in somebody's clone, under any name
        if not (place / ".gitignore").exists():
            write_whole(place / ".gitignore", "*\n", private=True)
    if instructor is None:
        return
    if folder.path.stat().st_uid != instructor:
        # The instructor may add files, the database's journal for one, but not move the hub's away.
        os.chown(folder.path, -1, instructor)
        folder.path.chmod(0o1775)
    for name in _PARTS:
        place = folder.path / name
        if not place.exists() or place.is_symlink():
            continue
        if place.is_dir():
            for _, names, files, inside in os.fwalk(place):  # does not follow links
                for below in [*names, *files]:
                    os.chown(below, instructor, instructor, dir_fd=inside, follow_symlinks=False)
        os.chown(place, instructor, instructor, follow_symlinks=False)


def release_labs(folder: ClassFolder, cage: Confinement, variables: dict[str, str]) -> list[str]:
    """Release every lab that is not in the exchange yet, as the instructor would.

    Args:
        folder: The class.
        cage: The instructor's cage.
        variables: The instructor's variables.

    Returns:
        The labs that were released now.

    Raises:
        ExchangeUnusable: If nbgrader refuses.
    """
    exchange = folder.exchange / folder.name
    made = sorted(each.parent.name for each in folder.release.glob("*/*.ipynb"))
    missing = [name for name in made if not (exchange / "outbound" / name).is_dir()]
    hear, tell = os.pipe()
    process = os.fork()
    if not process:
        os.close(hear)
        code = 1
        try:
            os.environ.clear()
            os.environ.update(variables)
            confine(cage)
            _release(folder.path, missing)
            code = 0
        except BaseException as error:
            said_by_nbgrader = error.strerror if isinstance(error, OSError) else None
            os.write(tell, (said_by_nbgrader or f"{type(error).__name__}: {error}")[:500].encode())
        finally:
            os._exit(code)
    os.close(tell)
    with os.fdopen(hear, "rb") as said:
        reason = said.read().decode("utf-8", "replace")
    _, status = os.waitpid(process, 0)
    if status:
        msg = f"The labs cannot be released to {exchange}."
        then = "See whether that folder is the instructor's, and the disk has room."
        if missing:
            then = f"In {folder.path}, see: nbgrader release_assignment {missing[0]}"
        raise ExchangeUnusable(msg, reason, then)
    return missing


def _release(course: Path, labs: list[str]) -> None:
    from nbgrader.auth import Authenticator
    from nbgrader.exchange import ExchangeFactory

    from onnxlab.classroom.naming import name_this_user
    from onnxlab.classroom.nbgrader_course import course_at, quiet

    name_this_user()
    found = course_at(course)
    exchange = course / "exchange" / found.name
    parts = {"inbound": 0o700, "feedback": 0o711, "outbound": 0o755}
    for name in parts:
        (exchange / name).mkdir(parents=True, exist_ok=True)
    for path in (exchange, *(exchange / name for name in parts)):
        path.chmod(0o755)  # nbgrader looks whether they are open
    factory = ExchangeFactory(config=found.settings)
    for lab in labs:
        with quiet() as lines:
            found.directory.assignment_id = lab
            try:
                factory.ReleaseAssignment(
                    coursedir=found.directory, authenticator=Authenticator(), config=found.settings
                ).start()
            except Exception as error:
                raise OSError(0, (lines or [str(error)])[-1]) from None
    for name, mode in parts.items():  # as their owner: root would follow a link in their place
        (exchange / name).chmod(mode)
    sys.stdout.flush()
