"""Right and wrong answers for lab 8."""

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from onnxlab.labs.kit.outcome import Status
from onnxlab.runtime.divergence import inner_values, intermediates
from onnxlab.runtime.parity import run
from tests.support.labs import Contract, WrongAnswer


def folder(
    *,
    legal=True,
    outputs=True,
    epsilon=True,
    old_bias=True,
    shared=False,
    one=False,
    mode=True,
    default=1e-5,
    first_attribute=False,
    axes=None,
    kinds=("Conv",),
    empty_names=True,
    rounded=None,
    extra=False,
):
    """Return a fold_batchnorm; with all defaults it is right."""

    def fold_batchnorm(model):
        graph = model.graph
        weights = {each.name: each for each in graph.initializer}
        for norm in [node for node in graph.node if node.op_type == "BatchNormalization"]:
            conv = next((node for node in graph.node if norm.input[0] in node.output), None)
            if conv is None or conv.op_type not in kinds:
                continue
            attributes = {each.name: onnx.helper.get_attribute_value(each) for each in norm.attribute}
            readers = [node for node in graph.node if conv.output[0] in node.input]
            is_output = any(each.name == conv.output[0] for each in graph.output)
            if (
                (legal and len(readers) > 1)
                or (outputs and is_output)
                or (mode and attributes.get("training_mode"))
            ):
                continue
            scale, bias, mean, variance = (numpy_helper.to_array(weights[name]) for name in norm.input[1:])
            small = attributes.get("epsilon", default) if epsilon else 1e-5
            if first_attribute:
                small = norm.attribute[0].f if norm.attribute else 1e-5
            factor = scale / np.sqrt(variance + small)
            biased = len(conv.input) > 2 and (not empty_names or conv.input[2])
            had = numpy_helper.to_array(weights[conv.input[2]]) if biased and old_bias else 0
            weight = numpy_helper.to_array(weights[conv.input[1]])
            if axes and weight.ndim not in axes:
                continue
            along = [1, -1] if conv.op_type == "ConvTranspose" else [-1, 1]
            weight = weight * factor.reshape(along + [1] * (weight.ndim - 2))
            weight = rounded(weight).astype(np.float32) if rounded else weight
            if shared:
                weights[conv.input[1]].CopyFrom(numpy_helper.from_array(weight, conv.input[1]))
            else:
                conv.input[1] = norm.output[0] + "_weight"
                graph.initializer.append(numpy_helper.from_array(weight, conv.input[1]))
            moved = numpy_helper.from_array(
                ((had - mean) * factor + bias).astype(np.float32), norm.output[0] + "_bias"
            )
            graph.initializer.append(moved)
            del conv.input[2:]
            conv.input.append(moved.name)
            for reader in readers if not legal else ():
                for i, name in enumerate(reader.input):
                    reader.input[i] = norm.output[0] if name == conv.output[0] else name
            conv.output[0] = norm.output[0]
            graph.node.remove(norm)
            if extra:  # a Relu more, of a kind that is there already
                inner = conv.output[0] + "_inner"
                graph.node.insert(0, onnx.helper.make_node("Relu", [graph.input[0].name], [inner]))
            if one:
                break
        return model

    return fold_batchnorm


def four_axes_only(model):
    """As in the chapter: the factor gets the shape of a two-dimensional Conv's weights."""
    graph = model.graph
    weights = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    makers = {node.output[0]: node for node in graph.node}
    read = [each.name for each in graph.output] + [name for node in graph.node for name in node.input]
    for norm in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        settings = {each.name: onnx.helper.get_attribute_value(each) for each in norm.attribute}
        conv = makers.get(norm.input[0], norm)
        if conv.op_type != "Conv" or read.count(norm.input[0]) > 1 or settings.get("training_mode"):
            continue
        scale, bias, mean, var = (weights[name] for name in norm.input[1:])
        factor = scale / np.sqrt(var + settings.get("epsilon", 1e-5))
        weight, *old = (weights[name] for name in conv.input[1:] if name)
        del conv.input[1:]
        for array in (weight * factor.reshape(-1, 1, 1, 1), (sum(old) - mean) * factor + bias):
            conv.input.append(f"{norm.output[0]}_{len(conv.input)}")
            graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), conv.input[-1]))
        conv.output[0] = norm.output[0]
        graph.node.remove(norm)
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
        small = norm.attributes.get("epsilon")
        factor = scale / np.sqrt(variance + (small.as_float() if small else 1e-5))
        had = conv.inputs[2].const_value.numpy() if len(conv.inputs) > 2 and conv.inputs[2] else 0
        weight = conv.inputs[1].const_value.numpy()
        weight = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
        new = []
        for kind, array in (("w", weight), ("b", (had - mean) * factor + bias)):
            name = f"{norm.outputs[0].name}/{kind}"
            new.append(ir.val(name, const_value=ir.tensor(array.astype(np.float32), name=name)))
            model.graph.register_initializer(new[-1])
        folded = ir.node("Conv", [conv.inputs[0], *new], conv.attributes)
        folded.outputs[0].type, folded.outputs[0].shape = norm.outputs[0].type, norm.outputs[0].shape
        model.graph.insert_before(norm, folded)
        name = norm.outputs[0].name
        norm.outputs[0].replace_all_uses_with(folded.outputs[0], replace_graph_outputs=True)
        model.graph.remove([norm, conv], safe=True)
        folded.outputs[0].name = name
    return ir.to_proto(model)


def folded_forwards(model):
    model = folder()(model)
    weights = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for norm in [node for node in model.graph.node if node.op_type == "BatchNormalization"]:
        (conv,) = [node for node in model.graph.node if norm.output[0] in node.input][:1]
        if conv.op_type != "Conv":
            continue
        scale, bias, mean, variance = (weights[name] for name in norm.input[1:])
        factor = scale / np.sqrt(variance + onnx.helper.get_node_attr_value(norm, "epsilon"))
        weight, *old = (weights[name] for name in conv.input[1:])
        moved = sum(old) + (weight * (bias - mean * factor).reshape(-1, 1, 1)).sum((1, 2, 3))
        conv.input[:] = [norm.input[0], f"{conv.name}_weight", f"{conv.name}_bias"]
        for array, name in ((weight * factor.reshape(-1, 1, 1), conv.input[1]), (moved, conv.input[2])):
            model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
        model.graph.node.remove(norm)
    return model


def nothing_folded(model):
    return model


def output_renamed(model):
    for each in model.graph.output:
        for node in model.graph.node:
            node.output[:] = ["out" if name == each.name else name for name in node.output]
        each.name = "out"
    return model


def only_deleted(model):
    kept = [node for node in model.graph.node if node.op_type != "BatchNormalization"]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def read_by(node):
    found = list(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            made = {name for inner in attribute.g.node for name in inner.output}
            found += [name for inner in attribute.g.node for name in read_by(inner) if name not in made]
    return found


def cutter(
    *,
    bodies=True,
    weights=True,
    refuse=True,
    fixed=False,
    order=True,
    first_result=False,
    floats=False,
    shapes=True,
    rows=False,
    unknown=True,
    keep_unread=True,
    opset=None,
    ir_version=None,
):
    """Return a cut_between; with all defaults it is right."""

    def cut_between(model, inputs, outputs):
        graph = onnx.shape_inference.infer_shapes(model).graph
        needed, nodes, seen = set(outputs) - set(inputs), [], set()
        for node in reversed(graph.node):
            if needed & set(node.output[:1] if first_result else node.output):
                nodes.insert(0, node)
                reads = set(read_by(node) if bodies else node.input)
                needed = (needed - set(node.output)) | (reads - set(inputs))
                seen |= reads
        constants = [each for each in graph.initializer if not weights or each.name in seen]
        if refuse and needed - {each.name for each in graph.initializer}:
            raise ValueError(f"not made from {inputs}: {needed}")
        known = {each.name: each for each in (*graph.value_info, *graph.input, *graph.output)}
        if not unknown:
            inputs = [name for name in inputs if name in known]
        elif refuse and not set(inputs) <= set(known):
            raise ValueError(f"no value is called {set(inputs) - set(known)}")
        if not keep_unread:
            inputs = [name for name in inputs if name in seen]
        part = onnx.helper.make_graph(
            nodes,
            "part",
            [known[name] for name in (inputs if order else sorted(inputs, key=list(known).index))],
            [known.get(name, onnx.ValueInfoProto(name=name)) for name in outputs],
            constants,
        )
        if fixed:
            for each in (*part.input, *part.output):
                each.type.tensor_type.shape.dim[0].dim_value = 1
        for each in (*part.input, *part.output):
            if floats:
                each.type.tensor_type.elem_type = 1
            if not shapes:
                each.type.tensor_type.ClearField("shape")
            if rows:
                each.CopyFrom(
                    onnx.helper.make_tensor_value_info(each.name, each.type.tensor_type.elem_type, ("N", 4))
                )
        imports = [onnx.helper.make_opsetid("", opset)] if opset else model.opset_import
        return onnx.helper.make_model(part, ir_version=ir_version or model.ir_version, opset_imports=imports)

    return cut_between


def cut_with_linked_objects(model, inputs, outputs):
    model = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    part = ir.convenience.extract(model.graph, inputs, outputs)
    return ir.to_proto(ir.Model(part, ir_version=model.ir_version))


def cut_with_onnx(model, inputs, outputs):
    return onnx.utils.Extractor(onnx.shape_inference.infer_shapes(model)).extract_model(inputs, outputs)


def whole_model(model, inputs, outputs):
    return model


def all_values(model_a, model_b, x):
    names = inner_values(model_a)
    ours, theirs = (intermediates(model, x).values() for model in (model_a, model_b))
    for name, one, other in zip(names, ours, theirs, strict=True):
        if not np.allclose(one.astype(float), other.astype(float), rtol=0, atol=1e-3, equal_nan=True):
            return name
    return None


def one_by_one(model_a, model_b, x):
    for left, right in zip(model_a.graph.node, model_b.graph.node, strict=True):
        pair = []
        for model, node in ((model_a, left), (model_b, right)):
            part = onnx.ModelProto()
            part.CopyFrom(model)
            del part.graph.output[:]
            part.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
            pair.append(run(part, x)[0].astype(np.float32))
        if np.any(np.isnan(pair[0]) != np.isnan(pair[1])) or np.nanmax(np.abs(pair[0] - pair[1])) > 1e-3:
            return left.output[0]
    return None


def search(*, atol=1e-3, equal_nan=True, only_outputs=False, last=False, node_name=False):
    """Return a first_divergence; with all defaults it is right."""

    def first_divergence(model_a, model_b, x):
        outputs = {each.name for each in model_a.graph.output}
        found = None
        ours, theirs = intermediates(model_a, x), intermediates(model_b, x)
        for node, one, other in zip(model_a.graph.node, ours.values(), theirs.values(), strict=True):
            if only_outputs and node.output[0] not in outputs:
                continue
            if not np.allclose(one.astype(float), other.astype(float), 0, atol, equal_nan=equal_nan):
                found = node.name if node_name else node.output[0]
                if not last:
                    break
        return found

    return first_divergence


def compared(differ):
    """Return a first_divergence that compares two arrays in its own way."""

    def first_divergence(model_a, model_b, x):
        ours, theirs = intermediates(model_a, x), intermediates(model_b, x)
        for (name, one), other in zip(ours.items(), theirs.values(), strict=True):
            if differ(one.astype(float), other.astype(float)):
                return name
        return None

    return first_divergence


def apart(one, other, atol=1e-3, rtol=0.0):
    return not np.allclose(one, other, rtol, atol, equal_nan=True)


BLIND = {
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
    "one direction": lambda a, b: bool(np.any(a - b > 1e-3)),
}


def by_structure(model_a, model_b, x):
    ours, theirs = ({each.name: each.raw_data for each in m.graph.initializer} for m in (model_a, model_b))
    for left, right in zip(model_a.graph.node, model_b.graph.node, strict=True):
        weights = [(ours.get(a), theirs.get(b)) for a, b in zip(left.input, right.input, strict=True)]
        same = left.op_type == right.op_type and list(left.attribute) == list(right.attribute)
        if not same or any(one != other for one, other in weights):
            return left.output[0]
    return None


def subtracting(model_a, model_b, x):
    ours, theirs = intermediates(model_a, x), intermediates(model_b, x)
    for (name, one), other in zip(ours.items(), theirs.values(), strict=True):
        if np.nanmax(np.abs(one - other)) > 1e-3:
            return name
    return None


_NOT_AS_BEFORE = "not those of the model it was made from"

CONTRACTS = {
    "fold-batchnorm": Contract(
        right=((folder(),), (folded_with_linked_objects,)),
        wrong=(
            WrongAnswer("nothing is folded", (nothing_folded,), "is still there"),
            WrongAnswer(
                "only the first is folded", (folder(one=True),), "Two Convs that share their weights: one"
            ),
            WrongAnswer("another epsilon", (folder(epsilon=False),), "the attribute epsilon"),
            WrongAnswer("the old bias is forgotten", (folder(old_bias=False),), "normalised as well"),
            WrongAnswer(
                "shared weights are damaged", (folder(shared=True),), "How many nodes read the initializer"
            ),
            WrongAnswer("other readers are not looked at", (folder(legal=False),), "Who else reads"),
            WrongAnswer(
                "outputs are not looked at", (folder(outputs=False),), "makes an output of the graph: onnx"
            ),
            WrongAnswer("forwards through the padding", (folded_forwards,), "padding adds zeros"),
            WrongAnswer("the mode is not looked at", (folder(mode=False),), "training_mode=1 use"),
            WrongAnswer("epsilon must be written", (folder(default=0.0),), _NOT_AS_BEFORE),
            WrongAnswer("epsilon is one in a thousand", (folder(default=1e-3),), _NOT_AS_BEFORE),
            WrongAnswer("the first attribute is epsilon", (folder(first_attribute=True),), _NOT_AS_BEFORE),
            WrongAnswer("weights of four axes", (four_axes_only,), "one axis"),
            WrongAnswer("two axes only", (folder(axes=(4,)),), "is still there"),
            WrongAnswer("one and two axes only", (folder(axes=(3, 4)),), "three axes: one that"),
            WrongAnswer(
                "ConvTranspose as well", (folder(kinds=("Conv", "ConvTranspose")),), "ConvTranspose: a node"
            ),
            WrongAnswer("through float16", (folder(rounded=np.float16),), _NOT_AS_BEFORE),
            WrongAnswer("four digits", (folder(rounded=lambda w: w.round(4)),), _NOT_AS_BEFORE),
            WrongAnswer("an unused bias", (folder(empty_names=False),), "KeyError: ''", Status.ERROR),
            WrongAnswer("one Relu more", (folder(extra=True),), "were not there before: 1 x Relu"),
            WrongAnswer(
                "the output has another name", (output_renamed,), "the outputs of the model are others"
            ),
            WrongAnswer("an empty model", (lambda model: onnx.ModelProto(),), "cannot be read"),
            WrongAnswer("the node is only deleted", (only_deleted,), "full_check=True) refuses"),
        ),
    ),
    "cut-between": Contract(
        right=((cutter(),), (cut_with_linked_objects,)),
        wrong=(
            WrongAnswer("the whole model", (whole_model,), "the outputs of the model are others"),
            WrongAnswer(
                "bodies are not looked into", (cutter(bodies=False, refuse=False),), "An If that reads"
            ),
            WrongAnswer("weights are kept", (cutter(weights=False),), "never read"),
            WrongAnswer("nothing is refused", (cutter(refuse=False),), "this cannot be cut"),
            WrongAnswer("a fixed batch", (cutter(fixed=True),), "Is a size in the shape"),
            WrongAnswer(
                "inputs in another order", (cutter(order=False),), "the inputs of the model are others"
            ),
            WrongAnswer(
                "only the first result of a node", (cutter(first_result=True),), "not made from", Status.ERROR
            ),
            WrongAnswer("everything is float", (cutter(floats=True),), "has another type"),
            WrongAnswer("no shapes", (cutter(shapes=False),), "has another type"),
            WrongAnswer("one shape for all", (cutter(rows=True),), "has another type"),
            WrongAnswer(
                "an input that is not there is left out", (cutter(unknown=False),), "An input that does not"
            ),
            WrongAnswer(
                "an input that nothing reads is left out", (cutter(keep_unread=False),), "that nothing reads"
            ),
            WrongAnswer("another opset", (cutter(opset=19),), "opset"),
            WrongAnswer("another IR version", (cutter(ir_version=9),), "IR version"),
            WrongAnswer("onnx.utils", (cut_with_onnx,), "An If that reads"),
        ),
    ),
    "first-divergence": Contract(
        right=((all_values,), (one_by_one,)),
        wrong=(
            WrongAnswer(
                "only outputs are compared", (search(only_outputs=True),), "a value before the one named"
            ),
            WrongAnswer("the last one", (search(last=True),), "a value before the one named"),
            WrongAnswer("exact comparison", (search(atol=0),), "no value differs by more than 0.001"),
            WrongAnswer("nan differs from nan", (search(equal_nan=False),), "still agree"),
            WrongAnswer("a node's name", (search(node_name=True),), "is not the name of a value"),
            WrongAnswer("files are compared", (by_structure,), "Rounding differs"),
            *(
                WrongAnswer(name, (compared(differ),), "nan in model" if "nan" in name else "differ")
                for name, differ in BLIND.items()
            ),
            WrongAnswer("bool values are subtracted", (subtracting,), "numpy boolean subtract", Status.ERROR),
        ),
    ),
}
