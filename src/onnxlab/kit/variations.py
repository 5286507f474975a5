"""Variations of a drawn model: other readers of a value, and other ways to write the same graph.

Each changes the model that it is given, and none changes a number of it. The exercises that rewrite models
draw from them what an answer has to leave alone, or must not rely on.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxlab.model.graph import reads, subgraphs

_DOMAIN = "acme"

Variation: TypeAlias = Callable[[np.random.Generator, onnx.ModelProto], object]
"""Changes a model as the functions of this module do."""


def unname_nodes(random: np.random.Generator, model: onnx.ModelProto, every: int = 1) -> None:
    """Take the names of all nodes away, or of every second: ONNX asks for none."""
    for node in model.graph.node[::every]:
        node.name = ""


def shuffle_nodes(random: np.random.Generator, model: onnx.ModelProto) -> None:
    """Write the nodes in another order in which each stands after those that it reads."""
    nodes = list(model.graph.node)
    made = {name for node in nodes for name in node.output}
    del model.graph.node[:]
    while nodes:
        ready = [node for node in nodes if made.isdisjoint(reads(node))]
        node = ready[int(random.integers(len(ready)))]
        nodes.remove(node)
        made -= set(node.output)
        model.graph.node.append(node)


def nest_names(random: np.random.Generator, model: onnx.ModelProto) -> dict[str, str]:
    """Rename the inner values, each with all names before it in front: v, vv; return the new by the old."""
    outputs = {value.name for value in model.graph.output}
    made = [name for node in model.graph.node for name in node.output if name and name not in outputs]
    taken = {value.name for value in (*model.graph.input, *model.graph.output, *model.graph.initializer)}
    letter = next(letter for letter in "vwxyz" if not any(set(name) == {letter} for name in taken))
    names = {name: letter * number for number, name in enumerate(made, 1)}
    _rename(model.graph, names)
    return names


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for node in graph.node:
        for values in (node.input, node.output):
            values[:] = [names.get(name, name) for name in values]
        for _, body in subgraphs(node):
            _rename(body, names)
    for value in (*graph.value_info, *graph.output):
        value.name = names.get(value.name, value.name)


def add_domain(random: np.random.Generator, model: onnx.ModelProto, *, first: bool | None = None) -> None:
    """Import another domain, numbered above ONNX's opset, before ONNX's own or after it: drawn if None."""
    is_first = bool(random.integers(2)) if first is None else first
    entries = [*model.opset_import]
    entries.insert(0 if is_first else 1, helper.make_opsetid(_DOMAIN, int(random.integers(30, 99))))
    del model.opset_import[:]
    model.opset_import.extend(entries)


def list_weights(random: np.random.Generator, model: onnx.ModelProto) -> None:
    """List all initializers among the inputs too, as files of IR version 3 had to."""
    for weight in model.graph.initializer:
        info = helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
        model.graph.input.append(info)


def add_idle_node(random: np.random.Generator, model: onnx.ModelProto) -> None:
    """Add a node that reads a value and whose result nothing reads, and a weight that nothing reads."""
    names = [name for node in model.graph.node for name in node.output if name]
    read = names[int(random.integers(len(names)))]
    model.graph.node.append(helper.make_node("Identity", [read], [_new(model, "idle")]))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), _new(model, "unread")))


READERS = ("node", "output", "branch", "nested branch")
"""The ways in which a value can get one more reader."""


def add_reader(random: np.random.Generator, model: onnx.ModelProto, name: str, kind: str) -> None:
    """Let something else read a value, and make what it computes from it an output of the graph.

    Args:
        random: Draws which branch is taken.
        model: The model, which is changed.
        name: A value of the main graph; it has a type that shape inference knows.
        kind: One of `READERS`. A branch reads it from the graph around it and lists it nowhere as an input.
    """
    graph = onnx.shape_inference.infer_shapes(model).graph
    info = next(value for value in (*graph.value_info, *graph.output, *graph.input) if value.name == name)
    if kind == "output":
        if name not in [value.name for value in model.graph.output]:
            model.graph.output.append(info)
        return
    result = onnx.ValueInfoProto()
    result.CopyFrom(info)
    result.name = _new(model, "also")
    if kind == "node":
        node = helper.make_node("Identity", [name], [result.name])
    else:
        condition = numpy_helper.from_array(np.array(bool(random.integers(2))), _new(model, "condition"))
        node = _choice(condition.name, name, result, depth=2 if kind == "nested branch" else 1)
        model.graph.initializer.append(condition)
    model.graph.node.append(node)
    model.graph.output.append(result)


def _choice(condition: str, name: str, result: onnx.ValueInfoProto, depth: int) -> onnx.NodeProto:
    """Return an If of which both branches return a value of the graph around it."""
    branches = []
    for letter in "ab":
        inner = onnx.ValueInfoProto()
        inner.CopyFrom(result)
        inner.name = f"{result.name}_{depth}{letter}"
        node = helper.make_node("Identity", [name], [inner.name])
        if depth > 1:
            node = _choice(condition, name, inner, depth - 1)
        branches.append(helper.make_graph([node], inner.name, [], [inner]))
    return helper.make_node(
        "If", [condition], [result.name], then_branch=branches[0], else_branch=branches[1]
    )


def call_function(random: np.random.Generator, model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    """Put a node with inputs and outputs only into a function of the model's own, and call it instead.

    The model needs IR version 8 or later.
    """
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    inputs, outputs = (
        [f"{kind}_{i}" for i in range(len(getattr(node, kind)))] for kind in ("input", "output")
    )
    inner.input[:], inner.output[:] = inputs, outputs
    kind = f"Own{node.op_type}"
    if kind not in [function.name for function in model.functions]:
        imports = [entry for entry in model.opset_import if not entry.domain]
        model.functions.append(helper.make_function(_DOMAIN, kind, inputs, outputs, [inner], imports))
    if _DOMAIN not in [entry.domain for entry in model.opset_import]:
        model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    del node.attribute[:]
    node.op_type, node.domain = kind, _DOMAIN


def vary(random: np.random.Generator, model: onnx.ModelProto, *, keep_names: bool = False) -> None:
    """Change about half of how a graph is written: the names of nodes and values, the order, the domains."""
    variations: tuple[Variation, ...] = (unname_nodes, shuffle_nodes, nest_names, add_domain)
    for variation in variations:
        if random.integers(2) and not (keep_names and variation is nest_names):
            variation(random, model)


def _new(model: onnx.ModelProto, stem: str) -> str:
    """Return a name that no value of the main graph has."""
    graph = model.graph
    taken = {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    taken |= {name for node in graph.node for name in (*node.input, *node.output)}
    return next(name for number in range(len(taken) + 1) if (name := f"{stem}_{number}") not in taken)
