"""Right and wrong answers for lab 6."""

import copy
from functools import partial

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from onnxscript import opset20 as op
from torch.nn.functional import interpolate

from onnxlab.labs.kit.outcome import Status
from tests.support.answer_parts import constant, drop_attribute
from tests.support.labs import Contract, WrongAnswer, solution

repair = partial(solution, "one-pixel-safe")

# --- scales-input


def stored_numbers(model, kinds=("value", "value_floats", "value_ints")):
    stored = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name in kinds:
            value = onnx.helper.get_attribute_value(node.attribute[0])
            array = numpy_helper.to_array(value).tolist() if isinstance(value, onnx.TensorProto) else value
            stored[node.output[0]] = list(array) if hasattr(array, "__iter__") else array
    return stored


def resize_of(model):
    return next(node for node in model.graph.node if node.op_type == "Resize")


def last_input(model, kinds=("value", "value_floats", "value_ints")):
    node, stored = resize_of(model), stored_numbers(model, kinds)
    used = [number for number, name in enumerate(node.input) if name and stored.get(name) != []]
    return used[-1], stored.get(node.input[used[-1]])


def very_last_input(model):
    """Overlooks that the last name can be empty."""
    node, stored = resize_of(model), stored_numbers(model)
    return len(node.input) - 1, stored.get(node.input[-1])


def tensors_only(model):
    """Overlooks value_floats and value_ints of a Constant."""
    return last_input(model, ("value",))


def first_domain(model):
    """Takes the first opset of the list for ONNX's."""
    node, stored = resize_of(model), stored_numbers(model)
    if model.opset_import[0].version < 11:
        return 1, stored.get(node.input[1])
    return last_input(model)


def through_a_node(model):
    """Takes what is stored for the node that makes the value."""
    number, values = last_input(model)
    stored = stored_numbers(model)
    for node in model.graph.node:
        if values is None and resize_of(model).input[number] in node.output:
            values = next((stored[name] for name in node.input if name in stored), None)
    return number, values


def four_numbers(model):
    number, values = last_input(model)
    return number, values if values is None or len(values) == 4 else [1.0, 1.0, *values]


def by_schema(model):
    node, stored = resize_of(model), stored_numbers(model)
    [opset] = [entry.version for entry in model.opset_import if not entry.domain]
    parameters = [parameter.name for parameter in onnx.defs.get_schema("Resize", opset).inputs]
    for number, name in reversed(list(enumerate(node.input))):
        if parameters[number] in ("sizes", "scales") and name and stored.get(name) != []:
            values = stored.get(name)
            return [np.int64(number), None if values is None else np.array(values)]
    return None


def always_two(model):
    return 2, last_input(model)[1]


def always_scales(model):
    node = resize_of(model)
    number = 1 if model.opset_import[0].version == 10 else 2
    return number, last_input(model)[1] if len(node.input) < 4 else None


def no_constant_nodes(model):
    name = resize_of(model).input[-1]
    for tensor in model.graph.initializer:
        if tensor.name == name:
            return last_input(model)
    return last_input(model)[0], None


def three_digits(model):
    number, values = last_input(model)
    return number, values and [round(value, 3) for value in values]


def first_used(model):
    """Takes a roi for the scales."""
    node, stored = resize_of(model), stored_numbers(model)
    number = next(
        number for number, name in enumerate(node.input) if number and name and stored.get(name) != []
    )
    return number, stored.get(node.input[number])


def empty_initializers_only(model):
    """Overlooks that a Constant can hold an empty tensor as well."""
    node, stored = resize_of(model), stored_numbers(model)
    empty = [tensor.name for tensor in model.graph.initializer if not numpy_helper.to_array(tensor).size]
    number = max(number for number, name in enumerate(node.input) if name and name not in empty)
    return number, stored.get(node.input[number])


def factor_only(model):
    number, values = last_input(model)
    return number, values and values[-2:]


# --- dynamic-resize


def bicubic(x, scales):
    return interpolate(x, scale_factor=scales.tolist()[2:], mode="bicubic")


def empty(g):
    return constant(g, [], torch.float32)


def resize(g, x, scales, *size, **attributes):
    right = {"mode_s": "cubic", "cubic_coeff_a_f": -0.75, "coordinate_transformation_mode_s": "half_pixel"}
    return g.op("Resize", x, empty(g), scales, *size, **right | attributes)


class Eager(torch.autograd.Function):
    """Right in PyTorch, and without a symbolic."""

    @staticmethod
    def forward(ctx, x, scales):
        return bicubic(x, scales)


def exported_by(symbolic):
    """Return a DynamicResize that is right in PyTorch and has this symbolic."""
    return type("DynamicResize", (Eager,), {"symbolic": staticmethod(symbolic)})


def with_attributes(**attributes):
    return exported_by(lambda g, x, scales: resize(g, x, scales, **attributes))


plain = with_attributes()
older_exporters = with_attributes(
    coordinate_transformation_mode_s="pytorch_half_pixel", nearest_mode_s="floor"
)


@exported_by
def last_two_scales(g, x, scales):
    both = g.op("Gather", scales, constant(g, [2, 3]), axis_i=0)
    joined = g.op("Concat", constant(g, [1.0, 1.0]), both, axis_i=0)
    return g.op("Resize", x, empty(g), joined, mode_s="cubic")


@exported_by
def baked(g, x, scales):
    return resize(g, x, constant(g, [1.0, 1.0, 3.0, 3.0]))


@exported_by
def read_and_baked(g, x, scales):
    zeros = g.op("Mul", scales, constant(g, [0.0] * 4))
    return resize(g, x, g.op("Add", constant(g, [1.0, 1.0, 3.0, 3.0]), zeros))


@exported_by
def scales_as_roi(g, x, scales):
    return g.op("Resize", x, scales, mode_s="cubic")


@exported_by
def one_factor(g, x, scales):
    return resize(g, x, g.op("Gather", scales, constant(g, [0, 1, 2, 2]), axis_i=0))


@exported_by
def size_of_the_export(g, x, scales):
    return resize(g, x, empty(g), constant(g, [1, 3, 18, 24]))


@exported_by
def not_below_zero(g, x, scales):
    return resize(g, g.op("Relu", x), scales)


@exported_by
def within_five(g, x, scales):
    return g.op("Clip", resize(g, x, scales), constant(g, -5.0), constant(g, 5.0))


@exported_by
def at_most_five(g, x, scales):
    return resize(g, x, g.op("Min", scales, constant(g, [5.0] * 4)))


@exported_by
def nothing_returned(g, x, scales):
    resize(g, x, scales)


@exported_by
def misspelt(g, x, scales):
    return g.opp("Resize", x)


class FirstTwo(plain):
    @staticmethod
    def forward(ctx, x, scales):
        return interpolate(x, scale_factor=scales.tolist()[:2], mode="bicubic")


class ResizeModule(torch.nn.Module):
    def forward(self, x, scales):
        return bicubic(x, scales)


# --- resize-translation


def promising(batch_and_channels):
    """Return a fake that promises any height and width."""

    def resize_fake(x, scales):
        context = torch.library.get_ctx()
        return x.new_empty((*batch_and_channels(x), context.new_dynamic_size(), context.new_dynamic_size()))

    return resize_fake


any_size = promising(lambda x: x.shape[:2])


def all_sizes_unknown(x, scales):
    context = torch.library.get_ctx()
    return torch.empty(
        [x.size(0), x.size(1)] + [context.new_dynamic_size(min=1) for _ in "hw"], dtype=x.dtype
    )


def resized(x, scales, roi=None, mode="cubic", **attributes):
    return op.Resize(x, roi, scales, mode=mode, **attributes)


def to_resize(x, scales):
    return resized(x, scales, cubic_coeff_a=-0.75, coordinate_transformation_mode="half_pixel")


def to_resize_axes(x, scales):
    return resized(x, op.Gather(scales, op.Constant(value_ints=[2, 3])), axes=[2, 3])


def to_fixed(x, scales):
    return resized(x, op.Constant(value_floats=[1.0, 1.0, 3.0, 3.0]))


def to_nearest(x, scales):
    return resized(x, scales, mode="nearest")


def to_sharper(x, scales):
    return resized(x, scales, cubic_coeff_a=-0.5)


def to_one_factor(x, scales):
    return resized(x, op.Gather(scales, op.Constant(value_ints=[0, 1, 3, 3])))


def to_roi(x, scales):
    return resized(x, None, roi=scales)


def promise_three(x, scales):
    return x.new_empty((*x.shape[:2], 3 * x.shape[2], 3 * x.shape[3]))


def promise_numbers(x, scales):
    return x.new_empty((2, 3, 18, 24))


def promise_square(x, scales):
    size = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty((*x.shape[:2], size, size))


def four_unknown_sizes(x, scales):
    context = torch.library.get_ctx()
    return x.new_empty([context.new_dynamic_size() for _ in "nchw"])


def computed_fake(x, scales):
    return x.new_empty((*x.shape[:2], int(x.shape[2] * scales[2]), int(x.shape[3] * scales[3])))


def broken_fake(x, scales):
    return x.new_emptyy(x.shape)


# --- one-pixel-safe


def default_mode(model):
    repaired = copy.deepcopy(model)
    for node in repaired.graph.node:
        if any(attribute.s == b"pytorch_half_pixel" for attribute in node.attribute):
            drop_attribute(node, "coordinate_transformation_mode")
    return repaired


def in_place_only(model):
    repair()[0](model)


def without_outputs(model):
    del model.graph.output[:]
    return repair()[0](model)


def linear_only(model):
    """Replaces cubic by linear: wrong for every size."""
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "mode" and attribute.s == b"cubic":
                attribute.s = b"linear"
    return repair()[0](model)


_OLD, _NEW = 'attribute.s == b"pytorch_half_pixel"', 'attribute.s = b"half_pixel"'  # in one_pixel_safe

CONTRACTS = {
    "scales-input": Contract(
        right=(solution("scales-input"), (by_schema,)),
        wrong=(
            WrongAnswer("always input 2", (always_two,), "a size as an initializer"),
            WrongAnswer("only scales count", (always_scales,), "a size as an initializer"),
            WrongAnswer("Constant nodes are left out", (no_constant_nodes,), "exported at opset 13: Resize("),
            WrongAnswer("two of the four numbers", (factor_only,), "not the numbers that the file stores"),
            WrongAnswer("the very last input", (very_last_input,), "an unused input behind it"),
            WrongAnswer("only value of a Constant", (tensors_only,), "value_"),
            WrongAnswer("value and value_floats only", (lambda model: last_input(model, ("value", "value_floats")),), "value_ints"),
            WrongAnswer("another domain's opset", (first_domain,), "another domain's opset comes first"),
            WrongAnswer("looked through a node", (through_a_node,), "None"),
            WrongAnswer("always four numbers", (four_numbers,), "two axes"),
            WrongAnswer("three digits", (three_digits,), "Where does the value come from"),
            WrongAnswer("a roi counts", (first_used,), "a roi that is used"),
            WrongAnswer("an empty Constant counts", (empty_initializers_only,), "an empty Constant"),
            WrongAnswer("the number alone", (lambda model: last_input(model)[0],), "a pair was expected"),
            WrongAnswer("the pair turned round", (lambda model: last_input(model)[::-1],), "Another input of Resize"),
            WrongAnswer("absurd numbers", (lambda model: (last_input(model)[0], [10**400, float("nan"), "1", None]),), "not the numbers"),
        ),
    ),
    "dynamic-resize": Contract(
        right=(solution("dynamic-resize"), (older_exporters,), (last_two_scales,)),
        wrong=(
            WrongAnswer("no symbolic", (Eager,), "The input 'scales' does not reach the result"),
            WrongAnswer("a constant", (baked,), "the inputs are x."),
            WrongAnswer("a constant and a zero", (read_and_baked,), "still holds that factor"),
            WrongAnswer("a size from the export", (size_of_the_export,), "does not reach the result"),
            WrongAnswer("roi instead of scales", (scales_as_roi,), "has input size 2"),
            WrongAnswer("linear", (with_attributes(mode_s="linear"),), "attribute of Resize beside its default"),
            WrongAnswer("corners aligned", (with_attributes(coordinate_transformation_mode_s="align_corners"),), "attribute of Resize beside its default"),
            WrongAnswer("one factor for both axes", (one_factor,), "the order of the axes is n, c, h, w"),
            WrongAnswer("forward takes the first two", (FirstTwo,), "does not return the bicubic result"),
            WrongAnswer("nothing is returned", (nothing_returned,), "Does symbolic return"),
            WrongAnswer("an error", (misspelt,), "has no attribute 'opp'", Status.ERROR),
            WrongAnswer("a function", (bicubic,), "inherits from torch.autograd.Function"),
            WrongAnswer("a module", (ResizeModule,), "inherits from torch.autograd.Function"),
            WrongAnswer("nothing below zero", (not_below_zero,), "attribute of Resize beside its default"),
            WrongAnswer("nothing beyond 5 and -5", (within_five,), "scales [1, 1, 1.25, 1.25]"),
            WrongAnswer("five times at most", (at_most_five,), "still holds that factor"),
            WrongAnswer("outside left out", (with_attributes(exclude_outside_i=1),), "attribute of Resize beside its default"),
        ),
    ),
    "resize-translation": Contract(
        right=(solution("resize-translation"), (to_resize_axes, any_size), (to_resize, all_sizes_unknown)),
        wrong=(
            WrongAnswer("a constant", (to_fixed, any_size), "'scales' does not reach"),
            WrongAnswer("nearest", (to_nearest, any_size), "make Resize bicubic"),
            WrongAnswer("another coefficient", (to_sharper, any_size), "make Resize bicubic"),
            WrongAnswer("one factor for both axes", (to_one_factor, any_size), "Follow scales[2]"),
            WrongAnswer("roi instead of scales", (to_roi, any_size), "does not load"),
            WrongAnswer("a fake that promises three", (to_resize, promise_three), "does your fake promise"),
            WrongAnswer("a fake with the numbers", (to_resize, promise_numbers), "does your fake promise"),
            WrongAnswer("a fake with 2 and 3", (to_resize, promising(lambda x: (2, 3))), "does your fake promise"),
            WrongAnswer("a fake of 3 channels", (to_resize, promising(lambda x: (x.shape[0], 3))), "does your fake promise"),
            WrongAnswer("a fake of type float16", (to_resize, lambda *inputs: any_size(*inputs).half()), "The output's type is not"),
            WrongAnswer("a fake of type float64", (to_resize, lambda *inputs: any_size(*inputs).double()), "bound to different types"),
            WrongAnswer("a fake with four unknown sizes", (to_resize, four_unknown_sizes), "does your fake promise"),
            WrongAnswer("a fake of one size", (to_resize, promise_square), "does your fake promise"),
            WrongAnswer("a fake that computes", (to_resize, computed_fake), "data-dependent", Status.ERROR),
            WrongAnswer("no fake", (to_resize, lambda x, scales: None), "Does the fake return"),
            WrongAnswer("no translation", (lambda x, scales: None, any_size), "returned None"),
            WrongAnswer("an error in the fake", (to_resize, broken_fake), "new_emptyy", Status.ERROR),
        ),
    ),
    "one-pixel-safe": Contract(
        right=(repair(), (default_mode,)),
        wrong=(
            WrongAnswer("nothing is changed", (lambda model: model,), "does the one new pixel sample"),
            WrongAnswer("the first only", repair({_NEW: f"{_NEW}; return model"}), "this is 'straight'"),
            WrongAnswer("every mode", repair({_OLD: "attribute.s in (b'pytorch_half_pixel', b'align_corners', b'asymmetric')"}), "had no pytorch_half_pixel"),
            WrongAnswer("corners aligned", repair({_NEW: "attribute.s = b'align_corners'"}), "does the one new pixel sample"),
            WrongAnswer("a mode of a later opset", repair({_NEW: "attribute.s = b'half_pixel_symmetric'"}), "half_pixel_symmetric"),
            WrongAnswer("a mode of an earlier opset", repair({_NEW: "attribute.s = b'tf_half_pixel_for_nn'"}), "tf_half_pixel_for_nn"),
            WrongAnswer("a crop", repair({_NEW: "attribute.s = b'tf_crop_and_resize'"}), "roi array"),
            WrongAnswer("the first two only", repair({"node.op_type ==": "(count := count + (attribute.s == b'pytorch_half_pixel')) < 3 and node.op_type ==", "for node in": "count = 0\n    for node in"}), "this is 'sized'"),
            WrongAnswer("a misspelt mode", repair({_NEW: "attribute.s = b'halfpixel'"}), "no coordinate transformation 'halfpixel'"),
            WrongAnswer("nothing is returned", (in_place_only,), "returned None"),
            WrongAnswer("no outputs", (without_outputs,), "The outputs are none"),
            WrongAnswer("linear", (linear_only,), "The outputs differ from PyTorch's"),
            WrongAnswer("an empty model", (lambda model: onnx.ModelProto(),), "returned an empty ModelProto"),
        ),
    ),
}
