"""The `onnxlab` command: arguments and printing, nothing else."""

import argparse
import contextlib
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any, NoReturn

from onnxlab.cli.terminal import plain_streams
from onnxlab.errors import OnnxLabError
from onnxlab.language import chosen_language, speak, tr
from onnxlab.message import Message
from onnxlab.plain_text import plain

__all__ = ["Parser", "main", "outlive_readers", "run_command"]

# The modules of this folder, and the commands that each adds.
_COMMANDS = {
    "learner": ("labs", "check", "watch", "next", "hint", "progress", "record", "show", "reset"),
    "files": ("doctor", "why", "compare", "open"),
}
_EXIT_CODES = (
    "Exit codes: 0 fine; 1 something was found wrong; 2 wrong usage, or a file is missing or cannot be read."
)
_LANGUAGE = "Language: --language zh, or ONNXLAB_LANGUAGE=zh in the environment; else the system's (en, zh)."
_GROUP = "onnxlab.commands"
"""The group of entry points with which other distributions add commands; each is an `add_commands`."""

_CLASS_COMMANDS = {
    "grade": "grade a class's labs",
    "class": "a class: hand out the labs, serve the course, watch, collect",
}
"""What onnxlab-class adds, for those who do not have it."""


class CommandMissing(OnnxLabError):
    """A command belongs to onnxlab-class, which is not installed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `onnxlab` command and return its exit code.

    It is 0 where all is fine, 1 where something was found wrong, and 2 where the command could not do its
    work: wrong usage, a file that is missing.
    """
    outlive_readers()
    with plain_streams():
        try:
            language, arguments = chosen_language(sys.argv[1:] if arguments is None else arguments)
        except OnnxLabError as error:
            return _say(error)
        speak(language)
        if not arguments:
            _parser().print_help(sys.stderr)
            return 2
        if arguments[0] == "help":  # as git and pip have it
            arguments = [*arguments[1:], "--help"]
        try:
            parser = _parser(arguments[0])
        except CommandMissing as error:
            return _say(error)
        return run_command(parser.parse_args(arguments))


def run_command(options: argparse.Namespace) -> int:
    """Run the command that a parser chose; a failure ends in a message and an exit code other than 0."""
    try:
        code = int(options.command(options))
        sys.stdout.flush()
        return code
    except OnnxLabError as error:
        return _say(error)
    except KeyboardInterrupt:
        print("\n" + tr("Stopped."), file=sys.stderr)
        return 130


def outlive_readers() -> None:
    """Make stdout and stderr drop what nobody reads: `| head` may end the output, and not the command.

    Streams that are closed from the start take everything too.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the end
        elif stream is getattr(sys, f"__{name}__") and not stream.isatty():
            stream.flush()
            raw = io.BufferedWriter(_Dropping(stream.fileno(), "wb", closefd=False))
            settings = ("encoding", "errors", "line_buffering", "write_through")
            options = {setting: getattr(stream, setting) for setting in settings}
            setattr(sys, name, io.TextIOWrapper(raw, **options))


class _Dropping(io.FileIO):
    """A pipe that takes everything after its reader has closed it."""

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        try:
            return super().write(data)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # also for what this process starts
            return memoryview(data).nbytes


def _say(error: OnnxLabError) -> int:
    """Print an error, a line for each of its parts; return the exit code."""
    lines = [plain(tr(part)) for part in (error.what, error.why, error.then) if part]
    print("\n".join(lines), file=sys.stderr)
    return 2


class Parser(argparse.ArgumentParser):
    """A parser whose errors point to --help instead of listing every option; so do its subparsers."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401
        """Refuse unknown arguments here: the parent parser would point to its own --help."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, 1)
            self.error(f"unrecognized arguments: {' '.join(unknown)}" + _meant(near))
        return options, unknown

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuse a word that is none of the choices; name the nearest where one is near."""
        unknown = action.choices is not None and value not in action.choices
        if unknown and (near := get_close_matches(str(value), map(str, action.choices or ()), 1)):
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}" + _meant(near))
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where help is, and exit with 2."""
        self.exit(2, f"{self.prog}: {plain(tr(message))}\n{tr('See: {prog} --help', prog=self.prog)}\n")

    def format_help(self) -> str:
        """Return the help in the language that is spoken: argparse keeps all its texts until then."""
        self.description = self.description and tr(self.description)
        for group in self._action_groups:
            group.title, group.description = (text and tr(text) for text in (group.title, group.description))
            for action in group._group_actions:
                if action.help is not argparse.SUPPRESS:  # which argparse knows by its identity
                    action.help = action.help and tr(action.help)
                for choice in getattr(action, "_choices_actions", ()):
                    choice.help = choice.help and tr(choice.help)
        self.epilog = self.epilog and tr(self.epilog)
        text = super().format_help() + f"\n{tr(_EXIT_CODES)}\n{tr(_LANGUAGE)}\n"
        text = text.replace("usage: ", tr("usage: "), 1)
        return re.sub(r"(?m)(?<=[\u3400-\u9fff])(:$|\uff1a )", "\uff1a", text)


def _meant(near: list[str]) -> str:
    return Message(". Did you mean {near!r}?", near=near[0]) if near else ""


def _parser(command: str = "") -> argparse.ArgumentParser:
    """Return a parser with the options of one command; of all commands if that is the name of none."""
    parser: argparse.ArgumentParser = Parser(
        prog="onnxlab",
        description="Tools of the ONNX Lab course.",
        epilog="Example: onnxlab doctor model.onnx; onnxlab help doctor says more of it.",
    )
    parser.add_argument("--version", action="version", version=f"onnxlab {version('onnxlab')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    if own := [module for module, names in _COMMANDS.items() if command in names]:
        importlib.import_module(f"onnxlab.cli.{own[0]}").add_commands(commands)
        return parser
    others = _other_commands(command)
    if command in others:
        others[command](commands)
        return parser
    if command in _CLASS_COMMANDS:
        raise CommandMissing(
            "`onnxlab {command}` belongs to onnxlab-class, which is not installed.",
            "It is for instructors; the labs and the chapters work without it.",
            "In a clone of the course, run: pip install -e packages/onnxlab-class",
            command=command,
        )
    for module in _COMMANDS:
        importlib.import_module(f"onnxlab.cli.{module}").add_commands(commands)
    for add_commands in others.values():
        add_commands(commands)
    for name, purpose in _CLASS_COMMANDS.items():
        if name not in others:
            commands.add_parser(name, help=Message("{purpose} (needs onnxlab-class)", purpose=purpose))
    return parser


def _other_commands(command: str) -> dict[str, Callable[..., None]]:
    """Return the `add_commands` of other distributions by command: the one of a command, else all."""
    entries = entry_points(group=_GROUP)
    others: dict[str, Callable[..., None]] = {}
    for entry in entries.select(name=command) or entries:
        with contextlib.suppress(ModuleNotFoundError):  # the metadata of a distribution whose files are gone
            others[entry.name] = entry.load()
    return others
