"""nbgrader on a course directory, in this process: settings, gradebook, assignments. Prints nothing."""

import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxlab.errors import OnnxLabError

if TYPE_CHECKING:
    from nbgrader.api import Gradebook
    from nbgrader.coursedir import CourseDirectory

__all__ = ["SETTINGS", "ClassroomMissing", "Course", "CourseUnusable", "course_at", "require_nbgrader"]

SETTINGS = "nbgrader_config.py"
"""The file with a course's settings."""


class ClassroomMissing(OnnxLabError):
    """A class needs packages that a learner does not have."""


class CourseUnusable(OnnxLabError):
    """nbgrader does not take a course directory or its settings."""


@dataclass(frozen=True)
class Course:
    """A course directory as nbgrader sees it.

    Attributes:
        directory: nbgrader's own description of it.
        settings: All settings that count for it.
    """

    directory: "CourseDirectory"
    settings: Any

    @property
    def name(self) -> str:
        """The course's name; "" if the settings give none."""
        return str(self.directory.course_id)

    def folder(self, step: str, student: str, assignment: str) -> Path:
        """Return where a step of an assignment is kept.

        Args:
            step: As "submitted"; "source" and "release" go with the student ".".
            student: The student's name.
            assignment: The assignment.
        """
        name = getattr(self.directory, f"{step}_directory")
        return Path(self.directory.format_path(name, student, assignment))

    @contextmanager
    def gradebook(self) -> Iterator["Gradebook"]:
        """Open the gradebook for the length of a block; it is made if it is not there.

        Raises:
            CourseUnusable: If it is no database that nbgrader can use.
        """
        from nbgrader.api import Gradebook
        from sqlalchemy.exc import SQLAlchemyError

        with _quiet(), _programs_found():
            try:
                book = Gradebook(self.directory.db_url, self.name or "default_course")
            except (SQLAlchemyError, OSError) as error:
                msg = f"The gradebook {self.directory.db_url} cannot be used."
                reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
                then = "Is another program using it, or is it of another nbgrader? Try again."
                raise CourseUnusable(msg, reason, then) from None
            try:
                yield book
            finally:
                book.close()

    def generate(self, assignment: str) -> None:
        """Make the assignment that is handed out, and note its cells and points in the gradebook.

        Raises:
            CourseUnusable: If nbgrader refuses; its reason is in the message.
        """
        from nbgrader.converters import GenerateAssignment

        with _quiet() as said, _programs_found():
            self.directory.assignment_id = assignment
            try:
                GenerateAssignment(coursedir=self.directory, config=self.settings, force=True).start()
            except (Exception, SystemExit) as error:  # nbgrader raises what its parts raise
                reason = _last(said.getvalue()) or str(error)
                msg = f"nbgrader cannot generate {assignment}."
                then = f"In {self.directory.root}, see: nbgrader generate_assignment {assignment} --force"
                raise CourseUnusable(msg, reason, then) from None
            finally:
                self.directory.assignment_id = ""


def require_nbgrader() -> None:
    """Make sure that nbgrader is there.

    Raises:
        ClassroomMissing: If it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import nbgrader  # noqa: F401
    except ImportError:
        msg = "nbgrader is not installed; a class needs it, a learner does not."
        raise ClassroomMissing(msg, "", 'In the course\'s folder: pip install -e ".[classroom]"') from None


def course_at(folder: Path) -> Course:
    """Return the course in a folder, with the settings nbgrader would use there: the machine's, then its own.

    Raises:
        ClassroomMissing: If nbgrader is not installed.
        CourseUnusable: If a settings file raises.
    """
    require_nbgrader()
    from jupyter_core.paths import jupyter_config_path
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config, PyFileConfigLoader

    root = folder.absolute()
    settings = Config()
    for place in [*reversed([Path(each) for each in jupyter_config_path()]), root]:
        if not (place / SETTINGS).is_file():
            continue
        try:
            settings.merge(PyFileConfigLoader(SETTINGS, path=str(place)).load_config())
        except Exception as error:  # it is a program, and somebody else's
            msg = f"{place / SETTINGS} raised {type(error).__name__}: {error}"
            raise CourseUnusable(msg, "", "Correct that file.") from None
    if "root" not in settings.CourseDirectory:
        settings.CourseDirectory.root = str(root)
    with _quiet():
        return Course(CourseDirectory(config=settings), settings)


@contextmanager
def _quiet() -> Iterator[io.StringIO]:
    """Keep what nbgrader and its parts log and warn of, instead of printing it."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setLevel(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("traitlets", "tornado.application", "alembic")]
    before = [(each, each.propagate) for each in loggers]
    for each in loggers:
        each.addHandler(handler)
        each.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield said
    finally:
        for each, propagates in before:
            each.removeHandler(handler)
            each.propagate = propagates


@contextmanager
def _programs_found() -> Iterator[None]:
    """Let nbgrader find alembic, which it starts by name, also where the environment is not activated."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _last(said: str) -> str:
    """The last line that says something; a traceback ends with the reason."""
    lines = [line for line in said.splitlines() if line.strip()]
    reasons = [line for line in lines if "Error" in line.partition(":")[0]]
    return (reasons or lines or [""])[-1].strip()[:300]
