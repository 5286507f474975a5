"""A process with torch and the labs loaded, from which every task is forked in milliseconds.

It is started by `client.py` with one end of a socket, reads a task from it, forks, and reports how the fork
ended. It runs no submission itself, so that each fork begins clean. Where no fork is safe (macOS, Windows),
the same module runs one task and ends.

It holds all that a task imports, with each part used once: what is lazy is loaded then, and not again in
every fork. The newer exporter takes longer to load than all the rest, and 90 MB: a run over labs that do
without it does without it too.

A fork copies one thread. A lock that another thread holds at that moment is held for ever, so the libraries
get one thread each before they are loaded, and that there is only one is asserted before every fork.
"""

import contextlib
import functools
import gc
import importlib
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
from typing import Any

from onnxlab.grading.worker.task import LARGEST_GREETING, LARGEST_MESSAGE, PREFIX, QUIET, Task, described
from onnxlab.sandbox.levels import Ending
from onnxlab.sandbox.libc import die_with_parent, set_dumpable

__all__ = ["load", "load_exporter", "main"]

_KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "LD_LIBRARY_PATH")
_PARTS = (
    "onnxlab.notebook.expectations",
    "onnxlab.exporters.symbolics",
    "onnxlab.exporters.torchscript_recording",
    "onnxlab.grading.worker.judge",
    "onnxlab.sandbox.entry",
    "torch.onnx.symbolic_helper",
)
_HELD = contextlib.ExitStack()
"""What stays for as long as the process and its forks live: a context that nobody holds would end at once."""


def main(arguments: list[str]) -> None:
    """Serve on the descriptor that is the first argument, or run the one task that follows `--once`."""
    os.environ.update(QUIET)
    set_dumpable(False)
    if arguments[0] == "--once":
        with _before_anything_runs():
            load()
            _run_task(Task.from_json(arguments[1]))
    load()
    with socket.socket(fileno=int(arguments[0])) as control:
        _serve(control)
    os._exit(0)  # what is loaded would be taken apart for a quarter of a second


def load() -> None:
    """Load what every task needs."""
    gc.disable()  # what is loaded stays, and would be looked through again and again
    import torch

    torch.set_num_threads(1)
    _one_thread_for_each_session()
    for name in _PARTS:
        importlib.import_module(name)
    from onnxlab.exporters.export import Exporter, export
    from onnxlab.grading.worker import student
    from onnxlab.labs.kit.exercise import labs

    with _nothing_left_behind():
        labs()
        student.prepare()
        for opset in (9, 11, 18):
            model = torch.nn.Conv2d(1, 1, 3)
            export(model, torch.ones(1, 1, 4, 4), Exporter.TORCHSCRIPT, opset_version=opset)
    _settle()


@functools.cache
def load_exporter() -> None:
    """Load what `torch.export` and the exporter built on it need. To be called after `load`."""
    gc.disable()
    import torch

    from onnxlab.exporters.export import Exporter, export, remembered_torchlib, without_tqdm_thread
    from onnxlab.operators.support import known_operators

    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            chosen: torch.Tensor = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
            return chosen

    _HELD.enter_context(remembered_torchlib())
    known_operators()
    batch: dict[str, Any] = {"dynamic_shapes": ({0: torch.export.Dim("batch")},)}
    with _nothing_left_behind(), without_tqdm_thread():  # a fork server has one thread
        for opset, model, options in ((18, torch.nn.Linear(3, 1), batch), (20, Branch(), {})):
            export(model, torch.ones(2, 3), Exporter.TORCH_EXPORT, opset_version=opset, **options)
    _settle()


@contextlib.contextmanager
def _nothing_left_behind() -> Iterator[None]:
    """Have what libraries write as they start, in the home of whoever grades, written elsewhere."""
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-warm-") as folder:
        os.environ.update(IPYTHONDIR=folder, TORCHINDUCTOR_CACHE_DIR=folder)
        yield


def _settle() -> None:
    gc.freeze()  # memory that the collector never touches stays shared with the forks
    gc.enable()


def _one_thread_for_each_session() -> None:
    """Have ONNX Runtime work in the thread that calls it, unless a session's options say otherwise.

    By default each session starts a thread for each core: on a large machine more than a submission may have.
    """
    import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

    begin = ort.InferenceSession.__init__

    @functools.wraps(begin)
    def begin_with_one(
        self: Any,  # noqa: ANN401 - as it is called by onnxruntime
        model: Any,  # noqa: ANN401
        sess_options: Any = None,  # noqa: ANN401
        *rest: Any,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> None:
        options = sess_options or ort.SessionOptions()
        options.intra_op_num_threads = options.intra_op_num_threads or 1
        begin(self, model, options, *rest, **named)

    ort.InferenceSession.__init__ = begin_with_one


def _run_task(task: Task) -> None:
    """Do a task in this process and end it. What comes after is the submission's, or a judge's."""
    from onnxlab.grading.worker import judge, student
    from onnxlab.sandbox.entry import enter

    folder = Path(task.folder)
    _forget(folder)
    if task.level is not None:
        enter(folder, _readable_places(), task.level, task.limits, task.user)
    else:
        os.chdir(folder)
        _end_after(task.limits.wall)  # nobody watches it
    code = 1
    try:
        code = {"student": student.run, "judge": judge.run}[task.kind](task, folder)
    finally:
        os._exit(code)  # no exit handlers, which a submission may have registered


def _readable_places() -> list[Path]:
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
                load_exporter()
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
        _run_task(task)
    os._exit(Ending.SANDBOX_FAILED)


@contextlib.contextmanager
def _before_anything_runs() -> Iterator[None]:
    """End this process as one that was never confined, whatever fails: the grader's fault, nobody's mark.

    `_run_task` ends the process itself, once a submission's code or a judge has begun.
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
    for name in [name for name in os.environ if name not in _KEPT and name not in QUIET]:
        del os.environ[name]
    tempfile.tempdir = str(folder)  # it was looked up long ago
    os.environ.update(
        HOME=str(folder), TMPDIR=str(folder), ONNXLAB_STATE=str(folder / "progress.json"), **QUIET
    )
    # Windows has no sessions; a process that was started apart (`--once`) leads one already.
    with contextlib.suppress(AttributeError, PermissionError):
        os.setsid()


if __name__ == "__main__":
    main(sys.argv[1:])
