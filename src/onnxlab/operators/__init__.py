"""Whether an operator can be exported and run, link by link: rule, schema, kernel."""

from onnxlab.operators.rules import original
from onnxlab.operators.support import State, support

__all__ = ["State", "original", "support"]
