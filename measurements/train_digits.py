"""Make the two files of the digits classifier: the pictures and the trained weights.

Run `python -m measurements.train_digits`. It needs scikit-learn (in the `test` extra), whose wheel contains the
pictures: nothing is downloaded. docs/weights.md keeps the figures of the shipped files.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn

from onnxlab.networks.digits import DigitsNet, Pictures, load_trained, normalised, pictures, split

EPOCHS = 15
BATCH_SIZE = 64
LEARNING_RATE = 3e-3


def shuffled_pictures() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Give scikit-learn's pictures, (1797, 8, 8) from 0 to 16, and their digits, shuffled with seed 0."""
    stored = load_digits()
    order = np.random.default_rng(0).permutation(len(stored.target))
    return stored.images[order].astype(np.uint8), stored.target[order].astype(np.uint8)


def train(stored: Pictures, epochs: int = EPOCHS, seed: int = 0) -> DigitsNet:
    """Train a new network on the training pictures; the same seed and machine give the same weights."""
    torch.manual_seed(seed)
    network = DigitsNet().train()
    optimizer = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    x, digits = torch.from_numpy(normalised(stored.training)), torch.from_numpy(stored.training_digits)
    for _ in range(epochs):
        shuffled = torch.randperm(len(x))
        for chosen in torch.split(shuffled, BATCH_SIZE):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x[chosen]), digits[chosen]).backward()  # type: ignore[no-untyped-call]  # torch's own
            optimizer.step()
    return network.eval()


def accuracy(network: DigitsNet, stored: Pictures) -> float:
    """Give the share of test pictures that are recognised, from 0 to 1."""
    with torch.inference_mode():
        scores = network(torch.from_numpy(normalised(stored.test))).numpy()
    return float((scores.argmax(1) == stored.test_digits).mean())


def main(arguments: list[str] | None = None) -> None:
    """Write both files into a folder, or say how good the shipped weights are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("digits"), help="folder for the two files")
    parser.add_argument("--evaluate", action="store_true", help="measure the shipped weights")
    options = parser.parse_args(arguments)
    if options.evaluate:
        print(f"{accuracy(load_trained(), pictures()):.1%} of 597 test pictures")
        return
    options.output.mkdir(parents=True, exist_ok=True)
    images, digits = shuffled_pictures()
    np.savez_compressed(options.output / "digits.npz", images=images, digits=digits)
    stored = split(images, digits)
    network = train(stored)
    save_file(network.state_dict(), options.output / "digits.safetensors")
    print(f"{accuracy(network, stored):.1%} of 597 test pictures")


if __name__ == "__main__":
    main()
