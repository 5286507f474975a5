"""Whether a Loop or an If does the work in a model: change it in a copy of the model, and run the copy."""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import chain, combinations

import numpy as np
import onnx
from onnx import helper, inliner

from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Wrong
from onnxlab.model.distance import Array
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import feeds, open_session


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its local functions inlined, so that every Loop and If is in a graph.

    Raises:
        Wrong: If ONNX cannot inline the functions: two have the same name, or one calls itself.
    """
    try:
        without_functions: onnx.ModelProto = (
            inliner.inline_local_functions(model) if model.functions else model
        )
    except Exception as error:  # the inliner's, the checker's and protobuf's
        reason = short_reason(error)
        raise Wrong(
            "onnx.inliner refuses the model's functions: {reason}", evidence=evidence(model), reason=reason
        ) from None
    return without_functions


def loops_that_follow(model: onnx.ModelProto, name: str) -> list[int]:
    """Return the Loops whose number of iterations depends on an input, in a model without functions.

    They are numbered in the order of the model's Loops. Their trip count, or their condition, is computed
    from the input.

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
    sources: dict[str, set[str]] = {}
    _add_sources(model.graph, sources)
    following = []
    for place, (_, node) in enumerate(_nodes(model, "Loop")):
        visited: set[str] = set()
        queue = list(_control(node))
        while queue:
            value = queue.pop()
            if value not in visited:
                visited.add(value)
                queue += sources.get(value, ())
        if name in visited:
            following.append(place)
    return following


def fixed_loops(model: onnx.ModelProto, name: str) -> list[int]:
    """Return the Loops of the main graph whose number of iterations does not depend on an input."""
    following = loops_that_follow(model, name)
    places = enumerate(_nodes(model, "Loop"))
    return [place for place, (graph, _) in places if graph is model.graph and place not in following]


def _add_sources(graph: onnx.GraphProto, sources: dict[str, set[str]]) -> None:
    """Add, for each value, the values that it is computed from, in bodies and between iterations, too."""
    for node in graph.node:
        bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
        for body in bodies:
            _add_sources(body, sources)
        body_outputs = [value.name for body in bodies for value in body.output]
        for output in node.output:
            sources.setdefault(output, set()).update({*node.input, *body_outputs} - {""})
        if node.op_type == "Loop":
            (body,) = bodies
            for initial, after, before in zip(node.input[1:], body.output, body.input[1:], strict=False):
                sources.setdefault(before.name, set()).update({initial, after.name} - {""})


def _control(loop: onnx.NodeProto) -> set[str]:
    """Return the values that control a Loop: its trip count, its condition before and after an iteration."""
    after = next(attribute.g for attribute in loop.attribute if attribute.name == "body").output[0].name
    return {*loop.input[:2], after} - {""}


def stopped(model: onnx.ModelProto, places: Iterable[int]) -> onnx.ModelProto:
    """Return a copy in which these Loops end before their first iteration."""
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
    """Yield copies in which Ifs take the other branch: each set of them, as one decision may need two Ifs."""
    count = min(len(list(_nodes(model, "If"))), 4)  # a script with an early return has two or three
    for places in chain.from_iterable(combinations(range(count), size) for size in range(1, count + 1)):
        copy = deepcopy(model)
        ifs = list(_nodes(copy, "If"))
        for place in places:
            graph, node = ifs[place]
            name = f"the_other_{place}"
            _insert_before(graph, node, helper.make_node("Not", [node.input[0]], [name]))
            node.input[0] = name
        yield copy


def computed_for_branches(model: onnx.ModelProto) -> list[str]:
    """Return the values that nodes of the main graph compute for the branches of its Ifs, in graph order.

    What another If gives is left out.
    """
    ifs = [node for node in model.graph.node if node.op_type == "If"]
    reads = set().union(*map(_read_inside, ifs))
    from_ifs: set[str] = set()
    computed = []
    for node in model.graph.node:
        if node.op_type == "If" or (node.op_type == "Identity" and node.input[0] in from_ifs):
            from_ifs.update(node.output)
        else:
            computed += [output for output in node.output if output in reads]
    return computed


def branch_values(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Yield copies whose outputs are what one branch of an If of the main graph computes on its way.

    Where the other branch is taken, the outputs are scalars.
    """
    for place, node in enumerate(model.graph.node):
        for number, attribute in enumerate(node.attribute if node.op_type == "If" else ()):
            names = [name for inner in attribute.g.node for name in inner.output if name]
            if not names:
                continue
            copy = deepcopy(model)
            changed = copy.graph.node[place]
            for branch, values in ((attribute.g, names), (None, [f"none_{i}" for i in range(len(names))])):
                graph = changed.attribute[number if branch is not None else 1 - number].g
                if branch is None:
                    zero = helper.make_tensor("zero", onnx.TensorProto.FLOAT, (), [0])
                    graph.node.extend(helper.make_node("Constant", [], [name], value=zero) for name in values)
                graph.output.extend(onnx.ValueInfoProto(name=name) for name in values)
            outputs = [f"way_{place}_{name}" for name in names]
            changed.output.extend(outputs)
            yield exposed(copy, outputs)


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
    """Return a function that runs a model. If ONNX Runtime refuses a changed copy, it returns no outputs."""

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
    queue = [model.graph]
    while queue:
        graph = queue.pop(0)
        for node in graph.node:
            queue += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
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
