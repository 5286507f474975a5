"""Right and wrong answers for lab 6."""

from functools import partial

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn.functional import interpolate

from onnxlab.kit.outcome import Status
from tests.support.labs import Contract, WrongAnswer, solution

look_up, enlarge, translate = (
    partial(solution, name) for name in ("scales-input", "dynamic-resize", "resize-translation")
)
TRANSLATION, FAKE = translate()

# --- scales-input


def stored_numbers(model):
    stored = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            value = onnx.helper.get_attribute_value(node.attribute[0])
            stored[node.output[0]] = value if isinstance(value, list) else numpy_helper.to_array(value).tolist()
    return stored


def by_schema(model):
    [node], stored = [node for node in model.graph.node if node.op_type == "Resize"], stored_numbers(model)
    [opset] = [entry.version for entry in model.opset_import if not entry.domain]
    parameters = [parameter.name for parameter in onnx.defs.get_schema("Resize", opset).inputs]
    for number, name in reversed(list(enumerate(node.input))):
        if parameters[number] in ("sizes", "scales") and name and stored.get(name) != []:
            values = stored.get(name)
            return [np.int64(number), None if values is None else np.array(values)]
    return None


# --- dynamic-resize


class ResizeModule(torch.nn.Module):
    def forward(self, x, scales):
        return interpolate(x, scale_factor=scales.tolist()[2:], mode="bicubic")


# Pieces of the solutions, and what stands in their place.
_VALUES, _NUMBER = "stored.get(node.input[number])", "max(i for i, name in enumerate(node.input) if name and stored.get(name) != [])"
_PAIR, _CONSTANT = f"return number, {_VALUES}", 'other.op_type == "Constant"'
_RESIZE, _SCALES = 'g.op("Resize", x, roi, scales, **settings)', "roi, scales,"
_SIZES, _SHAPE = "context.new_dynamic_size(), context.new_dynamic_size()", "x.shape[0], x.shape[1], height, width"


def held(values):
    """Return the text of a Constant of a symbolic function."""
    return f"g.op('Constant', value_t=torch.tensor({values}))"


_JOINED = f"g.op('Concat', {held([1.0, 1.0])}, g.op('Gather', scales, {held([2, 3])}, axis_i=0), axis_i=0)"
_OF_THE_EXPORT = "[1.0, 1.0, 3.0, 3.0]"

CONTRACTS = {
    "scales-input": Contract(
        right=(look_up(), (by_schema,)),
        wrong=(
            WrongAnswer("always input 2", look_up({"return number,": "return 2,"}), "a size as an initializer"),
            WrongAnswer("the very last input", look_up({_NUMBER: "len(node.input) - 1"}), "an unused input after it"),
            WrongAnswer("value and value_floats only", look_up({_CONSTANT: f'{_CONSTANT} and other.attribute[0].name != "value_ints"'}), "value_ints"),
            WrongAnswer("another domain's opset", look_up({"number = max": "if model.opset_import[0].version < 11: return 1, stored.get(node.input[1])\n    number = max"}), "another domain's opset comes first"),
            WrongAnswer("always four numbers", look_up({_VALUES: f"(values := {_VALUES}) and [*[1.0, 1.0][: 4 - len(values)], *values]"}), "two axes"),
            WrongAnswer("three digits", look_up({_VALUES: f"(values := {_VALUES}) and [round(value, 3) for value in values]"}), "Where does the value come from"),
            WrongAnswer("a roi counts", look_up({"max(i": "min(i", "if name and": "if i and name and"}), "a roi that is used"),
            WrongAnswer("an empty Constant counts", look_up({"stored.get(name) != []": "name not in [tensor.name for tensor in model.graph.initializer if not to_array(tensor).size]"}), "an empty Constant"),
            WrongAnswer("the number alone", look_up({_PAIR: "return number"}), "a pair was expected"),
            WrongAnswer("absurd numbers", look_up({_VALUES: "[10**400, float('nan'), '1', None]"}), "not the numbers"),
        ),
    ),
    "dynamic-resize": Contract(
        right=(
            enlarge(),
            enlarge({'"half_pixel"': '"pytorch_half_pixel"', "settings = {": 'settings = {"nearest_mode_s": "floor", '}),
            enlarge({_RESIZE: f'g.op("Resize", x, roi, {_JOINED}, mode_s="cubic")'}),
        ),
        wrong=(
            WrongAnswer("no symbolic", enlarge({"def symbolic(": "def unused("}), "The input 'scales' does not reach the result"),
            WrongAnswer("roi instead of scales", enlarge({_SCALES: "scales,"}), "has input size 2"),
            WrongAnswer("linear", enlarge({'"cubic"': '"linear"'}), "attribute of Resize beside its default"),
            WrongAnswer("one factor for both axes", enlarge({_SCALES: f"roi, g.op('Gather', scales, {held([0, 1, 2, 2])}, axis_i=0),"}), "the order of the axes is n, c, h, w"),
            WrongAnswer("changes its input", enlarge({"return interpolate(x,": "return interpolate(x.add_(1),"}), "An argument was changed by the call"),
            WrongAnswer("forward takes the first two", enlarge({"[2:]": "[:2]"}), "does not return the bicubic result"),
            WrongAnswer("nothing is returned", enlarge({f"return {_RESIZE}": _RESIZE}), "Does symbolic return"),
            WrongAnswer("a module", (ResizeModule,), "inherits from torch.autograd.Function"),
            WrongAnswer("nothing beyond 5 and -5", enlarge({_RESIZE: f'g.op("Clip", {_RESIZE}, {held(-5.0)}, {held(5.0)})'}), "scales [1, 1, 1.25, 1.25]"),
            WrongAnswer("five times at most", enlarge({_SCALES: f"roi, g.op('Min', scales, {held([5.0] * 4)}),"}), "still holds that factor"),
        ),
    ),
    "resize-translation": Contract(
        right=(
            (TRANSLATION, FAKE),
            translate({"None, scales,": "None, op.Gather(scales, op.Constant(value_ints=[2, 3])), axes=[2, 3],"}),
            translate({f"= {_SIZES}": '= (context.new_dynamic_size(min=1) for _ in "hw")', f"x.new_empty(({_SHAPE}))": f"torch.empty([{_SHAPE}], dtype=x.dtype)"}),
        ),
        wrong=(
            WrongAnswer("a constant", translate({"None, scales,": f"None, op.Constant(value_floats={_OF_THE_EXPORT}),"}), "'scales' does not reach"),
            WrongAnswer("nearest", translate({'"cubic"': '"nearest"'}), "make Resize bicubic"),
            WrongAnswer("one factor for both axes", translate({"None, scales,": "None, op.Gather(scales, op.Constant(value_ints=[0, 1, 3, 3])),"}), "Follow scales[2]"),
            WrongAnswer("roi instead of scales", translate({"None, scales,": "scales, None,"}), "does not load"),
            WrongAnswer("a fake that promises three", translate({_SIZES: "3 * x.shape[2], 3 * x.shape[3]"}), "does your fake promise"),
            WrongAnswer("a fake with 2 and 3", translate({_SHAPE: "2, 3, height, width"}), "does your fake promise"),
            WrongAnswer("a fake of type float16", translate({"width))": "width)).half()"}), "The fake promises torch.float16"),
            WrongAnswer("no fake", (TRANSLATION, lambda x, scales: None), "Does the fake return"),
            WrongAnswer("no translation", (lambda x, scales: None, FAKE), "returned None"),
            WrongAnswer("an error in the fake", translate({"x.new_empty(": "x.new_emptyy("}), "new_emptyy", Status.ERROR),
        ),
    ),
}
