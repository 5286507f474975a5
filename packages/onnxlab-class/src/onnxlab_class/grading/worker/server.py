"""The fork server: a process with torch and the labs loaded, which forks every task in milliseconds.

`client.py` starts it with one end of a socket. It reads a task from the socket, forks, and sends the fork's
exit code. It runs no submission itself, so each fork begins clean. Where a fork is not safe (macOS, Windows),
the same module runs one task and ends.

It imports all that a task needs and uses each library once, so that what a library loads late is not loaded
again in every fork. The `torch.export` exporter takes 90 MB and longer to load than all the rest, so it is
only loaded for labs that need it.

A fork copies only the thread that forks. A lock that another thread holds at that moment stays locked in the
fork for ever. So the libraries are told to use one thread each before they are loaded, and before every fork
the number of threads is asserted.
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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onnxlab_class.grading.worker.task import (
    ENVIRONMENT,
    FOLDER_PREFIX,
    LARGEST_MESSAGE,
    PACKAGES,
    READY,
    Task,
)
from onnxlab_class.sandbox.libc import die_with_parent, set_dumpable
from onnxlab_class.sandbox.watcher import Ending

_PRELOADED = (
    "numpy.ma",  # np.median imports it
    "onnxlab.notebook.expectations",
    "onnxlab.exporters.symbolics",
    "onnxlab_class.grading.worker.judge",
    "onnxlab_class.sandbox.entry",
    "onnxconverter_common.float16",
    "onnxruntime.quantization.matmul_nbits_quantizer",
    "torch.onnx.symbolic_helper",
)
_LAP = 0.25  # seconds
_CONTEXTS = contextlib.ExitStack()
"""Context managers that stay open as long as this process and its forks live."""


def main(arguments: list[str]) -> None:
    """Serve on the descriptor that is the first argument, or run the one task that follows `--once`."""
    os.environ.update(ENVIRONMENT)
    set_dumpable(False)
    if arguments[0] == "--once":
        with _sandbox_failed_on_error():
            load()
            _run_task(Task.from_json(arguments[1]))
    load()
    with socket.socket(fileno=int(arguments[0])) as control:
        _serve(control)
    os._exit(0)  # what is loaded would be taken apart for a quarter of a second


def load() -> None:
    """Load what every task needs."""
    gc.disable()  # what is loaded stays; to search it for garbage would only take time
    import torch

    torch.set_num_threads(1)
    _one_thread_for_each_session()
    for name in _PRELOADED:
        importlib.import_module(name)
    from onnxlab.exporters.export import Exporter, export
    from onnxlab.kit.exercise import labs
    from onnxlab.kit.producing import load_produce
    from onnxlab_class.grading.worker import student

    with _temporary_caches():
        for lab in labs():
            for exercise in lab.exercises:
                load_produce(exercise)
        student.prepare()
        for opset in (9, 11, 18):
            model = torch.nn.Conv2d(1, 1, 3)
            export(model, torch.ones(1, 1, 4, 4), Exporter.TORCHSCRIPT, opset_version=opset)
    _freeze_memory()


@functools.cache
def load_exporter() -> None:
    """Load `torch.export` and the exporter that uses it. Call `load` before."""
    gc.disable()
    import torch

    from onnxlab.exporters.export import Exporter, export, remembered_torchlib, without_tqdm_thread
    from onnxlab.operators import known_operators

    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
            return y

    _CONTEXTS.enter_context(remembered_torchlib())
    known_operators()
    batch: dict[str, Any] = {"dynamic_shapes": ({0: torch.export.Dim("batch")},)}
    with _temporary_caches(), without_tqdm_thread():  # a fork server has one thread
        for opset, model, options in ((18, torch.nn.Linear(3, 1), batch), (20, Branch(), {})):
            export(model, torch.ones(2, 3), Exporter.TORCH_EXPORT, opset_version=opset, **options)
    _freeze_memory()


@contextlib.contextmanager
def _temporary_caches() -> Iterator[None]:
    """Keep files that libraries write at their start out of the home of the user who grades."""
    with tempfile.TemporaryDirectory(prefix=f"{FOLDER_PREFIX}{os.getpid()}-warm-") as folder:
        os.environ.update(IPYTHONDIR=folder, TORCHINDUCTOR_CACHE_DIR=folder)
        yield
        del os.environ["IPYTHONDIR"], os.environ["TORCHINDUCTOR_CACHE_DIR"]


def _freeze_memory() -> None:
    gc.freeze()  # memory that the collector never touches stays shared with the forks
    gc.enable()


def _one_thread_for_each_session() -> None:
    """Make ONNX Runtime use only the calling thread, unless a session's options say otherwise.

    By default each session starts a thread for each core: on a large machine more than a submission may have.
    """
    import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types

    original = ort.InferenceSession.__init__

    @functools.wraps(original)
    def init_with_one_thread(
        self: Any,  # noqa: ANN401 - onnxruntime's own signature
        model: Any,  # noqa: ANN401
        sess_options: Any = None,  # noqa: ANN401
        *rest: Any,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> None:
        options = sess_options or ort.SessionOptions()
        options.intra_op_num_threads = options.intra_op_num_threads or 1
        original(self, model, options, *rest, **named)

    ort.InferenceSession.__init__ = init_with_one_thread


def _run_task(task: Task) -> None:
    """Run a task in this process and end the process."""
    from onnxlab_class.grading.worker import judge, student
    from onnxlab_class.sandbox.entry import enter

    folder = Path(task.folder)
    _drop_access(folder)
    if task.level is not None:
        hidden = hidden_folders() if task.kind == "student" else ()
        enter(folder, _readable_paths(), task.level, task.limits, task.user, hidden=hidden)
    else:
        os.chdir(folder)
        _end_after(task.limits.wall)  # it has no watcher
    code = 1
    try:
        code = {"student": student.run, "judge": judge.run}[task.kind](task, folder)
    finally:
        os._exit(code)  # no exit handlers, which a submission may have registered


def _readable_paths() -> list[Path]:
    """Return what a task may read: Python, its packages, the system's libraries, the course's own packages.

    Solutions and submissions lie outside all of them.
    """
    system = ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime"]
    own = [sys.prefix, sys.base_prefix, *map(str, PACKAGES)]
    return [Path(path) for path in dict.fromkeys(system + own) if Path(path).exists()]


def hidden_folders() -> list[Path]:
    """Return the folders with the judges, and a wheel's solutions, of every copy that could be imported.

    The process that runs a submission must not read them; it never has the judges in memory either, as only
    the fork that judges imports them.
    """
    roots = [PACKAGES[0].parent, *map(Path, sys.path)]
    names = ("onnxlab/judges", "onnxlab/assets/course/solutions")
    return [folder for root in roots for name in names if (folder := root / name).is_dir()]


def _serve(control: socket.socket) -> None:
    """Fork a process for each task, and send its exit code."""
    waiting = selectors.DefaultSelector()
    waiting.register(control, selectors.EVENT_READ)
    control.send(READY)
    running: dict[int, tuple[int, str]] = {}  # by the pidfd that is readable once the process has ended
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
            if not message:  # the grader has ended
                for process, _ in running.values():
                    os.kill(process, signal.SIGTERM)  # a watcher first ends what it watches
                return
            task = Task.from_json(message.decode())
            if task.exporter:
                load_exporter()
            process = _fork(task, control, waiting)
            pidfd = os.pidfd_open(process)
            running[pidfd] = (process, task.id)
            waiting.register(pidfd, selectors.EVENT_READ)


def _fork(task: Task, control: socket.socket, waiting: selectors.BaseSelector) -> int:
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        msg = f"{threads} threads before a fork"
        raise RuntimeError(msg)
    process = os.fork()
    if process:
        return process
    with _sandbox_failed_on_error():
        die_with_parent(signal.SIGTERM)
        waiting.close()
        control.close()
        _run_task(task)
    os._exit(Ending.SANDBOX_FAILED)


@contextlib.contextmanager
def _sandbox_failed_on_error() -> Iterator[None]:
    """End this process with `SANDBOX_FAILED` if anything fails before the task begins.

    That is the grader's fault and gives nobody a mark. `_run_task` ends the process itself once it begins.
    """
    try:
        yield
    except BaseException:
        os._exit(Ending.SANDBOX_FAILED)


def _end_after(seconds: float) -> None:
    """End this process after some seconds by the clock, without those in which the machine stood still."""

    def count() -> None:
        left = seconds
        while left > 0:
            before = time.monotonic()
            time.sleep(min(left, _LAP))
            left -= min(time.monotonic() - before, 2 * _LAP)
        os._exit(Ending.TIME)

    threading.Thread(target=count, daemon=True).start()


def _drop_access(folder: Path) -> None:
    """Take the grader's descriptors, folders and terminal away from a task."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, 4096)
    tempfile.tempdir = str(folder)  # tempfile caches the old one
    os.environ.update(
        HOME=str(folder), TMPDIR=str(folder), ONNXLAB_STATE=str(folder / "progress.json"), **ENVIRONMENT
    )
    # Windows has no sessions; the leader of a process group (`--once`) may not start one.
    with contextlib.suppress(AttributeError, PermissionError):
        os.setsid()


if __name__ == "__main__":
    main(sys.argv[1:])
