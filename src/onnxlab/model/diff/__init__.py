"""How two models differ: which nodes belong together, and what is not the same about them."""

from onnxlab.model.diff.comparison import Change, GraphDiff, NodeChange, diff

__all__ = ["Change", "GraphDiff", "NodeChange", "diff"]
