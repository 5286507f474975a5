"""Right and wrong answers for lab 9."""

import hashlib
from functools import partial

import onnx
from onnx import helper, inliner, version_converter
from onnx.external_data_helper import _get_all_tensors

from tests.support.answer_parts import drop_attribute, replace_nodes
from tests.support.labs import Contract, WrongAnswer, solution

lower, merge, transpose = (partial(solution, name) for name in ("lower-for", "one-file", "to-opset-12"))


def default_entries(model):
    return [entry for entry in model.opset_import if entry.domain == ""]


def unless_softmax(model, newest_ir, newest_opset, x):
    if newest_opset < 13 and any(node.op_type.endswith("Softmax") for node in model.graph.node):
        raise ValueError("Softmax changed")
    return lower()[0](model, newest_ir, newest_opset, x)


def prepared(model, newest_ir, newest_opset, x):
    """Prepares a model for the converter where that is possible, and raises where it is not."""
    model = inliner.inline_local_functions(model)
    for node in model.graph.node:
        if node.op_type == "ReduceMean":
            drop_attribute(node, "noop_with_empty_axes")
        axis = axis_of(node)
        if node.op_type.endswith("Softmax") and newest_opset < 13 and axis != -1:
            raise ValueError("Softmax means something else there")
    if default_entries(model)[0].version > newest_opset:
        try:
            model = version_converter.convert_version(model, newest_opset)
        except RuntimeError as failure:
            raise ValueError(str(failure)) from failure
    model.ir_version = min(model.ir_version, newest_ir, 8)
    return model


def require_hashes(model, files):
    hashes = {f"sha256:{name}": hashlib.sha256(data).hexdigest() for name, data in files.items()}
    for entry in model.metadata_props:
        if hashes.get(entry.key, entry.value) != entry.value:
            raise ValueError(f"another {entry.key}")


def clear(message):
    for name in ("metadata_props", "doc_string"):
        if name in message.DESCRIPTOR.fields_by_name:
            message.ClearField(name)
    for field, content in message.ListFields():
        if field.message_type is not None:
            for child in content if field.is_repeated else [content]:
                clear(child)


def embedding(read, tensors_of=_get_all_tensors):
    """Return a one_file without a folder: `read` finds the bytes of each external tensor in the files."""

    def one_file(files, notes):
        model = onnx.ModelProto.FromString(files["net.onnx"])
        require_hashes(model, files)
        if any("/" in name or name in (".", "..") for name in files):
            raise ValueError("a path")
        for tensor in tensors_of(model):
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                tensor.raw_data = read(files, tensor)
                del tensor.external_data[:]
                tensor.data_location = onnx.TensorProto.DEFAULT
        clear(model)
        helper.set_model_props(model, notes)
        return model.SerializeToString()

    return one_file


def from_its_file(files, tensor):
    entries = {entry.key: entry.value for entry in tensor.external_data}
    start = int(entries.get("offset", 0))
    return files[entries["location"]][start : start + int(entries["length"])]


SOFTMAXES = ("Softmax", "LogSoftmax")


def axis_of(node, default=-1):
    return next((attribute.i for attribute in node.attribute if attribute.name == "axis"), default)


def decomposed(model):
    """Replaces Softmax by operators that have the same axes in opsets 12 and 13."""
    nodes = []
    for node in model.graph.node:
        if node.op_type not in SOFTMAXES:
            nodes.append(node)
            continue
        x, y = node.input[0], node.output[0]
        options = {"axes": [axis_of(node)], "keepdims": 1}
        nodes += [
            helper.make_node("ReduceMax", [x], [y + "_max"], **options),
            helper.make_node("Sub", [x, y + "_max"], [y + "_sub"]),
            helper.make_node("Exp", [y + "_sub"], [y + "_exp"]),
            helper.make_node("ReduceSum", [y + "_exp"], [y + "_sum"], **options),
        ]
        if node.op_type == "Softmax":
            nodes.append(helper.make_node("Div", [y + "_exp", y + "_sum"], [y]))
        else:
            nodes.append(helper.make_node("Log", [y + "_sum"], [y + "_log"]))
            nodes.append(helper.make_node("Sub", [y + "_sub", y + "_log"], [y]))
    replace_nodes(model.graph, nodes)
    model.opset_import[0].version = 12
    return model


_OTHER_NUMBERS = "differ from those of the model it was made from"

# Pieces of the solution of lower-for, and what stands in their place.
_INLINED, _TOO_NEW = "model = inliner.inline_local_functions(model)", "if opset > newest_opset:"
_ENTRY = 'next(entry.version for entry in model.opset_import if entry.domain == "")'
_CONVERTED = "model = version_converter.convert_version(model, newest_opset)"
_STAMPED = "next(entry for entry in model.opset_import if entry.domain == '').version = newest_opset"
_CLOSE = "compare_outputs(before, after)"
_NOT_COMPARED = {"(after,) = run(model, x)": "pass", f"if not {_CLOSE}:": "if False:"}
_UNCHECKED = {"onnx.checker.check_model(model, full_check=True)": "pass", **_NOT_COMPARED}

# Pieces of the solution of one-file, and what stands in their place.
_IF_PATH = 'if Path(name).name != name or name == "..":'
_CLEAR, _STAMP, _END = "clear(model)", "helper.set_model_props(model, notes)", "return model.SerializeToString()"
_BY_PASS = """import onnx_ir
    cleared = onnx_ir.passes.common.ClearMetadataAndDocStringPass()(onnx_ir.from_proto(model))
    model = onnx_ir.to_proto(cleared.model)"""

# Pieces of the solution of to-opset-12, and what stands in their place.
_RANK, _SOFTMAXES = "ranks[x]", '("Softmax", "LogSoftmax")'
_ORDER = "order = list(range(ranks[x]))"
_SKIPPED = "        if axis < 0:\n            model.graph.node.append(node)\n            continue"
_TWICE = 'any(made.op_type.endswith("Softmax") for made in model.graph.node)'
_AXIS = 'helper.get_node_attr_value(node, "axis")'
_RENAMED = """model.graph.output[0].name = "out"
    for node in model.graph.node:
        node.output[:] = ["out" if name == "y" else name for name in node.output]
    return model"""


def by_hand(axis):
    """Return the edits of a solution that stamps the opset itself, with this axis where none is written."""
    given = f'next((entry.i for entry in node.attribute if entry.name == "axis"), {axis})'
    stamp = "model.opset_import[0].version = 12"
    return {"model = version_converter.convert_version(model, 12)": stamp, _AXIS: given}


CONTRACTS = {
    "lower-for": Contract(
        right=(lower(), (prepared,)),
        wrong=(
            WrongAnswer("the converter only", lower({"model.ir_version = min(model.ir_version, newest_ir)": "pass"}), "the IR version of the result is 10"),
            WrongAnswer("changes x", lower({"    return model": "    x += 0.25\n    return model"}), "An argument was changed by the call"),
            WrongAnswer("the IR version only", lower({_TOO_NEW: "if False:"}), "the opset of the result is 20"),
            WrongAnswer("functions are lost", lower({_INLINED: "pass", **_UNCHECKED}), "a body in place of each call"),
            WrongAnswer("every Softmax is refused", (unless_softmax,), "Softmax did not change"),
            WrongAnswer("always to the newest allowed", lower({_TOO_NEW: "if True:", **_UNCHECKED}), "Was the version lower already"),
            WrongAnswer("the first entry of the list", lower({_ENTRY: "model.opset_import[0].version"}), "one entry for each domain"),
            WrongAnswer("a stamp by hand", lower({_CONVERTED: _STAMPED, **_UNCHECKED}), "has input size 2 not in range"),
            WrongAnswer("the checker is enough", lower(_NOT_COMPARED), "No check of the file finds this"),
            WrongAnswer("the first number is enough", lower({_CLOSE: "np.isclose(after.flat[0], before.flat[0])"}), "whose first number stays"),
            WrongAnswer("nothing is checked", lower(_UNCHECKED), "Unrecognized attribute"),
            WrongAnswer("another exception", lower({'ValueError(f"': 'RuntimeError(f"', 'ValueError("': 'RuntimeError("'}), "has to end with a ValueError"),
        ),
    ),
    "one-file": Contract(
        right=(merge(), (embedding(from_its_file),)),
        wrong=(
            WrongAnswer("initializers only", (embedding(from_its_file, lambda model: model.graph.initializer),), "keeps weights in another file, that of the Constant of 'i' for one"),
            WrongAnswer("weights of zero", merge({_END: f"for tensor in model.graph.initializer: tensor.raw_data = bytes(len(tensor.raw_data))\n    {_END}"}), _OTHER_NUMBERS),
            WrongAnswer("takes the files out", merge({_END: f"files.clear()\n    {_END}"}), "An argument was changed by the call"),
            WrongAnswer("the pass alone", merge({_CLEAR: _BY_PASS}), "doc_string"),
            WrongAnswer("the stamp is cleared as well", merge({f"{_CLEAR}\n    {_STAMP}": f"{_STAMP}\n    {_CLEAR}"}), "What came last"),
            WrongAnswer("a stamp too many", merge({"(model, notes)": '(model, notes | {"tool": "mine"})'}), "Which of these entries was not asked for"),
            WrongAnswer("a stamp without spaces", merge({"(model, notes)": "(model, {key: value.strip() for key, value in notes.items()})"}), "character by character"),
            WrongAnswer("the first hash", merge({"for entry in model.metadata_props:": "for entry in [e for e in model.metadata_props if e.key in hashes][:1]:"}), "a hash of each other file"),
            WrongAnswer("two dots only", merge({_IF_PATH: 'if ".." in name:'}), "before you write anything"),
            WrongAnswer("always opset 20", merge({_END: f"next(entry for entry in model.opset_import if not entry.domain).version = 20\n    {_END}"}), "and is 20 now"),
            WrongAnswer("another IR version", merge({_END: f"model.ir_version = 9\n    {_END}"}), ", and is 9 now."),
        ),
    ),
    "to-opset-12": Contract(
        right=(transpose(), (decomposed,), transpose({"return model": "model.opset_import[0].domain = 'ai.onnx'\n    return model"})),
        wrong=(
            WrongAnswer("the converter alone", transpose({_SOFTMAXES: "()"}), "add up to 1"),
            WrongAnswer("Softmax only", transpose({_SOFTMAXES: '("Softmax",)'}), "Which operators changed"),
            WrongAnswer("axes that are not negative", transpose({**by_hand(2), _ORDER: f"{_ORDER}\n{_SKIPPED}"}), "axis -3"),
            WrongAnswer("axis 1 where none is written", transpose(by_hand(1)), "where none is written"),
            WrongAnswer("the input's axes", transpose({_RANK: "ranks[model.graph.input[0].name]"}), "two axes are left"),
            WrongAnswer("four axes inside", transpose({", *inferred.value_info": "", _RANK: "(ranks.get(x) or ranks.get(y, 4))"}), "needs one entry for each axis"),
            WrongAnswer("only the first", transpose({f"{_SOFTMAXES}:": f"{_SOFTMAXES} or {_TWICE}:"}), "one after the other"),
            WrongAnswer("rolled, and not back", transpose({"order[axis], order[-1] = order[-1], order[axis]": "order.append(order.pop(axis))"}), "another shape or type"),
            WrongAnswer("opset 13", (lambda model: model,), "opset 13; 12 was asked for"),
            WrongAnswer("another name", transpose({"return model": _RENAMED}), "the model's outputs are not the ones asked for"),
        ),
    ),
}
