"""The command `onnxlab grade`: arguments and printing, nothing else."""

import argparse
import contextlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from onnxlab.cli.terminal import control
from onnxlab.errors import OnnxLabError
from onnxlab.language import LANGUAGES, speak, spoken_language
from onnxlab_class.commands.lab_option import add_lab_option, requested_labs

if TYPE_CHECKING:
    from onnxlab_class.grading.results import Ledger
    from onnxlab_class.grading.run import Step
    from onnxlab_class.grading.submissions import Intake
    from onnxlab_class.sandbox.entry import Level


_AUTOMATIC, _NONE = "auto", "none"
_SECONDS = (1, 86_400)  # a day
_MEGABYTES = (100, 1_000_000)  # less than 100 MB ends every notebook that exports
_UNCONFINED = "Nothing confines the notebooks: they can read, change and send whatever you can."
_SLOW = (
    "Each starts a Python of its own, which takes seconds. Linux has a sandbox and fast starts: a machine, a "
    "virtual machine or a container; on Windows, WSL2."
)


class OptionRefused(OnnxLabError):
    """An option has a number outside of its range."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    grade = commands.add_parser(
        "grade",
        help="grade a class's labs",
        epilog="Example: onnxlab grade submissions --out results",
        description="Grade notebooks of labs: each in a sandbox, its models judged elsewhere. "
        "A run that was cut off goes on where it was; what was handed in again is graded again.",
    )
    grade.add_argument("submissions", type=Path, metavar="SUBMISSIONS", help="a notebook or a folder of them")
    add_lab_option(grade)
    grade.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    grade.add_argument("--jobs", type=int, default=2, metavar="N", help="side by side (default: 2)")
    grade.add_argument("--seed", type=int, metavar="N", help="repeat a run: the seed in its run.json")
    grade.add_argument(
        "--isolation",
        choices=[_AUTOMATIC, "full", "landlock", _NONE],
        default=_AUTOMATIC,
        help="how submissions are confined; refuses to run with less (default: the most there is)",
    )
    grade.add_argument("--time", default="30", metavar="SECONDS", help="for one notebook (30)")
    grade.add_argument("--memory", default="1500", metavar="MB", help="for one notebook (1500)")
    grade.add_argument("--judges", type=Path, metavar="FILE", help="your own tests: see the guide")
    grade.add_argument(
        "--parts", action="store_true", help="points for parts that hold, too (default: for whole exercises)"
    )
    grade.add_argument(
        "--language", choices=LANGUAGES, default=spoken_language(), help="of the pages and comments"
    )
    cluster = grade.add_argument_group("on a Dask cluster", "needs dask[distributed]: see the guide")
    cluster.add_argument("--dask", metavar="ADDRESS", help="grade there and not here: tls://host:8786")
    grade.add_argument(
        "--gradebook",
        action="store_true",
        help="also write into nbgrader's gradebook; SUBMISSIONS is its course directory",
    )
    grade.set_defaults(command=_grade)


def _grade(options: argparse.Namespace) -> int:
    from onnxlab.plain_text import plain, pluralise
    from onnxlab_class.classroom.course.handed_out import code_handed_out
    from onnxlab_class.grading.private_judges import NONE, read_judges
    from onnxlab_class.grading.run import grade
    from onnxlab_class.grading.submissions import find
    from onnxlab_class.grading.worker.client import worker_pool
    from onnxlab_class.sandbox.watcher import Limits

    if options.jobs < 1:
        raise OptionRefused("--jobs takes 1 or more.")
    wall = _number("--time", options.time, *_SECONDS, "seconds")
    memory = _number("--memory", options.memory, *_MEGABYTES, "MB")
    speak(options.language)
    handed_out = code_handed_out(options.submissions)
    intake = find(options.submissions, wanted=requested_labs(options), handed_out=handed_out)
    if options.gradebook:
        from onnxlab_class.classroom.course.gradebook import check_course

        check_course(options.submissions)
    for path, reason in intake.ignored:
        print(f"not taken: {plain(path)}: {plain(reason)}")
    if intake.untouched:
        untouched = pluralise(intake.untouched, "lab")
        print(f"Not handed in, as nobody has changed the code in it: {untouched}.")
    if not intake.submissions:
        print(f"There are no labs to grade in {plain(options.submissions)}.", file=sys.stderr)
        return 2
    judges = read_judges(options.judges) if options.judges else NONE
    settings = {
        "limits": Limits(wall=wall, cpu=round(wall), memory=round(memory)),
        "judges": judges,
        "parts": options.parts,
    }
    if not options.dask:
        with worker_pool() as pool:  # it starts while this process goes on
            level = _available_level(options.isolation)
            run = partial(grade, level=level, jobs=options.jobs, pool=pool, **settings)
            return _into_folder(options, intake, level, judges.digest, run)
    from onnxlab_class.grading.cluster import common_level, connected, grade_on

    with connected(options.dask) as client:
        level = None if options.isolation == _NONE else common_level(client, _level(options.isolation))
        run = partial(grade_on, client, level=level, **settings)
        return _into_folder(options, intake, level, judges.digest, run)


def _into_folder(
    options: argparse.Namespace,
    intake: "Intake",
    level: "Level | None",
    judges: str,
    grade: Callable[..., int],
) -> int:
    """Grade, write the reports into the output folder, and print the summary."""
    from onnxlab.notebook.graph.saved_form import model_image
    from onnxlab.plain_text import plain, pluralise
    from onnxlab_class.grading.grades import count, summary_text
    from onnxlab_class.grading.marking import STUMBLE_MESSAGE, judge_failure
    from onnxlab_class.grading.reports import write_reports
    from onnxlab_class.grading.results import Ledger, facts
    from onnxlab_class.grading.submissions import NOT_SUBMITTED
    from onnxlab_class.grading.worker.client import can_fork

    bar = _ProgressBar()
    run = facts(level or _NONE) | {"judges": judges} | ({"parts": "yes"} if options.parts else {})
    with Ledger(options.out, run, options.seed) as ledger:
        for note in ledger.notes:
            print(note)
        if level is None:
            print(_UNCONFINED if can_fork() else f"{_UNCONFINED} {_SLOW}")
        todo = sum(not ledger.done(submission) for submission in intake.submissions)
        handed_in = pluralise(len(intake.submissions), "submission")
        print(f"{handed_in}, {todo} to grade. Isolation: {level or _NONE}.")
        grade(intake, ledger, on_step=bar.show)
        bar.end()
        failures = ledger.failures
        standings = write_reports(ledger, model_image, ignored=intake.ignored, without=intake.without)
        print(summary_text(standings))
        if absent := [plain(name) for name, why in sorted(intake.without.items()) if why == NOT_SUBMITTED]:
            print("\n" + f"Nothing handed in: {', '.join(absent)}")
        print(
            "\n" + f"Grades: {plain(options.out / 'grades.csv')}; feedback: {plain(options.out / 'feedback')}"
        )
        print(count(ledger.rows(), failures).line())
        stumbled = False
        for row in ledger.rows():
            if message := judge_failure(row.outcome):
                stumbled = stumbled or message.startswith(STUMBLE_MESSAGE)
                print(f"{plain(row.student)}, {row.lab}, {row.exercise}: {plain(message)}")
        if stumbled:
            print("A judge of the course has a fault: mark what it stumbled over yourself.", file=sys.stderr)
        for (student, name), reason in failures.items():
            print(f"not graded: {plain(student)}, {name}: {plain(reason)}", file=sys.stderr)
        complete = not options.gradebook or _into_gradebook(options, intake, ledger)
    return 1 if failures or stumbled or not complete else 0


def _into_gradebook(options: argparse.Namespace, intake: "Intake", ledger: "Ledger") -> bool:
    """Write the results into nbgrader's gradebook; return whether all of them are in it."""
    from onnxlab.notebook.graph.saved_form import model_image
    from onnxlab.plain_text import plain, pluralise
    from onnxlab_class.classroom.course.gradebook import book
    from onnxlab_class.grading.results import read_evidence

    print("Writing into the gradebook ...", flush=True)
    booked = book(
        options.submissions,
        intake.submissions,
        ledger.rows(),
        picture=model_image,
        evidence=partial(read_evidence, options.out),
    )
    for student, name, reason in booked.skipped:
        print(f"not in the gradebook: {plain(student)}, {name}: {plain(reason)}", file=sys.stderr)
    print(f"In the gradebook: {booked.submissions} of {pluralise(len(intake.submissions), 'submission')}.")
    return not booked.skipped


def _number(option: str, text: str, least: int, most: int, unit: str) -> float:
    """Return an option's number, which must be in its range."""
    with contextlib.suppress(ValueError):
        if least <= (number := float(text)) <= most:  # false for nan
            return number
    msg = "{option} takes {least:,} to {most:,} {unit}; it was given {text!r}."
    raise OptionRefused(msg, option=option, least=least, most=most, unit=unit, text=text[:40])


def _available_level(isolation: str) -> "Level | None":
    from onnxlab_class.sandbox.entry import NoIsolation, available, strongest

    if isolation == _NONE:
        return None
    best = strongest()
    if (level := _level(isolation)) is None:
        return best
    if reason := available()[level]:
        msg = f"This machine has no isolation {isolation!r}: {reason}."
        then = f"Leave out --isolation for the most there is ({best}), or grade elsewhere."
        raise NoIsolation(msg, "", then)
    return level


def _level(isolation: str) -> "Level | None":
    """Return the level that `--isolation` names; None for "auto"."""
    from onnxlab_class.sandbox.entry import Level

    return None if isolation == _AUTOMATIC else Level(isolation)


class _ProgressBar:
    """A progress bar on a terminal; elsewhere a line for every tenth of the run."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._tenth = -1

    def show(self, step: "Step") -> None:
        if self._live:
            bar = "#" * (30 * step.done // step.total)
            left = f"{step.done} of {step.total}, {step.left:.0f} s left"
            control("\r")
            print(f"[{bar:<30}] {left}", end="")
            control("\x1b[K")
            sys.stdout.flush()
        elif (tenth := 10 * step.done // step.total) > self._tenth:
            self._tenth = tenth
            print(f"{step.done} of {step.total}, {step.left:.0f} s left", flush=True)

    def end(self) -> None:
        if self._live:
            print()
