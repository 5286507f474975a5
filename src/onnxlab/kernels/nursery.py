"""The loop of a warm process: take a connection, fork, tell how the fork ended.

It reads nothing from those who connect. The kernel of the system says who they are (SO_PEERCRED), the fork
reads what they want.
"""

import contextlib
import os
import select
import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnxlab.kernels.messages import say
from onnxlab.kernels.peer import Peer
from onnxlab.kernels.preloading import NotLikeFresh, require_one_thread

__all__ = ["Nursery"]

_LOOK_EVERY = 2.0  # seconds between two looks at the clock and at the address


@dataclass
class _Child:
    process: int
    descriptor: int  # says that the process has ended
    user: int
    connection: socket.socket | None
    ended: bool = False


class Nursery:
    """Forks a process for every connection that is admitted.

    Args:
        listener: A listening SOCK_SEQPACKET socket with an address in the file system.
        admit: Whether a user may have kernels.
        outdated: What changed since the packages were loaded, asked before each fork; empty if nothing did.
        refusal: Why nobody gets a kernel; empty if they do.
        most: How many living kernels one user may have.
        idle: Seconds without a kernel after which it ends; None: never.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        admit: Callable[[int], bool],
        outdated: Callable[[], str],
        refusal: str = "",
        most: int,
        idle: float | None,
    ) -> None:
        self._listener, self._admit, self._outdated, self._refusal = listener, admit, outdated, refusal
        self._most, self._idle = most, idle
        self._address = Path(listener.getsockname())
        self._inode = self._address.stat().st_ino
        self._children: list[_Child] = []
        self._open = True
        self._waiting = select.epoll()
        listener.setblocking(False)
        self._waiting.register(listener, select.EPOLLIN)

    def serve(self) -> tuple[socket.socket, Peer] | None:
        """Fork until it is time to end.

        Returns:
            In a fork: the connection to whoever wants the kernel, and who they are. In the warm process, at
            its end: None.
        """
        idle_since = time.monotonic()
        while True:
            ready = self._waiting.poll(_LOOK_EVERY)
            for descriptor, _ in ready:
                if self._open and descriptor == self._listener.fileno():
                    if new := self._take():
                        return new
                else:
                    self._note(descriptor)
            now = time.monotonic()
            if self._children:
                idle_since = now
            over = not ready and self._idle is not None and now - idle_since >= self._idle
            if self._open and (over or not self._still_there()):
                self._close()
            if not self._open and not self._children:
                return None

    def _take(self) -> tuple[socket.socket, Peer] | None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # who connected is gone
            return None
        peer = Peer.of(connection)
        if reason := self._reason_against(peer):
            say(connection, refused=reason)
            connection.close()
            return None
        if changed := self._outdated():
            say(connection, outdated=changed)
            connection.close()
            self._close()
            return None
        try:
            process = os.fork()
        except OSError as error:
            say(connection, refused=f"the system forks no process: {error.strerror}")
            connection.close()
            return None
        if not process:
            self._forget()
            return connection, peer
        say(connection, process=process)
        child = _Child(process, os.pidfd_open(process), peer.user, connection)
        self._children.append(child)
        self._waiting.register(child.descriptor, select.EPOLLIN)
        self._waiting.register(connection, select.EPOLLRDHUP)  # never what was sent: the fork reads it
        return None

    def _reason_against(self, peer: Peer) -> str:
        if not self._admit(peer.user):
            return f"user {peer.user} has no kernels here"
        if Counter(child.user for child in self._children)[peer.user] >= self._most:
            return f"user {peer.user} has {self._most} kernels, and more are not forked"
        if self._refusal:
            return self._refusal
        try:
            require_one_thread()
        except NotLikeFresh as unlike:
            return str(unlike)
        return ""

    def _note(self, descriptor: int) -> None:
        """A process ended, or whoever asked for it has heard so or is gone."""
        for child in self._children:
            if descriptor == child.descriptor and not child.ended:
                child.ended = True
                self._waiting.unregister(descriptor)
                if child.connection:
                    say(child.connection, code=_exit_code(descriptor))
            elif child.connection and descriptor == child.connection.fileno():
                self._waiting.unregister(descriptor)
                child.connection.close()
                child.connection = None
            else:
                continue
            if child.ended and child.connection is None:
                # Only now: until then its number is no other process's, and signals reach the right one.
                os.waitpid(child.process, 0)
                os.close(child.descriptor)
                self._children.remove(child)
            return

    def _still_there(self) -> bool:
        try:
            return self._address.stat().st_ino == self._inode
        except OSError:
            return False

    def _close(self) -> None:
        """Take nobody any more; those who come now start another warm process."""
        if self._still_there():
            self._address.unlink()
        self._waiting.unregister(self._listener)
        self._listener.close()
        self._open = False

    def _forget(self) -> None:
        """In a fork: close what is the warm process's."""
        self._waiting.close()
        self._listener.close()
        for child in self._children:
            os.close(child.descriptor)
            if child.connection:
                child.connection.close()
        self._children.clear()


def _exit_code(descriptor: int) -> int:
    """Return the exit code of an ended child, negative for a signal as `subprocess` has it, and keep it."""
    with contextlib.suppress(OSError):
        if found := os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT):
            return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
    return 255
