"""The values inside a graph, and the first of them that is not what it should be."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx

from onnxlab.errors import UnknownValue
from onnxlab.model.distance import Array, largest_difference
from onnxlab.model.graph import GraphNode, edges
from onnxlab.model.load import ModelLike, load
from onnxlab.runtime.session import feeds, open_session

if TYPE_CHECKING:
    import torch

__all__ = ["Divergence", "expose", "first_divergence", "inner_values", "intermediates", "program_values"]


@dataclass(frozen=True)
class Divergence:
    """The first value that is not what it should be.

    Attributes:
        value: Its name.
        suspects: The nodes that can be the cause, in order: the one that makes the value, and those before it
            of which no value could be compared.
        max_abs: The largest absolute difference; infinite where types or shapes differ.
        problem: What differs besides numbers, or an empty string.
    """

    value: str
    suspects: tuple[GraphNode, ...]
    max_abs: float
    problem: str = ""

    def __str__(self) -> str:
        nodes = ", ".join(node.op for node in self.suspects)
        return f"{self.value} made by {nodes}: {self.problem or f'differs by {self.max_abs:.3g}'}"


def first_divergence(
    model: ModelLike, expected: Mapping[str, Array], *inputs: object, atol: float = 1e-5
) -> Divergence | None:
    """Compare every value of the main graph that has a counterpart, in one run that keeps them all.

    Args:
        model: The model.
        expected: What the values should be, by name; values without a counterpart are passed over.
        *inputs: The inputs of the model, in order.
        atol: The largest absolute difference that counts as agreement.

    Returns:
        The first value that differs, or None.

    Example:
        >>> import numpy as np
        >>> from onnxlab.history import recorded_graph
        >>> silu, zeros = recorded_graph("1.8.1", "silu_9"), np.zeros(3, np.float32)
        >>> first_divergence(silu, {"1": zeros + 0.5, "2": zeros}, zeros) is None
        True
        >>> print(first_divergence(silu, {"2": zeros + 1}, zeros))
        2 made by Sigmoid, Mul: differs by 1
    """
    names = [name for name in inner_values(model) if name in expected]
    actual = intermediates(model, *inputs, names=names) if names else {}
    for name in names:
        problem = _problem(expected[name], actual[name])
        apart = float("inf") if problem else largest_difference(expected[name], actual[name])
        if problem or apart > atol:
            return Divergence(name, _suspects(model, name, expected), apart, problem)
    return None


def _problem(expected: Array, actual: Array) -> str:
    found: list[str] = []
    if expected.dtype != actual.dtype:
        found.append(f"type {actual.dtype} instead of {expected.dtype}")
    if expected.shape != actual.shape:
        found.append(f"shape {actual.shape} instead of {expected.shape}")
    return ", ".join(found)


def _suspects(model: ModelLike, value: str, compared: Mapping[str, Array]) -> tuple[GraphNode, ...]:
    """The maker of a value, and the nodes before it up to values that were compared (and agreed)."""
    makers, reads = edges(load(model))
    found: dict[str, GraphNode] = {}
    open_values = [value]
    while open_values:
        node = makers.get(open_values.pop())
        if node is None or node.path in found:
            continue
        found[node.path] = node
        open_values += [name for name in reads[node.path] if name not in compared]
    return tuple(sorted(found.values(), key=lambda node: int(node.path)))


def inner_values(model: ModelLike) -> list[str]:
    """Return the names of the values that the nodes of the main graph make, in order.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> inner_values(recorded_graph("1.8.1", "conv_bn"))
        ['10', 'output']
    """
    return [name for node in load(model).graph.node for name in node.output if name]


def expose(model: ModelLike, names: Iterable[str] | None = None, *, only: bool = False) -> onnx.ModelProto:
    """Return a copy of a model with values from inside the graph among its outputs.

    Args:
        model: The model.
        names: Which values; by default all that nodes of the main graph make.
        only: Whether the model's own outputs are left out unless they are named; the runtime then computes no
            more than the named values need.

    Raises:
        UnknownValue: If no node of the main graph makes a value of that name.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> [value.name for value in expose(recorded_graph("1.8.1", "conv_bn")).graph.output]
        ['output', '10']
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(load(model))
    made = inner_values(proto)
    wanted = made if names is None else list(names)
    for name in wanted:
        if name not in made:
            near = difflib.get_close_matches(name, made, n=3, cutoff=0.4)
            msg = f"No node of the main graph makes a value named {name!r}."
            raise UnknownValue(msg, f"They make {', '.join(near or made[:5])}.")
    known = {info.name: info for info in [*proto.graph.value_info, *proto.graph.output]}
    own = [] if only else [info.name for info in proto.graph.output]
    outputs = [known.get(name, onnx.ValueInfoProto(name=name)) for name in dict.fromkeys([*own, *wanted])]
    del proto.graph.output[:]
    proto.graph.output.extend(outputs)
    return proto


def intermediates(
    model: ModelLike, *inputs: object, names: Iterable[str] | None = None, optimize: bool = False
) -> dict[str, Array]:
    """Run a model and return the values inside its graph by name.

    Args:
        model: The model.
        *inputs: Tensors, arrays or numbers, one for each input in order.
        names: Which values; by default all that nodes of the main graph make.
        optimize: Whether the runtime may rewrite the rest of the graph; by default it runs as it stands.

    Raises:
        UnknownValue: If no node of the main graph makes a value of that name.
        InputMismatch: If there are more or fewer arrays than inputs.

    Example:
        >>> import numpy as np
        >>> from onnxlab.history import recorded_graph
        >>> found = intermediates(recorded_graph("1.8.1", "silu_9"), np.zeros(3, np.float32))
        >>> {name: value.tolist() for name, value in found.items()}
        {'1': [0.5, 0.5, 0.5], '2': [0.0, 0.0, 0.0]}
    """
    wanted = inner_values(model) if names is None else list(names)
    session = open_session(expose(model, wanted, only=True), optimize=optimize)
    return dict(zip(wanted, session.run(wanted, feeds(session, inputs)), strict=True))


def program_values(program: "torch.export.ExportedProgram", *inputs: Any) -> dict[str, Array]:  # noqa: ANN401
    """Run an exported program in PyTorch and return the value of each of its nodes by name.

    The torch.export exporter names most values of an ONNX graph after the nodes of
    `ONNXProgram.exported_program`, so these are what the runtime's values should be.

    Args:
        program: The program.
        *inputs: The arguments of the module's `forward`.

    Returns:
        Tensors only: a node that gives a tuple is left out, the nodes that unpack it are not.

    Example:
        >>> import torch
        >>> program = torch.export.export(torch.nn.SiLU(), (torch.zeros(2),))
        >>> {name: value.tolist() for name, value in program_values(program, torch.zeros(2)).items()}
        {'silu': [0.0, 0.0]}
    """
    import torch  # loaded late: the other functions of this module do without it

    found: dict[str, Array] = {}

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:  # noqa: ANN401 - as in the base class
            result = super().run_node(n)
            if n.op == "call_function" and isinstance(result, torch.Tensor):
                # A copy: a later node may change the tensor in place.
                found[n.name] = result.detach().cpu().numpy().copy()
            return result

    with torch.no_grad():
        Recorder(program.module()).run(*inputs)
    return found
