"""Whether an operator can be exported and run: its rule, its ONNX schema, its kernel."""

from onnxlab.operators.rules import original
from onnxlab.operators.support import State, support

__all__ = ["State", "original", "support"]
