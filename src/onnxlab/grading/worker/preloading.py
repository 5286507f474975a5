"""What a fork server holds before it forks: all that a task imports, with each part used once.

What is lazy is loaded then, and not again in every fork. The newer exporter takes longer to load than all the
rest, and 90 MB: a run over labs that do without it does without it too.
"""

import contextlib
import functools
import gc
import importlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from onnxlab.grading.worker.task import PREFIX

__all__ = ["load", "load_exporter"]

_PARTS = (
    "onnxlab.notebook.expectations",
    "onnxlab.exporters.symbolics",
    "onnxlab.exporters.torchscript_recording",
    "onnxlab.grading.worker.judge",
    "onnxlab.sandbox.entry",
    "torch.onnx.symbolic_helper",
)
_KEPT = contextlib.ExitStack()
"""What stays for as long as the process and its forks live: a context that nobody holds would end at once."""


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

    _KEPT.enter_context(remembered_torchlib())
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
