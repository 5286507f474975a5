"""Ctrl+C for a child process of a test."""

import signal


def hear_ctrl_c() -> None:
    """As `preexec_fn`: let Ctrl+C end the child, also where the tests run in the background and ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
