"""A small classifier of handwritten digits, its trained weights, pictures to calibrate and to test it with.

The pictures are 8 by 8 pixels with values from 0 to 16. The network wants them normalised: see `normalised`.
"""

from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from onnxlab.networks.weights import with_weights

MEAN, STD = 0.305, 0.376
"""Mean and standard deviation of the training pictures' pixels, divided by 16."""

TRAINING_PICTURES = 1200
_ASSETS = files("onnxlab") / "assets" / "digits"
_WEIGHTS = _ASSETS / "digits.safetensors"
_PICTURES = _ASSETS / "digits.npz"


@dataclass(frozen=True)
class Pictures:
    """Handwritten digits as they are stored: grey values from 0 to 16, of shape (count, 8, 8).

    Attributes:
        training: 1200 pictures that the network was trained on; calibrate with these.
        training_digits: Their digits, 0 to 9.
        test: 597 pictures that it was not trained on; test with these.
        test_digits: Their digits.
    """

    training: NDArray[np.uint8]
    training_digits: NDArray[np.int64]
    test: NDArray[np.uint8]
    test_digits: NDArray[np.int64]


class DigitsNet(nn.Module):
    """Three times Conv, BatchNorm, ReLU (16, 32, 64 channels); a mean over height and width; a Linear."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels, wider, stride in ((1, 16, 1), (16, 32, 2), (32, 64, 2)):
            conv = nn.Conv2d(channels, wider, 3, stride, padding=1, bias=False)
            layers += [conv, nn.BatchNorm2d(wider), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score for each digit, of shape (batch, 10), for normalised pictures (batch, 1, 8, 8)."""
        scores: Tensor = self.head(self.body(x).mean((2, 3)))
        return scores


def load_trained() -> DigitsNet:
    """Return the network with the course's trained weights, in inference mode.

    Example:
        >>> import torch
        >>> load_trained()(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    return with_weights(DigitsNet(), _WEIGHTS)


def pictures() -> Pictures:
    """Return the pictures: scikit-learn's digits, shuffled once with seed 0.

    Example:
        >>> pictures().test.shape, int(pictures().training.max())
        ((597, 8, 8), 16)
    """
    with as_file(_PICTURES) as path, np.load(path) as stored:
        return split(stored["images"], stored["digits"])


def split(images: NDArray[np.uint8], digits: NDArray[np.uint8]) -> Pictures:
    """Divide all pictures into the first 1200, for training, and the rest, for testing.

    Example:
        >>> len(split(np.zeros((1797, 8, 8), np.uint8), np.zeros(1797, np.uint8)).test)
        597
    """
    labels, cut = digits.astype(np.int64), TRAINING_PICTURES
    return Pictures(images[:cut], labels[:cut], images[cut:], labels[cut:])


def normalised(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn stored pictures (count, 8, 8) into the network's input: float32 of shape (count, 1, 8, 8).

    Example:
        >>> normalised(np.full((1, 8, 8), 16, dtype=np.uint8))[0, 0, 0, 0]
        np.float32(1.8484043)
    """
    return ((images[:, None].astype(np.float32) / 16 - MEAN) / STD).astype(np.float32)
