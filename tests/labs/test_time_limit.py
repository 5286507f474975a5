"""A limit inside a limit."""

import contextlib
import signal
import time

import pytest

from onnxlab.labs.kit.producing import TimeLimitReached, time_limit


def spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def test_the_outer_limit_holds_after_an_inner_one():
    started = time.monotonic()
    with pytest.raises(TimeLimitReached), time_limit(0.5):  # noqa: PT012 - the nesting is what is tested
        with time_limit(5):
            pass
        spin(5)
    assert 0.4 < time.monotonic() - started < 2


def test_the_outer_limit_holds_inside_a_longer_inner_one():
    started = time.monotonic()
    with pytest.raises(TimeLimitReached), time_limit(0.3), time_limit(60):
        spin(5)
    assert time.monotonic() - started < 2


def test_the_outer_limit_comes_again_to_whoever_took_it_for_the_inner_one():
    started = time.monotonic()
    with pytest.raises(TimeLimitReached), time_limit(0.3):  # noqa: PT012 - the nesting is what is tested
        with contextlib.suppress(TimeLimitReached), time_limit(60):
            spin(5)
        spin(5)
    assert time.monotonic() - started < 2


def test_the_inner_limit_alone_is_left_first():
    with time_limit(2):
        with pytest.raises(TimeLimitReached), time_limit(0.2):
            spin(5)
        reached = time.monotonic()
        spin(0.3)  # nothing of the inner limit comes any more
        assert time.monotonic() - reached >= 0.3


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
def test_a_foreign_timer_is_kept():
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(time.monotonic()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        started = time.monotonic()
        with time_limit(5):
            spin(0.1)
        spin(0.8)
        assert len(rang) == 1
        assert 0.3 < rang[0] - started < 0.8
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_busy_machine_takes_nothing_from_the_limit():
    """Whoever waits for the processor, here by sleeping, has not used it."""
    with time_limit(0.2, patience=50):
        time.sleep(0.5)
    with pytest.raises(TimeLimitReached), time_limit(0.2, patience=50):
        spin(9)


def test_patience_ends():
    started = time.monotonic()
    with pytest.raises(TimeLimitReached), time_limit(0.2, patience=2):
        time.sleep(9)
    assert 0.4 < time.monotonic() - started < 3
