import numpy as np
import torch

from onnxlab import digits
from tools import train_digits


def test_the_shipped_pictures_are_scikit_learns():
    images, shown = train_digits.shuffled_pictures()
    stored = digits.pictures()
    assert np.array_equal(np.concatenate([stored.training, stored.test]), images)
    assert np.array_equal(np.concatenate([stored.training_digits, stored.test_digits]), shown)


def test_training_begins_the_same_every_time_and_learns():
    pictures = digits.pictures()
    first, second = (train_digits.train(pictures, epochs=1) for _ in range(2))
    for name, weight in first.state_dict().items():
        torch.testing.assert_close(weight, second.state_dict()[name], rtol=0, atol=0)
    assert train_digits.accuracy(first, pictures) > 0.5
