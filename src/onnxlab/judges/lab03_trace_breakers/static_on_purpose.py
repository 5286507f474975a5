"""What is right in static-on-purpose, part by part."""

from functools import partial

import numpy as np
import torch

from onnxlab.kit import judging
from onnxlab.kit.exercise import Judges
from onnxlab.kit.samples import pictures
from onnxlab.kit.work import Work
from onnxlab.labs.lab03_trace_breakers.static_on_purpose import EXAMPLES, PATCH, WIDTH, questions


def judge_model(work: Work, random: np.random.Generator) -> None:
    """Valid, with outputs computed from the pictures, and a dynamic batch."""
    for name in EXAMPLES:
        model = work.model(name)
        with judging.expecting(partial(_expected, work, name)):
            judging.require_valid(model)
            judging.require_dynamic(model, {"x": [0]})
            judging.require_input_read(model, "x")


def judge_sizes(work: Work, random: np.random.Generator) -> None:
    """No node computes a size."""
    look_at = "Which Shape reads which axis? One that is left over belongs to a size that is still a tensor."
    for name in EXAMPLES:
        with judging.expecting(partial(_expected, work, name)):
            judging.require_operators(work.model(name), without=("Shape", "Size"), look_at=look_at)


def judge_example(work: Work, random: np.random.Generator) -> None:
    """The original's numbers for the example's batch."""
    look_at = "Give the original and yours the numbers 0, 1, 2, ... as a picture."
    axes = "In which order are the axes of the original's result: pictures, patches, numbers?"
    _require_batches(work, random, (2,), {"numbers": look_at, "shape": axes})
    reference, sizes = questions(work.questions())
    large = (pictures(random, 2, *sizes["first"]) - 0.5) * 1000
    large[:, 0, 0, 0] = torch.tensor([torch.nan, torch.inf])
    look_at = "What does your module do with numbers that no pixel has, far from 0?"
    with judging.expecting(partial(_expected, work, "first")):
        judging.require_numbers(reference, work.model("first"), large, 0.01, look_at=look_at)


def judge_batches(work: Work, random: np.random.Generator) -> None:
    """The original's numbers for other batches."""
    look_at = (
        "Look at the shapes that the Reshape nodes read. Which number in them is the example's batch, 2?"
    )
    _require_batches(
        work,
        random,
        (1, 3, 8, int(random.integers(40, 100)), int(random.integers(1030, 1100))),
        judging.at_other_sizes(look_at),
    )


def _require_batches(
    work: Work, random: np.random.Generator, batches: tuple[int, ...], look_at: str | dict[str, str]
) -> None:
    reference, sizes = questions(work.questions())
    for name, size in sizes.items():
        small = [batch for batch in batches if batch < 1000 or name == "first"]  # a large one is enough
        inputs = [pictures(random, batch, *size) - 0.5 for batch in small]
        with judging.expecting(partial(_expected, work, name)):
            judging.require_numbers(reference, work.model(name), inputs, 1e-4, look_at=look_at)


def _expected(work: Work, name: str) -> bytes:
    """A right model for pictures of one size."""
    model, sizes = questions(work.questions())
    channels, height, width = sizes[name]
    rows, columns = height // 2, width // 2
    text = f"""<ir_version: 8, opset_import: ["" : 20]>
    patches (float[batch, {channels}, {height}, {width}] x) => (float[batch, {rows * columns}, {WIDTH}] y)
    <int64[6] blocks = {{-1, {channels}, {rows}, 2, {columns}, 2}},
     int64[3] flat = {{-1, {rows * columns}, {PATCH}}}>
    {{
        cut = Reshape (x, blocks)
        sorted = Transpose <perm = [0, 2, 4, 1, 3, 5]> (cut)
        rows = Reshape (sorted, flat)
        product = MatMul (rows, weight)
        y = Add (product, bias)
    }}"""
    return judging.expected_model(
        text, {"weight": model.embed.weight.T.contiguous(), "bias": model.embed.bias}
    )


JUDGES = Judges((judge_model, judge_sizes, judge_example, judge_batches))
