"""The `onnxlab` command: arguments and printing, nothing else."""

import argparse
import os
import sys
from collections.abc import Sequence

from onnxlab.cli_author import add_author
from onnxlab.cli_class import add_class
from onnxlab.cli_grading import add_grade
from onnxlab.cli_learner import add_learner_commands
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="onnxlab", description="Tools of the ONNX Lab course.")
    rooms = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_learner_commands(rooms)
    add_grade(rooms)
    add_class(rooms)
    add_author(rooms)
    return parser


if __name__ == "__main__":
    sys.exit(main())
