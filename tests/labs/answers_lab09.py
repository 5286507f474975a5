"""Right and wrong answers for lab 9."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
from onnx import helper, inliner, version_converter
from onnx.external_data_helper import _get_all_tensors
from onnx_ir.passes.common import ClearMetadataAndDocStringPass

from onnxlab.labs.kit.outcome import Status
from onnxlab.runtime.parity import run
from tests.support.labs import Contract, WrongAnswer


def lowering(
    *,
    inline=True,
    ir=True,
    convert=True,
    upwards=False,
    first=False,
    stamp=False,
    checked=True,
    compared=True,
    error=ValueError,
    always=False,
):
    """Return a lower_for; with all defaults it is right."""

    def lower_for(model, newest_ir, newest_opset, x):
        if always:
            raise ValueError("too new")
        before = run(model, x)[0]
        try:
            if inline:
                model = inliner.inline_local_functions(model)
            entries = model.opset_import if first else [o for o in model.opset_import if o.domain == ""]
            if convert and (upwards or entries[0].version > newest_opset):
                if stamp:
                    entries[0].version = newest_opset
                else:
                    model = version_converter.convert_version(model, newest_opset)
            if ir:
                model.ir_version = min(model.ir_version, newest_ir)
            if checked:
                onnx.checker.check_model(model, full_check=True)
            if compared and not np.allclose(run(model, x)[0], before, atol=1e-5):
                raise ValueError("other numbers")
        except Exception as problem:
            raise error(str(problem)) from None
        return model

    return lower_for


def softened(model, newest_ir, newest_opset, x):
    """Mends what the converter refuses or does wrong, where it can; refuses the rest."""
    model = inliner.inline_local_functions(model)
    for node in model.graph.node:
        if node.op_type == "ReduceMean":
            kept = [each for each in node.attribute if each.name != "noop_with_empty_axes"]
            del node.attribute[:]
            node.attribute.extend(kept)
        if node.op_type == "Softmax" and newest_opset < 13:
            raise ValueError("Softmax means something else there")
    opset = {each.domain: each.version for each in model.opset_import}[""]
    if opset > newest_opset:
        try:
            model = version_converter.convert_version(model, newest_opset)
        except RuntimeError as problem:
            raise ValueError(str(problem)) from problem
    model.ir_version = min(model.ir_version, newest_ir, 8)
    return model


def loaded(files, folder):
    for name, data in files.items():
        (Path(folder) / name).write_bytes(data)
    return onnx.load(Path(folder) / "net.onnx")


def clear(message, names=("metadata_props", "doc_string")):
    for name in names:
        if name in message.DESCRIPTOR.fields_by_name:
            message.ClearField(name)
    for field, content in message.ListFields():
        if field.message_type is not None:
            for part in content if field.is_repeated else [content]:
                clear(part, names)


def by_pass(model):
    return onnx_ir.to_proto(ClearMetadataAndDocStringPass()(onnx_ir.from_proto(model)).model)


def of_main_nodes(model):
    for each in [model, model.graph, *model.graph.node, *model.graph.value_info]:
        each.ClearField("metadata_props")
        each.ClearField("doc_string")


def of_the_model(model):
    del model.metadata_props[:]


def merger(strip=clear, stamp=True, more=None, order=True, after=None):
    """Return a one_file; with all defaults it is right."""

    def one_file(files, notes):
        with tempfile.TemporaryDirectory() as folder:
            model = loaded(files, folder)
        if stamp and not order:
            helper.set_model_props(model, notes)
        model = strip(model) or model
        if stamp and order:
            helper.set_model_props(model, notes | (more or {}))
        if after:
            after(model)
        return model.SerializeToString()

    return one_file


def by_hand(files, notes):
    """Without a folder: the bytes of every weight are taken from the dict."""
    model = onnx.ModelProto.FromString(files["net.onnx"])
    for tensor in _get_all_tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            place = {each.key: each.value for each in tensor.external_data}
            start = int(place.get("offset", 0))
            tensor.raw_data = files[place["location"]][start : start + int(place["length"])]
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.DEFAULT
    clear(model)
    for key, value in notes.items():
        model.metadata_props.add(key=key, value=value)
    return model.SerializeToString()


def first_file_for_all(files, notes):
    model = onnx.ModelProto.FromString(files["net.onnx"])
    (data, *_) = [files[name] for name in sorted(files) if name != "net.onnx"]
    for tensor in _get_all_tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            size = 4 * int(np.prod(tensor.dims))
            tensor.raw_data = (data * size)[:size]
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.DEFAULT
    clear(model)
    helper.set_model_props(model, notes)
    return model.SerializeToString()


def only_the_first(files, notes):
    return files["net.onnx"]


def zeroed(model):
    for tensor in model.graph.initializer:
        tensor.raw_data = bytes(len(tensor.raw_data))


def older(model):
    model.ir_version = 9


SOFT = ("Softmax", "LogSoftmax")


def turning(
    *,
    kinds=SOFT,
    back=True,
    negative=True,
    rank=None,
    once=False,
    rolled=False,
    name=None,
    default=None,
):
    """Return a to_opset_12; with all defaults it is right."""

    def to_opset_12(model):
        ranks = {
            each.name: len(each.type.tensor_type.shape.dim)
            for each in onnx.shape_inference.infer_shapes(model).graph.value_info
        }
        if default is None:
            model = version_converter.convert_version(model, 12)  # writes every axis, counted from 0
        else:
            model.opset_import[0].version = 12
        nodes = []
        for node in model.graph.node:
            axis = next((each.i for each in node.attribute if each.name == "axis"), default)
            if node.op_type not in kinds or (axis < 0 and not negative):
                nodes.append(node)
                continue
            if once and any(each.op_type in SOFT for each in nodes):
                nodes.append(node)
                continue
            axes = rank or ranks[node.input[0]]
            order = list(range(axes))
            if rolled:
                order.append(order.pop(axis))
            else:
                order[axis], order[-1] = order[-1], order[axis]
            end = node.output[0]
            nodes.append(helper.make_node("Transpose", [node.input[0]], [end + "_in"], perm=order))
            nodes.append(
                helper.make_node(node.op_type, [end + "_in"], [end + "_out" if back else end], axis=axes - 1)
            )
            if back:
                nodes.append(helper.make_node("Transpose", [end + "_out"], [end], perm=order))
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        if name:
            model.graph.output[0].name = name
            for node in model.graph.node:
                node.output[:] = [name if each == "y" else each for each in node.output]
        return model

    return to_opset_12


def in_steps(model):
    """Writes what Softmax computes, in operators that opset 13 did not change for one axis."""
    nodes = []
    for node in model.graph.node:
        if node.op_type not in SOFT:
            nodes.append(node)
            continue
        axis = next((each.i for each in node.attribute if each.name == "axis"), -1)
        x, y = node.input[0], node.output[0]
        over = {"axes": [axis], "keepdims": 1}
        nodes += [
            helper.make_node("ReduceMax", [x], [y + "_max"], **over),
            helper.make_node("Sub", [x, y + "_max"], [y + "_sub"]),
            helper.make_node("Exp", [y + "_sub"], [y + "_exp"]),
            helper.make_node("ReduceSum", [y + "_exp"], [y + "_sum"], **over),
        ]
        if node.op_type == "Softmax":
            nodes.append(helper.make_node("Div", [y + "_exp", y + "_sum"], [y]))
        else:
            nodes.append(helper.make_node("Log", [y + "_sum"], [y + "_log"]))
            nodes.append(helper.make_node("Sub", [y + "_sub", y + "_log"], [y]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.opset_import[0].version = 12
    return model


def only_stamped(model):
    model.opset_import[0].version = 12
    return model


_OTHER_NUMBERS = "not those of the model it was made from"

CONTRACTS = {
    "lower-for": Contract(
        right=((lowering(),), (softened,)),
        wrong=(
            WrongAnswer("the converter only", (lowering(ir=False),), "the IR version of the result is 10"),
            WrongAnswer("the IR version only", (lowering(convert=False),), "the opset of the result is 20"),
            WrongAnswer(
                "functions are lost",
                (lowering(inline=False, checked=False, compared=False),),
                "a body in place of each call",
            ),
            WrongAnswer(
                "functions are lost, and refused", (lowering(inline=False),), "ValueError", Status.ERROR
            ),
            WrongAnswer(
                "always to the newest allowed",
                (lowering(upwards=True, checked=False, compared=False),),
                "Was the version lower already",
            ),
            WrongAnswer("the first entry of the list", (lowering(first=True),), "one entry for each domain"),
            WrongAnswer(
                "a stamp by hand", (lowering(stamp=True, checked=False, compared=False),), "changes no node"
            ),
            WrongAnswer(
                "the checker is enough", (lowering(compared=False),), "No check of the file finds this"
            ),
            WrongAnswer(
                "nothing is checked", (lowering(checked=False, compared=False),), "Which check finds"
            ),
            WrongAnswer("another exception", (lowering(error=RuntimeError),), "has to end with a ValueError"),
            WrongAnswer("everything is refused", (lowering(always=True),), "too new", Status.ERROR),
            WrongAnswer("nothing is done", (lambda model, *_: model,), "and 8 is the newest allowed"),
        ),
    ),
    "one-file": Contract(
        right=((merger(),), (by_hand,)),
        wrong=(
            WrongAnswer("only the first file", (only_the_first,), "keeps weights in another file"),
            WrongAnswer("one file for all weights", (first_file_for_all,), "from which of the files"),
            WrongAnswer("weights of zero", (merger(after=zeroed),), _OTHER_NUMBERS),
            WrongAnswer(
                "the notes stay", (merger(strip=lambda model: None),), "notes of the author are left"
            ),
            WrongAnswer("the pass alone", (merger(strip=by_pass),), "doc_string"),
            WrongAnswer("the model's own notes only", (merger(strip=of_the_model),), "21 notes"),
            WrongAnswer(
                "nodes of the main graph", (merger(strip=of_main_nodes),), "model.graph.initializer[0]"
            ),
            WrongAnswer(
                "metadata only", (merger(strip=lambda m: clear(m, ("metadata_props",))),), "11 notes"
            ),
            WrongAnswer("no stamp", (merger(stamp=False),), "what it was to be stamped with"),
            WrongAnswer("the stamp is cleared as well", (merger(order=False),), "What came last"),
            WrongAnswer("a stamp too many", (merger(more={"tool": "mine"}),), "tool"),
            WrongAnswer("another IR version", (merger(after=older),), "the IR version was 10, and is 9"),
            WrongAnswer(
                "a model",
                (lambda files, notes: onnx.ModelProto(),),
                "returned ModelProto; bytes were expected",
            ),
        ),
    ),
    "to-opset-12": Contract(
        right=((turning(),), (turning(default=-1),), (in_steps,)),
        wrong=(
            WrongAnswer("the converter alone", (turning(kinds=()),), "add up to 1"),
            WrongAnswer("the stamp alone", (only_stamped,), _OTHER_NUMBERS),
            WrongAnswer("Softmax only", (turning(kinds=("Softmax",)),), "Which operators changed"),
            WrongAnswer("never back", (turning(back=False),), "another shape or type"),
            WrongAnswer("axes that are not negative", (turning(negative=False, default=2),), "axis -3"),
            WrongAnswer("axis 1 where none is written", (turning(default=1),), "where none is written"),
            WrongAnswer("four axes", (turning(rank=4),), "Sounds"),
            WrongAnswer("only the first", (turning(once=True),), "one behind the other"),
            WrongAnswer("rolled, and not back", (turning(rolled=True),), "another shape or type"),
            WrongAnswer("opset 13", (lambda model: model,), "opset 13; 12 was asked for"),
            WrongAnswer("another name", (turning(name="out"),), "the outputs of the model are others"),
        ),
    ),
}
