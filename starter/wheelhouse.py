"""Installing without the network: from a folder of wheels beside course.py.

`onnxlab class wheelhouse` makes a copy of the course with such a folder in it. Then pip asks nobody else.
"""

import os
import re
from pathlib import Path

from starter.environment import ROOT

__all__ = ["MISSING", "pip_arguments", "pip_variables"]

MISSING = (
    "The folder wheelhouse has no such package for this Python and system.",
    "Make one that has it (onnxlab class wheelhouse --help), or rename the folder to use the network, and",
)
"""What it means if pip finds no distribution, and what to do."""

_SOURCES = re.compile(r"PIP_((EXTRA_)?INDEX_URL|FIND_LINKS|NO_INDEX|CONSTRAINT|REQUIRE_HASHES|PRE)")


def pip_arguments(root: Path | None = None) -> list[str]:
    """Return what tells pip to install from the folder and from nowhere else; nothing if there is none."""
    folder = (root or ROOT) / "wheelhouse"
    return ["--no-index", "--find-links", str(folder)] if any(folder.glob("*.whl")) else []


def pip_variables(variables: dict[str, str]) -> dict[str, str]:
    """Return the environment without a person's own settings for pip, which may name other sources."""
    kept = {name: value for name, value in variables.items() if not _SOURCES.fullmatch(name)}
    return kept | {"PIP_CONFIG_FILE": os.devnull}
