"""A time limit for code that runs in this process: it can be left, though not forced, to end."""

import _thread
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["TimeLimitReached", "time_limit"]

_AGAIN = 0.2  # seconds until the exception is raised once more, for code that swallows it
_EARLY = 0.001  # seconds by which the timer's clock and Python's may differ


class TimeLimitReached(BaseException):
    """Raised in the middle of whatever runs when its time is over.

    Not an `Exception`: a learner's `except Exception` must not swallow it.
    """


@contextmanager
def time_limit(seconds: float, patience: float = 1.0) -> Iterator[None]:
    """Leave a block after some seconds, by an exception.

    Where the system has timers, and in the main thread, as in a notebook, it is raised between any two steps
    of Python, again and again until the block ends. Elsewhere it comes as an interrupt, once. Native code
    that never returns cannot be left either way. Limits can stand inside one another.

    Args:
        seconds: How long the block may take.
        patience: How many times as long it may take while the processor does something else: what others
            run beside it, or nothing. Where the system has no timers, it always may.

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
        with _timer(seconds, patience):
            yield
    else:
        with _interrupt(patience * seconds):
            yield


@contextmanager
def _timer(seconds: float, patience: float) -> Iterator[None]:
    started, worked = time.monotonic(), time.thread_time()
    remaining, interval = signal.getitimer(signal.ITIMER_REAL)  # of a limit around this one; 0: none

    def over(number: int, frame: FrameType | None) -> None:
        elapsed = time.monotonic() - started + _EARLY
        if remaining and elapsed >= remaining and callable(before):
            before(number, frame)  # the outer limit raises its own exception
        busy = time.thread_time() - worked + _EARLY
        if elapsed >= patience * seconds or (elapsed >= seconds and busy >= seconds):
            raise TimeLimitReached

    before = signal.signal(signal.SIGALRM, over)
    # A process has one such timer: the one that was there is taken over here, and started again at the end.
    signal.setitimer(signal.ITIMER_REAL, min(seconds, remaining or seconds), _AGAIN)
    try:
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
        finally:  # one may arrive just before that call; there is none after it
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            if remaining:
                rest = max(remaining - (time.monotonic() - started), _EARLY)
                signal.setitimer(signal.ITIMER_REAL, rest, interval)


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
