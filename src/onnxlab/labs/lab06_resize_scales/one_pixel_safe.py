"""Exercise: repair models of older exporters, which are wrong where one pixel remains.

What the statement asks, and where it is drawn:

* a recorded model and a handwritten one with six Resize nodes, in any order, with names and without;
* right where one pixel remains: high, wide, both, from factors and from sizes, cubic and linear;
* right at other sizes, with factors that give no whole number of pixels;
* other coordinate transformations, written and left out, stay; so does a node called pytorch_half_pixel;
* the same inputs and outputs, a mode that the model's opset has, another domain's opset before it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import parser

from onnxlab.history import VERSIONS, recorded_graph
from onnxlab.kit.outcome import trying
from onnxlab.kit.rewriting import Question, Rewriting
from onnxlab.kit.variations import vary
from onnxlab.message import Message

_SEVERAL = """<ir_version: 7, opset_import: ["" : 13]>
several (float[2, 3, h, w] x, float[4] scales) => (float[2, 3, a, b] corners, float[2, 3, a, b] blocks,
    float[2, 3, a, b] smooth, float[2, 3, a, b] straight, float[2, 3, c, d] sized, float[2, 3, a, b] plain)
<int64[4] size = {2, 3, 1, 5}> {
    corners = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , scales)
    blocks = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">
        (x, , scales)
    smooth = Resize <mode = "cubic", cubic_coeff_a = -0.75,
        coordinate_transformation_mode = "pytorch_half_pixel"> (x, , scales)
    straight = Resize <mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"> (x, , scales)
    sized = Resize <mode = "cubic", cubic_coeff_a = -0.75,
        coordinate_transformation_mode = "pytorch_half_pixel"> (x, , , size)
    plain = Resize <mode = "linear"> (x, , scales)
}"""


@dataclass(frozen=True, kw_only=True)
class ResizeQuestion(Question):
    """An old model to repair."""

    batch: int  # of the model's input

    def as_case(self) -> AbstractContextManager[None]:
        """Name the case that is tried inside."""
        return trying(Message("the model '{where}'", where=self.where), **self.arguments)


def _questions(random: np.random.Generator) -> Iterator[ResizeQuestion]:
    """Draw a model of an older exporter, and add one with six Resize nodes, three of which are right."""
    version = VERSIONS[int(random.integers(len(VERSIONS)))]
    recorded = onnx.ModelProto.FromString(recorded_graph(version, "newinterp").SerializeToString())
    yield ResizeQuestion("recorded", recorded, batch=1)
    several = parser.parse_model(_SEVERAL)
    vary(random, several, keep_names=True)
    several.graph.node[0].name = "pytorch_half_pixel"  # a name is no attribute
    yield ResizeQuestion("several", several, batch=2)


ASKS = Rewriting("one_pixel_safe", "repaired", _questions)

produce = ASKS.produce
