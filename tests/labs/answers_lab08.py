"""Right and wrong answers for lab 8."""

import numpy as np
import onnx
import onnx_ir as ir
from lab_answers import Contract, WrongAnswer
from onnx import numpy_helper

from onnxlab.facts.intermediates import inner_values, intermediates
from onnxlab.facts.parity import run
from onnxlab.labs.outcome import Status


def folder(*, legal=True, outputs=True, epsilon=True, old_bias=True, shared=False, one=False, mode=True):
    """Return a fold_batchnorm; with all defaults it is right."""

    def fold_batchnorm(model):
        graph = model.graph
        weights = {each.name: each for each in graph.initializer}
        for norm in [node for node in graph.node if node.op_type == "BatchNormalization"]:
            conv = next((node for node in graph.node if norm.input[0] in node.output), None)
            if conv is None or conv.op_type != "Conv":
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
            factor = scale / np.sqrt(variance + (attributes["epsilon"] if epsilon else 1e-5))
            had = numpy_helper.to_array(weights[conv.input[2]]) if len(conv.input) > 2 and old_bias else 0
            weight = numpy_helper.to_array(weights[conv.input[1]]) * factor.reshape(-1, 1, 1, 1)
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
            if one:
                break
        return model

    return fold_batchnorm


def folded_with_linked_objects(model):
    model = ir.from_proto(model)
    for norm in [node for node in model.graph if node.op_type == "BatchNormalization"]:
        conv, mode = norm.inputs[0].producer(), norm.attributes.get("training_mode")
        if conv is None or conv.op_type != "Conv" or (mode and mode.as_int()):
            continue
        if len(conv.outputs[0].uses()) != 1 or conv.outputs[0].is_graph_output():
            continue
        scale, bias, mean, variance = (value.const_value.numpy().astype(float) for value in norm.inputs[1:])
        factor = scale / np.sqrt(variance + norm.attributes["epsilon"].as_float())
        had = conv.inputs[2].const_value.numpy() if len(conv.inputs) > 2 else 0
        weight = conv.inputs[1].const_value.numpy() * factor[:, None, None, None]
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


def cutter(*, bodies=True, weights=True, refuse=True, fixed=False, order=True):
    """Return a cut_between; with all defaults it is right."""

    def cut_between(model, inputs, outputs):
        graph = onnx.shape_inference.infer_shapes(model).graph
        needed, nodes, seen = set(outputs) - set(inputs), [], set()
        for node in reversed(graph.node):
            if needed & set(node.output):
                nodes.insert(0, node)
                reads = set(read_by(node) if bodies else node.input)
                needed = (needed - set(node.output)) | (reads - set(inputs))
                seen |= reads
        constants = [each for each in graph.initializer if not weights or each.name in seen]
        if refuse and needed - {each.name for each in graph.initializer}:
            raise ValueError(f"not made from {inputs}: {needed}")
        known = {each.name: each for each in (*graph.value_info, *graph.input, *graph.output)}
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
        return onnx.helper.make_model(part, ir_version=model.ir_version, opset_imports=model.opset_import)

    return cut_between


def cut_with_linked_objects(model, inputs, outputs):
    model = ir.from_proto(onnx.shape_inference.infer_shapes(model))
    return ir.to_proto(ir.Model(ir.convenience.extract(model.graph, inputs, outputs), ir_version=10))


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
            WrongAnswer("bool values are subtracted", (subtracting,), "numpy boolean subtract", Status.ERROR),
        ),
    ),
}
