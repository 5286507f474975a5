"""Exercise: repair models of older exporters, which are wrong where one pixel remains.

What the statement asks, and where it is drawn:

* a recorded model and a handwritten one with six Resize nodes, in any order, with names and without;
* right where one pixel remains: high, wide, both, from factors and from sizes, cubic and linear;
* right at other sizes, with factors that give no whole number of pixels;
* other coordinate transformations, written and left out, stay; so does a node called pytorch_half_pixel;
* the same inputs and outputs, a mode that the model's opset has, another domain's opset before it.
"""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import onnx
import torch
from onnx import parser
from torch.nn.functional import interpolate

from onnxlab.history import VERSIONS, recorded_graph
from onnxlab.labs.kit.exercise import Judges
from onnxlab.labs.kit.judging import evidence, require_valid
from onnxlab.labs.kit.outcome import Wrong, trying
from onnxlab.labs.kit.rewriting import Question, Rewriting
from onnxlab.labs.kit.samples import pictures
from onnxlab.labs.kit.variations import vary
from onnxlab.labs.lab06_resize_scales.enlarging import Reference, cubic, require_enlarged

__all__ = ["JUDGES", "produce"]

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

_REFERENCES: dict[str, Reference] = {
    "output": cubic,
    "corners": lambda x, scales: interpolate(
        x, scale_factor=scales.tolist()[2:], mode="bilinear", align_corners=True
    ),
    "plain": lambda x, scales: interpolate(x, scale_factor=scales.tolist()[2:], mode="bilinear"),
    "blocks": lambda x, scales: interpolate(x, scale_factor=scales.tolist()[2:], mode="nearest"),
    "smooth": cubic,
    "straight": lambda x, scales: interpolate(x, scale_factor=scales.tolist()[2:], mode="bilinear"),
    "sized": lambda x, scales: interpolate(x, size=(1, 5), mode="bicubic"),
}
"""What the outputs of the models are in torch: that of a recorded one, and those of the model above."""


@dataclass(frozen=True, kw_only=True)
class _Question(Question):
    batch: int  # of the model's input

    def as_case(self) -> AbstractContextManager[None]:
        """Name the case that is tried inside."""
        return trying(f"the model {self.where!r}", **self.arguments)


def _questions(random: np.random.Generator) -> Iterator[_Question]:
    """Draw a model of an older exporter, and add one with six Resize nodes, three of which are right."""
    version = VERSIONS[int(random.integers(len(VERSIONS)))]
    recorded = onnx.ModelProto.FromString(recorded_graph(version, "newinterp").SerializeToString())
    yield _Question("recorded", recorded, batch=1)
    several = parser.parse_model(_SEVERAL)
    vary(random, several, keep_names=True)
    several.graph.node[0].name = "pytorch_half_pixel"  # a name is no attribute
    yield _Question("several", several, batch=2)


def _require_structure(after: onnx.ModelProto, question: _Question) -> None:
    """Require a valid model with the inputs and outputs of the old one."""
    for kind in ("input", "output"):
        models = (question.model, after)
        was, now = ([value.name for value in getattr(model.graph, kind)] for model in models)
        if was != now:
            msg = f"The {kind}s are {', '.join(now) or 'none'}; before they were {', '.join(was)}."
            raise Wrong(msg, "Only the repair is asked for.", evidence=evidence(after))
    _require_known_modes(after)
    require_valid(after)


def _require_known_modes(after: onnx.ModelProto) -> None:
    """Require coordinate transformations of the model's opset: ONNX Runtime accepts later ones as well."""
    opset = next((entry.version for entry in after.opset_import if not entry.domain), 0)
    name = "coordinate_transformation_mode"
    text = onnx.defs.get_schema("Resize", opset).attributes[name].description if opset > 10 else ""
    for node in after.graph.node:
        for attribute in node.attribute:
            mode = attribute.s.decode(errors="replace")
            if node.op_type == "Resize" and attribute.name == name and mode not in re.findall(r"\w+", text):
                msg = f"At opset {opset}, Resize has no coordinate transformation {mode[:40]!r}."
                look_at = (
                    f"onnx.defs.get_schema('Resize', {opset}).attributes['{name}'] names those that exist."
                )
                raise Wrong(msg, look_at, evidence=evidence(after, None, "Resize"))


def _require_one_pixel(after: onnx.ModelProto, question: _Question, random: np.random.Generator) -> None:
    """Resize to a height or a width of one pixel, or both."""
    high, wide = (float(pixels) / 16 for pixels in random.uniform(1.1, 1.9, size=2))  # rounded down to one
    scales = [(1 / 16, 1 / 16), (1 / 16, 2.0), (3.0, 1 / 16), (high, wide), (high, 1.5), (0.5, wide)]
    look_at = "Where in the old picture does the one new pixel look? The formulas stand above."
    _require_outputs(after, question, ["output"], random, scales, look_at)
    for output in ("smooth", "straight", "sized"):
        look_at = f"There are several Resize nodes; this is {output!r}."
        _require_outputs(after, question, [output], random, scales, look_at)


def _require_other_sizes(after: onnx.ModelProto, question: _Question, random: np.random.Generator) -> None:
    """Resize to sizes at which the models were right before."""
    scales = [(3.0, 3.0), (0.5, 2.0), (1.5, 1.25), (_draw_factor(random), _draw_factor(random))]
    look_at = "Here the model was right before the repair. Which coordinates does it use now?"
    _require_outputs(after, question, ["output", "smooth", "straight"], random, scales, look_at)


def _require_others(after: onnx.ModelProto, question: _Question, random: np.random.Generator) -> None:
    """Run the Resize nodes that were right before."""
    scales = [(3.0, 2.0), (0.5, 1.5), (1 / 16, 2.0)]
    look_at = "This Resize had no pytorch_half_pixel and was right. What happened to it?"
    _require_outputs(after, question, ["corners", "blocks", "plain"], random, scales, look_at)


def _require_outputs(
    after: onnx.ModelProto,
    question: _Question,
    names: list[str],
    random: np.random.Generator,
    scales: list[tuple[float, float]],
    look_at: str,
) -> None:
    """Require torch's numbers of the named outputs, where the model has them. Each is judged alone."""
    for output in after.graph.output:
        if output.name in names:
            model = deepcopy(after)
            del model.graph.output[:]
            model.graph.output.append(output)
            cases = [
                (pictures(random, question.batch, 3, 16, 16), torch.tensor([1.0, 1.0, *pair]))
                for pair in scales
            ]
            require_enlarged(model, cases, look_at, reference=_REFERENCES[output.name])


def _draw_factor(random: np.random.Generator) -> float:
    """Draw a factor that makes no whole number of 16 pixels: every program rounds it down."""
    pixels = int(random.choice([3, 5, 7, 9, 13, 21, 27, 35]))
    return (pixels + float(random.uniform(0.2, 0.8))) / 16


def _repaired(question: _Question) -> onnx.ModelProto:
    """Return a right answer."""
    model = deepcopy(question.model)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.s == b"pytorch_half_pixel":
                attribute.s = b"half_pixel"
    return model


_REWRITING = Rewriting("one_pixel_safe", "repaired", _questions, _require_structure, _repaired)

produce = _REWRITING.produce
JUDGES = Judges(
    (
        _REWRITING.judge(),
        _REWRITING.judge(_require_one_pixel),
        _REWRITING.judge(_require_other_sizes),
        _REWRITING.judge(_require_others),
    )
)
