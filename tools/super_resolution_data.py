"""The pictures that the super-resolution weights are trained on and measured with.

They are in scikit-image's wheel (its README lists 40 files that need no download), so this needs no network.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from onnxlab.errors import OnnxLabError
from onnxlab.super_resolution import UPSCALE_FACTOR, Picture, luminance, photograph, resize_bicubic

__all__ = ["HELD_OUT", "TRAINING", "batch", "held_out_pictures", "shrink", "training_pairs"]

# Public domain, CC0 or without known restrictions, by scikit-image's documentation. No picture is in both.
TRAINING = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "cell.png",
    "grass.png",
    "gravel.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "retina.jpg",
    "text.png",
)
HELD_OUT = ("coffee.png", "coins.png", "rocket.jpg")
"""Besides the course's own cat."""

PATCH = 24  # pixels at the small size; one pixel of the result sees 11 x 11 of them
# Shrunken copies add sharp detail: several of the pictures are soft at their full size.
SCALES = (1.0, 0.75, 0.5)


def held_out_pictures() -> dict[str, Picture]:
    """Give the brightness of every picture that training never sees, by file name."""
    return {"cat.jpg": _cut(luminance(photograph()))} | {name: _cut(_read(name)) for name in HELD_OUT}


def training_pairs() -> list[tuple[Picture, Picture]]:
    """Give (small, large) pairs of brightness: every training picture at every scale."""
    pairs = []
    for name in TRAINING:
        full = _read(name)
        for scale in SCALES:
            large = _cut(resize_bicubic(full, int(full.shape[1] * scale), int(full.shape[0] * scale)))
            if min(large.shape) >= PATCH * UPSCALE_FACTOR:
                pairs.append((shrink(large), large))
    return pairs


def batch(
    pairs: Sequence[tuple[Picture, Picture]], size: int, random: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Cut patches at random places of random pairs, turned and mirrored at random.

    Returns:
        The small and the large patches, of shape (size, 1, height, width), from 0 to 1.
    """
    smalls: list[Picture] = []
    larges: list[Picture] = []
    for index in random.integers(len(pairs), size=size):
        small, large = pairs[index]
        top = int(random.integers(small.shape[0] - PATCH + 1))
        left = int(random.integers(small.shape[1] - PATCH + 1))
        turns, mirrored = int(random.integers(4)), int(random.integers(2))
        for picture, factor, patches in ((small, 1, smalls), (large, UPSCALE_FACTOR, larges)):
            patch = picture[top * factor :, left * factor :][: PATCH * factor, : PATCH * factor]
            patch = np.rot90(patch, turns)
            patches.append(patch[:, ::-1] if mirrored else patch)
    return _as_tensor(smalls), _as_tensor(larges)


def shrink(picture: Picture) -> Picture:
    """Make a picture smaller by the network's factor."""
    height, width = picture.shape
    return resize_bicubic(picture, width // UPSCALE_FACTOR, height // UPSCALE_FACTOR)


def _read(name: str) -> Picture:
    try:
        import skimage  # in the `test` extra only: learners do not need it
    except ModuleNotFoundError as error:
        what = "The pictures are in scikit-image, which is not installed."
        raise OnnxLabError(what, then='Install it with: pip install -e ".[test]"') from error
    with Image.open(Path(skimage.__file__).parent / "data" / name) as image:
        return luminance(np.array(image.convert("RGB")))


def _cut(picture: Picture) -> Picture:
    """Cut to whole multiples of the factor."""
    height, width = (side - side % UPSCALE_FACTOR for side in picture.shape)
    return picture[:height, :width]


def _as_tensor(patches: Sequence[Picture]) -> Tensor:
    return torch.from_numpy(np.stack(patches)[:, None] / np.float32(255))
