"""The command `onnxlab class wheelhouse`: arguments and printing, nothing else."""

import argparse
import sys
from pathlib import Path

__all__ = ["add_wheelhouse"]


def add_wheelhouse(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command that makes a copy of the course for laptops without a network."""
    house = commands.add_parser(
        "wheelhouse",
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
    from onnxlab.authoring.lab_release import course_root
    from onnxlab.classroom.course.wheelhouse import Target, check_wheelhouse, make_wheelhouse, this_target

    damaged: list[str] = []
    if options.check:
        lacking, damaged = check_wheelhouse(options.folder)
    else:
        here = this_target() if not (options.systems and options.python) else None
        systems = options.systems or [here.system if here else ""]
        pythons = options.python or [here.python if here else ""]
        targets = [Target(system, python) for system in systems for python in pythons]
        file = "requirements-classroom.txt" if options.classroom else "requirements.txt"
        lacking = make_wheelhouse(course_root(Path.cwd()), options.folder, targets, file)
    for name in damaged:
        print(f"damaged: {name}")
    for target, pins in lacking.items():
        print(f"{target}: {'lacking ' + ', '.join(pins) if pins else 'complete'}")
    wheels = list((options.folder / "wheelhouse").glob("*.whl"))
    size = sum(path.stat().st_size for path in wheels) / 1e6
    print(f"{options.folder}: {len(wheels)} wheels, {size:.0f} MB")
    if damaged or any(lacking.values()):
        then = (
            "What is lacking cannot be installed there without the network; the command again mends damage."
        )
        print(then, file=sys.stderr)
        return 1
    print("Copy the folder to the laptops. INSTALL-OFFLINE.txt in it says what to do there.")
    return 0
