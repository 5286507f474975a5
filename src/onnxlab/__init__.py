"""ONNX Lab: how PyTorch models become ONNX models and run in ONNX Runtime.

What a learner imports::

    from onnxlab import graph, table, expect_error, quiet_exporters
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# ONNX Runtime reads this at import; the course reports nothing to anybody.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from onnxlab.display.atlas import atlas
    from onnxlab.display.expectations import expect_error, expect_warning, quiet_exporters
    from onnxlab.display.graph_view import graph
    from onnxlab.display.lab_checks import check, hint, require
    from onnxlab.display.lab_progress import progress
    from onnxlab.display.prediction_grid import predict_grid
    from onnxlab.display.predictions import predict
    from onnxlab.display.tables import table

__version__ = "0.1.0"
__all__ = [
    "atlas",
    "check",
    "expect_error",
    "expect_warning",
    "graph",
    "hint",
    "predict",
    "predict_grid",
    "progress",
    "quiet_exporters",
    "require",
    "table",
]

_HOME = {
    "atlas": "atlas",
    "check": "lab_checks",
    "expect_error": "expectations",
    "expect_warning": "expectations",
    "graph": "graph_view",
    "hint": "lab_checks",
    "predict": "predictions",
    "predict_grid": "prediction_grid",
    "progress": "lab_progress",
    "quiet_exporters": "expectations",
    "require": "lab_checks",
    "table": "tables",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 (a module attribute can be anything)
    """Load a learner's name at its first use: programs that only need facts never load widgets."""
    if name not in _HOME:
        msg = f"module 'onnxlab' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"onnxlab.display.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
