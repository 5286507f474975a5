"""The trained detector, its drawn scenes, and the overlap of boxes."""

import numpy as np
import pytest
import torch

from onnxlab.errors import OnnxLabError
from onnxlab.networks.detection import SIDE, box_iou, prepared, scene


def test_the_seed_decides_the_scene():
    first, second, other = scene(3), scene(3), scene(4)
    assert np.array_equal(first.picture, second.picture)
    assert np.array_equal(first.boxes, second.boxes)
    assert not np.array_equal(first.picture, other.picture)


@pytest.mark.parametrize(("height", "width"), [(240, 320), (97, 301), (480, 360)])
def test_a_scene_has_the_requested_size_and_number_of_shapes(height, width):
    for count in (0, 1, 6):
        drawing = scene(0, height, width, count)
        assert drawing.picture.shape == (height, width, 3)
        assert drawing.picture.dtype == np.uint8
        assert drawing.boxes.shape == (count, 4)
        assert drawing.shapes.shape == (count,)
        assert (drawing.boxes >= 0).all()
        assert (drawing.boxes <= [width, height, width, height]).all()


def test_seven_shapes_find_no_room():
    with pytest.raises(OnnxLabError, match="0 to 6"):
        scene(0, count=7)


@pytest.mark.parametrize("seed", range(6))
def test_a_box_is_the_smallest_around_its_shape(seed):
    """The pixels that differ from the background reach its four sides, and no further."""
    drawing = scene(seed, 240, 320, 1)
    # Most pixels are background.
    background = np.median(drawing.picture.reshape(-1, 3).astype(int), axis=0)
    left, top, right, bottom = drawing.boxes[0]
    changed = np.abs(drawing.picture.astype(int) - background).max(2) > 65
    rows, columns = changed.any(1).nonzero()[0], changed.any(0).nonzero()[0]
    extent = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    # An ellipse and a tip touch their sides with a few pixels only, which may be pale.
    assert np.abs(np.array(extent) - [left, top, right, bottom]).max() < 4


def test_the_overlap_of_boxes():
    box = torch.tensor([0.0, 0.0, 10.0, 10.0])
    others = torch.tensor([[0.0, 0, 10, 10], [5, 0, 15, 10], [10, 0, 20, 10], [2, 2, 4, 4]])
    torch.testing.assert_close(box_iou(box, others), torch.tensor([1, 50 / 150, 0, 0.04]))
    assert box_iou(others[:, None], others).shape == (4, 4)


def test_a_prepared_picture_keeps_the_middle_of_a_shape():
    white = np.zeros((240, 320, 3), np.uint8)
    left, top, right, bottom = 40, 60, 200, 180
    white[top:bottom, left:right] = 255
    brightness = prepared(white)[0, 0]
    middles = torch.arange(SIDE) + 0.5
    x, y = ((brightness.sum(axis) * middles).sum() / brightness.sum() for axis in (0, 1))
    assert abs(x * 320 / SIDE - (left + right) / 2) < 1.2
    assert abs(y * 240 / SIDE - (top + bottom) / 2) < 1.2
