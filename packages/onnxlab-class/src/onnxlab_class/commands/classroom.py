"""The commands `onnxlab class ...`: arguments and printing, nothing else."""

import argparse
import sys
from pathlib import Path

from onnxlab.language import LANGUAGES, speak, spoken_language
from onnxlab.plain_text import aligned, plain, pluralise
from onnxlab_class.commands.lab_option import add_lab_option, requested_labs


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `onnxlab class` and its commands."""
    group = commands.add_parser(
        "class",
        help="a class: hand out the labs, serve the course, watch, collect",
        epilog="Example: onnxlab class serve my-class",
    )
    actions = group.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (
        _add_init,
        _add_serve,
        _add_room,
        _add_wheelhouse,
        _add_take,
        _add_feedback,
        _add_record,
        _add_verify,
    ):
        add(actions)


def _add_init(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    init = actions.add_parser(
        "init",
        epilog="Example: onnxlab class init my-class",
        help="make a course directory for nbgrader and the hub",
        description="Make a course directory with the labs in it. On one that is there: add what is new, "
        "and leave what you changed, what was handed in and the gradebook's marks as they are.",
    )
    init.add_argument(
        "folder", type=Path, metavar="DIR", help="where; a new folder, a class, or your nbgrader course"
    )
    init.add_argument(
        "--name", metavar="COURSE", help="the course's name for nbgrader (default: the folder's)"
    )
    init.set_defaults(command=_init)


def _init(options: argparse.Namespace) -> int:
    from onnxlab.kit.exercise import labs
    from onnxlab_class.classroom.course.folder import make_class

    print("Making the assignments ...", flush=True)
    report = make_class(options.folder, options.name)
    for line in report.updated:
        print(f"brought up to date: {plain(line)}")
    for line in report.modified:
        print(f"kept, since it is yours: {plain(line)}")
    for problem in report.problems:
        print(plain(problem), file=sys.stderr)
    exercises = sum(len(lab.exercises) for lab in labs())
    made = (
        f"Made the class {report.folder.name!r} in {plain(options.folder)}."
        if report.new
        else f"Looked through the class {report.folder.name!r} in {plain(options.folder)}."
    )
    print(made)
    points = sum(lab.points for lab in labs())
    added = pluralise(len(report.added), "file")
    print(f"It has {len(labs())} labs, {exercises} exercises, {points} points; {added} added.")
    return 1 if report.problems else 0


def _add_serve(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    serve = actions.add_parser(
        "serve",
        epilog="Example: onnxlab class serve my-class",
        help="a JupyterHub for the room: sign-in, a JupyterLab for each learner",
        description="Serve the course to a class with a JupyterHub on this machine, until Ctrl+C. Everybody "
        "gets a folder of their own, which is kept. The class is made where there is none. Passwords are "
        "drawn and shown, unless a file or ONNXLAB_ROOM_PASSWORD and ONNXLAB_INSTRUCTOR_PASSWORD give them.",
    )
    serve.add_argument("folder", type=Path, metavar="DIR", help="the class; a new folder makes a new class")
    serve.add_argument(
        "--port", type=int, default=8000, metavar="N", help="default: 8000; 0 finds a free one"
    )
    serve.add_argument("--ip", default="127.0.0.1", help="where to listen (default: this machine only)")
    serve.add_argument("--tls-key", type=Path, metavar="FILE", help="a key, for addresses others can reach")
    serve.add_argument("--tls-cert", type=Path, metavar="FILE", help="its certificate")
    serve.add_argument(
        "--no-tls", action="store_true", help="whoever is in the network can read passwords and work"
    )
    serve.add_argument("--password-file", type=Path, metavar="FILE", help="the room's password")
    serve.add_argument("--instructor-password-file", type=Path, metavar="FILE", help="the instructor's")
    serve.add_argument(
        "--memory", type=int, default=2000, metavar="MB", help="for one process of a learner (2000)"
    )
    serve.add_argument("--processes", type=int, default=256, metavar="N", help="with threads; for one (256)")
    serve.add_argument(
        "--idle", type=int, default=60, metavar="MINUTES", help="then a server ends; 0: never (60)"
    )
    serve.add_argument(
        "--isolation",
        choices=["auto", "none"],
        default="auto",
        help="`none`: learners can read each other's work",
    )
    serve.add_argument(
        "--solutions",
        action="store_true",
        help="learners can compare with a solution after a pass; who looks for its file finds it before",
    )
    serve.add_argument(
        "--language", choices=LANGUAGES, default=spoken_language(), help="of the labs and the pages"
    )
    serve.set_defaults(command=_serve)


def _serve(options: argparse.Namespace) -> int:
    from onnxlab_class.classroom.hub.accounts import Passwords
    from onnxlab_class.classroom.hub.serve import require_parts, serve
    from onnxlab_class.classroom.hub.settings import INSTRUCTOR, address

    speak(options.language)
    if options.memory < 500 or options.processes < 64 or options.idle < 0:
        print("--memory takes 500 or more, --processes 64 or more, --idle 0 or more.", file=sys.stderr)
        return 2
    apart = options.isolation != "none"
    require_parts(apart=apart)
    place = address(options.ip, options.port, options.tls_key, options.tls_cert, without_tls=options.no_tls)

    def show(passwords: Passwords, notes: list[str]) -> None:
        for note in notes:
            print(note)
        if place.open_to_others and not place.tls_key:
            print("No TLS: whoever is in this network can read passwords and work, and sign in as others.")
        rows = [
            ("learners:", place.url),
            ("room password:", passwords.room),
            ("instructor's name:", INSTRUCTOR),
            ("instructor's password:", passwords.instructor),
        ]
        print("", *(f"  {line}" for line in aligned(rows)), "", sep="\n")
        print("Ctrl+C here ends it; the same command goes on with the same class.", flush=True)

    print("Starting the hub ...", flush=True)
    serve(
        options.folder,
        place,
        {"room": options.password_file, "instructor": options.instructor_password_file},
        show,
        idle=options.idle,
        memory=options.memory,
        processes=options.processes,
        apart=apart,
        language=options.language,
        solutions=options.solutions,
    )
    print("The hub has ended. Everybody's work is kept.")
    return 0


def _add_room(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    room = actions.add_parser(
        "room",
        epilog="Example: onnxlab class room my-class",
        help="a live page: who has passed what, and where people are stuck",
        description="Show, in a browser on this machine, who has passed which exercise and where people are "
        "stuck, without names unless you ask for them. With a hub the same page is at /services/room/.",
    )
    room.add_argument("folder", type=Path, metavar="DIR", help="a class, or a folder of progress files")
    add_lab_option(room)
    room.add_argument("--port", type=int, default=0, metavar="N", help="where to listen (default: any)")
    room.add_argument("--no-browser", action="store_true", help="say the address only")
    room.add_argument("--language", choices=LANGUAGES, default=spoken_language(), help="of the page")
    room.set_defaults(command=_room)


def _room(options: argparse.Namespace) -> int:
    import webbrowser

    from onnxlab_class.classroom.course.folder import CLASS_FILE, open_class
    from onnxlab_class.classroom.room.server import serve_room

    speak(options.language)

    def ready(address: str) -> None:
        print(f"The room is at {address}")
        print("Ctrl+C here ends it.", flush=True)
        if not options.no_browser:
            webbrowser.open(address)

    named = (options.folder / CLASS_FILE).exists()
    title = open_class(options.folder).name if named else ""
    serve_room(options.folder, title, options.port, ready, requested_labs(options))
    return 0


def _add_wheelhouse(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    house = actions.add_parser(
        "wheelhouse",
        epilog="Example: onnxlab class wheelhouse stick --for windows --python 3.12",
        help="a copy of the course that laptops install without the network",
        description="Put the course's files and every package it needs into a folder. Copied to a laptop, "
        "`python3 course.py` in it installs without the network. Run again, it completes and mends the "
        "folder, and adds the machines that are named.",
    )
    house.add_argument("folder", type=Path, metavar="DIR", help="where; about 0.4 GB for each machine")
    house.add_argument(
        "--for",
        action="append",
        dest="systems",
        metavar="SYSTEM",
        help="linux, linux-arm64, macos-arm64 or windows; may be given again (default: this machine's)",
    )
    house.add_argument(
        "--python", action="append", metavar="X.Y", help="may be given again (default: this Python's)"
    )
    house.add_argument("--classroom", action="store_true", help="also what a class's server needs")
    house.add_argument("--check", action="store_true", help="look through a folder, change nothing")
    house.set_defaults(command=_wheelhouse)


def _wheelhouse(options: argparse.Namespace) -> int:
    from onnxlab.course.lab_release import course_root
    from onnxlab_class.classroom.course.wheelhouse import (
        Target,
        check_wheelhouse,
        make_wheelhouse,
        this_target,
    )

    damaged: list[str] = []
    if options.check:
        lacking, damaged = check_wheelhouse(options.folder)
    else:
        systems = options.systems or [this_target().system]
        pythons = options.python or [this_target().python]
        targets = [Target(system, python) for system in systems for python in pythons]
        file = "requirements/class.txt" if options.classroom else "requirements.txt"
        lacking = make_wheelhouse(course_root(Path.cwd()) or Path.cwd(), options.folder, targets, file)
    for name in damaged:
        print(f"damaged: {plain(name)}")
    for target, pins in lacking.items():
        print(f"{target}: lacking {', '.join(pins)}" if pins else f"{target}: complete")
    wheels = list((options.folder / "wheelhouse").glob("*.whl"))
    size = sum(path.stat().st_size for path in wheels) / 1e6
    print(f"{plain(options.folder)}: {len(wheels)} wheels, {size:.0f} MB")
    if damaged or any(lacking.values()):
        hint = (
            "What is lacking cannot be installed there without the network; the command again mends damage."
        )
        print(hint, file=sys.stderr)
        return 1
    print("Copy the folder to the laptops. INSTALL-OFFLINE.txt in it says what to do there.")
    return 0


def _add_take(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    take = actions.add_parser(
        "take",
        epilog="Example: onnxlab class take my-class",
        help="collect every learner's labs as they are now",
        description="Copy the labs out of every learner's home as they are now: into the class's submitted/, "
        "where `onnxlab grade DIR --out RESULTS` and nbgrader look, or into another folder.",
    )
    take.add_argument("folder", type=Path, metavar="DIR", help="a class, or a folder of homes")
    take.add_argument(
        "into", type=Path, nargs="?", metavar="INTO", help="where to; older copies there are replaced"
    )
    add_lab_option(take)
    take.set_defaults(command=_take)


def _take(options: argparse.Namespace) -> int:
    from onnxlab.kit.exercise import LABS
    from onnxlab_class.classroom.course.handed_out import code_handed_out
    from onnxlab_class.classroom.hub.homes import HomesNotFound, take_labs

    chosen = requested_labs(options) or LABS
    handed_out = code_handed_out(options.folder)
    collected = take_labs(options.folder, options.into, labs=chosen, handed_out=handed_out)
    if collected.untouched:
        untouched = pluralise(collected.untouched, "lab")
        print(f"Not handed in, as nobody has changed the code in it: {untouched}.")
    if not collected.files and not collected.untouched:
        first, *others = map(plain, collected.left or [""])
        more = f"; and {pluralise(len(others), 'other')}" if others else ""
        msg = f"There are no learners' labs in {options.folder}."
        then = "Name a class, or a folder of homes: <learner>/labs/lab04_asinh.ipynb"
        raise HomesNotFound(msg, f"left: {first}{more}" if first else "", then)
    for line in collected.left:
        print(f"left: {plain(line)}", file=sys.stderr)
    labs = pluralise(sum(collected.files.values()), "lab")
    learners = pluralise(len(collected.files), "learner")
    print(f"Copied {labs} of {learners} to {plain(options.into or options.folder / 'submitted')}.")
    return 0


def _add_feedback(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    feedback = actions.add_parser(
        "feedback",
        epilog="Example: onnxlab class feedback my-class results",
        help="put each learner's feedback page into their home",
        description="Put each learner's page of a grading run into their home, as feedback/RESULTS.html.",
    )
    feedback.add_argument("folder", type=Path, metavar="DIR", help="a class, or a folder of homes")
    feedback.add_argument(
        "results", type=Path, metavar="RESULTS", help="what `onnxlab grade --out RESULTS` wrote"
    )
    feedback.set_defaults(command=_feedback)


def _feedback(options: argparse.Namespace) -> int:
    from onnxlab_class.classroom.hub.homes import give_feedback

    delivered = give_feedback(options.folder, options.results)
    for line in delivered.left:
        print(f"left: {plain(line)}", file=sys.stderr)
    print(
        f"{pluralise(len(delivered.files), 'learner')} will find "
        f"feedback/{plain(options.results.absolute().name)}.html."
    )
    return 1 if delivered.left or not delivered.files else 0


def _add_record(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    record = actions.add_parser(
        "record",
        epilog="Example: onnxlab class record my-class results",
        help="sign a record of each learner's graded labs",
        description="Write a page and a picture of each learner's points into RESULTS/records, signed with "
        "the class's key. `onnxlab class feedback` then puts them into the homes.",
    )
    record.add_argument("folder", type=Path, metavar="DIR", help="the class that signs")
    record.add_argument(
        "results", type=Path, metavar="RESULTS", help="what `onnxlab grade --out RESULTS` wrote"
    )
    record.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="LEARNER=NAME",
        help="the name on it; may be given again",
    )
    record.add_argument("--track", default="all", metavar="TRACK", help="default: the whole course")
    record.set_defaults(command=_record)


def _record(options: argparse.Namespace) -> int:
    from onnxlab.kit.tracks import requested_track
    from onnxlab_class.classroom.course.signed_records import write_records

    pairs = [text.partition("=") for text in options.name]
    if not all(learner and sign for learner, sign, _ in pairs):
        print('--name takes a learner and a name: --name ada="Ada Lovelace"', file=sys.stderr)
        return 2
    names = {learner: name for learner, _, name in pairs}
    signed, left = write_records(options.folder, options.results, names, requested_track(options.track))
    for student in left:
        print(f"left: {plain(student)}: the newest work is not graded yet", file=sys.stderr)
    print(
        f"Signed the records of {pluralise(len(signed), 'learner')} in {plain(options.results / 'records')}."
    )
    return 1 if left or not signed else 0


def _add_verify(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    verify = actions.add_parser(
        "verify",
        epilog="Example: onnxlab class verify my-class onnxlab-record.html",
        help="whether this class signed a record, and what it says",
    )
    verify.add_argument("folder", type=Path, metavar="DIR", help="the class")
    verify.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="a record: the page or the picture"
    )
    verify.set_defaults(command=_verify)


def _verify(options: argparse.Namespace) -> int:
    from onnxlab_class.classroom.course.signed_records import RecordUnreadable, verify_record

    code = 0
    for file in options.files:
        try:
            text = verify_record(options.folder, file)
        except RecordUnreadable as error:
            print(plain(error), file=sys.stderr)
            code = 2
            continue
        verdict = f"signed by this class: {text}" if text else "not signed by this class, or changed since"
        print(f"{plain(file)}: {plain(verdict)}")
        code = code or int(not text)
    return code
