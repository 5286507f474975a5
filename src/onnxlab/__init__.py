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
    from onnxlab import history, machine, operators, runtime
    from onnxlab.exporters import symbolics
    from onnxlab.exporters.export import Exporter, export
    from onnxlab.exporters.silence import silenced
    from onnxlab.model.graph import dims, op_types, outline, summary
    from onnxlab.networks import detection, digits, gpt, super_resolution
    from onnxlab.notebook.atlas.view import atlas
    from onnxlab.notebook.completion import completion
    from onnxlab.notebook.expectations import expect_error, expect_warning, quiet_exporters
    from onnxlab.notebook.graph.view import graph
    from onnxlab.notebook.labs.checks import case, check, hint, require
    from onnxlab.notebook.labs.progress import progress
    from onnxlab.notebook.language import speak
    from onnxlab.notebook.outputs import live_note
    from onnxlab.notebook.predict.prediction import predict, predict_grid
    from onnxlab.notebook.slider import slider
    from onnxlab.notebook.tables import table
    from onnxlab.runtime.parity import compare, run

__version__ = "0.1.0"
__all__ = [
    "Exporter",
    "atlas",
    "case",
    "check",
    "compare",
    "completion",
    "detection",
    "digits",
    "dims",
    "expect_error",
    "expect_warning",
    "export",
    "gpt",
    "graph",
    "hint",
    "history",
    "live_note",
    "machine",
    "op_types",
    "operators",
    "outline",
    "predict",
    "predict_grid",
    "progress",
    "quiet_exporters",
    "require",
    "run",
    "runtime",
    "silenced",
    "slider",
    "speak",
    "summary",
    "super_resolution",
    "symbolics",
    "table",
]

# Where each name lives. Chapters and labs know only the names: what is behind them may move.
_HOME = {
    # shown in a notebook
    "atlas": "notebook.atlas.view",
    "completion": "notebook.completion",
    "expect_error": "notebook.expectations",
    "expect_warning": "notebook.expectations",
    "graph": "notebook.graph.view",
    "live_note": "notebook.outputs",
    "predict": "notebook.predict.prediction",
    "predict_grid": "notebook.predict.prediction",
    "quiet_exporters": "notebook.expectations",
    "slider": "notebook.slider",
    "speak": "notebook.language",
    "table": "notebook.tables",
    # labs
    "case": "notebook.labs.checks",
    "check": "notebook.labs.checks",
    "hint": "notebook.labs.checks",
    "progress": "notebook.labs.progress",
    "require": "notebook.labs.checks",
    # models
    "Exporter": "exporters.export",
    "compare": "runtime.parity",
    "dims": "model.graph",
    "export": "exporters.export",
    "op_types": "model.graph",
    "outline": "model.graph",
    "run": "runtime.parity",
    "silenced": "exporters.silence",
    "summary": "model.graph",
}
# What is rarely asked for is an attribute of one of these modules.
_MODULES = {
    "detection": "networks.detection",
    "digits": "networks.digits",
    "gpt": "networks.gpt",
    "history": "history",
    "machine": "machine",
    "operators": "operators",
    "runtime": "runtime",
    "super_resolution": "networks.super_resolution",
    "symbolics": "exporters.symbolics",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 (a module attribute can be anything)
    """Load a learner's name at its first use: programs that only read models never load widgets."""
    if name in _MODULES:
        value: Any = importlib.import_module(f"onnxlab.{_MODULES[name]}")
    elif name in _HOME:
        value = getattr(importlib.import_module(f"onnxlab.{_HOME[name]}"), name)
    else:
        msg = f"module 'onnxlab' has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
