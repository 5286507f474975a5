"""The intermediate values of a graph, and the first of them that differs from what is expected."""

import difflib
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx

from onnxlab.errors import UnknownValue
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.model.graph import GraphNode, edges
from onnxlab.model.load import ModelLike, load
from onnxlab.runtime.session import feeds, open_session

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Divergence:
    """The first value that differs from the expected one.

    Attributes:
        value: Its name.
        suspects: The nodes that can be the cause, in order: the one that makes the value, and those before it
            whose values could not be compared.
        max_abs: The largest absolute difference; infinite where types or shapes differ.
        problem: A difference of type or shape, or an empty string.
    """

    value: str
    suspects: tuple[GraphNode, ...]
    max_abs: float
    problem: str = ""

    def __str__(self) -> str:
        nodes = ", ".join(node.op for node in self.suspects)
        return f"{self.value} made by {nodes}: {self.problem or f'differs by {self.max_abs:.3g}'}"


def first_divergence(
    model: ModelLike,
    expected: Mapping[str, Array],
    *inputs: object,
    rtol: float | None = 0,
    atol: float | None = 1e-5,
) -> Divergence | None:
    """Run a model once and compare the values of its main graph with the expected ones.

    Args:
        model: The model.
        expected: The expected values by name; values of the graph that are not named are not compared.
        *inputs: The inputs of the model, in order.
        rtol: The largest difference that counts as agreement, as a share of the expected element; None: by
            its type.
        atol: The same as an absolute difference, which is added.

    Example:
        >>> import numpy as np
        >>> from onnxlab.history import recorded_graph
        >>> silu, zeros = recorded_graph("1.8.1", "silu_9"), np.zeros(3, np.float32)
        >>> first_divergence(silu, {"1": zeros + 0.5, "2": zeros}, zeros) is None
        True
        >>> print(first_divergence(silu, {"2": zeros + 1}, zeros))
        2 made by Sigmoid, Mul: differs by 1
    """
    from onnxlab.runtime.comparison import compare_outputs  # loads torch, which a run of a file does without

    names = [name for name in inner_values(model) if name in expected]
    actual = intermediates(model, *inputs, names=names) if names else {}
    for name in names:
        problem = _problem(expected[name], actual[name])
        compared = compare_outputs(expected[name], actual[name], rtol=rtol, atol=atol)
        if not compared:
            max_abs = float("inf") if problem else compared.difference
            suspects = nodes_between(*edges(load(model)), name, expected)
            return Divergence(name, suspects, max_abs, problem)
    return None


def _problem(expected: Array, actual: Array) -> str:
    mismatches: list[str] = []
    if expected.dtype != actual.dtype:
        mismatches.append(Message("type {a.dtype} instead of {b.dtype}", a=actual, b=expected))
    if expected.shape != actual.shape:
        mismatches.append(Message("shape {a.shape} instead of {b.shape}", a=actual, b=expected))
    return Message.compose(", ", mismatches)


def nodes_between(
    makers: Mapping[str, GraphNode], read: Mapping[str, Iterable[str]], value: str, known: Container[str]
) -> tuple[GraphNode, ...]:
    """Return the maker of a value, and the nodes before it up to values that are known, in order.

    `makers` and `read` are those of `edges`.
    """
    nodes: dict[str, GraphNode] = {}
    pending = [value]
    while pending:
        node = makers.get(pending.pop())
        if node is not None and node.path not in nodes:
            nodes[node.path] = node
            pending += [name for name in read[node.path] if name not in known]
    return tuple(sorted(nodes.values(), key=lambda node: int(node.path)))


def inner_values(model: ModelLike) -> list[str]:
    """Return the names of the values that the nodes of the main graph make, in order.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> inner_values(recorded_graph("1.8.1", "conv_bn"))
        ['10', 'output']
    """
    return [name for node in load(model).graph.node for name in node.output if name]


def expose(model: ModelLike, names: Iterable[str] | None = None, *, only: bool = False) -> onnx.ModelProto:
    """Return a copy of a model with intermediate values among its outputs.

    Args:
        model: The model.
        names: The values; by default all that nodes of the main graph make.
        only: Whether the model's own outputs are left out unless named; the runtime then computes no more
            than the named values need.

    Raises:
        UnknownValue: If no node of the main graph makes a value of that name.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> [value.name for value in expose(recorded_graph("1.8.1", "conv_bn")).graph.output]
        ['output', '10']
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(load(model))
    values = inner_values(proto)
    exposed = values if names is None else list(names)
    for name in exposed:
        if name not in values:
            near = difflib.get_close_matches(name, values, n=3, cutoff=0.4)
            raise UnknownValue(
                "No node of the main graph makes a value named {name!r}.",
                "They make {near}.",
                name=name,
                near=", ".join(near or values[:5]),
            )
    infos = {info.name: info for info in [*proto.graph.value_info, *proto.graph.output]}
    own = [] if only else [info.name for info in proto.graph.output]
    outputs = [infos.get(name, onnx.ValueInfoProto(name=name)) for name in dict.fromkeys([*own, *exposed])]
    del proto.graph.output[:]
    proto.graph.output.extend(outputs)
    return proto


def intermediates(
    model: ModelLike, *inputs: object, names: Iterable[str] | None = None, optimize: bool = False
) -> dict[str, Array]:
    """Run a model and return its intermediate values by name.

    Args:
        model: The model.
        *inputs: Tensors, arrays or numbers, one for each input in order.
        names: The values; by default all that nodes of the main graph make.
        optimize: Whether the runtime may rewrite the rest of the graph; by default it runs as it stands.

    Raises:
        UnknownValue: If no node of the main graph makes a value of that name.
        InputMismatch: If there are more or fewer arrays than inputs.

    Example:
        >>> import numpy as np
        >>> from onnxlab.history import recorded_graph
        >>> values = intermediates(recorded_graph("1.8.1", "silu_9"), np.zeros(3, np.float32))
        >>> {name: value.tolist() for name, value in values.items()}
        {'1': [0.5, 0.5, 0.5], '2': [0.0, 0.0, 0.0]}
    """
    names = inner_values(model) if names is None else list(names)
    session = open_session(expose(model, names, only=True), optimize=optimize)
    return dict(zip(names, session.run(names, feeds(session, inputs)), strict=True))


def program_values(program: "torch.export.ExportedProgram", *inputs: Any) -> dict[str, Array]:  # noqa: ANN401
    """Run an exported program in PyTorch and return the value of each of its nodes by name.

    The torch.export exporter names most values of an ONNX graph after the nodes of
    `ONNXProgram.exported_program`, so these are the expected values of the runtime.

    Returns:
        Tensors only: a node that gives a tuple is left out, the nodes that unpack it are not.

    Example:
        >>> import torch
        >>> program = torch.export.export(torch.nn.SiLU(), (torch.zeros(2),))
        >>> {name: value.tolist() for name, value in program_values(program, torch.zeros(2)).items()}
        {'silu': [0.0, 0.0]}
    """
    import torch

    values: dict[str, Array] = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:  # noqa: ANN401 - as in the base class
            result = super().run_node(n)
            if n.op == "call_function" and isinstance(result, torch.Tensor):
                # A copy: a later node may change the tensor in place.
                values[n.name] = result.detach().cpu().numpy().copy()
            return result

    with torch.no_grad():
        Recorder(program.module()).run(*inputs)
    return values
