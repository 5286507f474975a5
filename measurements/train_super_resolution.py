"""Train the super-resolution weights that ship with the course.

Run `python -m measurements.train_super_resolution`. It needs scikit-image (in the `test` extra), whose wheel has
the pictures (its README lists 40 files that need no download): nothing is fetched. docs/weights.md keeps the
figures of the shipped weights.
"""

import copy
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from measurements.training import trained_network
from onnxlab.errors import OnnxLabError
from onnxlab.networks.super_resolution import (
    UPSCALE_FACTOR,
    Picture,
    SuperResolutionNet,
    load_trained,
    luminance,
    photograph,
    psnr,
    resize_bicubic,
)

STEPS = 8_000
BATCH_SIZE = 16
LEARNING_RATE = 1e-3

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


@dataclass(frozen=True)
class Score:
    """How close one held-out picture comes to the truth, in dB of brightness.

    Attributes:
        picture: Its file name.
        bicubic: PSNR of the bicubic enlargement.
        network: PSNR of the network.
    """

    picture: str
    bicubic: float
    network: float

    @property
    def gain(self) -> float:
        """What the network adds to bicubic, in dB."""
        return self.network - self.bicubic


def upscale(network: SuperResolutionNet, small: Picture) -> Picture:
    """Enlarge a grey picture with the network."""
    with torch.inference_mode():
        large = network(torch.from_numpy(small / np.float32(255))[None, None])[0, 0]
    result: Picture = (large.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    return result


def evaluate(network: SuperResolutionNet) -> list[Score]:
    """Shrink every held-out picture, enlarge it with both methods, and compare with the truth."""
    scores = []
    for name, truth in held_out_pictures().items():
        height, width = truth.shape
        small = shrink(truth)
        bicubic = resize_bicubic(small, width, height)
        scores.append(Score(name, psnr(bicubic, truth), psnr(upscale(network, small), truth)))
    return scores


def train(
    steps: int = STEPS, seed: int = 0, report: Callable[[int, float], None] | None = None
) -> SuperResolutionNet:
    """Train from scratch.

    Args:
        steps: Number of batches.
        seed: Fixes the first weights and every batch. On one machine, the same seed, steps and number of
            threads give the same weights.
        report: Called after each batch with its number (from 1) and its loss.

    Returns:
        The network, in inference mode.
    """
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    pairs = training_pairs()
    network = SuperResolutionNet(UPSCALE_FACTOR).train()
    average = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    warm_up = min(200, max(1, steps // 10))

    def rate(step: int) -> float:
        return min(1, (step + 1) / warm_up) * (0.5 + 0.5 * math.cos(math.pi * step / steps))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    for step in range(1, steps + 1):
        small, large = batch(pairs, BATCH_SIZE, random)
        loss = torch.sqrt((network(small) - large) ** 2 + 1e-6).mean()  # Charbonnier: L1, smooth at zero
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        schedule.step()
        # The mean of the recent weights is less noisy than the last ones.
        keep = min(0.999, 1 - 1 / step)
        with torch.no_grad():
            for mean, latest in zip(average.parameters(), network.parameters(), strict=True):
                mean.lerp_(latest, 1 - keep)
        if report:
            report(step, loss.item())
    return average.eval()


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the weights, or take the shipped ones; print the table of held-out pictures."""

    def report(step: int, loss: float) -> None:
        if step % 250 == 0:
            print(f"step {step:6d} of {STEPS}  loss {loss:.5f}", flush=True)

    file = "super_resolution_x3.safetensors"
    try:
        network = trained_network(
            __doc__, file, lambda: train(report=report), load_trained, arguments, threads=2
        )
        scores = evaluate(network)
    except OnnxLabError as error:
        sys.exit(str(error))
    print(f"{'picture':12} {'bicubic':>8} {'network':>8} {'gain':>6}  (dB)")
    for score in scores:
        print(f"{score.picture:12} {score.bicubic:8.2f} {score.network:8.2f} {score.gain:+6.2f}")
    print(f"{'mean gain':29} {np.mean([score.gain for score in scores]):+6.2f}")


if __name__ == "__main__":
    main()
