"""Right and wrong answers for lab 8."""

from functools import partial

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from onnxlab.kit.outcome import Status
from onnxlab.model.graph import reads
from onnxlab.runtime.divergence import intermediates
from onnxlab.runtime.parity import run
from tests.support.answer_parts import replace_nodes, weights
from tests.support.labs import Contract, WrongAnswer, solution

fold, cut = partial(solution, "fold-batchnorm"), partial(solution, "cut-between")


def attributes_of(node):
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def batch_norms(graph):
    return [node for node in graph.node if node.op_type == "BatchNormalization"]


def add_initializer(graph, name, array):
    graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    return name


def folded_as_new_nodes(model):
    """Makes each Conv anew, and takes out the initializers that nothing reads any more."""
    graph = model.graph
    arrays = weights(graph)
    readers = [name for node in graph.node for name in reads(node)] + [value.name for value in graph.output]
    nodes = {name: node for node in graph.node for name in node.output}
    for norm in batch_norms(graph):
        conv, attributes = nodes.get(norm.input[0]), attributes_of(norm)
        if conv is None or conv.op_type != "Conv" or readers.count(conv.output[0]) != 1:
            continue
        if attributes.get("training_mode", 0) == 1:
            continue
        scale, shift, mean, variance = (arrays[name].astype(float) for name in norm.input[1:])
        factor = scale / np.sqrt(variance + attributes.get("epsilon", 1e-5))
        weight, *bias = (arrays[name] for name in conv.input[1:] if name)
        names = [f"{norm.output[0]}.{kind}" for kind in ("weight", "bias")]
        add_initializer(graph, names[0], np.einsum("o...,o->o...", weight, factor))
        add_initializer(graph, names[1], shift + factor * (sum(bias) - mean))
        folded = onnx.helper.make_node(
            "Conv", [conv.input[0], *names], norm.output[:1], **attributes_of(conv)
        )
        place = list(graph.node).index(norm)
        graph.node.remove(norm)
        graph.node.insert(place, folded)
        graph.node.remove(conv)
    read = {name for node in graph.node for name in reads(node)} | {value.name for value in graph.output}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return model


def folded_with_linked_objects(model):
    model = ir.from_proto(model)
    for norm in [node for node in model.graph if node.op_type == "BatchNormalization"]:
        conv, mode = norm.inputs[0].producer(), norm.attributes.get("training_mode")
        if conv is None or conv.op_type != "Conv" or (mode and mode.as_int()):
            continue
        if len(conv.outputs[0].uses()) != 1 or conv.outputs[0].is_graph_output():
            continue
        scale, bias, mean, variance = (value.const_value.numpy().astype(float) for value in norm.inputs[1:])
        epsilon = norm.attributes.get("epsilon")
        factor = scale / np.sqrt(variance + (epsilon.as_float() if epsilon else 1e-5))
        conv_bias = conv.inputs[2].const_value.numpy() if len(conv.inputs) > 2 and conv.inputs[2] else 0
        weight = conv.inputs[1].const_value.numpy()
        weight = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
        inputs = [conv.inputs[0]]
        for kind, array in (("w", weight), ("b", (conv_bias - mean) * factor + bias)):
            name = f"{norm.outputs[0].name}/{kind}"
            inputs.append(ir.val(name, const_value=ir.tensor(array.astype(np.float32), name=name)))
            model.graph.register_initializer(inputs[-1])
        folded = ir.node("Conv", inputs, conv.attributes)
        folded.outputs[0].type, folded.outputs[0].shape = norm.outputs[0].type, norm.outputs[0].shape
        model.graph.insert_before(norm, folded)
        name = norm.outputs[0].name
        norm.outputs[0].replace_all_uses_with(folded.outputs[0], replace_graph_outputs=True)
        model.graph.remove([norm, conv], safe=True)
        folded.outputs[0].name = name
    return ir.to_proto(model)


def folded_forwards(model):
    """Folds a BatchNormalization into the Conv behind it, as well as into the one before."""
    graph = fold()[0](model).graph
    arrays = weights(graph)
    for norm in batch_norms(graph):
        conv = next(node for node in graph.node if norm.output[0] in node.input)
        if conv.op_type != "Conv":
            continue
        scale, bias, mean, variance = (arrays[name] for name in norm.input[1:])
        factor = scale / np.sqrt(variance + attributes_of(norm)["epsilon"])
        weight, *conv_bias = (arrays[name] for name in conv.input[1:])
        new_bias = sum(conv_bias) + (weight * (bias - mean * factor).reshape(-1, 1, 1)).sum((1, 2, 3))
        conv.input[:] = [
            norm.input[0],
            add_initializer(graph, f"{conv.name}_weight", weight * factor.reshape(-1, 1, 1)),
            add_initializer(graph, f"{conv.name}_bias", new_bias),
        ]
        graph.node.remove(norm)
    return model


def cut_with_linked_objects(model, inputs, outputs):
    model = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    part = ir.convenience.extract(model.graph, inputs, outputs)
    return ir.to_proto(ir.Model(part, ir_version=model.ir_version))


def cut_from_the_ends(model, inputs, outputs):
    """Visits the makers of values, outputs first, and sorts what it kept by the order of the model."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    stored = {tensor.name: tensor for tensor in graph.initializer}
    maker = {name: number for number, node in enumerate(graph.node) for name in node.output}
    nodes, constants, waiting = set(), {}, [name for name in outputs if name not in inputs]
    if not {*inputs, *outputs} <= values.keys():
        raise ValueError("there is no such value")
    while waiting:
        name = waiting.pop()
        if name in stored:
            constants[name] = stored[name]
        elif name not in maker:
            raise ValueError(f"nothing makes {name}")
        elif maker[name] not in nodes:
            nodes.add(maker[name])
            waiting += [read for read in reads(graph.node[maker[name]]) if read not in inputs]
    part = onnx.GraphProto(name="cut", node=[graph.node[number] for number in sorted(nodes)])
    part.input.extend(values[name] for name in inputs)
    part.output.extend(values[name] for name in outputs)
    part.initializer.extend(constants.values())
    model.graph.CopyFrom(part)
    return model


def one_by_one(model_a, model_b, x):
    """Runs each model once for each node, with that node's result as the only output."""
    for node_a, node_b in zip(model_a.graph.node, model_b.graph.node, strict=True):
        pair = []
        for model, node in ((model_a, node_a), (model_b, node_b)):
            part = onnx.ModelProto()
            part.CopyFrom(model)
            del part.graph.output[:]
            part.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
            pair.append(run(part, x)[0].astype(np.float32))
        if np.any(np.isnan(pair[0]) != np.isnan(pair[1])) or np.nanmax(np.abs(pair[0] - pair[1])) > 1e-3:
            return node_a.output[0]
    return None


def comparing(differ, *, only_outputs=False, last=False, node_name=False):
    """Return a first_divergence that compares two arrays of float64 with a function."""

    def first_divergence(model_a, model_b, x):
        outputs = {output.name for output in model_a.graph.output}
        values_a, values_b = (intermediates(model, x).values() for model in (model_a, model_b))
        names = []
        for node, a, b in zip(model_a.graph.node, values_a, values_b, strict=True):
            is_compared = not only_outputs or node.output[0] in outputs
            if is_compared and differ(a.astype(float), b.astype(float)):
                names.append(node.name if node_name else node.output[0])
        return (names[-1] if last else names[0]) if names else None

    return first_divergence


def apart(a, b, atol=1e-3, rtol=0.0):
    return not np.allclose(a, b, rtol, atol, equal_nan=True)


COMPARISONS = {  # each overlooks a difference, or finds one where there is none
    "numpy's relative tolerance": lambda a, b: apart(a, b, rtol=1e-5),
    "nan is left out": lambda a, b: bool(np.any(abs(a - b) > 1e-3)),
    "a tolerance of 0.0015": lambda a, b: apart(a, b, 1.5e-3),
    "a tolerance of 0.0009": lambda a, b: apart(a, b, 9e-4),
    "a thousand elements": lambda a, b: apart(a.flat[:1000], b.flat[:1000]),
    "a nan hides the others": lambda a, b: (
        abs(a - b).max() > 1e-3
        or np.any(np.isnan(a) != np.isnan(b))
        or not np.all(np.isfinite(a - b) | np.isnan(a - b))
    ),
    "infinities agree": lambda a, b: apart(*(np.where(np.isinf(v), np.inf, v) for v in (a, b))),
    "infinities differ": lambda a, b: bool(np.any(~(abs(a - b) <= 1e-3) & ~(np.isnan(a) & np.isnan(b)))),
}


def sorted_by_name(model, inputs, outputs):
    part = cut()[0](model, inputs, outputs)
    replace_nodes(part.graph, sorted(part.graph.node, key=lambda node: node.name))
    return part


# Pieces of the solutions, and what stands in their place.
_LINE = "\n        "  # in the loop over the BatchNormalizations
_EPSILON = 'settings.get("epsilon", 1e-5)'
_NEW_INPUTS, _END = "del conv.input[1:]", "return model"
_OVERWRITTEN = f"""shared = next(tensor for tensor in graph.initializer if tensor.name == conv.input[1])
        shared.CopyFrom(numpy_helper.from_array((weight * by).astype(np.float32), conv.input[1])){_LINE}"""
_SECOND_AXIS = f"by = by if conv.op_type == 'Conv' else by.swapaxes(0, 1){_LINE}"
_RELU = "graph.node.insert(0, helper.make_node('Relu', [graph.input[0].name], ['more']))\n    "
_READ, _OPSETS = ".union(reads(node)) - set(inputs)", "opset_imports=model.opset_import"
_NOT_REFUSED = {"if missing:": "if False:"}
_OF_BODIES = "(value for node in graph.node for entry in node.attribute for value in entry.g.output)"
_NOT_AS_BEFORE = "differ from those of the model it was made from"


def retyped(change):
    """Return a cut_between that changes the type of each input and output."""
    changed = f"for value in (*part.input, *part.output): value.type.tensor_type.{change}\n    return helper"
    return cut({"return helper": changed})


CONTRACTS = {
    "fold-batchnorm": Contract(
        right=(fold(), (folded_with_linked_objects,), (folded_as_new_nodes,)),
        wrong=(
            WrongAnswer("an epsilon of 0 is overlooked", fold({_EPSILON: f"({_EPSILON} or 1e-5)"}), "An epsilon of 0 is written"),
            WrongAnswer("bodies are not looked into", fold({"in reads(node)": "in node.input"}), "The branches of an If read the second Conv as well"),
            WrongAnswer("four at most", fold({'== "BatchNormalization"]': '== "BatchNormalization"][:4]'}), "Five pairs: one that"),
            WrongAnswer("weights named after the node", fold({"{norm.output[0]}_folded_": "{conv.name}_folded_"}), "refuses the result"),
            WrongAnswer("another epsilon", fold({_EPSILON: "1e-5"}), "the attribute epsilon"),
            WrongAnswer("the old bias is forgotten", fold({"(sum(old) - mean)": "(-mean)"}), "normalised as well"),
            WrongAnswer("shared weights are damaged", fold({_NEW_INPUTS: _OVERWRITTEN + _NEW_INPUTS}), "How many nodes read the initializer"),
            WrongAnswer("outputs are not looked at", fold({"[value.name for value in graph.output] + ": ""}), "makes an output of the graph: onnx"),
            WrongAnswer("forwards through the padding", (folded_forwards,), "padding adds zeros"),
            WrongAnswer("the mode is not looked at", fold({' or settings.get("training_mode")': ""}), "training_mode=1 use"),
            WrongAnswer("epsilon is one in a thousand", fold({"1e-5": "1e-3"}), _NOT_AS_BEFORE),
            WrongAnswer("weights of four axes", fold({"*[1] * (weight.ndim - 1)": "1, 1, 1"}), "one axis"),
            WrongAnswer("one and two axes only", fold({_NEW_INPUTS: f"if weight.ndim == 5: continue{_LINE}{_NEW_INPUTS}"}), "three axes: one that"),
            WrongAnswer("ConvTranspose as well", fold({'conv.op_type != "Conv"': 'conv.op_type[:4] != "Conv"', _NEW_INPUTS: _SECOND_AXIS + _NEW_INPUTS}), "ConvTranspose: a node"),
            WrongAnswer("an unused bias", fold({"conv.input[1:] if name)": "conv.input[1:])"}), "KeyError: ''", Status.ERROR),
            WrongAnswer("one Relu more", fold({_END: _RELU + _END}), "were not there before: 1 x Relu"),
        ),
    ),
    "cut-between": Contract(
        right=(cut(), (cut_with_linked_objects,), (cut_from_the_ends,)),
        wrong=(
            WrongAnswer("sorted by name", (sorted_by_name,), "before its readers"),
            WrongAnswer("forty nodes at most", cut({"if needed & set": "if len(nodes) < 40 and needed & set", **_NOT_REFUSED}), "A row of sixty nodes"),
            WrongAnswer("values of bodies are values", cut({"in (*graph.input,": f"in (*{_OF_BODIES}, *graph.input,"}), "An input is a value of a body"),
            WrongAnswer("bodies are not looked into", cut({"read.update(reads(node))": "read.update(node.input)", _READ: ".union(node.input) - {*inputs, ''}", **_NOT_REFUSED}), "An If that reads"),
            WrongAnswer("weights are kept", cut({" if tensor.name in read]": "]"}), "never read"),
            WrongAnswer("a fixed batch", retyped("shape.dim[0].dim_value = 1"), "Is a size in the shape"),
            WrongAnswer("inputs in another order", cut({"(inputs, outputs)]": "(sorted(inputs, key=list(values).index), outputs)]"}), "the model's inputs are not the ones asked for"),
            WrongAnswer("everything is float", retyped("elem_type = onnx.TensorProto.FLOAT"), "has another type"),
            WrongAnswer("no shapes", retyped("ClearField('shape')"), "float without a shape"),
            WrongAnswer("an input that nothing reads is left out", cut({"(inputs, outputs)]": "([name for name in inputs if name in read], outputs)]"}), "that nothing reads"),
            WrongAnswer("ONNX's own domain only", cut({_OPSETS: "opset_imports=[entry for entry in model.opset_import if not entry.domain]"}), "the part says opset ai.onnx.ml None"),
            WrongAnswer("another IR version", cut({"ir_version=model.ir_version": "ir_version=9"}), "IR version"),
        ),
    ),
    "first-divergence": Contract(
        right=(solution("first-divergence"), (comparing(apart),), (one_by_one,)),
        wrong=(
            WrongAnswer("the last one", (comparing(apart, last=True),), "a value before the one named"),
            WrongAnswer("a node's name", (comparing(apart, node_name=True),), "is not the name of a value"),
            *(
                WrongAnswer(name, (comparing(differ),), "nan in" if "nan" in name else "differ")
                for name, differ in COMPARISONS.items()
            ),
        ),
    ),
}
