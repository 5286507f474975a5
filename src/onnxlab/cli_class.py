"""The commands `onnxlab class ...`: arguments and printing, nothing else."""

import argparse
import sys
from pathlib import Path

__all__ = ["add_class"]


def add_class(rooms: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the group of commands for a class."""
    group = rooms.add_parser("class", help="a class: hand out the labs, serve the course, watch, collect")
    commands = group.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_init(commands)
    _add_room(commands)
    _add_take(commands)


def _add_init(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    init = commands.add_parser(
        "init",
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
    from onnxlab.classroom.course_making import make_class
    from onnxlab.labs.exercise import labs

    print("Making the assignments ...", flush=True)
    made = make_class(options.folder, options.name)
    for line in made.updated:
        print(f"brought up to date: {line}")
    for line in made.kept:
        print(f"kept, since it is yours: {line}")
    for problem in made.problems:
        print(problem, file=sys.stderr)
    exercises = sum(len(each.exercises) for each in labs())
    print(
        f"{'Made' if made.new else 'Looked through'} the class {made.folder.name!r} in {options.folder}: "
        f"{len(labs())} labs, {exercises} exercises, {sum(each.points for each in labs())} points; "
        f"{len(made.added)} files added."
    )
    return 1 if made.problems else 0


def _add_room(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    room = commands.add_parser(
        "room",
        help="a live page: who has passed what, and where people are stuck",
        description="Show, in a browser on this machine, who has passed which exercise and where people are "
        "stuck, without names unless you ask for them. With a hub the same page is at /services/room/.",
    )
    room.add_argument("folder", type=Path, metavar="DIR", help="a class, or a folder of progress files")
    room.add_argument("--port", type=int, default=0, metavar="N", help="where to listen (default: any)")
    room.add_argument("--no-browser", action="store_true", help="say the address only")
    room.set_defaults(command=_room)


def _room(options: argparse.Namespace) -> int:
    import webbrowser

    from onnxlab.classroom.course_folder import CLASS_FILE, open_class
    from onnxlab.classroom.room_server import serve_room

    def ready(address: str) -> None:
        print(f"The room is at {address}\nCtrl+C here ends it.", flush=True)
        if not options.no_browser:
            webbrowser.open(address)

    named = (options.folder / CLASS_FILE).exists()
    serve_room(options.folder, open_class(options.folder).name if named else "", options.port, ready)
    return 0


def _add_take(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    take = commands.add_parser(
        "take",
        help="copy every learner's labs as they are now",
        description="Copy the labs out of every learner's home as they are now, handed in or not. Then: "
        "onnxlab grade INTO --out DIR",
    )
    take.add_argument("folder", type=Path, metavar="DIR", help="a class, or a folder of homes")
    take.add_argument("into", type=Path, metavar="INTO", help="where to; older copies there are replaced")
    take.set_defaults(command=_take)


def _take(options: argparse.Namespace) -> int:
    from onnxlab.classroom.homes import take_labs

    taken = take_labs(options.folder, options.into)
    for line in taken.left:
        print(f"left: {line}", file=sys.stderr)
    print(f"{sum(taken.labs.values())} labs of {len(taken.labs)} learners are in {options.into}.")
    return 0
