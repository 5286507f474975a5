"""The commands of course.py: parses its arguments and runs one command."""

import argparse
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from starter import checks, jupyter, packages, website
from starter.console import Message, OnnxLabError, Stop, chosen_language, show_line, speak, step, tr
from starter.environment import ROOT, Environment, course_environment

COMMANDS = ("start", "test", "class", "site")
OFFER = "This is the Chinese edition; the English one: python3 course.py --language en"

HELP = Message("""\
usage: python3 course.py [start] [--language zh] [--folder FOLDER] [JupyterLab options]
       python3 course.py test [--fast | --all] [pytest arguments]
       python3 course.py class FOLDER [options of `onnxlab class serve`]
       python3 course.py site [--build FOLDER] [--port N] [--repository OWNER/NAME] [--address URL]

start  Make .venv and install what is missing (the first time takes some minutes), then open JupyterLab on
       chapter 00. The notebooks are your own copies, without outputs, in the folder workbook or FOLDER. After
       an update of the course, what you have not changed is renewed, and what you have changed stays.
       Options go to JupyterLab: --no-browser, --port 9000, --ip, ... --notebook-dir . opens the course's own
       notebooks, for authors. --language zh opens the Chinese edition, --language en the English one; else
       ONNXLAB_LANGUAGE says which, else the system's locale. ONNXLAB_TORCH_INDEX names an index of CPU builds
       of torch, for Linux where PyTorch's own cannot be reached.
test   Check the code and the notebooks and run the tests. --fast leaves out notebooks, browser, slow tests;
       --all adds what is run before a release: more seeds, every chapter in a browser.
class  For an instructor: serve the course to a room from this machine; FOLDER keeps the class.
site   Build the web site, in an environment of its own, and show it to this machine; --build only builds it.

Nothing is installed or registered outside .venv and .venv-site. To begin again, remove these folders.
""")


def run(arguments: Sequence[str]) -> int:
    """Run a command; every failure ends in one message and an exit code other than 0."""
    name, options = "start", list(arguments)
    if options[:1] == ["--version"]:  # else JupyterLab would say its own
        print(f"ONNX Lab {course_version()}")
        return 0
    if options and not options[0].startswith("-"):
        name = options.pop(0)
    try:
        asked = {"-h", "--help"} & set(options if name == "start" else options[:1])
        if name == "help" or (name in COMMANDS and asked):
            speak(chosen_language(options)[0])
            print(tr(HELP), end="")
            return 0
        if name == "start":
            language, rest = chosen_language(options)
            speak(language)
            if language != "en" and rest == options:  # nobody asked for it here
                show_line(OFFER)
            options = rest
            jupyter.require_free_port(options)  # before minutes of installing
            folder, options = chosen_folder(options)
            environment = prepare("course")
            step(4, "JupyterLab, which says below where it is. Ctrl+C here ends it.")
            if not jupyter.names_a_root(options):
                jupyter.update_workbook(environment, folder, language)
            command = jupyter.command(environment, options, language, folder)
            return jupyter.run(command, environment, language)
        if name == "test":
            environment = prepare("test")
            fast = "--fast" in options
            step(4, "Checks and tests" + (" (the fast ones)" if fast else ""))
            options = [option for option in options if option != "--fast"]
            return checks.run_checks(environment, options, fast=fast)
        if name == "class":
            if not options:
                why = "The class's labs, work and grades are kept there."
                raise Stop("course.py class: no folder is named.", why, "Say: course.py class FOLDER", code=2)
            language, options = chosen_language(options)
            environment = prepare("classroom")
            step(4, "The class")
            command = [str(environment.python), "-P", "-m", "onnxlab.cli", "class", "serve", *options]
            return jupyter.run(command, environment, language)
        if name == "site":
            return website.run(options, lambda: prepare("site", ".venv-site"))
        raise Stop(
            "course.py has no command {name!r}.",
            "Its commands are {commands}.",
            "See: python3 course.py --help",
            code=2,
            name=name,
            commands=", ".join(COMMANDS),
        )
    except OnnxLabError as error:
        print(error, file=sys.stderr)
        return 2
    except Stop as stop:
        print(stop, file=sys.stderr)
        return stop.code
    except KeyboardInterrupt:
        print("\n" + tr("Stopped. The same command goes on where this one was."), file=sys.stderr)
        return 130


def course_version() -> str:
    """Return the version in pyproject.toml."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def chosen_folder(options: Sequence[str]) -> tuple[Path, list[str]]:
    """Take `--folder` out of the options.

    Returns:
        The folder of the learner's notebooks, and the remaining options.
    """
    parser = argparse.ArgumentParser(prog="course.py", add_help=False, allow_abbrev=False)
    parser.add_argument("--folder", nargs="?", const="", default=str(jupyter.WORKBOOK))
    parsed, rest = parser.parse_known_args(options)
    if not parsed.folder:
        why = "Your notebooks are kept in a folder; without the option it is workbook."
        raise Stop("--folder names no folder.", why, "Say: --folder FOLDER", code=2)
    return Path(parsed.folder).expanduser().absolute(), rest


def prepare(name: str, folder: str = ".venv") -> Environment:
    """Make the environment and install what a command needs; print each step."""
    step(1, Message("Python {version_info}: suitable", version_info=".".join(map(str, sys.version_info[:3]))))
    environment = course_environment(folder)
    if not environment.managed:
        step(2, Message("Environment: {environment.folder}, as it is", environment=environment))
        step(3, "Packages: as they are")
        return environment
    works = environment.works()
    exists = environment.folder.exists()
    what = Message("is there") if works else Message("is made anew") if exists else Message("is made")
    step(2, Message("Environment {folder} {subject}", folder=folder, subject=what))
    if not works:
        packages.require_space(environment.folder.parent, 0.5 if name == "site" else 3)
        environment.make()
    step(3, "Packages (the first time this takes some minutes)")
    show_line(f"      {packages.install(environment, name)}")
    return environment
