"""The digits classifier and its pictures."""

import numpy as np

from onnxlab import digits


def test_no_picture_is_in_both_halves_and_every_digit_is_in_each():
    pictures = digits.pictures()
    assert pictures.training.shape == (1200, 8, 8)
    assert pictures.test.shape == (597, 8, 8)
    assert not {image.tobytes() for image in pictures.training} & {image.tobytes() for image in pictures.test}
    assert set(pictures.training_digits) == set(pictures.test_digits) == set(range(10))


def test_mean_and_deviation_are_those_of_the_training_pictures():
    pixels = digits.pictures().training / 16
    assert abs(pixels.mean() - digits.MEAN) < 0.002
    assert abs(pixels.std() - digits.STD) < 0.002
    assert digits.normalised(digits.pictures().training).dtype == np.float32
