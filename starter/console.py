"""What a person reads in the terminal: steps, a line that updates itself, the message a failure ends with."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

__all__ = ["Progress", "Stop", "clock", "step"]


class Stop(Exception):
    """Something that ends the command, in three lines: what happened, why, what to do next."""

    def __init__(self, what: str, why: str = "", then: str = "", *, code: int = 1) -> None:
        self.what, self.why, self.then, self.code = what, why, then, code
        super().__init__("\n".join(line for line in (what, why, then) if line))


def step(number: int, total: int, text: str) -> None:
    """Say which step comes now."""
    print(f"[{number}/{total}] {text}", flush=True)


class Progress:
    """One line that says how far a long step is. Where output goes to a file, a line now and then.

    Args:
        stream: Where to write.
        every: Seconds between two lines in a file.
    """

    def __init__(self, stream: TextIO | None = None, every: float = 20.0) -> None:
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        self._every = every
        self._began = self._last = time.monotonic()
        self._width = 0

    @property
    def seconds(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._began

    def show(self, text: str) -> None:
        """Show how far it is."""
        line = f"      {text}, {clock(self.seconds)}"
        if self._live:
            line = line[:100]
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        elif time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._stream.write(line + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Wipe the line: what follows stands in its place."""
        if self._live and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()


def clock(seconds: float) -> str:
    """Return a duration as people say it.

    >>> clock(7.2), clock(83)
    ('7 s', '1 min 23 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
