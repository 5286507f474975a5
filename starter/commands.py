"""The commands of course.py: from what was typed to an exit code."""

import os
import subprocess
import sys
from collections.abc import Sequence

from starter import checks, jupyter, packages
from starter.console import Progress, Stop, clock, step
from starter.environment import Environment, State, child_variables, course_environment
from starter.jupyter_options import require_suitable
from starter.pytest_options import require_pytest_options

__all__ = ["run"]

_COMMANDS = ("start", "test", "class")

HELP = """\
usage: python3 course.py [start] [--fast-kernels] [JupyterLab options]
       python3 course.py test [--fast] [pytest arguments]
       python3 course.py class FOLDER [options of `onnxlab class serve`]

start  Make .venv and install what is missing (the first time takes some minutes), then open JupyterLab on
       notebooks/00_start_here.ipynb. Options go to JupyterLab: --no-browser, --port 9000, --ip, ...
       --fast-kernels keeps one process with torch loaded: each notebook after the first is ready at once,
       and takes less memory (Linux).
test   Check the code and the notebooks and run every test. --fast leaves out notebooks, browser, slow tests.
class  For an instructor: serve the course to a room from this machine; FOLDER keeps the class.

Nothing is installed or registered outside .venv. To begin again, remove that folder.
"""


def run(arguments: Sequence[str]) -> int:
    """Do what was typed; every failure ends in one message and an exit code other than 0."""
    name, options = "start", list(arguments)
    if options and not options[0].startswith("-"):
        name = options.pop(0)
    try:
        if name == "help" or (name in _COMMANDS and options[:1] in (["-h"], ["--help"])):
            print(HELP, end="")
            return 0
        if name == "start":
            return start(options)
        if name == "test":
            return test(options)
        if name == "class":
            return serve_class(options)
        what = f"course.py has no command {name!r}."
        raise Stop(what, "", "See: python3 course.py --help", code=2)
    except Stop as stop:
        print(stop, file=sys.stderr)
        return stop.code
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on where this one was.", file=sys.stderr)
        return 130


def start(options: Sequence[str]) -> int:
    """Open the course."""
    require_suitable(options)  # before minutes of installing
    environment = prepare("course", "course.py")
    step(4, 4, "JupyterLab")
    with Progress() as progress:
        return jupyter.serve(environment, options, progress)


def test(options: Sequence[str]) -> int:
    """Run the tests."""
    environment = prepare("test", "course.py test")
    fast = "--fast" in options
    options = [option for option in options if option != "--fast"]
    require_pytest_options(environment, options)
    step(4, 4, "Checks and tests" + (" (the fast ones)" if fast else ""))
    return checks.run_checks(environment, options, fast=fast)


def serve_class(options: Sequence[str]) -> int:
    """Serve a class; from here on it is `onnxlab class serve` that runs, also for Ctrl+C."""
    if not options:
        what = "course.py class: no folder is named."
        raise Stop(
            what, "The class's labs, work and grades are kept there.", "Say: course.py class FOLDER", code=2
        )
    environment = prepare("classroom", "course.py class")
    step(4, 4, "The class")
    command = [str(environment.python), "-m", "onnxlab.cli", "class", "serve", *options]
    variables = child_variables(environment)
    sys.stdout.flush()
    if os.name != "nt":
        os.execve(command[0], command, variables)
    return subprocess.run(command, env=variables).returncode


def prepare(name: str, command: str) -> Environment:
    """Bring the environment to the state that a command needs, and say each step."""
    version = ".".join(map(str, sys.version_info[:3]))
    step(1, 4, f"Python {version}: suitable")
    environment = course_environment()
    if not environment.ours:
        step(2, 4, f"Environment: {environment.folder}, as it is")
        step(3, 4, "Packages: as they are")
        return environment
    state = environment.state()
    if state is State.SOMETHING_ELSE:
        what = f"{environment.folder} is there and is not a virtual environment."
        raise Stop(
            what, "It is not the course's, so it is left alone.", f"Move it away and run {command} again."
        )
    said = {
        State.WORKS: "there",
        State.MISSING: "making it",
        State.BROKEN: "does not work, making it anew",
    }
    step(2, 4, f"Environment .venv: {said[state]}")
    if state is not State.WORKS:
        packages.require_space(environment, needed=3)
        environment.make()
    with Progress() as progress:
        outcome = packages.install(environment, name, progress)
    took = "" if progress.seconds < 1 else f" ({clock(progress.seconds)})"
    step(3, 4, f"Packages: {outcome}{took}")
    return environment
