"""What is right in equalise, part by part."""

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlab.judges.lab10_quantise.int8 import relative_error, run_in_int8
from onnxlab.kit.judging import (
    evidence,
    require_no_new_operators,
    require_same_interface,
    require_well_formed,
)
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by, require_as_before
from onnxlab.labs.lab10_quantise.equalise import ASKS, CHANNELS, HOMOGENEOUS, ConvsQuestion
from onnxlab.message import Message
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session

_ALLOWED = 0.2  # relative error; 0.02 to 0.09 if equalised, nearly 1 if not


def _require_structure(equal: onnx.ModelProto, question: ConvsQuestion) -> None:
    """Require a valid model with the same inputs, outputs and nodes."""
    require_same_interface(equal, question.model, question.where)
    require_no_new_operators(equal, question.model, question.where)
    require_well_formed(equal, question.where)


def _require_float(equal: onnx.ModelProto, question: ConvsQuestion, random: np.random.Generator) -> None:
    """Require the original model's numbers in float32, and that only pairs were changed."""
    shapes = (1, CHANNELS, 2, 1), (1, CHANNELS, 4, 5)
    require_as_before(equal, question, (random.normal(size=shape).astype(np.float32) for shape in shapes))
    changed = _changed_node(question.model, equal)
    if changed is not None:
        node, what = changed
        difference = Difference(
            Message("{node.op_type} that makes {output}", node=node, output=node.output[0]),
            Message("as it was"),
            Message("other {subject}", subject=what),
        )
        msg = Message(
            "{question.where}: {node.op_type} is not what it was, and belongs to no pair.",
            question=question,
            node=node,
        )
        raise Wrong(
            msg, question.look_at, difference=difference, evidence=evidence(equal, None, node.op_type)
        )


def _pairs(graph: onnx.GraphProto) -> list[tuple[onnx.NodeProto, onnx.NodeProto]]:
    """Return the two Convs of each pair."""
    producers = {node.output[0]: node for node in graph.node}
    reads = [value.name for value in graph.output] + [name for node in graph.node for name in node.input]
    pairs = []
    for second in [node for node in graph.node if node.op_type == "Conv"]:
        between = producers.get(second.input[0], second)
        first = producers.get(between.input[0], second)
        single_reader = reads.count(second.input[0]) == reads.count(between.input[0]) == 1
        if between.op_type in HOMOGENEOUS and first.op_type == "Conv" and single_reader:
            pairs.append((first, second))
    return pairs


def _changed_node(before: onnx.ModelProto, after: onnx.ModelProto) -> tuple[onnx.NodeProto, str] | None:
    """Return a node that is not as before, and what differs: its operator, its attributes or its inputs.

    The two graphs are compared from their outputs on, whatever the values are called. Weights that a pair may
    change are left out.
    """
    free = {(first.output[0], place) for first, _ in _pairs(before.graph) for place in (1, 2)}
    free |= {(second.output[0], 1) for _, second in _pairs(before.graph)}
    makers = [{node.output[0]: node for node in model.graph.node} for model in (before, after)]
    weights = [{tensor.name: tensor for tensor in model.graph.initializer} for model in (before, after)]
    outputs = [[value.name for value in model.graph.output] for model in (before, after)]
    queue = list(zip(*outputs, strict=True))
    for names in queue:  # which grows
        old, new = (maker.get(name) for maker, name in zip(makers, names, strict=True))
        if old is None:
            continue
        if new is None or (old.op_type, old.domain) != (new.op_type, new.domain):
            return old, "operator"
        if sorted(map(str, old.attribute)) != sorted(map(str, new.attribute)):
            return old, "attributes"
        if len(old.input) != len(new.input):
            return old, "inputs"
        for place, pair in enumerate(zip(old.input, new.input, strict=True)):
            was, now = (weight.get(name) for weight, name in zip(weights, pair, strict=True))
            if was and now:
                same = np.array_equal(numpy_helper.to_array(was), numpy_helper.to_array(now))
                if not same and (old.output[0], place) not in free:
                    return old, "weights"
            elif was or now:
                return old, "inputs"
            elif pair not in queue:
                queue.append(pair)
    return None


def _require_int8(equal: onnx.ModelProto, question: ConvsQuestion, random: np.random.Generator) -> None:
    """Require that the numbers in 8 bits are near those of float32."""
    if not question.huge:
        return
    calibration, x = (random.normal(size=(12, CHANNELS, 6, 6)).astype(np.float32) for _ in "ab")
    right_outputs = open_session(question.model).run(None, {question.name: x})
    try:
        outputs = run_in_int8(equal, [{question.name: calibration}], {question.name: x})
    except Exception as error:  # the runtime and its tool raise many kinds
        msg = Message(
            "{case.where}: the result cannot be quantised: {why}", case=question, why=short_reason(error)
        )
        raise Wrong(msg, question.look_at, evidence=evidence(equal)) from None
    for expected, got in zip(right_outputs, outputs, strict=True):
        if got.shape != expected.shape:
            msg = Message("{question.where}: the result's output has another shape.", question=question)
            raise Wrong(msg, question.look_at, evidence=evidence(equal))
        lost = relative_error(expected, got)
        if not lost <= _ALLOWED:
            worst = tuple(map(int, np.unravel_index(np.abs(expected - got).argmax(), expected.shape)))
            place = Message.compose(
                "; ",
                [
                    Message("quantised, for x of shape {shape}", shape=list(x.shape)),
                    Message("output at {place}", place=list(worst)),
                ],
            )
            difference = Difference(place, f"{expected[worst]:.4g}", f"{got[worst]:.4g}")
            msg = Message(
                "{question.where}: in 8 bits the outputs are off by {lost:.0%}; "
                "at most {allowed:.0%} is allowed.",
                question=question,
                lost=lost,
                allowed=_ALLOWED,
            )
            raise Wrong(msg, question.look_at, difference=difference, evidence=evidence(equal))


def equalise(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a right answer; `author sync` writes it into the notebook of solutions."""
    nodes = model.graph.node
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    makers = {node.output[0]: node for node in nodes}
    read = [value.name for value in model.graph.output] + [name for node in nodes for name in node.input]
    for second in [node for node in nodes if node.op_type == "Conv"]:
        act = makers.get(second.input[0], second)
        first = makers.get(act.input[0], second)
        alone = read.count(second.input[0]) == read.count(act.input[0]) == 1
        if act.op_type not in ("Relu", "LeakyRelu") or first.op_type != "Conv" or not alone:
            continue
        before, after = weights[first.input[1]], weights[second.input[1]]
        groups = len(before) // after.shape[1]
        by_group = after.reshape(groups, -1, *after.shape[1:])  # group, output, input, row, column
        largest, reading = np.abs(before).max((1, 2, 3)), np.abs(by_group).max((1, 3, 4)).ravel()
        used = (largest > 0) & (reading > 0)
        factor = np.sqrt(np.where(used, reading, 1) / np.where(used, largest, 1))
        changed = [(first, 1, before * factor[:, None, None, None])]
        changed += [(first, 2, weights[bias] * factor) for bias in first.input[2:]]
        changed.append((second, 1, (by_group / factor.reshape(groups, 1, -1, 1, 1)).reshape(after.shape)))
        for node, place, values in changed:  # new initializers: others may read the old ones
            name = f"{node.input[place]}_{node.output[0]}"
            node.input[place], weights[name] = name, values.astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(weights[name], name))
    return model


JUDGES = Rewritten(ASKS, _require_structure, made_by(equalise)).judges(_require_float, _require_int8)
