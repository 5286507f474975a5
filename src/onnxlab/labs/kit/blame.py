"""Which line of the learner's own code raised: theirs, not the exporter's and not ours."""

import functools
import inspect
import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType, TracebackType

from onnxlab.runtime.refusals import named_reason

__all__ = ["chain", "first_line", "learners", "own_error", "own_line", "raised_by_stub"]

_OURS = str(Path(__file__).parents[2])
_STANDARD = str(Path(os.__file__).parent)
_LINE = 120  # characters of a line of code, or of a message, that are shown

_Namespace = dict[str, object]
_namespaces: ContextVar[tuple[_Namespace, ...]] = ContextVar("namespaces of the learner's code", default=())


@contextmanager
def learners(answers: Iterable[object]) -> Iterator[None]:
    """Say whose code it is that runs inside: the answers', with all that stands beside them.

    Where a file lies says little: a learner's packages can be in a virtual environment, a user's site or a
    folder of their own. A frame is the learner's if it has the global names of an answer (for a notebook,
    those of all its cells), or of the program that runs.

    Args:
        answers: The learner's functions and classes.

    Example:
        >>> def answer(x):
        ...     return x.shpe
        >>> with learners([answer]):
        ...     try:
        ...         answer(1)
        ...     except AttributeError as error:
        ...         print(own_line(error))
        line 2: return x.shpe
    """
    found = [vars(sys.modules["__main__"]), *filter(None, map(_namespace, answers))]
    before = _namespaces.set(tuple(found))
    try:
        yield
    finally:
        _namespaces.reset(before)


def _namespace(answer: object) -> _Namespace | None:
    """Return the global names of an answer's code, unless it is a library's."""
    try:
        while isinstance(answer, functools.partial):
            answer = answer.func
        kind = answer if isinstance(answer, type) else type(answer)
        parts = [answer, *(part for base in kind.__mro__ for part in vars(base).values())]
        return next(filter(None, map(_globals, parts)), None)
    except Exception:  # an object written by a learner can answer anything to these questions
        return None


def _globals(function: object) -> _Namespace | None:
    innermost = inspect.unwrap(function) if callable(function) else function
    file = getattr(getattr(innermost, "__code__", None), "co_filename", _OURS)
    library = file.startswith((_OURS, _STANDARD)) or {"site-packages", "dist-packages"} & {*Path(file).parts}
    return None if library else getattr(innermost, "__globals__", None)


def own_line(error: BaseException) -> str:
    """Return the innermost line of the learner's code on the way to an error, or an empty string.

    Exporters wrap what a symbolic function raises; the exceptions behind the one given are searched as well.
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
    r"""Return an error's class and the sentence of its text that says what is wrong.

    >>> first_line(ValueError("one\ntwo"))
    'ValueError: one'
    """
    return named_reason(error, 2 * _LINE)


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
    # Dataclasses and named tuples compile methods from text, with the global names of whoever asks for them.
    if frame.f_code.co_filename == "<string>":
        return False
    return any(frame.f_globals is names for names in _namespaces.get())
