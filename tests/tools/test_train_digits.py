import numpy as np
import torch

from onnxlab import digits
from tools import train_digits


def test_the_shipped_pictures_are_scikit_learns():
    images, shown = train_digits.shuffled_pictures()
    known = digits.pictures()
    assert np.array_equal(np.concatenate([known.training, known.test]), images)
    assert np.array_equal(np.concatenate([known.training_digits, known.test_digits]), shown)


def test_training_begins_the_same_every_time_and_learns():
    known = digits.pictures()
    first, second = (train_digits.train(known, epochs=1) for _ in range(2))
    for name, weight in first.state_dict().items():
        torch.testing.assert_close(weight, second.state_dict()[name], rtol=0, atol=0)
    assert train_digits.accuracy(first, known) > 0.5
