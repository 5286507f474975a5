"""The `onnxlab` command: arguments and printing, nothing else."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from onnxlab.cli_class import add_class
from onnxlab.cli_grading import add_grade
from onnxlab.errors import OnnxLabError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `onnxlab` command and return its exit code: 0 fine, 1 something is wrong, 2 wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        code = int(options.command(options))
        sys.stdout.flush()
        return code
    except OnnxLabError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `| head`: whoever read has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="onnxlab", description="Tools of the ONNX Lab course.")
    rooms = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_learner_commands(rooms)
    add_grade(rooms)
    add_class(rooms)
    author = rooms.add_parser("author", help="make and check the course's notebooks")
    commands = author.add_subparsers(title="commands", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run notebooks from top to bottom and save them clean")
    run.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    run.add_argument(
        "--timeout", type=int, default=600, metavar="SECONDS", help="for one cell (default: 600)"
    )
    run.set_defaults(command=_author_run)

    check = commands.add_parser("check", help="report what keeps a notebook from being committed")
    check.add_argument(
        "notebooks",
        nargs="*",
        type=Path,
        metavar="NOTEBOOK",
        help="default: all of the course",
    )
    check.set_defaults(command=_author_check)

    pin = commands.add_parser("pin", help="compile requirements*.txt from the ranges in pyproject.toml")
    pin.add_argument("packages", nargs="*", metavar="PACKAGE", help="move this one: name, or name==version")
    pin.set_defaults(command=_author_pin)

    sync = commands.add_parser("sync", help="make labs/ from solutions/")
    sync.add_argument("--check", action="store_true", help="change nothing; fail if something would change")
    sync.set_defaults(command=_author_sync)

    cluster = commands.add_parser("cluster", help="write the pins into docs/kubernetes/")
    cluster.add_argument(
        "--check", action="store_true", help="change nothing; fail if something would change"
    )
    cluster.set_defaults(command=_author_cluster)
    return parser


def _add_learner_commands(rooms: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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
    from onnxlab.authoring.lab_check import check_notebook
    from onnxlab.display.lab_report import report_text
    from onnxlab.labs.exercise import exercise

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
        _print_table([("exercise", "outcome", "points", "seconds"), *rows])
        print(f"{sum(o.points for o in outcomes)} of {sum(o.possible for o in outcomes)} points\n")
        every = every and all(outcome.passed for outcome in outcomes)
    return 0 if every else 1


def _progress(options: argparse.Namespace) -> int:
    from onnxlab.display.lab_progress import progress_table, shared
    from onnxlab.labs.progress import set_private

    asked = options.private or options.public
    told = set_private(options.private) if asked else ""
    shown, message = progress_table()
    for line in filter(None, [told, message]):
        print(line, file=sys.stderr)
    print(shown)
    if said := shared(always=asked):
        print(said)
    return 1 if told else 0


def _reset(options: argparse.Namespace) -> int:
    from onnxlab.authoring.lab_reset import course_root, reset

    for name in options.labs:
        path, kept = reset(name, course_root(Path.cwd()))
        print(f"labs/{path.name} is untouched again.", f"Your work is in labs/{kept.name}." if kept else "")
    return 0


def _author_sync(options: argparse.Namespace) -> int:
    from onnxlab.authoring.lab_release import out_of_sync, sync

    if not options.check:
        for path in sync(Path.cwd()):
            print(f"written: {path.parent.name}/{path.name}")
        for line in out_of_sync(Path.cwd()):
            print(f"left alone: {line}")
        return 0
    found = out_of_sync(Path.cwd())
    for line in found:
        print(line)
    print("labs/ is in sync" if not found else "Run: onnxlab author sync")
    return 1 if found else 0


def _author_cluster(options: argparse.Namespace) -> int:
    from onnxlab.authoring.cluster_files import out_of_sync, sync

    if options.check:
        found = out_of_sync(Path.cwd())
        print(*found, "Run: onnxlab author cluster" if found else "docs/kubernetes/ is in sync", sep="\n")
        return 1 if found else 0
    for path in sync(Path.cwd()):
        print(f"written: {path.parent.name}/{path.name}")
    return 0


def _author_run(options: argparse.Namespace) -> int:
    from onnxlab.authoring.hygiene import check  # these import Jupyter: not needed for --help
    from onnxlab.authoring.running import NotebookFailed, run

    for path in options.notebooks:
        print(path)
        try:
            changed = run(path, _print_progress, timeout=options.timeout)
        except NotebookFailed as error:
            if error.traceback:
                print(error.traceback, file=sys.stderr)
            raise
        print(f"  {'saved' if changed else 'ran; the file is as it was'}")
        for violation in check(path):
            print(f"  to correct: {_where(violation.cell)}: {violation.rule}: {violation.detail}")
    return 0


def _author_check(options: argparse.Namespace) -> int:
    from onnxlab.authoring.hygiene import check
    from onnxlab.authoring.notebooks import course_notebooks

    paths = options.notebooks or course_notebooks(Path.cwd())
    if not paths:
        print("There are no notebooks here. Name some, or go to the course's folder.", file=sys.stderr)
        return 2
    found = [violation for path in paths for violation in check(path)]
    rows = [(v.notebook.name, _where(v.cell), v.rule, v.detail) for v in found]
    if rows:
        _print_table([("notebook", "cell", "rule", "found"), *rows])
    print(f"{len(paths)} notebooks checked, {len(found)} things to correct")
    return 1 if found else 0


def _author_pin(options: argparse.Namespace) -> int:
    from onnxlab.authoring.pins import compile_pins

    changed = compile_pins(Path.cwd(), options.packages)
    if changed:
        rows = [(name, before or "-", after or "-") for name, (before, after) in changed.items()]
        _print_table([("package", "before", "after"), *rows])
    print(f"{len(changed)} pins changed")
    return 0


def _print_progress(number: int, total: int, line: str) -> None:
    print(f"  [{number}/{total}] {line[:80]}", flush=True)


def _where(cell: int | None) -> str:
    return "notebook" if cell is None else f"cell {cell}"


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
