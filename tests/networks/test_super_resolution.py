"""The super-resolution network, the photograph, and PSNR."""

import numpy as np
import pytest
import torch
from PIL import Image

from onnxlab import super_resolution
from onnxlab.errors import OnnxLabError
from onnxlab.networks.super_resolution import (
    SuperResolutionNet,
    load_trained,
    luminance,
    photograph,
    psnr,
    resize_bicubic,
)


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_network_enlarges_each_side_by_its_factor(factor):
    assert SuperResolutionNet(factor)(torch.rand(2, 1, 7, 11)).shape == (2, 1, 7 * factor, 11 * factor)


def test_a_flat_picture_stays_flat():
    x = torch.full((1, 1, 30, 40), 0.5)
    with torch.no_grad():
        inner = load_trained()(x)[0, 0, 18:-18, 18:-18]  # away from the zero padding
    assert (inner - 0.5).abs().max() < 0.05


def test_photograph_is_not_square_and_divides_by_the_factor():
    height, width, channels = photograph().shape
    assert (height, width, channels) == (300, 450, 3)
    assert photograph().dtype == np.uint8
    red, _, blue = photograph().mean(axis=(0, 1))
    assert red > blue + 20  # the order is RGB: the cat is red rather than blue


def test_photograph_is_scikit_images_cat():
    skimage = pytest.importorskip("skimage.data")
    assert psnr(luminance(photograph()), luminance(skimage.chelsea()[:300, :450])) > 40


def test_photograph_can_be_changed_without_changing_the_next_one():
    photograph()[:] = 0
    assert photograph().max() > 200


def test_shrinking_does_not_alias():
    stripes = np.tile(np.array([0, 255], dtype=np.uint8), (60, 30))
    inner = resize_bicubic(stripes, width=20, height=20)[:, 2:-2].astype(int)
    assert np.abs(inner - 127.5).max() < 30  # taking every third pixel would keep black and white


def test_resize_takes_width_before_height_by_name():
    assert resize_bicubic(photograph(), width=45, height=30).shape == (30, 45, 3)


def test_luminance_is_that_of_opencv():
    cv2 = pytest.importorskip("cv2")
    other = cv2.cvtColor(photograph(), cv2.COLOR_RGB2YCrCb)[..., 0]
    assert np.abs(luminance(photograph()).astype(int) - other.astype(int)).max() <= 1


def test_psnr_of_a_known_error():
    reference = np.full((20, 30), 100, dtype=np.uint8)
    assert psnr(reference + 10, reference) == pytest.approx(28.1308, abs=1e-4)
    assert psnr(reference, reference) == float("inf")


def test_psnr_leaves_the_border_out():
    reference = np.zeros((20, 30), dtype=np.uint8)
    picture = reference.copy()
    picture[:3] = picture[:, -3:] = 255
    assert psnr(picture, reference) == float("inf")
    assert psnr(picture, reference, border=0) < 10


def test_psnr_refuses_pictures_of_different_shapes():
    with pytest.raises(OnnxLabError, match=r"\(2, 3\) with \(3, 2\)"):
        psnr(np.zeros((2, 3), dtype=np.uint8), np.zeros((3, 2), dtype=np.uint8))


def test_the_licence_ships_beside_the_photograph():
    folder = super_resolution._PHOTOGRAPH.parent
    assert "CC0 1.0 Universal" in (folder / "CC0-1.0.txt").read_text(encoding="utf-8")
    assert "Stéfan van der Walt" in (folder / "README.md").read_text(encoding="utf-8")
    assert (folder / "cat.jpg").stat().st_size < 150_000
    with Image.open(folder / "cat.jpg") as image:
        assert not image.getexif()
