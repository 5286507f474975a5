"""What JupyterLab writes to the terminal: held back until it is ready, told in one line if it fails."""

import contextlib
import os
import re
import sys
import threading
from typing import IO

__all__ = ["ServerOutput", "essence"]

_STAMP = re.compile(r"^\[[A-Z] [\d-]+ [\d:.]+ \w+\] ?")
# A tab that was open when an earlier server ended asks on and on with a key that is not valid any more.
_STALE = re.compile(
    r"^\[W [\d-]+ [\d:.]+ \w+\] (?:"
    r"403 GET \S*/api/(?:contents|events|kernels|kernelspecs|me|sessions|status|terminals|workspaces)\b"
    r"\S* \(@(?:127\.0\.0\.1|::1)\)"
    r"|wrote error: 'Forbidden'$"
    r"|Couldn't authenticate WebSocket connection$"
    r"|Clearing invalid/expired login cookie )"
)
# Said at every start, about nothing that a learner did: the course's outputs were saved by its authors,
# kernels listen to this machine only, and the others are about settings that nobody here has made.
_NOT_THEIRS = re.compile(
    r"^\[W [\d-]+ [\d:.]+ \w+\] (?:Notebook \S+ is not trusted$"
    r"|No nbgrader_config\.py file found |The websocket_ping_timeout \(\d+\) cannot be longer )"
    r"|^    Setting websocket_ping_timeout=\d+$"
    r"|^\[NbGrader \| WARNING\] No nbgrader_config\.py file found "
    r"|^\[IPKernelApp\] WARNING \| Kernel is running over TCP without encryption\."
)
_STALE_SAID = (
    "      A browser tab of an earlier start is still open. Close it, or open the address above in it."
)
_MOST_HELD = 2000


class ServerOutput:
    """Passes on what a server writes, and needs nobody to wait for it.

    Args:
        stream: Where the server writes to.
        everything: Whether to pass on all of it at once, as for a person who asked for it.
    """

    def __init__(self, stream: IO[bytes], *, everything: bool = False) -> None:
        self._stream = stream
        self._everything = everything
        self._held: list[str] = []
        self._holds = not everything
        self._silent = self._said_stale = False
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def held(self) -> str:
        """What was held back so far."""
        with self._lock:
            return "\n".join(self._held)

    def release(self) -> None:
        """Pass on what was held back, and from now on all that comes."""
        with self._lock:
            self._holds = False
            for line in self._held:
                self._pass_on(line)
            self._held.clear()

    def finish(self) -> None:
        """Take what is still under way. A process that outlives the server is not waited for."""
        self._reader.join(2)
        with self._lock:
            self._silent = True
        if not self._reader.is_alive():
            self._stream.close()

    def _read(self) -> None:
        rest = b""
        while piece := os.read(self._stream.fileno(), 65536):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._take(line)
        if rest:
            self._take(rest)

    def _take(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        with self._lock:
            if not self._holds:
                self._pass_on(text)
            elif len(self._held) < _MOST_HELD:
                self._held.append(text)

    def _pass_on(self, line: str) -> None:
        if self._silent:
            return
        if not self._everything and _NOT_THEIRS.match(line):
            return
        if not self._everything and _STALE.match(line):
            if self._said_stale:
                return
            self._said_stale, line = True, _STALE_SAID
        with contextlib.suppress(
            OSError, ValueError
        ):  # without a terminal, reading has to go on all the same
            print(line, file=sys.stderr, flush=True)


def essence(written: str) -> str:
    r"""Return the one line that says why a server did not start; empty if it wrote none.

    >>> essence("usage: x [-h]\n          [-y]\nx: error: unrecognized arguments: --z\n")
    'unrecognized arguments: --z'
    >>> essence("[C 2026-01-02 03:04:05.678 ServerApp] No such file or directory: x")
    'No such file or directory: x'
    """
    lines = [line.rstrip() for line in written.splitlines() if line.strip() and not line[0].isspace()]
    fatal = [line for line in lines if line.startswith("[C ") and _STAMP.sub("", line)]
    usage = [line.partition(": error: ")[2] for line in lines if re.match(r"\S+: error: ", line)]
    failed = [line for line in lines if line.startswith("[E ")]
    told = (fatal or usage or (lines[-1:] if "Traceback" in written else failed) or lines[-1:] or [""])[0]
    told = _STAMP.sub("", told).removeprefix("Bad config encountered during initialization: ")
    return told if len(told) <= 200 else f"{told[:199]}…"
