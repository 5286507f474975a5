"""How two models differ: which nodes belong together, and what is not the same about them."""

from onnxlab.model.diff.changes import Change, NodeChange
from onnxlab.model.diff.comparison import GraphDiff, diff

__all__ = ["Change", "GraphDiff", "NodeChange", "diff"]
