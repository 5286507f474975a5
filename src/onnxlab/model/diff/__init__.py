"""The differences between two models: nodes are matched first, then compared."""

from onnxlab.model.diff.comparison import Change, GraphDiff, NodeChange, diff

__all__ = ["Change", "GraphDiff", "NodeChange", "diff"]
