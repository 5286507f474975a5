"""The commands `python -m tools.author ...`: arguments and printing, nothing else."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from onnxlab.cli import Parser, outlive_readers, run_command
from onnxlab.plain_text import aligned, pluralise


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 fine, 1 something is wrong, 2 wrong usage."""
    outlive_readers()
    return run_command(parser().parse_args(arguments))


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    author = Parser(prog="python -m tools.author", description="Make and check the course's notebooks.")
    actions = author.add_subparsers(title="commands", required=True, metavar="COMMAND")

    run = actions.add_parser("run", help="run notebooks from top to bottom and save them clean")
    run.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    run.add_argument(
        "--timeout", type=int, default=600, metavar="SECONDS", help="for one cell (default: 600)"
    )
    run.set_defaults(command=_run)

    check = actions.add_parser("check", help="report what keeps a notebook from being committed")
    check.add_argument(
        "notebooks", nargs="*", type=Path, metavar="NOTEBOOK", help="default: all of the course"
    )
    check.set_defaults(command=_check)

    pin = actions.add_parser(
        "pin", help="compile requirements.txt and requirements/ from the ranges in pyproject.toml"
    )
    pin.add_argument("packages", nargs="*", metavar="PACKAGE", help="move this one: name, or name==version")
    pin.set_defaults(command=_pin)

    exercise = actions.add_parser("exercise", help="write the smallest exercise that passes its contract")
    exercise.add_argument("lab", metavar="LAB", help="as lab08")
    exercise.add_argument("name", metavar="NAME", help="the exercise's id, as drop-unused")
    exercise.set_defaults(command=_exercise)

    attempt = actions.add_parser(
        "try", help="all that must run for an exercise or a chapter, and what is left"
    )
    attempt.add_argument("name", metavar="NAME", help="an exercise's id, or a chapter's number as 04b")
    attempt.set_defaults(command=_try)

    sync = actions.add_parser("sync", help="make labs/ from solutions/")
    sync.add_argument("--check", action="store_true", help="change nothing; fail if something would change")
    sync.set_defaults(command=_sync)

    ordinary = actions.add_parser(
        "ordinary", help="write docs/ordinary.md: which recipe holds for which model"
    )
    ordinary.set_defaults(command=_ordinary)

    translate = actions.add_parser("translate", help="make the course in another language from translations/")
    translate.add_argument("--check", action="store_true", help="change nothing; fail on a file out of step")
    translate.add_argument(
        "--release", action="store_true", help="fail, too, on a text without a present translation"
    )
    translate.add_argument("--prune", action="store_true", help="drop translations of texts that are gone")
    translate.add_argument(
        "--words",
        action="store_true",
        help="change nothing; list the names of graphs, and the words that mean something else elsewhere",
    )
    translate.set_defaults(command=_translate)
    return author


def _translate(options: argparse.Namespace) -> int:
    from onnxlab.language import LANGUAGES
    from tools.author.translation.edition import Edition

    faults: list[str] = []
    untranslated: list[str] = []
    for language in LANGUAGES:
        if language == "en":
            continue
        edition = Edition(Path.cwd(), language)
        if options.words:
            print("\n".join(edition.words_in_context()))
            continue
        if options.prune:
            edition.prune()
        if not options.check:
            for path in edition.update():
                print(f"written: {path.relative_to(Path.cwd())}")
        faults += edition.faults()
        untranslated += edition.untranslated()
    if options.words:
        return 0
    for line in (*untranslated, *faults):
        print(line)
    print(
        f"{pluralise(len(untranslated), 'text')} to translate before a release; until then shown in English"
    )
    print(f"{pluralise(len(faults), 'thing')} to correct")
    return 1 if faults or (options.release and untranslated) else 0


def _exercise(options: argparse.Namespace) -> int:
    from tools.author.exercise import write_exercise

    for path in write_exercise(Path.cwd(), options.lab, options.name):
        print(f"written: {path.relative_to(Path.cwd())}")
    print(f"It doubles numbers. Make it yours, then: python -m tools.author try {options.name}")
    return 0


def _try(options: argparse.Namespace) -> int:
    from tools.author.steps import failed_steps

    failed = list(failed_steps(Path.cwd(), options.name))
    print(f"Left: {', '.join(failed)}" if failed else "Nothing is left. Commit what git status shows.")
    return 1 if failed else 0


def _ordinary(options: argparse.Namespace) -> int:
    from tools.author.ordinary import page

    path = Path.cwd() / "docs" / "ordinary.md"
    path.write_text(page(Path.cwd()), encoding="utf-8")
    print(f"written: {path.relative_to(Path.cwd())}")
    return 0


def _sync(options: argparse.Namespace) -> int:
    from tools.author.sync import out_of_sync, sync

    if not options.check:
        for path in sync(Path.cwd()):
            print(f"written: {path.parent.name}/{path.name}")
        for line in out_of_sync(Path.cwd()):
            print(f"left alone: {line}")
        return 0
    stale = out_of_sync(Path.cwd())
    for line in stale:
        print(line)
    print("labs/ is in sync" if not stale else "Run: python -m tools.author sync")
    return 1 if stale else 0


def _run(options: argparse.Namespace) -> int:
    from tools.author.hygiene import check  # these import Jupyter: not needed for --help
    from tools.author.running import NotebookFailed, run

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


def _check(options: argparse.Namespace) -> int:
    from onnxlab.course.notebooks import course_notebooks
    from tools.author.hygiene import check

    paths = options.notebooks or course_notebooks(Path.cwd())
    if not paths:
        print("There are no notebooks here. Name some, or go to the course's folder.", file=sys.stderr)
        return 2
    violations = [violation for path in paths for violation in check(path)]
    rows = [(v.notebook.name, _where(v.cell), v.rule, v.detail) for v in violations]
    if rows:
        print("\n".join(aligned([("notebook", "cell", "rule", "found"), *rows])))
    print(f"{pluralise(len(paths), 'notebook')} checked, {pluralise(len(violations), 'thing')} to correct")
    return 1 if violations else 0


def _pin(options: argparse.Namespace) -> int:
    from tools.author.pins import compile_pins

    changed = compile_pins(Path.cwd(), options.packages)
    if changed:
        rows = [(name, before or "-", after or "-") for name, (before, after) in changed.items()]
        print("\n".join(aligned([("package", "before", "after"), *rows])))
    print(f"{pluralise(len(changed), 'pin')} changed")
    return 0


def _print_progress(number: int, total: int, line: str) -> None:
    print(f"  [{number}/{total}] {line[:80]}", flush=True)


def _where(cell: int | None) -> str:
    return "notebook" if cell is None else f"cell {cell}"


if __name__ == "__main__":
    sys.exit(main())
