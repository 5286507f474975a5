"""A forked kernel, seen from Jupyter: what `subprocess.Popen` is for one that was started."""

import contextlib
import errno
import json
import os
import select
import signal
import socket
import subprocess
import weakref

from onnxlab.kernels.messages import LARGEST

__all__ = ["UNKNOWN_CODE", "ForkedProcess"]

UNKNOWN_CODE = 255
"""The exit code where nobody knows it: the warm process is gone, too."""

_WHOLE_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9


class ForkedProcess:
    """A process that is another's child. Its number stays its own until its end was noticed here.

    Args:
        pid: Its number; also its group's.
        connection: On it the warm process tells the exit code; it keeps the number until it is closed.

    Attributes:
        returncode: None while it runs.
    """

    stdin = stdout = stderr = None

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection
        self._descriptor = os.pidfd_open(pid)
        self._release = weakref.finalize(self, _close, connection, self._descriptor)

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: If it still runs after so many seconds.
        """
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._descriptor, select.POLLIN)
            if not ended.poll(None if timeout is None else timeout * 1000):
                command = "ipykernel"
                raise subprocess.TimeoutExpired(command, timeout or 0)
            self.returncode = self._code()
            self._release()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process and what it started, if it has not ended."""
        if self.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            try:
                signal.pidfd_send_signal(self._descriptor, number, None, _WHOLE_GROUP)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                os.killpg(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _code(self) -> int:
        self._connection.settimeout(1.0)  # it is there, or comes at once
        with contextlib.suppress(OSError, ValueError, KeyError):
            return int(json.loads(self._connection.recv(LARGEST))["code"])
        return UNKNOWN_CODE


def _close(connection: socket.socket, descriptor: int) -> None:
    connection.close()
    os.close(descriptor)
