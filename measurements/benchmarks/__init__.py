"""The tables of docs/benchmarks.md. They serve a class and start a cluster as the class's tests do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "packages" / "onnxlab-class" / "tests"))
