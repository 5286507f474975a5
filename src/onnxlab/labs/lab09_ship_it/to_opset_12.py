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

import numpy as np
from onnx import numpy_helper, parser

from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.message import Message

_SUMS = "Along which axis do the results add up to 1, in the given model and in yours?"
_CLASSES, CHANNELS = 3, 1

_AXES = "How many axes has the tensor? infer_shapes() knows, for every value."
_READERS = "Who reads the result of the first one, and do all of them still get the same?"
# What the network is an example of, how many spatial axes its input has, the nodes after h, the axes of its
# outputs if they are not those of h, where to look. The converter takes these operators from opset 13 to 12.
_KINDS: tuple[tuple[str, int, str, dict[str, str], str], ...] = (
    (Message("A Softmax over the classes of each pixel"), 2, "y = Softmax <axis = 1> (h)", {}, _SUMS),
    (Message("A LogSoftmax over the classes"), 2, "y = LogSoftmax <axis = 1> (h)", {},
        "Which operators changed with opset 13?"),
    (Message("An axis counted from the end"), 2, "y = Softmax <axis = -3> (h)", {},
        "Which axis of four is the axis -3?"),
    (Message("A Softmax over the rows of a picture"), 2, "y = Softmax <axis = 2> (h)", {}, _SUMS),
    (Message("A Softmax without an axis"), 2, "y = Softmax (h)", {},
        "What is the axis where none is written, at opset 13 and at opset 12?"),
    (Message("A Softmax over the batch"), 2, "y = Softmax <axis = 0> (h)", {}, _SUMS),
    (Message("A LogSoftmax over the last axis"), 2, "y = LogSoftmax <axis = 3> (h)", {}, _SUMS),
    (Message("Sounds: three axes instead of four"), 1, "y = Softmax <axis = 1> (h)", {}, _AXES),
    (Message("Volumes: five axes"), 3, "y = LogSoftmax <axis = 2> (h)", {}, _AXES),
    (Message("A sum over each picture: two axes are left"), 2,
        'm = Einsum <equation = "nchw->nc"> (h) y = Softmax <axis = 0> (m)', {"y": "n, c"}, _AXES),
    (Message("A sum over each column: three axes are left"), 2,
        'm = Einsum <equation = "nchw->ncw"> (h) s = LogSoftmax <axis = -2> (m) y = Selu (s)',
        {"y": "n, c, w"}, _AXES),
    (Message("Two of them, one after the other; the first is read twice"), 2,
        "s = Softmax <axis = 1> (h) t = Selu (s) y = LogSoftmax <axis = 2> (t) z = Softplus (s)", {},
        _READERS),
    (Message("Two of them read one value"), 2, "y = Softmax <axis = 1> (h) z = LogSoftmax <axis = 2> (h)", {},
        _READERS),
    (Message("One reads the network's input; its result is an output, which the second reads"), 2,
        "y = Softmax <axis = 2> (x) z = LogSoftmax <axis = 2> (y)", {"y": "n, 1, h, w", "z": "n, 1, h, w"},
        "In which list of the graph stand the shapes of inputs, of outputs, and of inner values?"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SoftmaxQuestion(Question):
    """A model of opset 13 with Softmax nodes."""

    axes: int  # spatial ones


def _questions(random: np.random.Generator) -> Iterator[SoftmaxQuestion]:
    """Draw a small network of each kind."""
    for where, axes, nodes, other_axes, look_at in _KINDS:
        sizes = ", ".join("hwd"[:axes])
        of_h = f"n, {_CLASSES}, {sizes}"
        outputs = [f"float[{other_axes.get(name, of_h)}] {name}" for name in "yz" if f"{name} =" in nodes]
        model = parser.parse_model(
            f"""<ir_version: 7, opset_import: ["" : 13]>
            net (float[n, {CHANNELS}, {sizes}] x) => ({", ".join(outputs)}) {{
                c = Conv (x, w, b)
                h = LeakyRelu (c)
                {nodes}
            }}"""
        )
        for name, shape in (("w", (_CLASSES, CHANNELS, *[1] * axes)), ("b", (_CLASSES,))):
            values = 2 * random.normal(size=shape)
            model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        yield SoftmaxQuestion(where, model, look_at, axes=axes)


ASKS = Rewriting("to_opset_12", "lowered", _questions)

produce = ASKS.produce
