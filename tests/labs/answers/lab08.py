"""Right and wrong answers for lab 8."""

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from onnxlab.labs.kit.outcome import Status
from onnxlab.model.graph import reads
from onnxlab.runtime.divergence import intermediates
from onnxlab.runtime.parity import run
from tests.support.answer_parts import replace_nodes, weights
from tests.support.labs import Contract, WrongAnswer


def attributes_of(node):
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def batch_norms(graph):
    return [node for node in graph.node if node.op_type == "BatchNormalization"]


def add_initializer(graph, name, array):
    graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    return name


def folding(
    *,
    legal=True,
    outputs=True,
    epsilon=True,
    old_bias=True,
    shared=False,
    first_only=False,
    mode=True,
    default=1e-5,
    first_attribute=False,
    ranks=None,
    shape=None,
    operators=("Conv",),
    empty_names=True,
    rounded=None,
    extra=False,
    bodies=True,
    zero=True,
    most=None,
    by_node=False,
):
    """Return a fold_batchnorm; with the default options it is right.

    Args:
        legal: Leave a Conv that other nodes read.
        outputs: Leave a Conv that makes an output of the graph.
        epsilon: Read the attribute epsilon.
        old_bias: Add the Conv's own bias.
        shared: Overwrite the Conv's weights, which others may read.
        first_only: Fold the first BatchNormalization only.
        mode: Leave a BatchNormalization in training mode.
        default: Epsilon where it is not written.
        first_attribute: Take the first attribute for epsilon.
        ranks: Fold Convs with so many axes of weights; by default all.
        shape: Of the factor for the weights, as the chapter has it; by default one that fits them.
        operators: What a BatchNormalization is folded into.
        empty_names: Know that an input with an empty name is not used.
        rounded: Applied to the new weights.
        extra: Add a node.
        bodies: See what the bodies of a node read.
        zero: Take an epsilon of 0 for what it says.
        most: Fold so many at most.
        by_node: Name the new weights after the Conv.
    """

    def fold_batchnorm(model):
        graph = model.graph
        for norm in batch_norms(graph):
            tensors = {tensor.name: tensor for tensor in graph.initializer}
            conv = next((node for node in graph.node if norm.input[0] in node.output), None)
            if conv is None or conv.op_type not in operators:
                continue
            attributes = attributes_of(norm)
            if (
                most is not None
                and sum(name.name.startswith("new") for name in graph.initializer) >= 2 * most
            ):
                continue
            readers = [
                node for node in graph.node if conv.output[0] in (reads(node) if bodies else node.input)
            ]
            is_output = any(output.name == conv.output[0] for output in graph.output)
            if (legal and len(readers) > 1) or (outputs and is_output):
                continue
            if mode and attributes.get("training_mode"):
                continue
            scale, bias, mean, variance = (numpy_helper.to_array(tensors[name]) for name in norm.input[1:])
            added = attributes.get("epsilon", default) if epsilon else 1e-5
            added = added if zero else added or 1e-5
            if first_attribute:
                added = norm.attribute[0].f if norm.attribute else 1e-5
            factor = scale / np.sqrt(variance + added)
            is_biased = len(conv.input) > 2 and (not empty_names or conv.input[2])
            conv_bias = numpy_helper.to_array(tensors[conv.input[2]]) if is_biased and old_bias else 0
            named = conv.name if by_node else norm.output[0]
            weight = numpy_helper.to_array(tensors[conv.input[1]])
            if ranks and weight.ndim not in ranks:
                continue
            channels = [1, -1] if conv.op_type == "ConvTranspose" else [-1, 1]
            weight = weight * factor.reshape(shape or channels + [1] * (weight.ndim - 2))
            weight = rounded(weight).astype(np.float32) if rounded else weight
            if shared:
                tensors[conv.input[1]].CopyFrom(numpy_helper.from_array(weight, conv.input[1]))
            else:
                conv.input[1] = add_initializer(graph, f"new_{named}_weight", weight)
            new_bias = add_initializer(graph, f"new_{named}_bias", (conv_bias - mean) * factor + bias)
            conv.input[2:] = [new_bias]
            for reader in readers if not legal else ():
                for i, name in enumerate(reader.input):
                    reader.input[i] = norm.output[0] if name == conv.output[0] else name
            conv.output[0] = norm.output[0]
            graph.node.remove(norm)
            if extra:  # a Relu more, of a kind that is there already
                inner = conv.output[0] + "_inner"
                graph.node.insert(0, onnx.helper.make_node("Relu", [graph.input[0].name], [inner]))
            if first_only:
                break
        return model

    return fold_batchnorm


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
    graph = folding()(model).graph
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


def folded_and_pruned(model):
    """Drops initializers that only bodies read."""
    graph = folding()(model).graph
    read = {name for node in graph.node for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    return model


def nothing_folded(model):
    return model


def output_renamed(model):
    for output in model.graph.output:
        for node in model.graph.node:
            node.output[:] = ["out" if name == output.name else name for name in node.output]
        output.name = "out"
    return model


def only_deleted(model):
    replace_nodes(model.graph, [node for node in model.graph.node if node.op_type != "BatchNormalization"])
    return model


def cutting(
    *,
    bodies=True,
    weights=True,
    refuse=True,
    order=True,
    first_result=False,
    unknown=True,
    keep_unread=True,
    change_type=None,
    opset=None,
    ir_version=None,
    empty=True,
    first_import=False,
    most=None,
    inner=False,
):
    """Return a cut_between; with the default options it is right.

    Args:
        bodies: Follow what the bodies of a node read.
        weights: Leave out weights that nothing reads.
        refuse: Raise a ValueError for a part that cannot be cut.
        order: Keep the order of the inputs.
        first_result: Find a node by its first result only.
        unknown: Refuse inputs that do not exist; else leave them out.
        keep_unread: Keep inputs that nothing reads.
        change_type: Changes the type of each input and output.
        opset: The opset of the part, by default the model's.
        ir_version: The IR version of the part, by default the model's.
        empty: Know that an input with an empty name is not used.
        first_import: Keep the first opset of the list only.
        most: Keep so many nodes at most.
        inner: Take the values of bodies for values of the main graph.
    """

    def cut_between(model, inputs, outputs):
        graph = onnx.shape_inference.infer_shapes(model).graph
        needed, nodes, read = set(outputs) - set(inputs), [], set()
        for node in reversed(graph.node):
            if most is not None and len(nodes) >= most:
                break
            if needed & set(node.output[:1] if first_result else node.output):
                nodes.insert(0, node)
                names = set(reads(node) if bodies else node.input) | (set() if empty else set(node.input))
                needed = (needed - set(node.output)) | (names - set(inputs))
                read |= names
        constants = [tensor for tensor in graph.initializer if not weights or tensor.name in read]
        if refuse and needed - {tensor.name for tensor in graph.initializer}:
            raise ValueError(f"not made from {inputs}: {needed}")
        values = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
        if inner:
            values |= {
                value.name: value for node in graph.node for a in node.attribute for value in a.g.output
            }
        if not unknown:
            inputs = [name for name in inputs if name in values]
        elif refuse and not set(inputs) <= set(values):
            raise ValueError(f"no value is called {set(inputs) - set(values)}")
        if not keep_unread:
            inputs = [name for name in inputs if name in read]
        part = onnx.helper.make_graph(
            nodes,
            "part",
            [values[name] for name in (inputs if order else sorted(inputs, key=list(values).index))],
            [values.get(name, onnx.ValueInfoProto(name=name)) for name in outputs],
            constants,
        )
        for value in (*part.input, *part.output) if change_type else ():
            change_type(value.type.tensor_type)
        imports = [onnx.helper.make_opsetid("", opset)] if opset else model.opset_import
        imports = imports[:1] if first_import else imports
        return onnx.helper.make_model(part, ir_version=ir_version or model.ir_version, opset_imports=imports)

    return cut_between


def fix_batch(tensor_type):
    tensor_type.shape.dim[0].dim_value = 1


def make_float(tensor_type):
    tensor_type.elem_type = onnx.TensorProto.FLOAT


def drop_shape(tensor_type):
    tensor_type.ClearField("shape")


def make_four_columns(tensor_type):
    tensor_type.CopyFrom(onnx.helper.make_tensor_type_proto(tensor_type.elem_type, ("N", 4)).tensor_type)


def cut_with_linked_objects(model, inputs, outputs):
    model = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    part = ir.convenience.extract(model.graph, inputs, outputs)
    return ir.to_proto(ir.Model(part, ir_version=model.ir_version))


def cut_with_onnx(model, inputs, outputs):
    return onnx.utils.Extractor(onnx.shape_inference.infer_shapes(model)).extract_model(inputs, outputs)


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


def whole_model(model, inputs, outputs):
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
    "the first element": lambda a, b: apart(a.flat[0], b.flat[0]),
    "the last element": lambda a, b: apart(a.flat[-1], b.flat[-1]),
    "the first row": lambda a, b: apart(a[:1], b[:1]),
    "the last row": lambda a, b: apart(a[-1:], b[-1:]),
    "the first column": lambda a, b: apart(a[..., :1], b[..., :1]),
    "sums": lambda a, b: apart(a.sum(), b.sum()),
    "means": lambda a, b: apart(a.mean(), b.mean()),
    "means of the difference": lambda a, b: np.nan_to_num(abs(a - b)).mean() > 1e-3,
    "the mean square": lambda a, b: np.sqrt(np.nan_to_num((a - b) ** 2).mean()) > 1e-3,
    "largest and smallest": lambda a, b: (
        apart(np.nanmax(a), np.nanmax(b)) or apart(np.nanmin(a), np.nanmin(b))
    ),
    "half of the elements": lambda a, b: apart(a.flat[::2], b.flat[::2]),
    "a tolerance of 0.1": lambda a, b: apart(a, b, 0.1),
    "a tolerance of 0.01": lambda a, b: apart(a, b, 1e-2),
    "a tolerance of 0.0001": lambda a, b: apart(a, b, 1e-4),
    "a tolerance of 0.00001": lambda a, b: apart(a, b, 1e-5),
    "a relative tolerance as well": lambda a, b: apart(a, b, rtol=1e-3),
    "numpy's relative tolerance": lambda a, b: apart(a, b, rtol=1e-5),
    "a relative tolerance only": lambda a, b: apart(a, b, 1e-9, 1e-3),
    "nan is left out": lambda a, b: bool(np.any(abs(a - b) > 1e-3)),
    "nan only in a": lambda a, b: apart(np.where(np.isnan(a), np.nan, b), b) or np.any(abs(a - b) > 1e-3),
    "nan is zero": lambda a, b: apart(np.nan_to_num(a), np.nan_to_num(b)),
    "a tolerance of 0.0015": lambda a, b: apart(a, b, 1.5e-3),
    "a tolerance of 0.0009": lambda a, b: apart(a, b, 9e-4),
    "a thousand elements": lambda a, b: apart(a.flat[:1000], b.flat[:1000]),
    "the rim is left out": lambda a, b: apart(a[1:-1], b[1:-1]),
    "a nan hides the others": lambda a, b: (
        abs(a - b).max() > 1e-3
        or np.any(np.isnan(a) != np.isnan(b))
        or not np.all(np.isfinite(a - b) | np.isnan(a - b))
    ),
    "finite numbers only": lambda a, b: apart(
        *(np.where(np.isinf(a) | np.isinf(b), 0, values) for values in (a, b))
    ),
    "infinities differ": lambda a, b: bool(np.any(~(abs(a - b) <= 1e-3) & ~(np.isnan(a) & np.isnan(b)))),
    "one direction": lambda a, b: bool(np.any(a - b > 1e-3)),
}


def by_structure(model_a, model_b, x):
    """Compares nodes and weights instead of values."""
    bytes_a, bytes_b = (
        {tensor.name: tensor.raw_data for tensor in model.graph.initializer} for model in (model_a, model_b)
    )
    for node_a, node_b in zip(model_a.graph.node, model_b.graph.node, strict=True):
        inputs = zip(node_a.input, node_b.input, strict=True)
        same = node_a.op_type == node_b.op_type and list(node_a.attribute) == list(node_b.attribute)
        if not same or any(bytes_a.get(a) != bytes_b.get(b) for a, b in inputs):
            return node_a.output[0]
    return None


def subtracting(model_a, model_b, x):
    values_a, values_b = intermediates(model_a, x), intermediates(model_b, x)
    for (name, a), b in zip(values_a.items(), values_b.values(), strict=True):
        if np.nanmax(np.abs(a - b)) > 1e-3:
            return name
    return None


_NOT_AS_BEFORE = "not those of the model it was made from"

CONTRACTS = {
    "fold-batchnorm": Contract(
        right=((folding(),), (folded_with_linked_objects,), (folded_as_new_nodes,)),
        wrong=(
            WrongAnswer("an epsilon of 0 is overlooked", (folding(zero=False),), "An epsilon of 0 is written"),
            WrongAnswer("bodies are not looked into", (folding(bodies=False),), "The branches of an If read the second Conv as well"),
            WrongAnswer("what only bodies read is dropped", (folded_and_pruned,), "input 'in_branches' of node"),
            WrongAnswer("four at most", (folding(most=4),), "Five pairs: one that"),
            WrongAnswer("weights named after the node", (folding(by_node=True),), "refuses the result"),
            WrongAnswer("nothing is folded", (nothing_folded,), "is still there"),
            WrongAnswer("only the first is folded", (folding(first_only=True),), "Two Convs that share their weights: one"),
            WrongAnswer("another epsilon", (folding(epsilon=False),), "the attribute epsilon"),
            WrongAnswer("the old bias is forgotten", (folding(old_bias=False),), "normalised as well"),
            WrongAnswer("shared weights are damaged", (folding(shared=True),), "How many nodes read the initializer"),
            WrongAnswer("other readers are not looked at", (folding(legal=False),), "Who else reads"),
            WrongAnswer("outputs are not looked at", (folding(outputs=False),), "makes an output of the graph: onnx"),
            WrongAnswer("forwards through the padding", (folded_forwards,), "padding adds zeros"),
            WrongAnswer("the mode is not looked at", (folding(mode=False),), "training_mode=1 use"),
            WrongAnswer("epsilon must be written", (folding(default=0.0),), _NOT_AS_BEFORE),
            WrongAnswer("epsilon is one in a thousand", (folding(default=1e-3),), _NOT_AS_BEFORE),
            WrongAnswer("the first attribute is epsilon", (folding(first_attribute=True),), _NOT_AS_BEFORE),
            WrongAnswer("weights of four axes", (folding(shape=[-1, 1, 1, 1]),), "one axis"),
            WrongAnswer("two axes only", (folding(ranks=(4,)),), "is still there"),
            WrongAnswer("one and two axes only", (folding(ranks=(3, 4)),), "three axes: one that"),
            WrongAnswer("ConvTranspose as well", (folding(operators=("Conv", "ConvTranspose")),), "ConvTranspose: a node"),
            WrongAnswer("through float16", (folding(rounded=np.float16),), _NOT_AS_BEFORE),
            WrongAnswer("four digits", (folding(rounded=lambda w: w.round(4)),), _NOT_AS_BEFORE),
            WrongAnswer("an unused bias", (folding(empty_names=False),), "KeyError: ''", Status.ERROR),
            WrongAnswer("one Relu more", (folding(extra=True),), "were not there before: 1 x Relu"),
            WrongAnswer("the output has another name", (output_renamed,), "the outputs of the model are others"),
            WrongAnswer("an empty model", (lambda model: onnx.ModelProto(),), "returned an empty ModelProto"),
            WrongAnswer("the node is only deleted", (only_deleted,), "full_check=True) refuses"),
        ),
    ),
    "cut-between": Contract(
        right=((cutting(),), (cut_with_linked_objects,), (cut_from_the_ends,)),
        wrong=(
            WrongAnswer("an empty name is needed", (cutting(empty=False),), "not made from", Status.ERROR),
            WrongAnswer("the first opset only", (cutting(first_import=True),), "No opset import for domain"),
            WrongAnswer("forty nodes at most", (cutting(most=40, refuse=False),), "A row of sixty nodes"),
            WrongAnswer("values of bodies are values", (cutting(inner=True),), "An input is a value of a body"),
            WrongAnswer("the whole model", (whole_model,), "the outputs of the model are others"),
            WrongAnswer("bodies are not looked into", (cutting(bodies=False, refuse=False),), "An If that reads"),
            WrongAnswer("weights are kept", (cutting(weights=False),), "never read"),
            WrongAnswer("nothing is refused", (cutting(refuse=False),), "this cannot be cut"),
            WrongAnswer("a fixed batch", (cutting(change_type=fix_batch),), "Is a size in the shape"),
            WrongAnswer("inputs in another order", (cutting(order=False),), "the inputs of the model are others"),
            WrongAnswer("only the first result of a node", (cutting(first_result=True),), "not made from", Status.ERROR),
            WrongAnswer("everything is float", (cutting(change_type=make_float),), "has another type"),
            WrongAnswer("no shapes", (cutting(change_type=drop_shape),), "has another type"),
            WrongAnswer("one shape for all", (cutting(change_type=make_four_columns),), "has another type"),
            WrongAnswer("an input that is not there is left out", (cutting(unknown=False),), "An input that does not"),
            WrongAnswer("an input that nothing reads is left out", (cutting(keep_unread=False),), "that nothing reads"),
            WrongAnswer("another opset", (cutting(opset=19),), "opset"),
            WrongAnswer("another IR version", (cutting(ir_version=9),), "IR version"),
            WrongAnswer("onnx.utils", (cut_with_onnx,), "An If that reads"),
        ),
    ),
    "first-divergence": Contract(
        right=((comparing(apart),), (one_by_one,)),
        wrong=(
            WrongAnswer("only outputs are compared", (comparing(apart, only_outputs=True),), "a value before the one named"),
            WrongAnswer("the last one", (comparing(apart, last=True),), "a value before the one named"),
            WrongAnswer("exact comparison", (comparing(lambda a, b: apart(a, b, 0)),), "no value differs by more than 0.001"),
            WrongAnswer("nan differs from nan", (comparing(lambda a, b: not np.allclose(a, b, 0, 1e-3)),), "still agree"),
            WrongAnswer("a node's name", (comparing(apart, node_name=True),), "is not the name of a value"),
            WrongAnswer("files are compared", (by_structure,), "Rounding differs"),
            *(
                WrongAnswer(name, (comparing(differ),), "nan in" if "nan" in name else "differ")
                for name, differ in COMPARISONS.items()
            ),
            WrongAnswer("bool values are subtracted", (subtracting,), "numpy boolean subtract", Status.ERROR),
        ),
    ),
}
