"""A learner's commands, from `onnxlab labs` and `check` to `reset`: arguments and printing only."""

import argparse
import os
import re
import sys
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.language import LANGUAGES, speak, spoken_language, tr
from onnxlab.message import Message
from onnxlab.plain_text import aligned, plain


class LabsMissing(OnnxLabError):
    """A folder has no labs."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to a parser."""
    labs = commands.add_parser(
        "labs",
        help="copy the course into a folder; what is there is left alone",
        epilog="Example: onnxlab labs my-onnx",
    )
    labs.add_argument("folder", type=Path, metavar="FOLDER", help="a new folder, or one of an earlier copy")
    labs.add_argument("--chapters", action="store_true", help=argparse.SUPPRESS)  # they are always copied
    labs.add_argument("--language", choices=LANGUAGES, default=spoken_language(), help="which edition")
    labs.set_defaults(command=_labs)
    check = commands.add_parser(
        "check",
        help="check the exercises of a lab's notebook, or of a folder of them",
        epilog="Example: onnxlab check lab05",
    )
    check.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK", help="or as lab05")
    check.set_defaults(command=_check)
    watch = commands.add_parser(
        "watch",
        help="one exercise of a lab after the other, checked at each save; keys for hint, next, list",
        epilog="Example: onnxlab watch lab05",
    )
    watch.add_argument(
        "notebook",
        type=Path,
        nargs="?",
        metavar="NOTEBOOK",
        help="or as lab05; the lab to go on with if left out",
    )
    watch.set_defaults(command=_watch)
    following = commands.add_parser(
        "next",
        help="which chapter or exercise to do next, and how",
        epilog="Example: onnxlab next --track phone",
    )
    following.add_argument(
        "--track",
        nargs="?",
        const="",
        metavar="NAME",
        help="the way through the course to follow from now on (all: the course); without NAME, lists them",
    )
    following.set_defaults(command=_next)
    hint = commands.add_parser(
        "hint", help="the next of an exercise's three hints", epilog="Example: onnxlab hint asinh-symbolic"
    )
    hint.add_argument("exercise", metavar="EXERCISE", help="as asinh-symbolic")
    hint.set_defaults(command=_hint)
    progress = commands.add_parser(
        "progress", help="what is passed, tried and open in the labs", epilog="Example: onnxlab progress"
    )
    sharing = progress.add_mutually_exclusive_group()
    sharing.add_argument(
        "--private", action="store_true", help="the instructor's live page leaves you out from now on"
    )
    sharing.add_argument("--public", action="store_true", help="it shows you again")
    progress.set_defaults(command=_progress)
    record = commands.add_parser(
        "record",
        help="what you have done of the course or a track, as a page and a picture to show",
        epilog='Example: onnxlab record --name "Ada Lovelace" --track phone',
    )
    record.add_argument("--name", required=True, metavar="NAME", help="whose it is, as on a certificate")
    record.add_argument("--track", default="all", metavar="TRACK", help="default: the whole course")
    record.add_argument("--out", type=Path, default=Path(), metavar="FOLDER", help="where to (default: here)")
    record.set_defaults(command=_record)
    show = commands.add_parser(
        "show",
        help="a chapter with all its outputs (your work is kept as a copy); a lab's solutions",
        epilog="Example: onnxlab show 04",
    )
    show.add_argument("names", nargs="+", metavar="NAME", help="as 04, or lab05 for what you have passed")
    show.set_defaults(command=_replace, outputs=True)
    reset = commands.add_parser(
        "reset",
        help="a chapter or a lab as new; the work in it is kept as a copy",
        epilog="Example: onnxlab reset lab05",
    )
    reset.add_argument("names", nargs="+", metavar="NAME", help="as 04 or lab05")
    reset.set_defaults(command=_replace, outputs=False)
    for parser in (show, reset):
        parser.add_argument(
            "--language", choices=LANGUAGES, default=spoken_language(), help="which edition's"
        )


def _labs(options: argparse.Namespace) -> int:
    from onnxlab.course.course_copy import copy_course

    speak(options.language)
    copied, there = copy_course(options.folder)
    count, left = (sum(path.suffix == ".ipynb" for path in paths) for paths in (copied, there))
    print(tr("Notebooks copied to {folder}: {count}.", folder=plain(options.folder), count=count))
    if left:
        print(tr("Already there, and left alone: {left}.", left=left))
    edition = "" if options.language == "en" else options.language
    first = options.folder / "notebooks" / edition / "00_start_here.ipynb"
    print(tr("To begin, open {first} in Jupyter.", first=plain(first)))
    return 0


def _check(options: argparse.Namespace) -> int:
    from onnxlab.course.lab_check import read_lab

    notebooks = [notebook for path in options.notebooks for notebook in _labs_in(path)]
    for path in notebooks:
        read_lab(path)  # what cannot be checked is said before anything runs
    language = spoken_language()
    passed = [_check_one(path, language) for path in notebooks]
    return 0 if all(passed) else 1


def _check_one(path: Path, language: str) -> bool:
    """Check a lab's notebook and print the outcomes, in its folder's language; return whether all pass."""
    from onnxlab.course.chapters import own_copy
    from onnxlab.course.lab_check import check_notebook
    from onnxlab.kit.exercise import exercise
    from onnxlab.notebook.labs.checks import report_text

    _speak_as(path, language)
    print(tr("{path}: running it ...", path=plain(path)), flush=True)
    if own := own_copy(path):
        print(tr("That is the course's own notebook. Yours is {own}.", own=plain(own)), file=sys.stderr)
    outcomes = check_notebook(path)
    for outcome in outcomes:
        if outcome.first_failure or outcome.message:
            print(f"\n{report_text(exercise(outcome.exercise)[1], outcome)}")
    rows = [
        (o.exercise, tr(o.status), tr("{o.points} of {o.possible}", o=o), f"{o.seconds:.1f}")
        for o in outcomes
    ]
    print()
    heading = (tr("exercise"), tr("outcome"), tr("points"), tr("seconds"))
    print("\n".join(aligned([heading, *rows])))
    have, possible = sum(o.points for o in outcomes), sum(o.possible for o in outcomes)
    print(tr("{have} of {possible} points", have=have, possible=possible) + "\n", flush=True)
    return all(outcome.passed for outcome in outcomes)


def _speak_as(path: Path, language: str) -> None:
    """Speak the language of a notebook's folder, or this one if the folder has none."""
    folder = path.absolute().parent.name
    speak(folder if folder in LANGUAGES else language)


def _watch(options: argparse.Namespace) -> int:
    from onnxlab.cli.watch import watch
    from onnxlab.kit.progress import standings
    from onnxlab.notebook.labs.standings import next_lab

    name = options.notebook or next_lab(standings()[0])
    if not name:
        return _next(options)
    path = _own(Path(name))
    _speak_as(path, spoken_language())
    return watch(path)


def _next(options: argparse.Namespace) -> int:
    from onnxlab.kit.progress import choose_track, standings
    from onnxlab.kit.tracks import requested_track
    from onnxlab.notebook.labs.standings import next_text, path_notes

    chosen = getattr(options, "track", None)
    if chosen == "":
        print(_tracks_text())
        return 0
    if chosen is not None:
        track = requested_track(chosen)
        if problem := choose_track(track.name if track else ""):
            print(tr(problem), file=sys.stderr)
    current, message = standings()
    if message:
        print(tr(message), file=sys.stderr)
    print(*path_notes(current), next_text(current), sep="\n")
    return 0


def _tracks_text() -> str:
    """Return the ways through the course, each with its minutes and steps."""
    from onnxlab.kit.tracks import tracks

    rows = [
        (
            track.name,
            str(track.minutes),
            track.titles[spoken_language()],
            " ".join(step.partition("_")[0] for step in track.steps),
        )
        for track in tracks().values()
    ]
    heading = (tr("track"), tr("minutes"), tr("you come with"), tr("chapters and labs"))
    return "\n".join(aligned([heading, *rows]))


def _labs_in(path: Path) -> list[Path]:
    """Return the labs in a folder, in order, without backups; of the learner's own, the one that is named."""
    if not path.is_dir():
        return [_own(path)]
    labs = sorted(lab for lab in path.glob("lab*.ipynb") if "before-reset" not in lab.name)
    if not labs:
        msg = Message("The folder {path} has no labs: no file there is called lab*.ipynb.", path=path)
        then = Message("Name a lab's notebook, or copy the labs with: onnxlab labs FOLDER")
        raise LabsMissing(msg, "", then)
    return labs


def _own(path: Path) -> Path:
    """Return a notebook; for a name without a path, as lab05, the learner's own of that lab, if any."""
    from onnxlab.course.chapters import learner_root
    from onnxlab.kit.exercise import lab

    if path.suffix or path.exists() or not re.fullmatch(r"lab\w+", str(path)):
        return path
    edition = "" if spoken_language() == "en" else spoken_language()
    folder = (learner_root(Path.cwd()) or Path.cwd()) / "labs" / edition
    own = folder / f"{lab(str(path)).name}.ipynb"
    return Path(os.path.relpath(own)) if own.exists() else path


def _hint(options: argparse.Namespace) -> int:
    from onnxlab.kit.exercise import exercise
    from onnxlab.notebook.labs.standings import next_hints

    _, record = exercise(options.exercise)
    print(next_hints(record)[-1])
    return 0


def _progress(options: argparse.Namespace) -> int:
    from onnxlab.kit.progress import set_private
    from onnxlab.notebook.labs.standings import predictions_table, progress_table, shared

    changed = options.private or options.public
    problem = set_private(options.private) if changed else ""
    table, message = progress_table()
    for line in filter(None, [problem, message]):
        print(tr(line), file=sys.stderr)
    print(table)
    if (predicted := predictions_table()) is not None:
        print(f"\n{predicted}")
    if sharing := shared(always=changed, terminal=True):
        print(sharing)
    return 1 if problem else 0


def _record(options: argparse.Namespace) -> int:
    from onnxlab.course.record import make_record
    from onnxlab.files import write_atomically
    from onnxlab.kit.progress import standings
    from onnxlab.kit.tracks import requested_track
    from onnxlab.notebook.predict.answers import scores

    track = requested_track(options.track)
    current, message = standings()
    if message:
        print(tr(message), file=sys.stderr)
    points = {standing.exercise.id: standing.points for standing in current}
    record = make_record(options.name, points, scores(), track)
    page = write_atomically(options.out / "onnxlab-record.html", record.page)
    picture = write_atomically(page.with_suffix(".svg"), record.picture)
    print(record.title)
    print(tr("The page is {page}, the picture {picture}.", page=plain(page), picture=plain(picture)))
    return 0


def _replace(options: argparse.Namespace) -> int:
    from onnxlab.course.chapters import is_chapter, learner_root, replace_chapter
    from onnxlab.course.lab_release import reset
    from onnxlab.kit.exercise import lab
    from onnxlab.notebook.labs.standings import solutions_text

    speak(options.language)
    root = learner_root(Path.cwd())
    if root is None:
        msg = Message("There are no labs in {cwd}, nor in a folder above it.", cwd=Path.cwd())
        then = Message("Change to the course's folder, or copy the labs with: onnxlab labs FOLDER")
        raise LabsMissing(msg, "", then)
    for name in options.names:
        if is_chapter(name):
            path, copy = replace_chapter(name, root, options.language, outputs=options.outputs)
        elif options.outputs:
            print(solutions_text(lab(name)))
            continue
        else:
            path, copy = reset(name, root, options.language)
        shown = plain(path.relative_to(root).as_posix())
        done = "{shown} has all its outputs." if options.outputs else "{shown} is untouched again."
        print(tr(done, shown=shown), end=" " if copy else "\n")
        if copy:
            print(tr("Your work is in {copy}.", copy=plain(copy.relative_to(root).as_posix())))
    return 0
