"""The super-resolution network of the course, its trained weights, a photograph, and PSNR to measure quality.

The network sees brightness only: one channel, values from 0 to 1. Colour is enlarged by plain interpolation,
because the eye resolves brightness much better than colour.
"""

from importlib.resources import as_file, files

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from onnxlab.errors import OnnxLabError
from onnxlab.networks.weights import with_weights

UPSCALE_FACTOR = 3
Picture = NDArray[np.uint8]
"""Height and width first; a third axis of RGB where there is colour."""

_ASSETS = files("onnxlab") / "assets" / "super_resolution"
_WEIGHTS = _ASSETS / "super_resolution_x3.safetensors"
_PHOTOGRAPH = _ASSETS / "cat.jpg"


class SuperResolutionNet(nn.Module):
    """Four convolutions and a pixel shuffle, after Shi and others, 2016 (arXiv 1609.05158).

    The convolutions work at the small size. The last one makes `upscale_factor ** 2` channels,
    which PixelShuffle lays out as a picture `upscale_factor` times as high and as wide.

    Args:
        upscale_factor: How many times larger each side becomes. Must be a Python int.
    """

    def __init__(self, upscale_factor: int = UPSCALE_FACTOR) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 64, kernel_size=5, padding=2)
        self.conv2 = nn.Conv2d(64, 64, kernel_size=3, padding=1)
        self.conv3 = nn.Conv2d(64, 32, kernel_size=3, padding=1)
        self.conv4 = nn.Conv2d(32, upscale_factor**2, kernel_size=3, padding=1)
        self.pixel_shuffle = nn.PixelShuffle(upscale_factor)
        for conv in (self.conv1, self.conv2, self.conv3):
            nn.init.orthogonal_(conv.weight, nn.init.calculate_gain("relu"))
        nn.init.orthogonal_(self.conv4.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Enlarge brightness `x` of shape (batch, 1, height, width)."""
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        x = torch.relu(self.conv3(x))
        enlarged: Tensor = self.pixel_shuffle(self.conv4(x))
        return enlarged


def load_trained() -> SuperResolutionNet:
    """Return the network with the course's trained weights, in inference mode.

    Example:
        >>> load_trained()(torch.rand(1, 1, 10, 20)).shape
        torch.Size([1, 1, 30, 60])
    """
    return with_weights(SuperResolutionNet(UPSCALE_FACTOR), _WEIGHTS)


def photograph() -> Picture:
    """Return Chelsea the cat as an RGB array of shape (300, 450, 3). No picture of her was used in training.

    Example:
        >>> photograph().shape
        (300, 450, 3)
    """
    with as_file(_PHOTOGRAPH) as path, Image.open(path) as image:
        return np.array(image.convert("RGB"))


def resize_bicubic(picture: Picture, width: int, height: int) -> Picture:
    """Resize with Pillow's bicubic kernel (a = -0.5), widened when shrinking so that it does not alias.

    Example:
        >>> resize_bicubic(photograph(), width=150, height=100).shape
        (100, 150, 3)
    """
    return np.array(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC))


def luminance(picture: Picture) -> Picture:
    """Return the brightness Y of an RGB picture (ITU-R BT.601, full range), rounded to whole numbers.

    Example:
        >>> luminance(np.array([[[255, 0, 0], [255, 255, 255]]], dtype=np.uint8)).tolist()
        [[76, 255]]
    """
    return np.array(Image.fromarray(picture).convert("L"))


def psnr(picture: Picture, reference: Picture, border: int = UPSCALE_FACTOR) -> float:
    """Measure the peak signal-to-noise ratio in decibels; higher is closer to the reference.

    Args:
        picture: The picture to measure.
        reference: The original, of the same shape.
        border: Pixels left out at each edge, where every method has to guess.

    Example:
        >>> grey = np.full((9, 9), 100, dtype=np.uint8)
        >>> round(psnr(grey + 1, grey), 2)
        48.13
    """
    if picture.shape != reference.shape:
        what = "psnr compares pictures of one shape, not {ours.shape} with {theirs.shape}."
        then = "Resize one of them first; (height, width) is NumPy's order."
        raise OnnxLabError(what, then=then, ours=picture, theirs=reference)
    inner = (slice(border, -border or None),) * 2
    error = picture[inner].astype(np.float64) - reference[inner].astype(np.float64)
    mean_squared = float(np.mean(error**2))
    return float("inf") if mean_squared == 0 else float(10 * np.log10(255**2 / mean_squared))
