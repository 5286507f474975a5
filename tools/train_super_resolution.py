"""Train the super-resolution weights that ship with the course.

Run `python -m tools.train_super_resolution`. It needs scikit-image (in the `test` extra), whose
wheel contains the pictures: nothing is downloaded. docs/weights.md keeps the figures of the shipped weights.
"""

import argparse
import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from onnxlab.errors import OnnxLabError
from onnxlab.super_resolution import (
    UPSCALE_FACTOR,
    Picture,
    SuperResolutionNet,
    load_trained,
    psnr,
    resize_bicubic,
)
from tools.super_resolution_data import batch, held_out_pictures, shrink, training_pairs

__all__ = ["Score", "evaluate", "main", "train", "upscale"]

STEPS = 8_000
BATCH_SIZE = 16
LEARNING_RATE = 1e-3


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
    steps: int, seed: int = 0, report: Callable[[int, float], None] | None = None
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
    """Read the command line, train or only evaluate, and print the table of held-out pictures."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.train_super_resolution",
        description="Train the super-resolution weights on scikit-image's pictures; compare with bicubic.",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the weights here (.safetensors)")
    parser.add_argument("--steps", type=int, default=STEPS, help="batches to train on (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="processor cores (default: %(default)s)")
    parser.add_argument("--evaluate", action="store_true", help="only measure the weights that ship")
    options = parser.parse_args(arguments)
    if min(options.steps, options.threads) < 1:
        parser.error("--steps and --threads must be 1 or more")
    if options.output and not options.output.resolve().parent.is_dir():  # said now, not after training
        parser.error(f"there is no folder {options.output.parent} to write to")
    torch.set_num_threads(options.threads)
    began = time.monotonic()

    def report(step: int, loss: float) -> None:
        if step == 1 or step % 250 == 0 or step == options.steps:
            seconds = time.monotonic() - began
            print(f"step {step:6d} of {options.steps}  loss {loss:.5f}  {seconds:4.0f} s", flush=True)

    try:
        network = load_trained() if options.evaluate else train(options.steps, options.seed, report)
        scores = evaluate(network)
    except OnnxLabError as error:
        parser.exit(1, f"{error}\n")
    print(f"{'picture':12} {'bicubic':>8} {'network':>8} {'gain':>6}  (dB)")
    for score in scores:
        print(f"{score.picture:12} {score.bicubic:8.2f} {score.network:8.2f} {score.gain:+6.2f}")
    print(f"{'mean gain':29} {np.mean([score.gain for score in scores]):+6.2f}")
    if options.output:
        save_file(network.state_dict(), options.output)
        print(f"wrote {options.output.name}, {options.output.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
