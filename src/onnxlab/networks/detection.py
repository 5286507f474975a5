"""A small detector of drawn shapes, its trained weights, and pictures to train it and to judge it with.

A box is (left, top, right, bottom) in pixels, measured from the upper left corner of a picture. The first
pixel reaches from 0 to 1, and its middle is at 0.5.
"""

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onnxlab.errors import OnnxLabError
from onnxlab.networks.weights import with_weights

SHAPES = ("ellipse", "rectangle", "triangle")
SIDE = 96
"""Height and width of the network's input, in pixels."""
STRIDE = 8
"""One candidate stands for a square of 8 by 8 of these pixels: 144 in all."""

MOST_SHAPES = 6
_WEIGHTS = files("onnxlab") / "assets" / "detector" / "detector.safetensors"

Box = NDArray[np.float64]
"""Left, top, right, bottom."""


@dataclass(frozen=True)
class Scene:
    """A drawn picture with the boxes and kinds of its shapes.

    Attributes:
        picture: RGB, of type uint8 and shape (height, width, 3).
        boxes: The smallest box around each shape, of shape (count, 4).
        shapes: Which of `SHAPES` each one is, of shape (count,).
    """

    picture: NDArray[np.uint8]
    boxes: NDArray[np.float32]
    shapes: NDArray[np.int64]


def scene(seed: int, height: int = 240, width: int = 320, count: int | None = None) -> Scene:
    """Draw ellipses, rectangles and triangles on a shaded background.

    Args:
        seed: The same seed, size and count give the same picture.
        height: Of the picture, in pixels.
        width: Of the picture, in pixels.
        count: How many shapes, from 0 to 6; by default 0 to 4, at random.

    Raises:
        OnnxLabError: If `count` is not from 0 to 6.

    Example:
        >>> drawn = scene(1, count=2)
        >>> drawn.picture.shape, drawn.boxes.shape, drawn.shapes.shape
        ((240, 320, 3), (2, 4), (2,))
    """
    random = np.random.default_rng(seed)
    if count is None:
        count = int(random.integers(0, 5))
    if not 0 <= count <= MOST_SHAPES:
        raise OnnxLabError(
            "scene(count={count}) asks for a number of shapes that is not from 0 to {most}.",
            "Each shape takes up to a fifth of the picture.",
            "Ask for fewer shapes.",
            count=count,
            most=MOST_SHAPES,
        )
    colour = random.uniform(40, 215, 3)
    picture = _background(colour, height, width, random)
    boxes, shapes = _random_boxes(count, height, width, random), random.integers(0, len(SHAPES), count)
    for box, shape in zip(boxes, shapes, strict=True):
        _paint(picture, box, SHAPES[shape], _other_colour(colour, random))
    picture += random.integers(-8, 9, picture.shape)  # the noise of a camera
    return Scene(picture.clip(0, 255).round().astype(np.uint8), boxes.astype(np.float32), shapes)


def _background(
    colour: NDArray[np.float64], height: int, width: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return a picture of one colour that becomes lighter towards one side."""
    downwards, rightwards = random.uniform(-40, 40, 2)
    light = downwards * np.linspace(-0.5, 0.5, height)[:, None] + rightwards * np.linspace(-0.5, 0.5, width)
    shaded: NDArray[np.float64] = light[..., None] + colour
    return shaded


def _other_colour(colour: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    while True:
        other = random.uniform(0, 255, 3)
        if np.abs(other - colour).max() > 90:
            return other


def _random_boxes(count: int, height: int, width: int, random: np.random.Generator) -> Box:
    """Return boxes that hardly overlap. One that does is dropped; after 100 tries all are drawn anew."""
    size = np.array([width, height])
    boxes: list[Box] = []
    tries = 0
    while len(boxes) < count:
        extent = random.uniform(0.14, 0.42, 2) * size
        corner = random.uniform(0, 1, 2) * (size - extent)
        box = np.concatenate([corner, corner + extent])
        if all(box_iou(torch.from_numpy(box), torch.from_numpy(other)) < 0.05 for other in boxes):
            boxes.append(box)
        tries += 1
        if tries % 100 == 0:
            boxes.clear()
    return np.array(boxes).reshape(-1, 4)


def _paint(picture: NDArray[np.float64], box: Box, shape: str, colour: NDArray[np.float64]) -> None:
    """Paint a shape that touches all four sides of its box, with an edge as soft as one pixel."""
    left, top, right, bottom = box
    rows = slice(max(int(top) - 1, 0), int(bottom) + 2)
    columns = slice(max(int(left) - 1, 0), int(right) + 2)
    part = picture[rows, columns]
    a, b = (right - left) / 2, (bottom - top) / 2
    # From the middle of the box to the middle of each pixel, as a share of the way to the box's sides.
    u = (np.arange(part.shape[1]) + columns.start + 0.5 - (left + right) / 2) / a
    v = (np.arange(part.shape[0])[:, None] + rows.start + 0.5 - (top + bottom) / 2) / b
    # How many pixels outside of the shape; negative inside.
    if shape == "ellipse":
        outside = (np.hypot(u, v) - 1) * min(a, b)
    elif shape == "rectangle":
        outside = np.maximum((np.abs(u) - 1) * a, (np.abs(v) - 1) * b)
    else:  # a triangle with its tip at the top
        slanted = (np.abs(u) - (v + 1) / 2) / np.hypot(1 / a, 0.5 / b)
        outside = np.maximum(slanted, (v - 1) * b)
    covered = (0.5 - outside).clip(0, 1)[..., None]
    part += covered * (colour - part)


def prepared(picture: NDArray[np.uint8]) -> Tensor:
    """Turn a picture (height, width, 3) into the network's input: floats from 0 to 1, (1, 3, 96, 96).

    The pixels' middles are aligned (`align_corners=False`), so that boxes are scaled like the picture.

    Example:
        >>> prepared(np.full((40, 60, 3), 255, dtype=np.uint8)).max()
        tensor(1.)
    """
    x = torch.from_numpy(picture).permute(2, 0, 1)[None].float() / 255
    return nn.functional.interpolate(x, (SIDE, SIDE), mode="bilinear", align_corners=False)


class DetectorNet(nn.Module):
    """Five times Conv, BatchNorm, ReLU, down to 12 by 12 cells; each cell proposes a box and scores it.

    A cell says how far the four sides of a box are from its own middle, and for each kind of shape how
    sure it is. Several cells propose the same shape: this is what non-maximum suppression is for.
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels, wider, stride in ((3, 16, 2), (16, 32, 2), (32, 48, 2), (48, 48, 1), (48, 48, 1)):
            conv = nn.Conv2d(channels, wider, 3, stride, padding=1, bias=False)
            layers += [conv, nn.BatchNorm2d(wider), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Conv2d(48, 4 + len(SHAPES), 1)
        middles = torch.arange(STRIDE / 2, SIDE, STRIDE)
        y, x = torch.meshgrid(middles, middles, indexing="ij")
        self.centres: Tensor
        self.register_buffer("centres", torch.stack([x.flatten(), y.flatten()]), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Propose boxes for pictures (batch, 3, 96, 96) with values from 0 to 1.

        Returns:
            Boxes of shape (batch, 144, 4), in pixels of `x`; scores from 0 to 1, of shape (batch, 3, 144).
        """
        proposed = self.head(self.body(x)).flatten(2).sigmoid()
        distances = proposed[:, :4] * (SIDE / 2)
        corners = [self.centres - distances[:, :2], self.centres + distances[:, 2:]]
        return torch.cat(corners, 1).transpose(1, 2), proposed[:, 4:]


def load_trained() -> DetectorNet:
    """Return the network with the course's trained weights, in inference mode.

    Example:
        >>> boxes, scores = load_trained()(torch.zeros(1, 3, 96, 96))
        >>> boxes.shape, scores.shape
        (torch.Size([1, 144, 4]), torch.Size([1, 3, 144]))
    """
    return with_weights(DetectorNet(), _WEIGHTS)


def box_iou(boxes: Tensor, others: Tensor) -> Tensor:
    """Return the overlap of boxes: the area that both cover, divided by the area that either covers.

    Args:
        boxes: Boxes, of shape (..., 4).
        others: Boxes; the shapes are broadcast.

    Example:
        >>> box_iou(torch.tensor([0.0, 0, 2, 1]), torch.tensor([[0.0, 0, 1, 1], [5, 5, 6, 6]]))
        tensor([0.5000, 0.0000])
    """
    extent = torch.minimum(boxes[..., 2:], others[..., 2:]) - torch.maximum(boxes[..., :2], others[..., :2])
    intersection = extent.clamp(min=0).prod(-1)
    area, other_area = ((corners[..., 2:] - corners[..., :2]).prod(-1) for corners in (boxes, others))
    return intersection / (area + other_area - intersection)
