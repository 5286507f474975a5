import numpy as np
import torch

from onnxlab import digits


def test_the_trained_network_recognises_nearly_all_test_pictures():
    known = digits.pictures()
    with torch.inference_mode():
        scores = digits.load_trained()(torch.from_numpy(digits.normalised(known.test))).numpy()
    assert (scores.argmax(1) == known.test_digits).mean() > 0.99


def test_no_picture_is_in_both_halves_and_every_digit_is_in_each():
    known = digits.pictures()
    assert known.training.shape == (1200, 8, 8)
    assert known.test.shape == (597, 8, 8)
    assert not {image.tobytes() for image in known.training} & {image.tobytes() for image in known.test}
    assert set(known.training_digits) == set(known.test_digits) == set(range(10))


def test_mean_and_deviation_are_those_of_the_training_pictures():
    pixels = digits.pictures().training / 16
    assert abs(pixels.mean() - digits.MEAN) < 0.002
    assert abs(pixels.std() - digits.STD) < 0.002
    assert digits.normalised(digits.pictures().training).dtype == np.float32
