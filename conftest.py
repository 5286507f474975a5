"""Tests never touch the progress of the person who runs them."""

import os
import tempfile
from pathlib import Path

_FOLDER = tempfile.TemporaryDirectory(prefix="onnxlab-state-")
os.environ["ONNXLAB_STATE"] = str(Path(_FOLDER.name) / "progress.json")
