"""`onnxlab grade`: arguments and printing only."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxlab.grading.intake import Intake
    from onnxlab.grading.ledger import Ledger
    from onnxlab.grading.levels import Level
    from onnxlab.grading.run import Step

__all__ = ["add_grade"]

_AUTOMATIC, _NONE = "auto", "none"
_UNCONFINED = "Nothing confines the notebooks: they can read, change and send whatever you can."
_SLOW = (
    "Each starts a Python of its own, which takes seconds. Linux has a sandbox and fast starts: a machine, a "
    "virtual machine or a container; on Windows, WSL2."
)


def add_grade(rooms: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    grade = rooms.add_parser(
        "grade",
        help="grade a class's labs",
        description="Grade notebooks of labs: each in a sandbox, its models judged elsewhere. "
        "A run that was cut off goes on where it was; what was handed in again is graded again.",
    )
    grade.add_argument("submissions", type=Path, metavar="SUBMISSIONS", help="a notebook or a folder of them")
    grade.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    grade.add_argument("--jobs", type=int, default=2, metavar="N", help="side by side (default: 2)")
    grade.add_argument("--seed", type=int, metavar="N", help="repeat a run with its seed (default: drawn)")
    grade.add_argument(
        "--isolation",
        choices=[_AUTOMATIC, "full", "landlock", "posix", _NONE],
        default=_AUTOMATIC,
        help="how submissions are confined; refuses to run with less (default: the most there is)",
    )
    grade.add_argument("--time", type=float, default=30.0, metavar="SECONDS", help="for one notebook (30)")
    grade.add_argument("--memory", type=int, default=1500, metavar="MB", help="for one notebook (1500)")
    grade.add_argument("--judges", type=Path, metavar="FILE", help="your own tests; see docs/instructor.md")
    cluster = grade.add_argument_group("on a Dask cluster", "needs dask[distributed]; see docs/grading.md")
    cluster.add_argument("--dask", metavar="ADDRESS", help="grade there and not here: tls://host:8786")
    cluster.add_argument("--tls-ca", metavar="FILE", help="the certificate of the cluster's authority")
    cluster.add_argument("--tls-cert", metavar="FILE", help="a certificate of that authority, to show")
    cluster.add_argument("--tls-key", metavar="FILE", help="its key")
    grade.add_argument("--gradescope", action="store_true", help="also write a results.json for each student")
    grade.add_argument(
        "--gradebook",
        action="store_true",
        help="also write into nbgrader's gradebook; SUBMISSIONS is its course directory",
    )
    grade.set_defaults(command=_grade)


def _grade(options: argparse.Namespace) -> int:
    from onnxlab.grading.intake import find
    from onnxlab.grading.levels import Limits
    from onnxlab.grading.plain_text import plain
    from onnxlab.grading.pool import processes
    from onnxlab.grading.private_judges import NONE
    from onnxlab.grading.private_parts import read_judges
    from onnxlab.grading.run import grade

    files = [options.tls_ca, options.tls_cert, options.tls_key]
    if any(files) and not (all(files) and options.dask):
        print("--tls-ca, --tls-cert and --tls-key go together, and with --dask.", file=sys.stderr)
        return 2
    if options.jobs < 1:
        print("--jobs takes 1 or more.", file=sys.stderr)
        return 2
    intake = find(options.submissions)
    if options.gradebook:
        from onnxlab.classroom.gradebook import check_course

        check_course(options.submissions)
    for path, reason in intake.ignored:
        print(f"not taken: {plain(str(path))}: {reason}")
    if not intake.submissions:
        print(f"There are no labs in {options.submissions}.", file=sys.stderr)
        return 2
    judges = read_judges(options.judges) if options.judges else NONE
    limits = Limits(wall=options.time, cpu=max(1, round(options.time)), memory=options.memory)
    if not options.dask:
        with processes() as pool:  # it starts while the rest is looked at
            level = _level(options.isolation)
            here = partial(grade, level=level, limits=limits, jobs=options.jobs, judges=judges, pool=pool)
            return _into_folder(options, intake, level, judges.digest, here)
    from onnxlab.grading.cluster import Tls, common_level, connected, grade_on

    with connected(options.dask, Tls(*files) if all(files) else None) as client:
        level = None if options.isolation == _NONE else common_level(client, _named(options.isolation))
        there = partial(grade_on, client, level=level, limits=limits, judges=judges)
        return _into_folder(options, intake, level, judges.digest, there)


def _into_folder(
    options: argparse.Namespace,
    intake: "Intake",
    level: "Level | None",
    judges: str,
    grade: Callable[..., int],
) -> int:
    from onnxlab.display.graph_image import graph_image
    from onnxlab.grading.ledger import Ledger, facts
    from onnxlab.grading.plain_text import many, plain
    from onnxlab.grading.pool import can_fork
    from onnxlab.grading.reports import write_reports
    from onnxlab.grading.results import count
    from onnxlab.grading.summary import summary_text

    line = _Line()
    run = facts(level or _NONE) | {"judges": judges}
    with Ledger(options.out, run, options.seed) as ledger:
        for note in ledger.notes:
            print(note)
        if level is None:
            print(_UNCONFINED if can_fork() else f"{_UNCONFINED} {_SLOW}")
        todo = sum(not ledger.done(each) for each in intake.submissions)
        print(f"{many(len(intake.submissions), 'submission')}, {todo} to grade. Isolation: {level or _NONE}.")
        grade(intake, ledger, told=line.show)
        line.end()
        failures = ledger.failures
        standings = write_reports(ledger, graph_image, ignored=intake.ignored, gradescope=options.gradescope)
        print(summary_text(standings))
        print(f"\nGrades: {options.out / 'grades.csv'}; feedback: {options.out / 'feedback'}")
        print(count(ledger.rows(), failures).line())
        for (student, name), reason in failures.items():
            print(f"not graded: {plain(student)}, {name}: {plain(reason)}", file=sys.stderr)
        booked = not options.gradebook or _into_gradebook(options, intake, ledger)
    return 1 if failures or not booked else 0


def _into_gradebook(options: argparse.Namespace, intake: "Intake", ledger: "Ledger") -> bool:
    """Write into nbgrader's gradebook; return whether all of it is there."""
    from onnxlab.classroom.gradebook import book
    from onnxlab.display.graph_image import graph_image
    from onnxlab.grading import evidence
    from onnxlab.grading.plain_text import many, plain

    print("Writing into the gradebook ...", flush=True)
    kept = partial(evidence.kept, options.out)
    found = book(options.submissions, intake.submissions, ledger.rows(), picture=graph_image, kept=kept)
    for student, name, reason in found.skipped:
        print(f"not in the gradebook: {plain(student)}, {name}: {plain(reason)}", file=sys.stderr)
    print(f"In the gradebook: {found.submissions} of {many(len(intake.submissions), 'submission')}.")
    return not found.skipped


def _level(asked: str) -> "Level | None":
    from onnxlab.grading.levels import NoIsolation, available, strongest

    if asked == _NONE:
        return None
    if (level := _named(asked)) is None:
        return strongest()
    if reason := available()[level]:
        msg = f"This machine has no isolation {asked!r}: {reason}."
        raise NoIsolation(msg, "", "Leave out --isolation for the most there is, or grade elsewhere.")
    return level


def _named(asked: str) -> "Level | None":
    from onnxlab.grading.levels import Level

    return None if asked == _AUTOMATIC else Level(asked)


class _Line:
    """A progress bar on a terminal; elsewhere a line for every tenth part."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._shown = -1

    def show(self, step: "Step") -> None:
        if self._live:
            bar = "#" * (30 * step.done // step.total)
            text = f"[{bar:<30}] {step.done}/{step.total}, {step.left:.0f} s left"
            print(f"\r{text}\x1b[K", end="", flush=True)
        elif (tenth := 10 * step.done // step.total) > self._shown:
            self._shown = tenth
            print(f"{step.done} of {step.total}, {step.left:.0f} s left", flush=True)

    def end(self) -> None:
        if self._live:
            print()
