"""Whether an operator can be exported and run: its rule, its ONNX schema, its kernel."""

from onnxlab.operators.rules import original
from onnxlab.operators.schemas import State
from onnxlab.operators.support import support

__all__ = ["State", "original", "support"]
