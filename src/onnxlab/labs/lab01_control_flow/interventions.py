"""What a Loop or an If really does in a model: found by changing a copy of the model and running it.

That an operator stands in a graph says little; that the result changes with it says that it does the work.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import combinations

import numpy as np
import onnx
from onnx import helper, inliner

from onnxlab.labs.kit.judging import evidence
from onnxlab.labs.kit.outcome import Wrong
from onnxlab.model.distance import Array
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import feeds, open_session

__all__ = [
    "captured",
    "exposed",
    "fixed_loops",
    "inlined",
    "loops_that_follow",
    "outcome",
    "outputs_of",
    "stopped",
    "switched",
]


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without functions of its own, so that every Loop and If stands in a graph.

    Raises:
        Wrong: If ONNX refuses to write the functions out: two have one name, or one calls itself.
    """
    try:
        whole: onnx.ModelProto = inliner.inline_local_functions(model) if model.functions else model
    except Exception as error:  # the inliner's, the checker's and protobuf's
        reason = short_reason(error)
        msg = f"onnx.inliner refuses the model's functions: {reason}"
        raise Wrong(msg, evidence=evidence(model)) from None
    return whole


def loops_that_follow(model: onnx.ModelProto, name: str) -> list[int]:
    """Return which Loops of a model without functions go round as often as an input says.

    By their place among the model's Loops: those whose trip count, or condition, is computed from the input.

    Example:
        >>> model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["" : 20]>
        ...     twice (float x, int64 n) => (float y) <bool go = {1}, int64 two = {2}> {
        ...         z = Loop (n, go, x) <body = a (int64 i, bool g, float s) => (bool h, float t)
        ...             { h = Identity(g) t = Neg(s) }>
        ...         y = Loop (two, go, z) <body = b (int64 i, bool g, float s) => (bool h, float t)
        ...             { h = Identity(g) t = Neg(s) }>
        ...     }''')
        >>> loops_that_follow(model, "n")
        [0]
    """
    reads: dict[str, set[str]] = {}
    _note_reads(model.graph, reads)
    found = []
    for place, (_, node) in enumerate(_nodes(model, "Loop")):
        seen: set[str] = set()
        waiting = list(_control(node))
        while waiting:
            value = waiting.pop()
            if value not in seen:
                seen.add(value)
                waiting += reads.get(value, ())
        if name in seen:
            found.append(place)
    return found


def fixed_loops(model: onnx.ModelProto, name: str) -> list[int]:
    """Return the Loops of the main graph that do not go round as often as an input says."""
    following = loops_that_follow(model, name)
    places = enumerate(_nodes(model, "Loop"))
    return [place for place, (graph, _) in places if graph is model.graph and place not in following]


def _note_reads(graph: onnx.GraphProto, reads: dict[str, set[str]]) -> None:
    """Note which values each value is computed from, bodies included, round after round."""
    for node in graph.node:
        bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
        for body in bodies:
            _note_reads(body, reads)
        made = [value.name for body in bodies for value in body.output]
        for output in node.output:
            reads.setdefault(output, set()).update({*node.input, *made} - {""})
        if node.op_type == "Loop":
            (body,) = bodies
            for given, after, before in zip(node.input[1:], body.output, body.input[1:], strict=False):
                reads.setdefault(before.name, set()).update({given, after.name} - {""})


def _control(loop: onnx.NodeProto) -> set[str]:
    """What decides how often a Loop goes round: its trip count, its condition before and after a round."""
    after = next(attribute.g for attribute in loop.attribute if attribute.name == "body").output[0].name
    return {*loop.input[:2], after} - {""}


def stopped(model: onnx.ModelProto, places: Iterable[int]) -> onnx.ModelProto:
    """Return a copy in which some Loops end before their first round."""
    copy = deepcopy(model)
    loops = list(_nodes(copy, "Loop"))
    for place in places:
        graph, loop = loops[place]
        name = f"no_rounds_{place}"
        none = helper.make_tensor(name, onnx.TensorProto.INT64, (), [0])
        _insert_before(graph, loop, helper.make_node("Constant", [], [name], value=none))
        loop.input[0] = name
    return copy


def switched(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Yield copies in which Ifs take the other branch: every choice of them, as a decision may need two."""
    count = min(len(list(_nodes(model, "If"))), 4)  # an early return of a script makes two or three
    for places in (found for size in range(1, count + 1) for found in combinations(range(count), size)):
        copy = deepcopy(model)
        ifs = list(_nodes(copy, "If"))
        for place in places:
            graph, node = ifs[place]
            name = f"the_other_{place}"
            _insert_before(graph, node, helper.make_node("Not", [node.input[0]], [name]))
            node.input[0] = name
        yield copy


def captured(model: onnx.ModelProto) -> list[str]:
    """Return the values of the main graph that branches of its Ifs read, but those that an If made."""
    made = {output: node for node in model.graph.node for output in node.output}

    def by_if(name: str) -> bool:
        node = made[name]
        while node.op_type == "Identity" and node.input[0] in made:
            node = made[node.input[0]]
        return str(node.op_type) == "If"

    read = (
        name for graph, node in _nodes(model, "If") if graph is model.graph for name in _read_inside(node)
    )
    return [name for name in dict.fromkeys(read) if name in made and not by_if(name)]


def outputs_of(model: onnx.ModelProto, operator: str) -> list[str]:
    """Return the outputs that the nodes of an operator have in the main graph."""
    return [output for node in model.graph.node if node.op_type == operator for output in node.output]


def exposed(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """Return a copy whose outputs are these values of the main graph."""
    copy = deepcopy(model)
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return copy


def outcome(model: onnx.ModelProto) -> Callable[..., list[Array]]:
    """Return what runs a model; where the runtime refuses a changed copy, nothing comes out of it."""

    def run(*inputs: object) -> list[Array]:
        try:
            return [np.asarray(output) for output in session.run(None, feeds(session, inputs))]
        except Exception:  # the runtime raises many kinds
            return []

    try:
        session = open_session(model)
    except Exception:
        return lambda *inputs: []
    return run


def _nodes(model: onnx.ModelProto, operator: str) -> Iterator[tuple[onnx.GraphProto, onnx.NodeProto]]:
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop(0)
        for node in graph.node:
            waiting += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            if node.op_type == operator:
                yield graph, node


def _read_inside(node: onnx.NodeProto) -> set[str]:
    names: set[str] = set()
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names |= {value.name for value in attribute.g.output}
            for inner in attribute.g.node:
                names |= {*inner.input, *_read_inside(inner)}
    return names - {""}


def _insert_before(graph: onnx.GraphProto, node: onnx.NodeProto, new: onnx.NodeProto) -> None:
    place = next(number for number, other in enumerate(graph.node) if other is node or other == node)
    graph.node.insert(place, new)
