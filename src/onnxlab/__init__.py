"""ONNX Lab: how PyTorch models become ONNX models and run in ONNX Runtime.

What a learner imports::

    from onnxlab import graph, table, expect_error, quiet_exporters

__init__.pyi lists all names.
"""

import onnxlab.isolation  # noqa: F401 - first: what is imported after it does not come from the folder

# isort: split
import ast
import importlib
import os
from pathlib import Path
from typing import Any

# ONNX Runtime reads this at import; the course reports nothing to anybody.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0"


def _modules() -> dict[str, str]:
    """Return the module of each name, read from the stub."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = (node for node in stub.body if isinstance(node, ast.ImportFrom))
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_MODULES = _modules()
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:  # noqa: ANN401 (a module attribute can be anything)
    """Import a name at its first use: programs that only read models never load widgets."""
    if name not in _MODULES:
        msg = f"module 'onnxlab' has no attribute {name!r}"
        raise AttributeError(msg)
    module = _MODULES[name]
    attributes = vars(importlib.import_module(module))
    # A name that its package does not have yet is a module below it.
    value = attributes[name] if name in attributes else importlib.import_module(f"{module}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
