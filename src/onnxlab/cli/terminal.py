"""What a command writes: text that a terminal cannot take for commands, and its own colours and links."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from onnxlab.plain_text import plain

_COLOURS = {"wrong": "31", "risk": "33", "note": "36"}


class _PlainStream:
    """A stream that passes on plain text: names in files, messages and paths may hold anything."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(plain(text, len(text), lines=True))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a stream has
        return getattr(self.stream, name)


@contextmanager
def plain_streams() -> Iterator[None]:
    """Let what is printed within a block be plain text, whoever prints it; `control` writes past that."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", _PlainStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def control(sequence: str, stream: TextIO | None = None) -> None:
    """Write a control sequence, if the stream is a terminal that knows such."""
    stream = sys.stdout if stream is None else stream
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        getattr(stream, "stream", stream).write(sequence)


def write_coloured(severity: str, shown: str) -> None:
    """Write a word in the colour of a severity."""
    control(f"\x1b[{_COLOURS[severity]}m")
    sys.stdout.write(shown)
    control("\x1b[0m")


def write_link(shown: str, address: str) -> None:
    """Write words that a terminal opens an address for (OSC 8); elsewhere the words alone."""
    control(f"\x1b]8;;{address}\x1b\\")
    sys.stdout.write(shown)
    control("\x1b]8;;\x1b\\")
