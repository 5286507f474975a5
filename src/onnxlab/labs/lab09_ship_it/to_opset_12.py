"""Exercise to-opset-12: keep Softmax over one axis at an opset where Softmax flattens its input.

What the statement says, and the drawn networks that reach it:

- Softmax and LogSoftmax, over any axis: first, middle, last; counted from the end; none written.
- Tensors of two, three, four and five axes, also where an inner value has fewer axes than the input.
- One or two of them: one after the other, two readers of one value, one that reads the input, an output that
  is read on.
- The same names of inputs and outputs, opset 12 under either name of ONNX's domain.
- The same numbers at every size, and for inputs a hundred times as large, where exp overflows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx
from onnx import numpy_helper, parser, version_converter

from onnxlab.labs.kit.exercise import Judges
from onnxlab.labs.kit.judging import (
    evidence,
    opsets,
    require_opset,
    require_same_interface,
    require_well_formed,
)
from onnxlab.labs.kit.outcome import Wrong
from onnxlab.labs.kit.rewriting import Question, Rewriting, require_as_before

__all__ = ["JUDGES", "produce"]

_SUMS = "Along which axis do the results add up to 1, in the given model and in yours?"
_CLASSES, _CHANNELS = 3, 1

_AXES = "How many axes has the tensor? infer_shapes() knows, for every value."
_READERS = "Who reads the result of the first one, and do all of them still get the same?"
# What the network is an example of, how many spatial axes its input has, the nodes after h, the axes of its
# outputs if they are not those of h, where to look. The converter takes these operators from opset 13 to 12.
_KINDS: tuple[tuple[str, int, str, dict[str, str], str], ...] = (
    ("A Softmax over the classes of each pixel", 2, "y = Softmax <axis = 1> (h)", {}, _SUMS),
    (
        "A LogSoftmax over the classes",
        2,
        "y = LogSoftmax <axis = 1> (h)",
        {},
        "Which operators changed with opset 13?",
    ),
    (
        "An axis counted from the end",
        2,
        "y = Softmax <axis = -3> (h)",
        {},
        "Which axis of four is the axis -3?",
    ),
    ("A Softmax over the rows of a picture", 2, "y = Softmax <axis = 2> (h)", {}, _SUMS),
    (
        "A Softmax without an axis",
        2,
        "y = Softmax (h)",
        {},
        "What is the axis where none is written, at opset 13 and at opset 12?",
    ),
    ("A Softmax over the batch", 2, "y = Softmax <axis = 0> (h)", {}, _SUMS),
    ("A LogSoftmax over the last axis", 2, "y = LogSoftmax <axis = 3> (h)", {}, _SUMS),
    ("Sounds: three axes instead of four", 1, "y = Softmax <axis = 1> (h)", {}, _AXES),
    ("Volumes: five axes", 3, "y = LogSoftmax <axis = 2> (h)", {}, _AXES),
    (
        "A sum over each picture: two axes are left",
        2,
        'm = Einsum <equation = "nchw->nc"> (h) y = Softmax <axis = 0> (m)',
        {"y": "n, c"},
        _AXES,
    ),
    (
        "A sum over each column: three axes are left",
        2,
        'm = Einsum <equation = "nchw->ncw"> (h) s = LogSoftmax <axis = -2> (m) y = Selu (s)',
        {"y": "n, c, w"},
        _AXES,
    ),
    (
        "Two of them, one behind the other; the first is read twice",
        2,
        "s = Softmax <axis = 1> (h) t = Selu (s) y = LogSoftmax <axis = 2> (t) z = Softplus (s)",
        {},
        _READERS,
    ),
    (
        "Two of them read one value",
        2,
        "y = Softmax <axis = 1> (h) z = LogSoftmax <axis = 2> (h)",
        {},
        _READERS,
    ),
    (
        "One reads the network's input; its result is an output, which the second reads",
        2,
        "y = Softmax <axis = 2> (x) z = LogSoftmax <axis = 2> (y)",
        {"y": "n, 1, h, w", "z": "n, 1, h, w"},
        "In which list of the graph stand the shapes of inputs, of outputs, and of inner values?",
    ),
)


@dataclass(frozen=True, kw_only=True)
class _Question(Question):
    axes: int  # spatial ones


def _questions(random: np.random.Generator) -> Iterator[_Question]:
    """Draw a small network of each kind."""
    for where, axes, nodes, other_axes, look_at in _KINDS:
        sizes = ", ".join("hwd"[:axes])
        of_h = f"n, {_CLASSES}, {sizes}"
        outputs = [f"float[{other_axes.get(name, of_h)}] {name}" for name in "yz" if f"{name} =" in nodes]
        model = parser.parse_model(
            f"""<ir_version: 7, opset_import: ["" : 13]>
            net (float[n, {_CHANNELS}, {sizes}] x) => ({", ".join(outputs)}) {{
                c = Conv (x, w, b)
                h = LeakyRelu (c)
                {nodes}
            }}"""
        )
        for name, shape in (("w", (_CLASSES, _CHANNELS, *[1] * axes)), ("b", (_CLASSES,))):
            values = 2 * random.normal(size=shape)
            model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        yield _Question(where, model, look_at, axes=axes)


def _require_structure(lowered: onnx.ModelProto, question: _Question) -> None:
    """Require a valid model at opset 12, with the same inputs and outputs."""
    require_same_interface(lowered, question.model, question.where)
    if 12 not in opsets(lowered):
        require_opset(lowered, 12, "What does `lowered.opset_import` say?")
    if opsets(lowered) != {12}:
        msg = f"{question.where}: a function of the result asks for another opset."
        raise Wrong(msg, "The runtime has to know that one, too.", evidence=evidence(lowered))
    require_well_formed(lowered, question.where)


def _require_numbers(lowered: onnx.ModelProto, question: _Question, random: np.random.Generator) -> None:
    """Require the numbers of opset 13, at sizes that differ from axis to axis, also for large numbers."""
    sizes = (2, 2, 2, 1), (1, 4, 3, 2), random.integers(2, 6, 4).tolist()
    shapes = [(batch, _CHANNELS, *spatial[: question.axes]) for batch, *spatial in sizes]
    inputs = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    require_as_before(lowered, question, [*inputs, *(100 * x for x in inputs[1:])])


def _transposed(question: _Question) -> onnx.ModelProto:
    """Return a right answer: a Transpose before and after each Softmax."""
    graph = onnx.shape_inference.infer_shapes(question.model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    model = version_converter.convert_version(question.model, 12)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for number, node in enumerate(nodes):
        if node.op_type not in ("Softmax", "LogSoftmax"):
            model.graph.node.append(node)
            continue
        rank = ranks[node.input[0]]
        axis = onnx.helper.get_node_attr_value(node, "axis") % rank
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        before, after = f"last_{number}", f"soft_{number}"
        transpose = partial(onnx.helper.make_node, "Transpose", perm=order)
        softmax = onnx.helper.make_node(node.op_type, [before], [after], axis=rank - 1)
        first, last = transpose([node.input[0]], [before]), transpose([after], [node.output[0]])
        model.graph.node.extend([first, softmax, last])
    return model


_REWRITING = Rewriting("to_opset_12", "lowered", _questions, _require_structure, _transposed)

produce = _REWRITING.produce
JUDGES = Judges((_REWRITING.judge(), _REWRITING.judge(_require_numbers)))
