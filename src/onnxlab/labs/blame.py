"""Which line of the learner's own code raised: theirs, not the exporter's and not ours."""

import linecache
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

__all__ = ["chain", "first_line", "own_error", "own_line", "raised_by_stub"]

_OURS = str(Path(__file__).parents[1])
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_LINE = 120  # characters of a line of code, or of a message, that are shown


def own_line(error: BaseException) -> str:
    """Return the innermost line of the learner's code on the way to an error, or an empty string.

    Exporters wrap what a symbolic function raises; the exceptions behind the one given are searched as well.

    Example:
        >>> def answer(x):
        ...     return x.shpe
        >>> try:
        ...     answer(1)
        ... except AttributeError as error:
        ...     print(own_line(error))
        line 2: return x.shpe
    """
    return _blamed(error)[1]


def own_error(error: BaseException) -> BaseException:
    """Return the exception, of those behind an error, that the learner's code raised; else the error."""
    return _blamed(error)[0]


def _blamed(error: BaseException) -> tuple[BaseException, str]:
    for exception in reversed(chain(error)):
        frames = [(frame, line) for frame, line in _frames(exception.__traceback__) if _is_learners(frame)]
        if frames:
            frame, number = frames[-1]
            text = linecache.getline(frame.f_code.co_filename, number, frame.f_globals).strip()
            return exception, f"line {number}: {text[:_LINE]}".rstrip(": ")
    if isinstance(error, SyntaxError) and error.text:
        return error, f"line {error.lineno}: {error.text.strip()[:_LINE]}"
    return error, ""


def raised_by_stub(error: BaseException) -> bool:
    """Whether an error is an untouched exercise's: `raise NotImplementedError` in the learner's code."""
    for exception in chain(error):
        if isinstance(exception, NotImplementedError):
            frames = [frame for frame, _ in _frames(exception.__traceback__)]
            if frames and _is_learners(frames[-1]):
                return True
    return False


def first_line(error: BaseException) -> str:
    r"""Return an error's class and the first line of its text.

    >>> first_line(ValueError("one\ntwo"))
    'ValueError: one'
    """
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # a class written by a learner can do anything here
        lines = []
    return f"{type(error).__name__}: {lines[0][: 2 * _LINE]}" if lines else type(error).__name__


def chain(error: BaseException) -> list[BaseException]:
    """Return an exception and those behind it, from the outermost inwards."""
    found = [error]
    while True:
        last = found[-1]
        behind = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if behind is None or behind in found:
            return found
        found.append(behind)


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _is_learners(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    if file.startswith(("<frozen", "<__array_function__", "<string>")) or file == __file__:
        return False
    if file.startswith("<eval_with_key>"):  # written by torch.fx
        return False
    inside = file.startswith((_OURS, sys.prefix)) or file.startswith(_INSTALLED)
    return not inside
