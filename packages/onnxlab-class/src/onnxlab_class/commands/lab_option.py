"""The option `--lab` of the commands for a class."""

import argparse
from difflib import get_close_matches

from onnxlab.errors import UnknownExercise
from onnxlab.kit.exercise import LABS, lab


def add_lab_option(parser: argparse.ArgumentParser) -> None:
    """Add `--lab` to a command's parser."""
    parser.add_argument(
        "--lab",
        action="append",
        dest="labs",
        default=[],
        metavar="LAB",
        help="this lab only, as lab02; may be given again (default: all)",
    )


def requested_labs(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the full names of the requested labs in order; none for all of them.

    Raises:
        UnknownExercise: If there is no such lab; the nearest names are suggested.

    Example:
        >>> requested_labs(argparse.Namespace(labs=["lab2", "4", "lab02_dynamic_shapes"]))
        ('lab02_dynamic_shapes', 'lab04_asinh')
    """
    names = {_full_name(text) for text in options.labs}
    return tuple(name for name in LABS if name in names)


def _full_name(text: str) -> str:
    name = text.strip().lower().removesuffix(".ipynb")
    number = name.removeprefix("lab")
    if number.isdecimal() and len(number) < 5:
        name = f"lab{int(number):02}"
    try:
        return lab(name).name
    except UnknownExercise as error:
        words = {word: full for full in LABS for word in (full, full.partition("_")[2], *full.split("_"))}
        near = list(dict.fromkeys(words[word] for word in get_close_matches(name, words, 3, 0.6)))
        if not near:
            raise
        raise UnknownExercise(error.what, "", f"Did you mean {' or '.join(near)}?") from None
