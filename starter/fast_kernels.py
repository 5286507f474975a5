"""How Jupyter is told to fork its kernels from a process with torch loaded; `onnxlab.kernels` does it."""

import sys
from pathlib import Path

from starter.environment import Environment

__all__ = ["OPTION", "variables"]

OPTION = "--fast-kernels"
_NAME = "onnxlab-forked"


def variables(environment: Environment, folder: Path) -> dict[str, str]:
    """Return what makes Jupyter fork its kernels; nothing where it cannot.

    Jupyter starts no kernel at all if the name is one it does not know, as where this package is installed
    from before there was one.

    Args:
        environment: Where Jupyter runs.
        folder: Whose end ends the process that the kernels are forked from.
    """
    points = [found / "entry_points.txt" for found in environment.metadata("onnxlab")]
    if sys.platform != "linux" or not any(_names_it(path) for path in points):
        return {}
    return {"JUPYTER_DEFAULT_PROVISIONER_NAME": _NAME, "ONNXLAB_KERNELS_FOLDER": str(folder)}


def _names_it(points: Path) -> bool:
    return points.is_file() and _NAME in points.read_text(encoding="utf-8")
