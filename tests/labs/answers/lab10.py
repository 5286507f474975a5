"""Right and wrong answers for lab 10."""

import tempfile
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

from onnxlab.runtime.parity import run
from tests.support.labs import Contract, WrongAnswer, solution

int8 = partial(solution, "quantise-to-8-bits")


class Together:
    """A reader that gives all pictures in one batch."""

    def __init__(self, pipeline, network, pictures):
        batch = np.concatenate([run(pipeline, picture)[0] for picture in pictures])
        self.left = [{network.graph.input[0].name: batch}]

    def get_next(self):
        return self.left.pop() if self.left else None

    def __iter__(self):
        return iter(self.left)

    def set_range(self, start_index, end_index):
        raise NotImplementedError


class SideBySide(Together):
    """Four pictures in one wide one, and those left over in a smaller one."""

    def __init__(self, pipeline, network, pictures):
        arrays = [run(pipeline, picture)[0] for picture in pictures]
        wide = [np.concatenate(arrays[i : i + 4], axis=3) for i in range(0, len(arrays), 4)]
        self.left = [{network.graph.input[0].name: batch} for batch in wide]


def in_one_batch(pipeline, network, pictures, exclude):
    """Names every Conv but those excluded."""
    names = [n.name for n in network.graph.node if n.op_type == "Conv" and n.name not in exclude]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "q.onnx"
        reader = Together(pipeline, network, pictures)
        quantize_static(network, target, reader, per_channel=True, nodes_to_quantize=names)
        return onnx.load(target)


def with_unsigned_activations(pipeline, network, pictures, exclude):
    source = deepcopy(network)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "q.onnx"
        quantize_static(
            source,
            target,
            SideBySide(pipeline, network, pictures),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv"],
            nodes_to_exclude=exclude,
        )
        return onnx.load(target)


def renamed_input(pipeline, network, pictures, exclude):
    (quantise,) = int8()
    result = quantise(pipeline, network, pictures, exclude)
    old = result.graph.input[0].name
    for node in result.graph.node:
        node.input[:] = ["photo" if name == old else name for name in node.input]
    result.graph.input[0].name = "photo"
    return result


_PICTURES, _BATCH = "for picture in pictures]", "run(pipeline, picture)[0]"
_IMPORT = "    feeds = iter("
_UNSIGNED = '"weight_type": QuantType.QUInt8, "activation_type": QuantType.QUInt8,'

CONTRACTS = {
    "quantise-to-8-bits": Contract(
        right=(int8(), (in_one_batch,), (with_unsigned_activations,)),
        wrong=(
            WrongAnswer("one scale for a weight", int8({'"per_channel": True, ': ""}), "one scale for all its channels"),
            WrongAnswer("nothing is excluded", int8({', "nodes_to_exclude": exclude': ""}), "is named in `exclude`, and its weight has 8 bits"),
            WrongAnswer("every operator", int8({'"op_types_to_quantize": ["Conv"], ': ""}), "is rounded to 8 bits for no Conv"),
            WrongAnswer("MatMul, too", int8({'["Conv"]': '["Conv", "MatMul", "Gemm"]'}), "the weight of the MatMul"),
            WrongAnswer("all but the first picture", int8({_PICTURES: "for picture in pictures[1:]]"}), "by a factor, to a power"),
            WrongAnswer("colours turned round", int8({_BATCH: f"{_BATCH}[:, ::-1]"}), "Pixels as they are"),
            WrongAnswer("without the rim", int8({_BATCH: f"{_BATCH}[..., 1:-1, 1:-1]"}), "the numbers that the network's input can have"),
            WrongAnswer("the other nodes", int8({"exclude}": "[n.name for n in network.graph.node if n.name not in exclude]}"}), "in float32"),
            WrongAnswer("unsigned weights", int8({'"per_channel": True,': f'"per_channel": True, {_UNSIGNED}', _IMPORT: f"    from onnxruntime.quantization import QuantType\n\n{_IMPORT}"}), "is not stored as int8"),
            WrongAnswer("quantised operators", int8({'"per_channel": True,': '"per_channel": True, "quant_format": QuantFormat.QOperator,', _IMPORT: f"    from onnxruntime.quantization import QuantFormat\n\n{_IMPORT}"}), "keeps every node"),
            WrongAnswer("another name", (renamed_input,), "inputs are not the ones asked for"),
        ),
    ),
}
