"""A process with torch and the labs loaded, from which every task is forked in milliseconds.

It is started by `client.py` with one end of a socket, reads a task from it, forks, and reports how the fork
ended. It runs no submission itself, so that each fork begins clean. Where no fork is safe (macOS, Windows),
the same module runs one task and ends.

A fork copies one thread. A lock that another thread holds at that moment is held for ever, so the libraries
get one thread each before they are loaded, and that there is only one is asserted before every fork.
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from onnxlab.grading.catalogue import described
from onnxlab.grading.worker import preloading
from onnxlab.grading.worker.task import LARGEST_GREETING, LARGEST_MESSAGE, Task
from onnxlab.sandbox.levels import Ending
from onnxlab.sandbox.libc import die_with_parent, set_dumpable

__all__ = ["main", "readable_places", "run_task"]

_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "LD_LIBRARY_PATH")
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
}


def main(arguments: list[str]) -> None:
    """Serve on the descriptor that is the first argument, or run the one task that follows `--once`."""
    os.environ.update(_QUIET)
    set_dumpable(False)
    if arguments[0] == "--once":
        with _before_anything_runs():
            preloading.load()
            run_task(Task.from_json(arguments[1]))
    preloading.load()
    with socket.socket(fileno=int(arguments[0])) as control:
        _serve(control)
    os._exit(0)  # what is loaded would be taken apart for a quarter of a second


def run_task(task: Task) -> None:
    """Do a task in this process and end it. What comes after is the submission's, or a judge's."""
    from onnxlab.grading.worker import judge, student
    from onnxlab.sandbox.entry import enter

    folder = Path(task.folder)
    _forget(folder)
    if task.level is not None:
        enter(folder, readable_places(), task.level, task.limits, task.user)
    else:
        os.chdir(folder)
        _end_after(task.limits.wall)  # nobody watches it
    code = 1
    try:
        code = {"student": student.run, "judge": judge.run}[task.kind](task, folder)
    finally:
        os._exit(code)  # no exit handlers, which a submission may have registered


def readable_places() -> list[Path]:
    """Return what a task may read: Python, its packages, the system's libraries, and this package.

    Solutions and submissions are not below any of them.
    """
    system = ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime"]
    own = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[2])]
    return [Path(place) for place in dict.fromkeys(system + own) if Path(place).exists()]


def _serve(control: socket.socket) -> None:
    """Fork a process for each task, and tell how it ended."""
    waiting = selectors.DefaultSelector()
    waiting.register(control, selectors.EVENT_READ)
    control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_GREETING)
    control.send(json.dumps({"labs": described()}).encode())
    running: dict[int, tuple[int, str]] = {}  # by the descriptor that says a process has ended
    while True:
        for key, _ in waiting.select():
            if key.fd in running:
                process, name = running.pop(key.fd)
                waiting.unregister(key.fd)
                os.close(key.fd)
                _, status = os.waitpid(process, 0)
                control.send(json.dumps({"id": name, "code": os.waitstatus_to_exitcode(status)}).encode())
                continue
            message = control.recv(LARGEST_MESSAGE)
            if not message:  # whoever asked is gone
                for process, _ in running.values():
                    os.kill(process, signal.SIGTERM)  # a watcher ends what it watches first
                return
            task = Task.from_json(message.decode())
            if task.exporter:
                preloading.load_exporter()
            process = _fork(task, control, waiting)
            ended = os.pidfd_open(process)
            running[ended] = (process, task.id)
            waiting.register(ended, selectors.EVENT_READ)


def _fork(task: Task, control: socket.socket, waiting: selectors.BaseSelector) -> int:
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        msg = f"{threads} threads before a fork"
        raise RuntimeError(msg)
    process = os.fork()
    if process:
        return process
    with _before_anything_runs():
        die_with_parent(signal.SIGTERM)
        waiting.close()
        control.close()
        run_task(task)
    os._exit(Ending.SANDBOX_FAILED)


@contextlib.contextmanager
def _before_anything_runs() -> Iterator[None]:
    """End this process as one that was never confined, whatever fails: the grader's fault, nobody's mark.

    `run_task` ends the process itself, once a submission's code or a judge has begun.
    """
    try:
        yield
    except BaseException:
        os._exit(Ending.SANDBOX_FAILED)


def _end_after(seconds: float) -> None:
    timer = threading.Timer(seconds, os._exit, [Ending.TIME])
    timer.daemon = True
    timer.start()


def _forget(folder: Path) -> None:
    """Leave nothing of the grader in a task's reach: no descriptor, no variable, no terminal."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.closerange(3, 4096)
    for name in [name for name in os.environ if name not in _KEPT and name not in _QUIET]:
        del os.environ[name]
    tempfile.tempdir = str(folder)  # it was looked up long ago
    os.environ.update(
        HOME=str(folder), TMPDIR=str(folder), ONNXLAB_STATE=str(folder / "progress.json"), **_QUIET
    )
    # Windows has no sessions; a process that was started apart (`--once`) leads one already.
    with contextlib.suppress(AttributeError, PermissionError):
        os.setsid()


if __name__ == "__main__":
    main(sys.argv[1:])
