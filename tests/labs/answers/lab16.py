"""Right and wrong answers for lab 16."""

from copy import deepcopy
from functools import partial

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxconverter_common.float16 import convert_float_to_float16
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers.onnx_model import OnnxModel

from onnxlab.runtime.divergence import intermediates
from tests.support.answer_parts import weights
from tests.support.labs import Contract, WrongAnswer, solution

float16 = partial(solution, "convert-to-float16")
four_bits = partial(solution, "store-in-4-bits")


def lost(value):
    """Whether float16 turns a number into infinity or 0."""
    with np.errstate(over="ignore"):
        half = value.astype(np.float16)
    return np.any(np.isinf(half)) or np.any((half == 0) & (value != 0))


def to_break(model, x, some=lost):
    values = {model.graph.input[0].name: x} | intermediates(model, x) | weights(model.graph)
    return [n.name for n in model.graph.node if any(some(values[v]) for v in (*n.input, *n.output))]


def by_hand(model, x):
    """Converts with wider limits; then each Cast that reads a Cast reads what that one reads."""
    half = convert_float_to_float16(
        model, keep_io_types=True, node_block_list=to_break(model, x), max_finite_val=1e30, min_positive_val=0
    )
    casts = {node.output[0]: node for node in half.graph.node if node.op_type == "Cast"}
    for node in casts.values():
        if node.input[0] in casts:
            node.input[0] = casts[node.input[0]].input[0]
    read = {name for node in half.graph.node for name in node.input} | {value.name for value in half.graph.output}
    for node in casts.values():
        if node.output[0] not in read:
            half.graph.node.remove(node)
    return half


def with_own_casts(model, x):
    """Needs no converter: every node gets Casts of its own."""
    graph, keep, arrays = model.graph, to_break(model, x), weights(model.graph)
    last, nodes, constants = graph.output[0].name, [], []
    for number, node in enumerate(list(graph.node)):
        dtype = np.dtype(np.float32 if node.name in keep else np.float16)
        for position, name in enumerate(node.input):
            copy = node.input[position] = f"{name}_{number}_{position}"
            if name in arrays:
                constants.append(numpy_helper.from_array(arrays[name].astype(dtype), copy))
            else:
                kind = helper.np_dtype_to_tensor_dtype(dtype)
                nodes.append(helper.make_node("Cast", [name], [copy], to=kind))
        nodes.append(node)
        if last in node.output:
            node.output[0] = f"{last}_half"
            nodes.append(helper.make_node("Cast", [f"{last}_half"], [last], to=onnx.TensorProto.FLOAT))
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(constants)
    return model


def operators_blocked(model, x):
    kinds = {node.op_type for node in model.graph.node if node.name in to_break(model, x)}
    names = [node.name for node in model.graph.node[:-1] if node.op_type in kinds]
    return finished(convert_float_to_float16(model, keep_io_types=True, node_block_list=names, max_finite_val=65504.0))


def finished(half):
    result = OnnxModel(half)
    result.remove_cascaded_cast_nodes()
    return result.model


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


def without_gemm(model, x, largest_error):
    (answer,) = four_bits()
    gemms = [node.name for node in model.graph.node if node.op_type == "Gemm"]
    return answer(model, x, largest_error) if not gemms else stored(model, [])


def with_options(cost_block=32, **options):
    def answer(model, x, largest_error):
        original, model = deepcopy(model), split(model)
        names = weighted(model)
        others = {n: [m for m in names if m != n] for n in names}
        cost = {n: error(original, stored(model, others[n], block_size=cost_block), x) for n in names}
        return stored(model, [n for n in names if cost[n] > largest_error], **options)

    return answer


def beside_those_before(model, x, largest_error):
    """Measures each weight beside those that have 4 bits already."""
    original, model = deepcopy(model), split(model)
    exclude = names = weighted(model)
    for name in names:
        without = [other for other in exclude if other != name]
        exclude = without if error(original, stored(model, without), x) <= largest_error else exclude
    return stored(model, exclude)


CONTRACTS = {
    "convert-to-float16": Contract(
        right=(float16(), (by_hand,), (with_own_casts,)),
        wrong=(
            WrongAnswer("down to float16 and up again", float16({"result.remove_cascaded_cast_nodes()": "pass"}), "a Cast to float16 loses a number"),
            WrongAnswer("only the first", float16({"node_block_list=broken": "node_block_list=broken[:1]"}), "A root mean square"),
            WrongAnswer("operators for names", (operators_blocked,), "Name the nodes that break"),
            WrongAnswer("every node", float16({"node_block_list=broken": "node_block_list=[node.name for node in model.graph.node]"}), "is the last node blocked?"),
            WrongAnswer("the default limits", float16({", **limits": ""}), "a weight was clipped"),
            WrongAnswer("float16 at both ends", float16({"keep_io_types=True": "keep_io_types=False"}), "is not float32 any more"),
            WrongAnswer("above 65504 with its sign", float16({"np.isinf(half)": "(half == np.inf)"}), "How small are the values below 0?"),
            WrongAnswer("what is rounded to 0", float16({" | ((half == 0) & (value != 0))": ""}), "What is 1e-10 in float16?"),
            WrongAnswer("without the weights", float16({"{tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}": "{}"}), "computes in float16, which breaks it"),
            WrongAnswer("the first output of a node", float16({"for node in model.graph.node for name in node.output]": "for node in model.graph.node for name in node.output[:1]]"}), "How many outputs does a Split have"),
            WrongAnswer("without x", float16({"values |= feeds | ": "values |= "}), "A large input that two nodes read"),
        ),
    ),
    "store-in-4-bits": Contract(
        right=(four_bits(), (by_leaving_out,), (by_one_tool_for_each,)),
        wrong=(
            WrongAnswer("without the Gemm", (without_gemm,), "What does the tool make of a Gemm?"),
            WrongAnswer("the weight is not transposed", four_bits({"weights[node.input[1]].T": "weights[node.input[1]]"}), "A Gemm between two MatMul"),
            WrongAnswer("the cost of leaving out", four_bits({"[other for other in names if other != name]": "[name]"}), "if it alone has 4 bits"),
            WrongAnswer("beside those before", (beside_those_before,), "Three MatMul: weights with 4 bits: 2;"),
            WrongAnswer("30 %", four_bits({"> largest_error": "> 0.3"}), "Here largest_error is another one."),
            WrongAnswer("on noise", four_bits({"    right, cost = output(model), {}": "    x = np.random.default_rng(0).normal(size=x.shape).astype(np.float32)\n    right, cost = output(model), {}"}), "An input with faint columns"),
            WrongAnswer("the largest error", four_bits({"np.linalg.norm(got - right) / np.linalg.norm(right)": "np.abs(got - right).max() / np.abs(right).max()"}), "The cost is the norm of the error"),
            WrongAnswer("asymmetric", (with_options(is_symmetric=False),), "has zero points"),
            WrongAnswer("the cost in blocks of 128", (with_options(cost_block=128),), "Is the cost measured in blocks of 32?"),
            WrongAnswer("activations of 8 bits", (with_options(accuracy_level=4),), "accuracy_level 4; 0 is asked for"),
        ),
    ),
}
