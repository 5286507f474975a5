"""Right and wrong answers for lab 10."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import CalibrationDataReader

from onnxlab.labs.kit.outcome import Status
from onnxlab.runtime.divergence import intermediates
from onnxlab.runtime.parity import run
from tests.support.labs import Contract, WrongAnswer


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


class WithoutGetNext:
    def __init__(self, pipeline, network, pictures):
        self.batches = [run(pipeline, picture)[0] for picture in pictures]


class Endless(OneBatch):
    def get_next(self):
        self.first = getattr(self, "first", None) or next(self.batches)
        return self.first


def chw(picture, dtype=np.float32):
    return picture.astype(dtype).transpose(2, 0, 1)[None]


def own_numbers(pipeline, picture):
    """The numbers of the pipeline, and not the order of its colours."""
    mean, spread = (
        numpy_helper.to_array(each) for each in pipeline.graph.initializer if each.name in ("mean", "spread")
    )
    return ((picture.astype(np.float32) - mean) / spread).transpose(2, 0, 1)[None]


def equaliser(
    *,
    bias=True,
    alone=True,
    copies=True,
    dead=True,
    through=("Relu", "LeakyRelu"),
    groups=True,
    once=False,
    back=True,
    ones=False,
    power=0.5,
):
    """Return an equalise; with all defaults it is right."""

    def equalise(model):
        graph = model.graph
        tensors = {each.name: each for each in graph.initializer}
        readers = [each.name for each in graph.output] + [name for node in graph.node for name in node.input]
        makers = {node.output[0]: node for node in graph.node}

        def change(node, place, values):
            values = values.astype(np.float32)
            name = node.input[place]
            if copies:
                name = node.input[place] = f"{name}_{node.name}_{place}"
                graph.initializer.add()
                tensors[name] = graph.initializer[-1]
            tensors[name].CopyFrom(numpy_helper.from_array(values, name))

        for conv in [node for node in graph.node if node.op_type == "Conv"]:
            act = makers.get(conv.input[0])
            if act is None or act.op_type not in through:
                continue
            first = makers.get(act.input[0])
            if first is None or first.op_type != "Conv":
                continue
            if alone and (readers.count(act.output[0]) > 1 or readers.count(first.output[0]) > 1):
                continue
            before, after = (
                numpy_helper.to_array(tensors[node.input[1]]).astype(float) for node in (first, conv)
            )
            width = after.shape[1] if groups else len(before)
            factor = np.ones(len(before))
            for c in range(len(before)):
                rows = (
                    slice(None)
                    if width == len(before)
                    else slice(c // width * width, (c // width + 1) * width)
                )
                largest = np.abs(before[c]).max(), np.abs(after[rows, c % after.shape[1]]).max()
                if all(largest) or not dead:
                    with np.errstate(all="ignore"):
                        factor[c] = (largest[1] / largest[0]) ** power
            if ones:
                factor[:] = 1
            change(first, 1, before * factor[:, None, None, None])
            if bias and len(first.input) > 2:
                change(first, 2, numpy_helper.to_array(tensors[first.input[2]]) * factor)
            for c in range(len(before)) if back else ():
                rows = (
                    slice(None)
                    if width == len(before)
                    else slice(c // width * width, (c // width + 1) * width)
                )
                after[rows, c % after.shape[1]] /= factor[c]
            change(conv, 1, after)
            if once:
                break
        return model

    return equalise


def to_first_range(model):
    """Makes every channel of the first Conv as large as 1, one pair after the other, with powers of two."""
    graph = model.graph
    weights = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    outputs = {each.name for each in graph.output}
    for first in [node for node in graph.node if node.op_type == "Conv"]:
        middle = [node for node in graph.node if first.output[0] in node.input]
        if len(middle) != 1 or middle[0].op_type not in ("Relu", "LeakyRelu") or first.output[0] in outputs:
            continue
        last = [node for node in graph.node if middle[0].output[0] in node.input]
        if len(last) != 1 or last[0].op_type != "Conv" or middle[0].output[0] in outputs:
            continue
        before, after = weights[first.input[1]], weights[last[0].input[1]]
        largest = np.abs(before).max((1, 2, 3))
        by = 2.0 ** -np.round(np.log2(np.where(largest > 0, largest, 1)))
        inverse = np.stack(
            [np.resize(1 / by[g : g + after.shape[1]], after.shape[1]) for g in starts(after, len(by))]
        )
        new = {(0, 1): before * by[:, None, None, None], (1, 1): after * inverse[:, :, None, None]}
        if len(first.input) > 2:
            new[0, 2] = weights[first.input[2]] * by
        for (which, place), values in new.items():
            node = (first, last[0])[which]
            node.input[place] = f"{node.name}_{place}_{which}"
            weights[node.input[place]] = values
            graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), node.input[place]))
    return model


def starts(after, channels):
    """The first input channel of the group that each output channel belongs to."""
    count = channels // after.shape[1]
    return [o // (len(after) // count) * after.shape[1] for o in range(len(after))]


def renamed(model):
    model.graph.output[0].name = "out"
    for node in model.graph.node:
        node.output[:] = ["out" if name == "out" else name for name in node.output]
    return model


def added(model):
    model.graph.node.append(helper.make_node("Relu", [model.graph.input[0].name], ["more"]))
    model.graph.node[-1].op_type = "Clip"
    return model


def converted(model, keep=(), ends=True):
    """Compute in float16, but for the nodes in keep; every node gets Casts of its own."""
    graph = model.graph
    weights = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    nodes, constants = [], []
    for number, node in enumerate(list(graph.node)):
        kind = np.float32 if node.name in keep else np.float16
        inputs = []
        for place, name in enumerate(node.input):
            new = f"{name}_{number}_{place}"
            inputs.append(new)
            if name in weights:
                array = weights[name]
                with np.errstate(over="ignore"):
                    constants.append(
                        numpy_helper.from_array(array.astype(kind) if array.dtype.kind == "f" else array, new)
                    )
            else:
                nodes.append(
                    helper.make_node(
                        "Cast", [name], [new], to=helper.np_dtype_to_tensor_dtype(np.dtype(kind))
                    )
                )
        node.input[:] = inputs
        nodes.append(node)
    last = nodes[-1]
    if ends and last.name not in keep:
        nodes.append(
            helper.make_node("Cast", [last.output[0] + "_half"], [last.output[0]], to=TensorProto.FLOAT)
        )
        last.output[0] += "_half"
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    if not ends:
        graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def copied(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def halving(
    *, largest=65504.0, smallest=6e-8, inputs=True, own=True, weights=True, values=True, first=False, more=0
):
    """Return a halve; with all defaults it is right."""

    def halve(model, x):
        graph = model.graph
        known = intermediates(model, x) if values else {}
        if own:
            known[graph.input[0].name] = x
        if weights:
            known |= {each.name: numpy_helper.to_array(each) for each in graph.initializer}

        def held(name):
            sizes = np.abs(known.get(name, np.ones(1, np.float32)).astype(float))
            return np.all((sizes == 0) | ((sizes <= largest) & (sizes >= smallest)))

        keep = []
        for node in graph.node:
            names = [*node.input, *node.output] if inputs else list(node.output)
            if not all(held(name) for name in names):
                keep.append(node.name)
        keep = keep[:1] if first else keep
        keep += [node.name for node in graph.node if node.name not in keep][:more]
        return converted(model, keep)

    return halve


def by_trial(model, x):
    """Adds nodes one by one: the first whose numbers are inf, nan or 0 in float16, and are not in float32."""
    right = intermediates(model, x)
    keep = []
    while True:
        half = converted(copied(model), keep)
        names = {node.name: node.output[0] for node in model.graph.node}
        own = {node.name: (list(node.input), node.output[0]) for node in half.graph.node if node.name}
        every = [name for inputs, output in own.values() for name in (*inputs, output)]
        constants = {each.name: numpy_helper.to_array(each) for each in half.graph.initializer}
        floats = {each.name for each in model.graph.initializer if each.data_type == TensorProto.FLOAT}
        given = (
            {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
            | {model.graph.input[0].name: x}
            | right
        )
        del half.graph.output[:]
        half.graph.output.extend(onnx.ValueInfoProto(name=name) for name in every if name not in constants)
        shown = [each.name for each in half.graph.output]
        with np.errstate(all="ignore"):
            got = (
                dict(
                    zip(
                        shown, ReferenceEvaluator(half).run(None, {model.graph.input[0].name: x}), strict=True
                    )
                )
                | constants
            )
        for node in model.graph.node:
            inputs, output = own[node.name]
            pairs = [*zip(inputs, node.input, strict=True), (output, names[node.name])]
            if node.name not in keep and any(
                lost(got[a], given[b])
                for a, b in pairs
                if b in floats or b in right or b == model.graph.input[0].name
            ):
                keep.append(node.name)
                break
        else:
            return converted(model, keep)


def lost(half, right):
    half = half.astype(float)
    return bool(np.any(~np.isfinite(half) | ((half == 0) & (right != 0) & (np.abs(right) < 1e-3))))


_TOO_FAR = "the int8 network's numbers are off by"
_BEFORE = "not those of the model it was made from"
_IN_FLOAT16 = "where float16 is really computed"

CONTRACTS = {
    "pipeline-reader": Contract(
        right=((reader(),), (OneBatch,), (reader(some=slice(None, None, 2)),)),
        wrong=(
            WrongAnswer("raw pixels", (reader(lambda _, p: chw(p)),), _TOO_FAR),
            WrongAnswer(
                "from 0 to 1", (reader(lambda _, p: chw(p) / 255),), "smallest and the largest number"
            ),
            WrongAnswer(
                "one normalisation for all",
                (
                    reader(
                        lambda _, p: (
                            (chw(p) - np.float32([110, 120, 130]).reshape(1, 3, 1, 1))
                            / np.float32([50, 45, 40]).reshape(1, 3, 1, 1)
                        )
                    ),
                ),
                "Pixels as they are",
            ),
            WrongAnswer("red before blue", (reader(own_numbers),), "Which colour does the network get first"),
            WrongAnswer("the morning only", (reader(some=slice(0, 3)),), "The pictures are of a whole day"),
            WrongAnswer("zeros", (reader(lambda _, p: 0 * chw(p)),), _TOO_FAR),
            WrongAnswer("the pipeline's name", (reader(name="ready"),), "not named as the network's input"),
            WrongAnswer("float64", (reader(lambda _, p: chw(p, np.float64)),), "float64"),
            WrongAnswer(
                "no axis for the batch", (reader(lambda m, p: run(m, p)[0][0]),), "does not take such a batch"
            ),
            WrongAnswer("never at an end", (Endless,), "still gives batches"),
            WrongAnswer("no picture", (reader(some=slice(0)),), "No data is collected"),
            WrongAnswer("no reader", (WithoutGetNext,), "a CalibrationDataReader was expected"),
            WrongAnswer("a list", (lambda pipeline, network, pictures: pictures,), "returned list"),
        ),
    ),
    "equalise": Contract(
        right=((equaliser(),), (to_first_range,)),
        wrong=(
            WrongAnswer("nothing is done", (lambda model: model,), "in 8 bits the numbers are off by"),
            WrongAnswer("factors of 1", (equaliser(ones=True),), "By what is each channel multiplied"),
            WrongAnswer("only the first pair", (equaliser(once=True),), "The Conv in the middle"),
            WrongAnswer("the bias is forgotten", (equaliser(bias=False),), _BEFORE),
            WrongAnswer("nothing is divided", (equaliser(back=False),), _BEFORE),
            WrongAnswer(
                "through a Sigmoid", (equaliser(through=("Relu", "LeakyRelu", "Sigmoid")),), "k * sigmoid(x)"
            ),
            WrongAnswer("Relu only", (equaliser(through=("Relu",)),), "A LeakyRelu between them: in 8 bits"),
            WrongAnswer("readers are not looked at", (equaliser(alone=False),), "Who else reads the value"),
            WrongAnswer(
                "shared weights are changed",
                (equaliser(copies=False),),
                "How many nodes read the initializer",
            ),
            WrongAnswer("a dead channel", (equaliser(dead=False),), "weights are all zero"),
            WrongAnswer(
                "groups are not looked at", (equaliser(groups=False),), "The second Conv has two groups"
            ),
            WrongAnswer("the wrong way round", (equaliser(power=-0.5),), "in 8 bits"),
            WrongAnswer("another node", (added,), "were not there before: 1 x Clip"),
            WrongAnswer("None", (lambda model: None,), "returned None"),
        ),
    ),
    "halve": Contract(
        right=((halving(),), (by_trial,)),
        wrong=(
            WrongAnswer("all in float16", (lambda model, x: converted(model),), "How large are the squares"),
            WrongAnswer("all in float32", (lambda model, x: model,), "could compute in float16"),
            WrongAnswer("only the first node", (halving(first=True),), _IN_FLOAT16),
            WrongAnswer("only what overflows", (halving(smallest=0),), "What is 1e-9 in float16"),
            WrongAnswer("outputs only", (halving(inputs=False),), _IN_FLOAT16),
            WrongAnswer("the input is not looked at", (halving(own=False),), "How large is the input itself"),
            WrongAnswer("one node more", (halving(more=1),), "could compute in float16"),
            WrongAnswer("a limit of 100", (halving(largest=100.0),), "could compute in float16"),
            WrongAnswer(
                "the output is float16",
                (lambda model, x: converted(model, ends=False),),
                "not float32 any more",
            ),
            WrongAnswer("no model", (lambda model, x: "half",), "a ModelProto was expected"),
            WrongAnswer("an exception", (lambda model, x: 1 / 0,), "ZeroDivisionError", Status.ERROR),
        ),
    ),
}
