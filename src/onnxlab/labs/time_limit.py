"""A time limit for code that runs in this process: it can be left, though not forced, to end."""

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["TimeLimitReached", "time_limit"]

_AGAIN = 0.2  # seconds until the exception is raised once more, for code that swallows it


class TimeLimitReached(BaseException):
    """Raised in the middle of whatever runs when its time is over.

    Not an `Exception`: a learner's `except Exception` must not swallow it.
    """


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Leave a block after some seconds, by an exception.

    Where the system has timers, and in the main thread, as in a notebook, it is raised between any two steps
    of Python, again and again until the block ends. Elsewhere it comes as an interrupt, once. Native code
    that never returns cannot be left either way.

    Args:
        seconds: How long the block may take.

    Raises:
        TimeLimitReached: If it takes longer.

    Example:
        >>> try:
        ...     with time_limit(0.05):
        ...         while True:
        ...             pass
        ... except TimeLimitReached:
        ...     print("over")
        over
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # nothing can interrupt it from here; a grader limits whole processes
    elif hasattr(signal, "setitimer"):
        with _timer(seconds):
            yield
    else:
        with _interrupt(seconds):
            yield


@contextmanager
def _timer(seconds: float) -> Iterator[None]:
    def over(*_: object) -> None:
        raise TimeLimitReached

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:  # one may arrive just before that call; there is none after it
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


@contextmanager
def _interrupt(seconds: float) -> Iterator[None]:
    reached = threading.Event()

    def over() -> None:
        reached.set()
        _thread.interrupt_main()

    timer = threading.Timer(seconds, over)
    timer.daemon = True
    timer.start()
    try:
        yield
    except KeyboardInterrupt:
        if reached.is_set():
            raise TimeLimitReached from None
        raise
    finally:
        timer.cancel()
