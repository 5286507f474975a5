"""Ctrl+C for a child process of a test."""

import signal


def hear_ctrl_c() -> None:
    """Undo, as `preexec_fn`, that Ctrl+C is ignored where the tests themselves run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
