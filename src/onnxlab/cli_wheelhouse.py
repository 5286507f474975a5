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
    from onnxlab.authoring.lab_reset import course_root
    from onnxlab.classroom.wheel_targets import Target, this_target
    from onnxlab.classroom.wheelhouse import check_wheelhouse, make_wheelhouse

    wrong: list[str] = []
    if options.check:
        stocks, wrong = check_wheelhouse(options.folder)
    else:
        here = this_target() if not (options.systems and options.python) else None
        systems = options.systems or [here.system if here else ""]
        pythons = options.python or [here.python if here else ""]
        targets = [Target(system, python) for system in systems for python in pythons]
        files = ["requirements.txt", *(["requirements-classroom.txt"] if options.classroom else [])]
        line = _Line()
        stocks = make_wheelhouse(course_root(Path.cwd()), options.folder, targets, files, line.show)
        line.end()
    for name in wrong:
        print(f"gone or damaged: {name}")
    width = max(len(str(stock.target)) for stock in stocks)
    print(f"{'machine':<{width}}  wheels     MB  what is lacking")
    for stock in stocks:
        lacking = ", ".join(stock.lacking) or "nothing"
        print(f"{stock.target!s:<{width}}  {stock.wheels:>6}  {stock.bytes / 1e6:>5.0f}  {lacking}")
    print(
        f"{options.folder}: {sum(each.stat().st_size for each in options.folder.rglob('*.whl')) / 1e6:.0f} MB"
    )
    if wrong or any(stock.lacking for stock in stocks):
        print("What is lacking cannot be installed there without the network.", file=sys.stderr)
        return 1
    print("Copy the folder to the laptops. INSTALL-OFFLINE.txt in it says what to do there.")
    return 0


class _Line:
    """One line that says how far it is, on a terminal; elsewhere a line when something new begins."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._shown = ""

    def show(self, text: str) -> None:
        if self._live:
            print(f"\r{text[:78]}\x1b[K", end="", flush=True)
        elif (new := text.partition(":")[0]) != self._shown:
            self._shown = new
            print(text, flush=True)

    def end(self) -> None:
        if self._live:
            print("\r\x1b[K", end="")
