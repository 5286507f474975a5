"""Calls nbgrader on a course directory, without its output: settings, gradebook, assignments."""

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


SETTINGS = "nbgrader_config.py"
"""The file with a course's settings."""


class ClassroomMissing(OnnxLabError):
    """A package of the extra `classroom` is not installed."""


class CourseUnusable(OnnxLabError):
    """nbgrader refuses a course directory or its settings."""


@dataclass(frozen=True)
class Course:
    """A course directory as nbgrader sees it.

    Attributes:
        directory: nbgrader's description of it.
        settings: All its settings.
    """

    directory: "CourseDirectory"
    settings: Any

    @property
    def name(self) -> str:
        """The course's name; "" if the settings give none."""
        return str(self.directory.course_id)

    def folder(self, step: str, student: str, assignment: str) -> Path:
        """Return the folder of a step of an assignment.

        Args:
            step: As "submitted"; "source" and "release" go with the student ".".
            student: The student's name.
            assignment: The assignment.
        """
        name = getattr(self.directory, f"{step}_directory")
        return Path(self.directory.format_path(name, student, assignment))

    @contextmanager
    def gradebook(self) -> Iterator["Gradebook"]:
        """Open the gradebook for the length of a block; make it if there is none.

        Raises:
            CourseUnusable: If nbgrader cannot use the database.
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
        """Make the released version of an assignment, and record its cells and points in the gradebook.

        Raises:
            CourseUnusable: If nbgrader refuses; its reason is in the message.
        """
        from nbgrader.converters import GenerateAssignment

        with _quiet() as log, _programs_found():
            self.directory.assignment_id = assignment
            try:
                GenerateAssignment(coursedir=self.directory, config=self.settings, force=True).start()
            except (Exception, SystemExit) as error:  # nbgrader raises what its parts raise
                reason = _last(log.getvalue()) or str(error)
                msg = f"nbgrader cannot generate {assignment}."
                then = f"In {self.directory.root}, see: nbgrader generate_assignment {assignment} --force"
                raise CourseUnusable(msg, reason, then) from None
            finally:
                self.directory.assignment_id = ""


def require_nbgrader() -> None:
    """Check that nbgrader is installed.

    Raises:
        ClassroomMissing: If it is not.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import nbgrader  # noqa: F401
    except ImportError:
        raise ClassroomMissing(
            "nbgrader is not installed; a class needs it, a learner does not.",
            "",
            'In the course\'s folder: pip install -e "packages/onnxlab-class[classroom]"',
        ) from None


def course_at(folder: Path) -> Course:
    """Return the course in a folder, with nbgrader's settings: the machine's, overridden by the folder's.

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
    for config_folder in [*reversed([Path(name) for name in jupyter_config_path()]), root]:
        if not (config_folder / SETTINGS).is_file():
            continue
        try:
            settings.merge(PyFileConfigLoader(SETTINGS, path=str(config_folder)).load_config())
        except Exception as error:  # it is a program, and somebody else's
            raise CourseUnusable(
                f"{config_folder / SETTINGS} raised {type(error).__name__}: {error}", "", "Correct that file."
            ) from None
    if "root" not in settings.CourseDirectory:
        settings.CourseDirectory.root = str(root)
    with _quiet():
        return Course(CourseDirectory(config=settings), settings)


@contextmanager
def _quiet() -> Iterator[io.StringIO]:
    """Collect the log of nbgrader and its libraries instead of printing it; ignore warnings."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    handler.setLevel(logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("traitlets", "tornado.application", "alembic")]
    before = [(logger, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield log
    finally:
        for logger, propagates in before:
            logger.removeHandler(handler)
            logger.propagate = propagates


@contextmanager
def _programs_found() -> Iterator[None]:
    """Put this environment's programs on PATH: nbgrader starts alembic by its name."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _last(log: str) -> str:
    """Return the last line with an error, else the last line."""
    lines = [line for line in log.splitlines() if line.strip()]
    reasons = [line for line in lines if "Error" in line.partition(":")[0]]
    return (reasons or lines or [""])[-1].strip()[:300]
