"""Models in ONNX Runtime: outputs and intermediate values, compared with PyTorch's, and refused inputs.

The names are imported at their first use: some of the modules load torch, which a run alone does not need.
"""

import importlib
from typing import Any

_MODULES = {
    "compare": "parity",
    "failure_table": "refusals",
    "first_divergence": "divergence",
    "intermediates": "divergence",
    "program_values": "divergence",
    "run": "parity",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module attribute can be anything
    """Import a name from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module 'onnxlab.runtime' has no attribute {name!r}")
    return getattr(importlib.import_module(f"onnxlab.runtime.{_MODULES[name]}"), name)
