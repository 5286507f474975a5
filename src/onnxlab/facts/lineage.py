"""What was computed from what in the main graph of a model."""

import onnx

from onnxlab.facts.nodes import GraphNode, walk

__all__ = ["ancestors", "edges"]


def edges(model: onnx.ModelProto) -> tuple[dict[str, GraphNode], dict[str, list[str]]]:
    """Return who makes each value, and what each node reads.

    A node with a Loop, If or Scan body also reads what the nodes inside the body read.

    Returns:
        The maker of each value, by the value's name; the values read, by the node's path.

    Example:
        >>> from onnxlab.facts.history import recorded_graph
        >>> makers, reads = edges(recorded_graph("1.8.1", "silu_9"))
        >>> {name: node.op for name, node in makers.items()}, reads
        ({'1': 'Sigmoid', '2': 'Mul'}, {'0': ['input'], '1': ['input', '1']})
    """
    makers: dict[str, GraphNode] = {}
    reads: dict[str, list[str]] = {}
    for node in walk(model, functions=False):
        outer = node.path.split("/")[0]
        reads.setdefault(outer, []).extend(name for name in node.inputs if name)
        if not node.scope:
            makers.update({name: node for name in node.outputs if name})
    return makers, reads


def ancestors(model: onnx.ModelProto, names: list[str]) -> dict[str, set[str]]:
    """For each named value, return those of the named values it is computed from.

    Args:
        model: A model whose nodes stand in order, as the checker demands.
        names: Values that nodes of the main graph make.

    Example:
        >>> from onnxlab.facts.history import recorded_graph
        >>> ancestors(recorded_graph("1.8.1", "silu_9"), ["1", "2"])
        {'1': set(), '2': {'1'}}
    """
    makers, reads = edges(model)
    before: dict[str, set[str]] = {}
    for name, node in makers.items():
        before[name] = set()
        for read in reads[node.path]:
            if read in makers:
                before[name] |= before.get(read, set()) | {read}
    wanted = set(names)
    return {name: before[name] & wanted for name in names}
