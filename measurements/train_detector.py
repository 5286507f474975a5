"""Train the small detector of drawn shapes and write its weights.

Run `python -m measurements.train_detector`. The pictures are drawn: nothing is needed and nothing is downloaded.
docs/weights.md keeps the figures of the shipped file.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from measurements.training import trained_network
from onnxlab.networks.detection import (
    SHAPES,
    SIDE,
    DetectorNet,
    Scene,
    box_iou,
    load_trained,
    prepared,
    scene,
)

PICTURES = 4000
EPOCHS = 10
BATCH_SIZE = 32
LEARNING_RATE = 4e-3
FIRST_SEED = 100_000
"""Of the training pictures. Chapters, labs and tests draw theirs with smaller seeds."""


class Batch(NamedTuple):
    """Prepared pictures, with the boxes and scores that the network should give.

    Attributes:
        x: Pictures, (count, 3, 96, 96).
        boxes: The box that each cell should propose, (count, 144, 4); zeros where there is none.
        scores: 1 for the shape that a cell should propose, else 0, (count, 3, 144).
    """

    x: Tensor
    boxes: Tensor
    scores: Tensor


def training_scenes(count: int = PICTURES) -> list[Scene]:
    """Draw pictures of many sizes, each side from 96 to 320 pixels."""
    random = np.random.default_rng(0)
    sizes = random.integers(SIDE, 321, (count, 2)).tolist()
    return [scene(FIRST_SEED + number, height, width) for number, (height, width) in enumerate(sizes)]


def batch(scenes: list[Scene], centres: Tensor) -> Batch:
    """Prepare pictures, and give the shapes to the cells that should propose them.

    These are the cells whose middle is in the inner quarter of a box, and the one next to the middle of it.

    Args:
        scenes: What was drawn.
        centres: The middles of the cells, (2, 144).
    """
    boxes, scores = torch.zeros(len(scenes), 144, 4), torch.zeros(len(scenes), len(SHAPES), 144)
    for number, sample in enumerate(scenes):
        height, width = sample.picture.shape[:2]
        scale = torch.tensor([SIDE / width, SIDE / height]).repeat(2)
        true = torch.from_numpy(sample.boxes) * scale
        for box, shape in zip(true, sample.shapes.tolist(), strict=True):
            away = (centres.T - (box[:2] + box[2:]) / 2).abs()
            chosen = (away < (box[2:] - box[:2]) / 4).all(1)
            chosen[away.square().sum(1).argmin()] = True
            boxes[number, chosen] = box
            scores[number, shape, chosen] = 1
    return Batch(torch.cat([prepared(sample.picture) for sample in scenes]), boxes, scores)


def loss(network: DetectorNet, examples: Batch) -> Tensor:
    """Give the cross-entropy of all scores and 1 - IoU of the boxes that matter, for each of these."""
    boxes, scores = network(examples.x)
    matters = examples.scores.any(1)
    unsure = nn.functional.binary_cross_entropy(scores, examples.scores, reduction="sum")
    apart = (1 - box_iou(boxes[matters], examples.boxes[matters])).sum()
    return (unsure + 2 * apart) / matters.sum().clamp(min=1)


def train(scenes: list[Scene], epochs: int = EPOCHS, seed: int = 0) -> DetectorNet:
    """Train a new network; the same pictures, seed and machine give the same weights, on one thread."""
    torch.manual_seed(seed)
    network = DetectorNet().train()
    examples = batch(scenes, network.centres)
    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    steps = epochs * -(-len(scenes) // BATCH_SIZE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    for _ in range(epochs):
        for chosen in torch.split(torch.randperm(len(scenes)), BATCH_SIZE):
            optimizer.zero_grad()
            loss(network, Batch(*(part[chosen] for part in examples))).backward()  # type: ignore[no-untyped-call]  # torch's own
            optimizer.step()
            schedule.step()
    return network.eval()


@dataclass(frozen=True)
class Quality:
    """How good a detector is, without non-maximum suppression.

    Attributes:
        recall: The share of shapes for which a box of that shape has a score above 0.5 and an IoU above 0.5.
        precision: The share of boxes with a score above 0.5 that overlap a shape of their kind so much.
        overlap: The mean IoU of the surest box of each shape that was found.
    """

    recall: float
    precision: float
    overlap: float


def quality(network: DetectorNet, seeds: range = range(300)) -> Quality:
    """Measure a network on pictures of 240 by 320 pixels that it never saw."""
    recalled: list[bool] = []
    correct: list[bool] = []
    overlaps: list[float] = []
    for seed in seeds:
        sample = scene(seed)
        with torch.inference_mode():
            (boxes,), (scores,) = network(prepared(sample.picture))
        height, width = sample.picture.shape[:2]
        boxes = boxes * torch.tensor([width, height]).repeat(2) / SIDE
        shapes, cells = (scores > 0.5).nonzero(as_tuple=True)
        true, kinds = torch.from_numpy(sample.boxes), torch.from_numpy(sample.shapes)
        overlap = box_iou(boxes[cells][:, None], true) * (shapes[:, None] == kinds)
        correct += (overlap > 0.5).any(1).tolist()
        for mine in overlap.T:
            hits = mine > 0.5
            recalled.append(bool(hits.any()))
            if hits.any():
                overlaps.append(float(mine[hits][scores[shapes, cells][hits].argmax()]))
    return Quality(float(np.mean(recalled)), float(np.mean(correct)), float(np.mean(overlaps)))


def main(arguments: list[str] | None = None) -> None:
    """Write the weights, or take the shipped ones, and say how good they are."""
    network = trained_network(
        __doc__, "detector.safetensors", lambda: train(training_scenes()), load_trained, arguments
    )
    reached = quality(network)
    print(f"found {reached.recall:.1%}, right {reached.precision:.1%}, mean IoU {reached.overlap:.3f}")


if __name__ == "__main__":
    main()
