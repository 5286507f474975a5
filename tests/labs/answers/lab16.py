"""Right and wrong answers for lab 16."""

import tempfile
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxconverter_common.float16 import convert_float_to_float16
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

from onnxlab.kit.status import Status
from onnxlab.runtime.divergence import intermediates
from tests.support.labs import Contract, WrongAnswer, solution

int8 = partial(solution, "quantise-to-8-bits")
float16 = partial(solution, "convert-to-float16")
four_bits = partial(solution, "store-in-4-bits")


class Together:
    """A reader that gives all batches in one."""

    def __init__(self, model, batches):
        self.left = [{model.graph.input[0].name: np.concatenate(batches)}]

    def get_next(self):
        return self.left.pop() if self.left else None

    def __iter__(self):
        return iter(self.left)

    def set_range(self, start_index, end_index):
        raise NotImplementedError


def in_one_batch(model, batches, exclude):
    """Quantises all operators by their names: every Conv but those excluded."""
    names = [n.name for n in model.graph.node if n.op_type == "Conv" and n.name not in exclude]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "q.onnx"
        reader = Together(model, batches)
        quantize_static(model, target, reader, per_channel=True, nodes_to_quantize=names)
        return onnx.load(target)


def with_unsigned_activations(model, batches, exclude):
    source = deepcopy(model)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "q.onnx"
        quantize_static(
            source,
            target,
            Together(model, batches),
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["Conv"],
            nodes_to_exclude=exclude,
        )
        return onnx.load(target)


def renamed_input(model, batches, exclude):
    (quantise,) = int8()
    result = quantise(model, batches, exclude)
    old = result.graph.input[0].name
    for node in result.graph.node:
        node.input[:] = ["photo" if name == old else name for name in node.input]
    result.graph.input[0].name = "photo"
    return result


def by_trial(model, x):
    """Blocks what the float32 model makes too large, and converts with wider limits."""
    values = {model.graph.input[0].name: x} | intermediates(model, x)

    def breaks(node):
        return any(np.max(np.abs(values[n])) >= 65520 for n in (*node.input, *node.output) if n in values)

    broken = [node.name for node in model.graph.node if breaks(node)]
    return convert_float_to_float16(
        model, keep_io_types=True, node_block_list=broken, max_finite_val=65000.0, min_positive_val=6e-8
    )


def by_growing_list(model, x):
    """Adds the makers of infinite values to the list, until there are none; then their readers."""
    broken = []
    while True:
        half = convert_float_to_float16(
            deepcopy(model), keep_io_types=True, node_block_list=broken, max_finite_val=65504.0
        )
        inner = intermediates(half, x)
        large = {name for name, value in inner.items() if not np.isfinite(value).all()}
        makers = [n.name for n in model.graph.node if large & {*n.output}]
        readers = [n.name for n in model.graph.node if large & {*n.input}]
        more = [name for name in (*makers, *readers) if name not in broken]
        if not more:
            return half
        broken += more


def operators_blocked(model, x):
    values = {model.graph.input[0].name: x} | intermediates(model, x)
    large = {name for name, value in values.items() if np.abs(value).max() > 65504}
    kinds = {node.op_type for node in model.graph.node if large & {*node.input, *node.output}}
    names = [node.name for node in model.graph.node[:-1] if node.op_type in kinds]
    return convert_float_to_float16(model, keep_io_types=True, node_block_list=names, max_finite_val=65504.0)


def split(model):
    """Writes each Gemm as a MatMul and an Add."""
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Gemm":
            name = f"{node.name}_weight"
            model.graph.initializer.append(numpy_helper.from_array(weights[node.input[1]].T.copy(), name))
            nodes.append(helper.make_node("MatMul", [node.input[0], name], [name + "_out"], name=node.name))
            nodes.append(helper.make_node("Add", [name + "_out", node.input[2]], list(node.output)))
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def stored(model, exclude, **options):
    options = {"block_size": 32, "is_symmetric": True} | options
    tool = MatMulNBitsQuantizer(deepcopy(model), nodes_to_exclude=exclude, **options)
    tool.process()
    return tool.model.model


def error(model, candidate, x):
    from onnxlab.runtime.parity import run

    (right,), (got,) = run(model, x), run(candidate, x)
    return float(np.sqrt(np.mean(np.square(got - right)) / np.mean(np.square(right))))


def weighted(model):
    weights = {tensor.name for tensor in model.graph.initializer}
    return [n.name for n in model.graph.node if n.op_type == "MatMul" and n.input[1] in weights]


def by_leaving_out(model, x, largest_error):
    """Starts with every weight in 4 bits, and measures what each alone costs."""
    original, exclude = deepcopy(model), []
    model = split(model)
    names = weighted(model)
    for name in names:
        others = [other for other in names if other != name]
        if error(original, stored(model, others), x) > largest_error:
            exclude.append(name)
    return stored(model, exclude)


def by_one_tool_for_each(model, x, largest_error):
    """Quantises one MatMul after the other in the model, if it is cheap alone."""
    original, model = deepcopy(model), split(model)
    names = weighted(model)
    result = deepcopy(model)
    for name in names:
        if error(original, stored(model, [n for n in names if n != name]), x) <= largest_error:
            left = [other for other in names if other != name]
            result = stored(result, left)
    return result


def everything(model, x, largest_error):
    return stored(split(model), [])


def without_gemm(model, x, largest_error):
    (answer,) = four_bits()
    gemms = [node.name for node in model.graph.node if node.op_type == "Gemm"]
    return answer(model, x, largest_error) if not gemms else stored(model, [])


def with_options(**options):
    def answer(model, x, largest_error):
        original, model = deepcopy(model), split(model)
        names = weighted(model)
        cost = {n: error(original, stored(model, [m for m in names if m != n]), x) for n in names}
        return stored(model, [n for n in names if cost[n] > largest_error], **options)

    return answer


_FLOAT = "in float32"
_OFF = "the outputs are off by"

CONTRACTS = {
    "quantise-to-8-bits": Contract(
        right=(int8(), (in_one_batch,), (with_unsigned_activations,)),
        wrong=(
            WrongAnswer("one scale for a weight", int8({'"per_channel": True, ': ""}), "one scale for all its channels"),
            WrongAnswer("nothing is excluded", int8({', "nodes_to_exclude": exclude': ""}), "is named in `exclude`, and its weight has 8 bits"),
            WrongAnswer("every operator", int8({'"op_types_to_quantize": ["Conv"], ': ""}), "is rounded to 8 bits for no Conv"),
            WrongAnswer("the first batch", int8({"iter(batches)": "iter(batches[:1])"}), "Did the calibration see it?"),
            WrongAnswer("all but the first batch", int8({"iter(batches)": "iter(batches[1:])"}), _OFF),
            WrongAnswer("the other nodes", int8({"exclude}": "[n.name for n in model.graph.node if n.name not in exclude]}"}), _FLOAT),
            WrongAnswer(
                "unsigned weights",
                int8(
                    {
                        '"per_channel": True,': '"per_channel": True, "weight_type": QuantType.QUInt8, "activation_type": QuantType.QUInt8,',
                        "    class Batches": "    from onnxruntime.quantization import QuantType\n\n    class Batches",
                    }
                ),
                "is not stored as int8",
            ),
            WrongAnswer("quantised operators", int8({'"per_channel": True,': '"per_channel": True, "quant_format": QuantFormat.QOperator,', "    class Batches": "    from onnxruntime.quantization import QuantFormat\n\n    class Batches"}), "keeps every node"),
            WrongAnswer("another name", (renamed_input,), "inputs are not the ones asked for"),
            WrongAnswer("a path", (lambda model, batches, exclude: Path("q.onnx"),), "a ModelProto was expected"),
        ),
    ),
    "convert-to-float16": Contract(
        right=(float16(), (by_trial,), (by_growing_list,)),
        wrong=(
            WrongAnswer("only the first", float16({"node_block_list=broken": "node_block_list=broken[:1]"}), "a value inside is infinite"),
            WrongAnswer("operators for names", (operators_blocked,), "Name the nodes that break"),
            WrongAnswer("an operator list", float16({"node_block_list=broken": 'op_block_list=["Mul", "Sqrt", "ReduceMean"]'}), "computes in float32, and float16 does not break it"),
            WrongAnswer("the default limits of weights", float16({", max_finite_val=65504.0": ""}), "What does the converter make of a weight above 10,000?"),
            WrongAnswer("float16 at both ends", float16({"keep_io_types=True": "keep_io_types=False"}), "is not float32 any more"),
            WrongAnswer("largest without its sign", float16({"np.abs(value).max() > 65504": "value.max() > 1e30"}), "a value inside is infinite"),
            WrongAnswer("bytes", (lambda model, x: model.SerializeToString(),), "a ModelProto was expected"),
        ),
    ),
    "store-in-4-bits": Contract(
        right=(four_bits(), (by_leaving_out,), (by_one_tool_for_each,)),
        wrong=(
            WrongAnswer("every weight", (everything,), _OFF),
            WrongAnswer("no weight", (lambda model, x, largest_error: model,), "weights can have 4 bits"),
            WrongAnswer("without the Gemm", (without_gemm,), "What does the tool make of a Gemm?"),
            WrongAnswer("the weight is not transposed", four_bits({"weights[node.input[1]].T": "weights[node.input[1]]"}), _OFF),
            WrongAnswer("the cost of leaving out", four_bits({"[other for other in names if other != name]": "[name]"}), "weights can have 4 bits"),
            WrongAnswer("blocks of 16", (with_options(block_size=16),), "block_size 16; 32 is asked for"),
            WrongAnswer("8 bits", (with_options(bits=8),), "bits 8; 4 is asked for"),
            WrongAnswer("activations of 8 bits", (with_options(accuracy_level=4),), "accuracy_level 4; 0 is asked for"),
            WrongAnswer("a tool", (lambda model, x, largest_error: MatMulNBitsQuantizer(model),), "a ModelProto was expected"),
            WrongAnswer("an exception", (lambda model, x, largest_error: 1 / 0,), "ZeroDivisionError", Status.ERROR),
        ),
    ),
}
