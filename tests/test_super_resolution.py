import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from onnxlab import super_resolution
from onnxlab.errors import ModelNotReadable, OnnxLabError
from onnxlab.super_resolution import (
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


def test_trained_network_is_in_inference_mode_and_gives_the_same_every_time():
    first, second = load_trained(), load_trained()
    assert not first.training
    assert first is not second
    x = torch.rand(1, 1, 9, 12)
    torch.testing.assert_close(first(x), second(x), rtol=0, atol=0)


def test_weights_are_small_and_finite():
    weights = load_trained().state_dict()
    assert sum(weight.numel() for weight in weights.values()) == 59_657
    assert all(weight.dtype == torch.float32 and weight.isfinite().all() for weight in weights.values())


def test_a_flat_picture_stays_flat():
    x = torch.full((1, 1, 30, 40), 0.5)
    with torch.no_grad():
        inner = load_trained()(x)[0, 0, 18:-18, 18:-18]  # away from the zero padding
    assert (inner - 0.5).abs().max() < 0.05


@pytest.mark.parametrize("damage", ["missing", "not safetensors", "another network"])
def test_damaged_weights_are_named_in_the_error(damage, tmp_path, monkeypatch):
    path = tmp_path / "super_resolution_x3.safetensors"
    if damage == "not safetensors":
        path.write_bytes(b"not weights")
    elif damage == "another network":
        save_file({"conv9.weight": torch.ones(1)}, path)
    monkeypatch.setattr(super_resolution, "_WEIGHTS", path)
    with pytest.raises(ModelNotReadable, match=r"super_resolution_x3\.safetensors") as caught:
        load_trained()
    assert len(str(caught.value).splitlines()) <= 3


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
