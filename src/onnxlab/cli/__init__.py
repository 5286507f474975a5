"""The `onnxlab` command: arguments and printing, nothing else."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from onnxlab.errors import OnnxLabError

__all__ = ["Parser", "main", "run_command"]

# The modules of this folder, and the commands that each adds.
_COMMANDS = {
    "learner": ("labs", "check", "watch", "next", "hint", "progress", "reset"),
    "files": ("doctor", "why", "compare", "open"),
    "grading": ("grade",),
    "classroom": ("class",),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `onnxlab` command and return its exit code: 0 fine, 1 something is wrong, 2 wrong usage."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments:
        _parser().print_help(sys.stderr)
        return 2
    return run_command(_parser(*arguments[:1]).parse_args(arguments))


def run_command(options: argparse.Namespace) -> int:
    """Run the command that a parser chose; a failure ends in a message and an exit code other than 0."""
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
    except BrokenPipeError:  # `| head` has read enough and closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class Parser(argparse.ArgumentParser):
    """A parser whose errors point to --help instead of listing every option; so do its subparsers."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401
        """Refuse unknown arguments here: the parent parser would point to its own --help."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and where help is, and exit with 2."""
        self.exit(2, f"{self.prog}: {message}\nSee: {self.prog} --help\n")


def _parser(command: str = "") -> argparse.ArgumentParser:
    """Return a parser with the options of one command; of all commands if that is the name of none."""
    parser: argparse.ArgumentParser = Parser(prog="onnxlab", description="Tools of the ONNX Lab course.")
    parser.add_argument("--version", action="version", version=f"onnxlab {version('onnxlab')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in [name for name, names in _COMMANDS.items() if command in names] or _COMMANDS:
        importlib.import_module(f"onnxlab.cli.{module}").add_commands(commands)
    return parser
