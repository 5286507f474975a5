"""Exercise: repair models of older exporters, which are wrong where one pixel remains."""

import re
from collections.abc import Callable
from copy import deepcopy
from functools import partial

import numpy as np
import onnx
import torch
from onnx import parser
from torch.nn.functional import interpolate

from onnxlab.history import VERSIONS, recorded_graph
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import require_type
from onnxlab.labs.kit.judging import beside, evidence, require_valid
from onnxlab.labs.kit.outcome import Wrong, trying
from onnxlab.labs.kit.samples import pictures
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab06_resize_scales.enlarging import Case, require_enlarged

__all__ = ["EXERCISE"]

_SEVERAL = """<ir_version: 7, opset_import: ["" : 13]>
several (float[2, 3, h, w] x, float[4] scales) => (float[2, 3, a, b] corners, float[2, 3, a, b] blocks,
    float[2, 3, a, b] smooth, float[2, 3, a, b] straight, float[2, 3, c, d] sized)
<int64[4] size = {2, 3, 1, 5}> {
    corners = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , scales)
    blocks = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">
        (x, , scales)
    smooth = Resize <mode = "cubic", cubic_coeff_a = -0.75,
        coordinate_transformation_mode = "pytorch_half_pixel"> (x, , scales)
    straight = Resize <mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"> (x, , scales)
    sized = Resize <mode = "cubic", cubic_coeff_a = -0.75,
        coordinate_transformation_mode = "pytorch_half_pixel"> (x, , , size)
}"""

_IN_TORCH: dict[str, Callable[[torch.Tensor, list[float]], torch.Tensor]] = {
    "corners": lambda x, by: interpolate(x, scale_factor=by, mode="bilinear", align_corners=True),
    "blocks": lambda x, by: interpolate(x, scale_factor=by, mode="nearest"),
    "smooth": lambda x, by: interpolate(x, scale_factor=by, mode="bicubic"),
    "straight": lambda x, by: interpolate(x, scale_factor=by, mode="bilinear"),
    "sized": lambda x, by: interpolate(x, size=(1, 5), mode="bicubic"),
}


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Have each model repaired."""
    for name, model in _models(random).items():
        with trying(f"the model {name!r}", model=_models(work.questions())[name]):
            repaired = answers["one_pixel_safe"](model)
            require_type(repaired, onnx.ModelProto, "one_pixel_safe()")
            work.write_model(name, repaired)


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, and to be called as before."""
    for name, before in _models(work.questions()).items():
        with trying(f"the model {name!r}", model=before):
            after = work.model(name)
        for kind in ("input", "output"):
            was, now = ([each.name for each in getattr(model.graph, kind)] for model in (before, after))
            if was != now:
                msg = f"The {kind}s are {', '.join(now) or 'none'}; before they were {', '.join(was)}."
                shown = evidence(after, _repaired(before))
                raise Wrong(msg, "Only the repair is asked for.", evidence=shown)
        _require_known_modes(after, before)
        with beside(partial(_repaired, before)):
            require_valid(after)


def _require_known_modes(after: onnx.ModelProto, before: onnx.ModelProto) -> None:
    """Require coordinate transformations that exist at the opset: ONNX Runtime takes later ones as well."""
    opset = next((each.version for each in after.opset_import if not each.domain), 0)
    name = "coordinate_transformation_mode"
    text = onnx.defs.get_schema("Resize", opset).attributes[name].description if opset > 10 else ""
    for node in after.graph.node:
        for attribute in node.attribute:
            mode = attribute.s.decode(errors="replace")
            if node.op_type == "Resize" and attribute.name == name and mode not in re.findall(r"\w+", text):
                msg = f"At opset {opset}, Resize has no coordinate transformation {mode[:40]!r}."
                look = f"onnx.defs.get_schema('Resize', {opset}).attributes['{name}'] names those that exist."
                raise Wrong(msg, look, evidence=evidence(after, _repaired(before), "Resize"))


def judge_one_pixel(work: Work, random: np.random.Generator) -> None:
    """A height or a width of one pixel, or both."""
    one, other = (float(each) / 16 for each in random.uniform(1.1, 1.9, size=2))  # no whole number of pixels
    scales = [(1 / 16, 1 / 16), (1 / 16, 2.0), (3.0, 1 / 16), (one, other), (one, 1.5), (0.5, other)]
    look = "Where in the old picture does the one new pixel look? The formulas stand above."
    _require(work, random, scales, look)
    # Each output alone: the first that is wrong would hide the others.
    for output in ("smooth", "straight", "sized"):
        _require_output(work, random, output, scales, f"There are several Resize nodes; this is {output!r}.")


def judge_other_sizes(work: Work, random: np.random.Generator) -> None:
    """Sizes at which the models were right before."""
    high, wide = _between(random), _between(random)
    scales = [(3.0, 3.0), (0.5, 2.0), (1.5, 1.25), (high, wide)]
    look = "Here the model was right before the repair. Which coordinates does it use now?"
    _require(work, random, scales, look)
    for output in ("smooth", "straight"):
        _require_output(work, random, output, scales, look)


def judge_others(work: Work, random: np.random.Generator) -> None:
    """Resize nodes that were right."""
    look = "This Resize had no pytorch_half_pixel and was right. What happened to it?"
    for output in ("corners", "blocks"):
        _require_output(work, random, output, [(3.0, 2.0), (0.5, 1.5), (1 / 16, 2.0)], look)


def _between(random: np.random.Generator) -> float:
    """Draw a factor for 16 pixels that gives no whole number, so that nobody argues which one is meant."""
    pixels = int(random.choice([3, 5, 7, 9, 13, 21, 27, 35]))
    return (pixels + float(random.uniform(0.2, 0.8))) / 16


def _models(random: np.random.Generator) -> dict[str, onnx.ModelProto]:
    version = VERSIONS[int(random.integers(len(VERSIONS)))]
    return {
        "recorded": onnx.ModelProto.FromString(recorded_graph(version, "newinterp").SerializeToString()),
        "several": parser.parse_model(_SEVERAL),
    }


def _require(work: Work, random: np.random.Generator, pairs: list[tuple[float, float]], look: str) -> None:
    expected = _repaired(_models(work.questions())["recorded"])
    require_enlarged(work.model("recorded"), _cases(random, 1, pairs), look, expected)


def _require_output(
    work: Work, random: np.random.Generator, name: str, pairs: list[tuple[float, float]], look: str
) -> None:
    model = work.model("several")
    kept = [output for output in model.graph.output if output.name == name]
    del model.graph.output[:]
    model.graph.output.extend(kept)

    def right(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return _IN_TORCH[name](x, scales.tolist()[2:])

    expected = _repaired(parser.parse_model(_SEVERAL))
    require_enlarged(model, _cases(random, 2, pairs), look, expected, right)


def _cases(random: np.random.Generator, batch: int, pairs: list[tuple[float, float]]) -> list[Case]:
    return [(pictures(random, batch, 3, 16, 16), torch.tensor([1.0, 1.0, *pair])) for pair in pairs]


def _repaired(before: onnx.ModelProto) -> bytes:
    model = deepcopy(before)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.s == b"pytorch_half_pixel":
                attribute.s = b"half_pixel"
    data: bytes = model.SerializeToString()
    return data


EXERCISE = Exercise(
    order=4,
    id="one-pixel-safe",
    title="Repair old models that fail where one pixel remains",
    points=3,
    answers=("one_pixel_safe",),
    produce=produce,
    parts=(
        Part("a valid model with the same inputs and outputs", judge_model),
        Part("right where one pixel remains", judge_one_pixel),
        Part("right at every other size", judge_other_sizes),
        Part("every other Resize as it was", judge_others),
    ),
    hints=(
        "Compare the coordinate_transformation_mode of the old model with that of a model exported today. "
        "The two formulas differ in one case only.",
        "Go through `model.graph.node`; for each Resize through `node.attribute`. A text is stored as bytes "
        "in `attribute.s`. Change only what is wrong, in every Resize, and return the model.",
        "`if attribute.s == b'pytorch_half_pixel': attribute.s = b'half_pixel'`",
    ),
)
