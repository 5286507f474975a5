"""Silence a block of code: what it prints, warns about and logs is captured and becomes data."""

import contextlib
import ctypes
import io
import logging
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

# The top-level loggers of the packages that log during an export.
_PACKAGES = ("torch", "onnxscript", "onnx_ir", "onnxruntime")


@dataclass(frozen=True)
class Notice:
    """A warning of an exporter, with the number of times that it came.

    Attributes:
        category: The warning's class, such as "TracerWarning", or "log" for a log message.
        message: Its first line.
        count: How many times it came.
        source: "warning" or "log".
    """

    category: str
    message: str
    count: int = 1
    source: str = "warning"


@dataclass
class Captured:
    """The output of a silenced block; filled in when the block ends.

    Attributes:
        notices: First the warnings, then the log messages of level WARNING and above.
        text: All that was printed, by Python or by C++.
    """

    notices: tuple[Notice, ...] = ()
    text: str = ""


@contextlib.contextmanager
def silenced() -> Iterator[Captured]:
    r"""Capture warnings, log messages and everything printed inside the block, also by C++ code.

    Afterwards filters, log handlers and streams are as before, also when the block raises.

    Yields:
        The output, filled in when the block ends.

    Example:
        >>> with silenced() as heard:
        ...     print("progress")
        ...     warnings.warn("careful", UserWarning)
        >>> heard.notices
        (Notice(category='UserWarning', message='careful', count=1, source='warning'),)
        >>> heard.text
        'progress\n'
    """
    captured = Captured()
    printed = io.StringIO()
    messages: list[str] = []
    with warnings.catch_warnings(record=True, action="always") as caught, tempfile.TemporaryFile() as by_c:
        try:
            with (
                _log_messages_to(messages),
                descriptors_to(by_c),
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
            ):
                yield captured
        finally:
            by_c.seek(0)
            captured.text = printed.getvalue() + by_c.read().decode(errors="replace")
            captured.notices = _notices(
                [
                    *((warning.category.__name__, str(warning.message), "warning") for warning in caught),
                    *(("log", message, "log") for message in messages),
                ]
            )


def _notices(messages: Iterable[tuple[str, str, str]]) -> tuple[Notice, ...]:
    counts = Counter((category, _first_line(message), source) for category, message, source in messages)
    return tuple(Notice(category, line, n, source) for (category, line, source), n in counts.items())


def _first_line(message: str) -> str:
    return next((line.strip() for line in message.splitlines() if line.strip()), "")


class _MessageList(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())


@contextlib.contextmanager
def _log_messages_to(messages: list[str]) -> Iterator[None]:
    handler = _MessageList(messages)
    for name in _PACKAGES:
        logging.getLogger(name)  # so that it exists, and is the parent of loggers made during the block
    loggers = [
        logger
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in _PACKAGES
    ]
    # Many torch loggers print through a handler of their own and pass nothing on.
    before = [(logger, logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        is_top = logger.name in _PACKAGES
        logger.handlers = [handler] if is_top else []
        logger.propagate = not is_top
    try:
        yield
    finally:
        for logger, handlers, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate


@contextlib.contextmanager
def descriptors_to(sink: IO[bytes]) -> Iterator[None]:
    """Send what is written to the process's own file descriptors of stdout and stderr to a file."""
    _flush()
    saved: list[tuple[int, int]] = []
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # a program without a console has none
            saved.append((descriptor, os.dup(descriptor)))
            os.dup2(sink.fileno(), descriptor)
    try:
        yield
    finally:
        _flush()
        for descriptor, copy in saved:
            os.dup2(copy, descriptor)
            os.close(copy)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    # The C library has a buffer of its own; what is left in it would appear after the block.
    with contextlib.suppress(AttributeError, OSError):
        (ctypes.CDLL("ucrtbase") if os.name == "nt" else ctypes.CDLL(None)).fflush(None)
