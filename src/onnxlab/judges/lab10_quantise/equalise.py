"""What is right in equalise, part by part."""

from copy import deepcopy

import numpy as np
import onnx
from onnx import numpy_helper

from onnxlab.judges.lab10_quantise.int8 import relative_error, run_in_int8
from onnxlab.labs.kit.exercise import Judges
from onnxlab.labs.kit.judging import (
    evidence,
    require_no_new_operators,
    require_same_interface,
    require_well_formed,
)
from onnxlab.labs.kit.outcome import Difference, Wrong
from onnxlab.labs.kit.rewriting import Rewritten, require_as_before
from onnxlab.labs.lab10_quantise.equalise import ASKS, CHANNELS, HOMOGENEOUS, ConvsQuestion
from onnxlab.model.distance import Array
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
        difference = Difference(f"{node.op_type} that makes {node.output[0]}", "as it was", f"other {what}")
        msg = f"{question.where}: {node.op_type} is not what it was, and belongs to no pair."
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
        msg = f"{question.where}: the result cannot be quantised: {short_reason(error)}"
        raise Wrong(msg, question.look_at, evidence=evidence(equal)) from None
    for expected, got in zip(right_outputs, outputs, strict=True):
        if got.shape != expected.shape:
            msg = f"{question.where}: the result's output has another shape."
            raise Wrong(msg, question.look_at, evidence=evidence(equal))
        lost = relative_error(expected, got)
        if not lost <= _ALLOWED:
            worst = tuple(map(int, np.unravel_index(np.abs(expected - got).argmax(), expected.shape)))
            place = f"quantised, for x of shape {list(x.shape)}; output at {list(worst)}"
            difference = Difference(place, f"{expected[worst]:.4g}", f"{got[worst]:.4g}")
            msg = (
                f"{question.where}: in 8 bits the numbers are off by {lost:.0%}; "
                f"at most {_ALLOWED:.0%} is allowed."
            )
            raise Wrong(msg, question.look_at, difference=difference, evidence=evidence(equal))


def _equalised(question: ConvsQuestion) -> onnx.ModelProto:
    """Return a right answer: each channel's largest weights in both Convs become equal."""
    equal = deepcopy(question.model)
    graph = equal.graph
    weights = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in graph.initializer}

    def replace(node: onnx.NodeProto, place: int, values: Array) -> None:
        node.input[place] = f"{node.output[0]}_equal_{place}"
        weights[node.input[place]] = values

    for first, second in _pairs(graph):
        before, after = weights[first.input[1]], weights[second.input[1]]
        groups = len(before) // after.shape[1]
        by_group = after.reshape(groups, -1, *after.shape[1:])
        largest = np.abs(before).max((1, 2, 3)), np.abs(by_group).max((1, 3, 4)).reshape(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.sqrt(largest[1] / largest[0])
        factor[~np.isfinite(factor) | (factor == 0)] = 1
        replace(first, 1, before * factor[:, None, None, None])
        if len(first.input) > 2:
            replace(first, 2, weights[first.input[2]] * factor)
        replace(second, 1, (by_group / factor.reshape(groups, 1, -1, 1, 1)).reshape(after.shape))
    used = {name for node in graph.node for name in node.input}
    del graph.initializer[:]
    graph.initializer.extend(
        numpy_helper.from_array(values.astype(np.float32), name)
        for name, values in weights.items()
        if name in used
    )
    return equal


_REWRITING = Rewritten(ASKS, _require_structure, _equalised)
JUDGES = Judges((_REWRITING.judge(), _REWRITING.judge(_require_float), _REWRITING.judge(_require_int8)))
