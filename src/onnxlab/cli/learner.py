"""A learner's commands, `onnxlab check`, `progress` and `reset`: arguments and printing, nothing else."""

import argparse
import sys
from pathlib import Path

from onnxlab.cli.tables import print_table

__all__ = ["add_learner_commands"]


def add_learner_commands(rooms: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to a parser."""
    check = rooms.add_parser("check", help="check the exercises of a lab's notebook")
    check.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    check.set_defaults(command=_check)
    progress = rooms.add_parser("progress", help="what is passed, tried and open in the labs")
    sharing = progress.add_mutually_exclusive_group()
    sharing.add_argument(
        "--private", action="store_true", help="the instructor's live page leaves you out from now on"
    )
    sharing.add_argument("--public", action="store_true", help="it shows you again")
    progress.set_defaults(command=_progress)
    reset = rooms.add_parser("reset", help="the untouched lab again; the work is kept as a copy")
    reset.add_argument("labs", nargs="+", metavar="LAB", help="as lab05")
    reset.set_defaults(command=_reset)


def _check(options: argparse.Namespace) -> int:
    from onnxlab.authoring.lab_check import check_notebook, read_lab
    from onnxlab.labs.kit.exercise import exercise
    from onnxlab.notebook.labs.report import report_text

    for path in options.notebooks:
        read_lab(path)  # what cannot be checked is said before anything runs
    every = True
    for path in options.notebooks:
        print(f"{path}: running it ...", flush=True)
        outcomes = check_notebook(path)
        for outcome in outcomes:
            if outcome.first_failure or outcome.message:
                print(f"\n{report_text(*exercise(outcome.exercise), outcome)}")
        rows = [
            (o.exercise, str(o.status), f"{o.points} of {o.possible}", f"{o.seconds:.1f}") for o in outcomes
        ]
        print()
        print_table([("exercise", "outcome", "points", "seconds"), *rows])
        print(f"{sum(o.points for o in outcomes)} of {sum(o.possible for o in outcomes)} points\n")
        every = every and all(outcome.passed for outcome in outcomes)
    return 0 if every else 1


def _progress(options: argparse.Namespace) -> int:
    from onnxlab.labs.kit.progress import set_private
    from onnxlab.notebook.labs.progress import progress_table, shared

    asked = options.private or options.public
    told = set_private(options.private) if asked else ""
    shown, message = progress_table()
    for line in filter(None, [told, message]):
        print(line, file=sys.stderr)
    print(shown)
    if said := shared(always=asked, terminal=True):
        print(said)
    return 1 if told else 0


def _reset(options: argparse.Namespace) -> int:
    from onnxlab.authoring.lab_release import course_root, reset

    for name in options.labs:
        path, kept = reset(name, course_root(Path.cwd()))
        print(f"labs/{path.name} is untouched again.", f"Your work is in labs/{kept.name}." if kept else "")
    return 0
