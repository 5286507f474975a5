"""Lab 8: models changed, cut and compared without an exporter."""

from onnxlab.labs.exercise import Lab
from onnxlab.labs.lab08_graph_surgery import cut_between, first_divergence, fold_batchnorm

__all__ = ["LAB"]

LAB = Lab(
    "lab08_graph_surgery",
    "Graph surgery",
    (fold_batchnorm.EXERCISE, cut_between.EXERCISE, first_divergence.EXERCISE),
)
