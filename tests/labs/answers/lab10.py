"""Right and wrong answers for lab 10."""

from copy import deepcopy
from functools import partial

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import CalibrationDataReader

from onnxlab.kit.status import Status
from onnxlab.runtime.divergence import intermediates
from onnxlab.runtime.parity import run
from tests.support.answer_parts import replace_nodes, weights
from tests.support.labs import Contract, WrongAnswer, solution

equalise, halve = partial(solution, "equalise"), partial(solution, "halve")
(HALVE,) = halve()


def reader(
    prepare=lambda pipeline, picture: run(pipeline, picture)[0],
    *,
    name=None,
    some=slice(None),
):
    """Return a PipelineReader; with all defaults it is right."""

    class PipelineReader(CalibrationDataReader):
        def __init__(self, pipeline, network, pictures):
            self.name = name or network.graph.input[0].name
            self.left = [prepare(pipeline, picture) for picture in pictures[some]]

        def get_next(self):
            return {self.name: self.left.pop(0)} if self.left else None

    return PipelineReader


class OneBatch(CalibrationDataReader):
    def __init__(self, pipeline, network, pictures):
        batch = np.concatenate([run(pipeline, picture)[0] for picture in pictures])
        self.batches = iter([{network.graph.input[0].name: batch}])

    def get_next(self):
        return next(self.batches, None)


class Endless(OneBatch):
    def get_next(self):
        self.first = getattr(self, "first", None) or next(self.batches)
        return self.first


class SideBySide(CalibrationDataReader):
    """Seven pictures in one wide one, and those left over in a smaller one."""

    def __init__(self, pipeline, network, pictures):
        arrays = [run(pipeline, picture)[0] for picture in pictures]
        self.name = network.graph.input[0].name
        self.batches = [np.concatenate(arrays[i : i + 7], axis=3) for i in range(0, len(arrays), 7)]

    def get_next(self):
        return {self.name: self.batches.pop(0)} if self.batches else None


def chw(picture, dtype=np.float32):
    return picture.astype(dtype).transpose(2, 0, 1)[None]


def renamed(model):
    """Gives every value inside another name, and the nodes none; drops weights that nothing reads any more."""
    model = equalise()[0](model)
    graph, names = model.graph, {}
    ends = {value.name for value in (*graph.input, *graph.output)}
    for node in graph.node:
        node.name = ""
        for values in (node.input, node.output):
            values[:] = [
                name if name in ends else names.setdefault(name, f"v{len(names)}") for name in values
            ]
    used = [tensor for tensor in graph.initializer if tensor.name in names]
    for tensor in used:
        tensor.name = names[tensor.name]
    del graph.initializer[:], graph.value_info[:]
    graph.initializer.extend(used)
    return model


def unless_unnamed(equalise):
    """Leaves a model alone in which a node has no name."""
    return lambda model: equalise(model) if all(node.name for node in model.graph.node) else model


def added(model):
    model.graph.node.append(helper.make_node("Relu", [model.graph.input[0].name], ["more"]))
    model.graph.node[-1].op_type = "Clip"
    return model


def converted(model, keep=(), float32_output=True):
    """Compute in float16, but for the nodes in keep; every node gets Casts of its own."""
    graph = model.graph
    arrays = weights(graph)
    outputs = {value.name for value in graph.output}
    nodes, constants = [], []
    for number, node in enumerate(list(graph.node)):
        dtype = np.dtype(np.float32 if node.name in keep else np.float16)
        for position, name in enumerate(node.input):
            copy = node.input[position] = f"{name}_{number}_{position}"
            if name not in arrays:
                elem_type = helper.np_dtype_to_tensor_dtype(dtype)
                nodes.append(helper.make_node("Cast", [name], [copy], to=elem_type))
                continue
            array = arrays[name]
            with np.errstate(over="ignore"):
                array = array.astype(dtype) if array.dtype.kind == "f" else array
            constants.append(numpy_helper.from_array(array, copy))
        nodes.append(node)
        for position, name in enumerate(node.output):
            if float32_output and name in outputs and node.name not in keep:
                node.output[position] = f"{name}_half"
                nodes.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
    replace_nodes(graph, nodes)
    del graph.initializer[:]
    graph.initializer.extend(constants)
    if not float32_output:
        graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def without_unread(model):
    """Drops the nodes that no output needs."""
    read, nodes = {value.name for value in model.graph.output}, []
    for node in reversed(model.graph.node):
        if read.intersection(node.output):
            nodes.insert(0, node)
            read.update(node.input)
    replace_nodes(model.graph, nodes)
    return model


def held(array):
    """Whether float16 turns no number of an array into infinity or 0."""
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    as_before = (np.isinf(half) == np.isinf(array)) & ((half == 0) == (array == 0))
    return array.dtype.kind == "i" or bool(np.all(as_before))


def by_conversion(model, x):
    """Converts every number to float16 and looks what is left; Casts stand at each node's own inputs."""
    arrays = intermediates(model, x) | weights(model.graph) | {model.graph.input[0].name: x}
    broken = [n.name for n in model.graph.node if not all(held(arrays[v]) for v in (*n.input, *n.output))]
    return converted(model, broken)


def by_trial(model, x):
    """Keeps node after node: the first with a number that float16 makes inf, nan or 0, and float32 does not."""
    (x_name,) = [value.name for value in model.graph.input]
    expected = weights(model.graph) | {x_name: x} | intermediates(model, x)
    floats = {name for name, array in expected.items() if array.dtype == np.float32}
    originals = {node.name: [*node.input, *node.output] for node in model.graph.node}
    keep = []
    while True:
        half = converted(deepcopy(model), keep)
        copies = {node.name: [*node.input, *node.output] for node in half.graph.node if node.name}
        constants = weights(half.graph)
        names = [name for values in copies.values() for name in values if name not in constants]
        del half.graph.output[:]
        half.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        with np.errstate(all="ignore"):
            arrays = ReferenceEvaluator(half).run(None, {x_name: x})
        got = constants | dict(zip(names, arrays, strict=True))
        for node, values in originals.items():
            pairs = zip(copies[node], values, strict=True)
            if node not in keep and any(
                is_lost(got[copy], expected[name]) for copy, name in pairs if name in floats
            ):
                keep.append(node)
                break
        else:
            return converted(model, keep)


def is_lost(half, expected):
    half = half.astype(float)
    underflow = (half == 0) & (expected != 0) & (np.abs(expected) < 1e-3)
    return bool(np.any((~np.isfinite(half) & np.isfinite(expected)) | underflow))


_OTHER_NUMBERS = "differ from those of the model it was made from"
# Pieces of the solution of halve, and what stands in their place.
_KEPT = "keep=[node.name for node in broken]"
_INFINITE = "np.isinf(half) == np.isinf(values[name])"

# Pieces of the solution of equalise, and what stands in their place.
_THROUGH, _GROUPS = '"Relu", "LeakyRelu"', "groups = len(before) // after.shape[1]"
_LAST = "model.graph.initializer.append(numpy_helper.from_array(weights[name], name))"
_ALONE = "alone = read.count(second.input[0]) == read.count(act.input[0]) == 1"
_BY_MEAN = {
    ".max((1, 2, 3))": ".mean((1, 2, 3))",
    ".max((1, 3, 4))": ".mean((1, 3, 4))",
    'nodes if node.op_type == "Conv"]': 'nodes if node.op_type == "Conv"][::-1]',
}

CONTRACTS = {
    "pipeline-reader": Contract(
        right=(solution("pipeline-reader"), (OneBatch,), (SideBySide,)),
        wrong=(
            WrongAnswer("from 0 to 1", (reader(lambda _, p: chw(p) / 255),), "smallest and the largest number"),
            WrongAnswer("one normalisation for all", (reader(lambda _, p: ((chw(p) - np.float32([110, 120, 130]).reshape(1, 3, 1, 1)) / np.float32([50, 45, 40]).reshape(1, 3, 1, 1))),), "Pixels as they are"),
            WrongAnswer("the first ones", (reader(some=slice(0, 20)),), "Which did you use?"),
            WrongAnswer("every second one", (reader(some=slice(1, None, 2)),), "Blue before red"),
            WrongAnswer("all but the first", (reader(some=slice(1, None)),), "by a factor, to a power"),
            WrongAnswer("objects", (reader(lambda m, p: run(m, p)[0].astype(object)),), "arrays of object; float32"),
            WrongAnswer("lists", (reader(lambda m, p: run(m, p)[0].tolist()),), "a ndarray was expected"),
            WrongAnswer("colours turned round", (reader(lambda m, p: run(m, p)[0][:, ::-1]),), "hold the colours in another order"),
            WrongAnswer("without the rim", (reader(lambda m, p: run(m, p)[0][..., 1:-1, 1:-1]),), "and of your batches"),
            WrongAnswer("the pipeline's name", (reader(name="ready"),), "not named as the network's input"),
            WrongAnswer("float64", (reader(lambda _, p: chw(p, np.float64)),), "float64"),
            WrongAnswer("no axis for the batch", (reader(lambda m, p: run(m, p)[0][0]),), "does not accept such a batch"),
            WrongAnswer("never at an end", (Endless,), "still returns batches"),
            WrongAnswer("no picture", (reader(some=slice(0)),), "No data is collected"),
            WrongAnswer("a list", (lambda pipeline, network, pictures: pictures,), "returned list"),
        ),
    ),
    "equalise": Contract(
        right=(equalise(), equalise(_BY_MEAN), (renamed,)),
        wrong=(
            WrongAnswer("nothing is done", (lambda model: model,), "in 8 bits the outputs are off by"),
            WrongAnswer("factors of 1", equalise({"changed = [": "factor[:] = 1; changed = ["}), "By what is each channel multiplied"),
            WrongAnswer("only the first pair", equalise({_LAST: f"{_LAST}\n        break"}), "The Conv in the middle"),
            WrongAnswer("the bias is forgotten", equalise({"in first.input[2:]": "in ()"}), _OTHER_NUMBERS),
            WrongAnswer("through a Sigmoid", equalise({"(" + _THROUGH: f'("Sigmoid", {_THROUGH}'}), "k * sigmoid(x)"),
            WrongAnswer("Relu only", equalise({_THROUGH: '"Relu",'}), "A LeakyRelu between them: in 8 bits"),
            WrongAnswer("readers are not looked at", equalise({_ALONE: "alone = True"}), "Who else reads the value"),
            WrongAnswer("a dead channel", equalise({"(largest > 0) & (reading > 0)": "True"}), "weights are all zero"),
            WrongAnswer("groups are forgotten", equalise({_GROUPS: "groups = 1"}), "Which group reads channel c?", Status.ERROR),
            WrongAnswer("pairs with two channels are left out", equalise({_GROUPS: f"if len(before) < 3: continue\n        {_GROUPS}"}), "and two channels: in 8 bits"),
            WrongAnswer("through a Clip", equalise({"(" + _THROUGH: f'("Clip", {_THROUGH}'}), "A Clip between them"),
            WrongAnswer("through a PRelu", equalise({"(" + _THROUGH: f'("PRelu", {_THROUGH}'}), "A PRelu between"),
            WrongAnswer("outputs are no readers", equalise({"[value.name for value in model.graph.output] + ": ""}), "an output of the graph"),
            WrongAnswer("only the readers of the Relu", equalise({" == read.count(act.input[0])": ""}), "reads the first Conv as well"),
            WrongAnswer("nodes by their names", (unless_unnamed(*equalise()),), "all negative"),
            WrongAnswer("another node", (added,), "were not there before: 1 x Clip"),
        ),
    ),
    "halve": Contract(
        right=(halve(), (by_trial,), (by_conversion,)),
        wrong=(
            WrongAnswer("all in float16", halve({_KEPT: "keep=[]"}), "How large are the squares"),
            WrongAnswer("all in float32", (lambda model, x: model,), "could compute in float16"),
            WrongAnswer("only what overflows", halve({" & ((half == 0) == (values[name] == 0))": ""}), "What is 1e-9 in float16"),
            WrongAnswer("the input is not looked at", halve({"if values[name].dtype": "if name == model.graph.input[0].name or values[name].dtype"}), "How large is the input itself"),
            WrongAnswer("one node more", halve({_KEPT: f"{_KEPT} + [node.name for node in model.graph.node if node not in broken][:1]"}), "could compute in float16"),
            WrongAnswer("infinities of float32 count", halve({_INFINITE: "~np.isinf(half)"}), "A mask of -inf, and the logarithm of zero"),
            WrongAnswer("without what no output needs", (lambda model, x: without_unread(HALVE(model, x)),), "not one node has the name"),
            WrongAnswer("the output is float16", (lambda model, x: converted(model, float32_output=False),), "not float32 any more"),
            WrongAnswer("no model", (lambda model, x: "half",), "a ModelProto was expected"),
        ),
    ),
}
