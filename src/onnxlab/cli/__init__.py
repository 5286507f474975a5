"""The `onnxlab` command: arguments and printing, nothing else."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from onnxlab.cli.authoring import add_author
from onnxlab.cli.classroom import add_class
from onnxlab.cli.grading import add_grade
from onnxlab.cli.learner import add_learner_commands
from onnxlab.errors import OnnxLabError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `onnxlab` command and return its exit code: 0 fine, 1 something is wrong, 2 wrong usage."""
    options = _parser().parse_args(arguments)
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
    except BrokenPipeError:  # `| head`: whoever read has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class _Parser(argparse.ArgumentParser):
    """Says what is wrong and where the options stand, without listing them; its commands' parsers do too."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401
        """Refuse what this command does not know; the parser above would name its own help."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\nSee: {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(prog="onnxlab", description="Tools of the ONNX Lab course.")
    rooms = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_learner_commands(rooms)
    add_grade(rooms)
    add_class(rooms)
    add_author(rooms)
    return parser
