"""What is right in one-pixel-safe, part by part."""

import re
from copy import deepcopy

import numpy as np
import onnx
import torch
from torch.nn.functional import interpolate

from onnxlab.judges.lab06_resize_scales.enlarging import Reference, require_enlarged
from onnxlab.kit.judging import evidence, require_same_interface, require_valid
from onnxlab.kit.outcome import Wrong
from onnxlab.kit.rewriting import Rewritten, made_by
from onnxlab.kit.samples import pictures
from onnxlab.labs.lab06_resize_scales.enlarging import cubic
from onnxlab.labs.lab06_resize_scales.one_pixel_safe import ASKS, ResizeQuestion
from onnxlab.message import Message

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


def _require_structure(after: onnx.ModelProto, question: ResizeQuestion) -> None:
    """Require a valid model with the inputs and outputs of the old one."""
    require_same_interface(after, question.model, question.where)
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
                msg = Message(
                    "At opset {opset}, Resize has no coordinate transformation {mode!r}.",
                    opset=opset,
                    mode=mode[:40],
                )
                look_at = Message(
                    "onnx.defs.get_schema('Resize', {opset}).attributes['{name}'] names those that exist.",
                    opset=opset,
                    name=name,
                )
                raise Wrong(msg, look_at, evidence=evidence(after, None, "Resize"))


def _require_one_pixel(after: onnx.ModelProto, question: ResizeQuestion, random: np.random.Generator) -> None:
    """Resize to a height or a width of one pixel, or both."""
    high, wide = (float(pixels) / 16 for pixels in random.uniform(1.1, 1.9, size=2))  # rounded down to one
    scales = [(1 / 16, 1 / 16), (1 / 16, 2.0), (3.0, 1 / 16), (high, wide), (high, 1.5), (0.5, wide)]
    look_at = "Which point of the old picture does the one new pixel sample? The formulas are above."
    _require_outputs(after, question, ["output"], random, scales, look_at)
    for output in ("smooth", "straight", "sized"):
        look_at = Message("There are several Resize nodes; this is {output!r}.", output=output)
        _require_outputs(after, question, [output], random, scales, look_at)


def _require_other_sizes(
    after: onnx.ModelProto, question: ResizeQuestion, random: np.random.Generator
) -> None:
    """Resize to sizes at which the models were right before."""
    scales = [(3.0, 3.0), (0.5, 2.0), (1.5, 1.25), (_draw_factor(random), _draw_factor(random))]
    look_at = "Here the model was right before the repair. Which coordinates does it use now?"
    _require_outputs(after, question, ["output", "smooth", "straight"], random, scales, look_at)


def _require_others(after: onnx.ModelProto, question: ResizeQuestion, random: np.random.Generator) -> None:
    """Run the Resize nodes that were right before."""
    scales = [(3.0, 2.0), (0.5, 1.5), (1 / 16, 2.0)]
    look_at = "This Resize had no pytorch_half_pixel and was right. What happened to it?"
    _require_outputs(after, question, ["corners", "blocks", "plain"], random, scales, look_at)


def _require_outputs(
    after: onnx.ModelProto,
    question: ResizeQuestion,
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


def one_pixel_safe(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a right answer; `author sync` writes it into the notebook of solutions."""
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Resize" and attribute.s == b"pytorch_half_pixel":
                attribute.s = b"half_pixel"
    return model


JUDGES = Rewritten(ASKS, _require_structure, made_by(one_pixel_safe)).judges(
    _require_one_pixel, _require_other_sizes, _require_others
)
