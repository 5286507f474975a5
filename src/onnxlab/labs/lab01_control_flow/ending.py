"""Loops that never end: left before they take the notebook with them.

A time limit works between two steps of Python. TorchScript and ONNX Runtime run a whole loop in one.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import torch

from onnxlab.labs.kit.outcome import Wrong
from onnxlab.runtime.session import feeds, open_session

__all__ = ["require_end_in_runtime", "require_end_in_torch"]

_SECONDS = 3.0  # a run takes milliseconds
_LOOK = "What has to change in every round, so that the condition of the loop becomes false?"


def require_end_in_torch(
    module: torch.nn.Module, inputs: tuple[Any, ...], stop: Callable[[], object], seconds: float = _SECONDS
) -> None:
    """Require that a module comes to an end. What it raises is not looked at: the export will say it.

    Args:
        module: The module.
        inputs: What it is run with.
        stop: Makes it fail, if it is still running: nothing can end it from outside.
        seconds: How long it may take.

    Raises:
        Wrong: If it takes longer.
    """

    def run() -> None:
        with contextlib.suppress(Exception):
            module(*inputs)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        stop()
        msg = f"Your module has not come to an end after {seconds:g} seconds."
        raise Wrong(msg, _LOOK)


def require_end_in_runtime(
    model: onnx.ModelProto, inputs: tuple[Any, ...], told: str, seconds: float = _SECONDS
) -> None:
    """Require that ONNX Runtime comes to an end. Other failures are left to what compares the numbers.

    Args:
        model: The model.
        inputs: What it is run with.
        told: How to name the run, as "n = 3".
        seconds: How long it may take.

    Raises:
        Wrong: If it takes longer.
    """
    options, over = ort.RunOptions(), threading.Event()

    def end() -> None:
        over.set()
        options.terminate = True

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        session = open_session(model)
        session.run(None, feeds(session, inputs), options)
    except Exception:
        if over.is_set():
            msg = f"With {told}, ONNX Runtime has not come to an end after {seconds:g} seconds."
            raise Wrong(msg, _LOOK) from None
    finally:
        timer.cancel()
