"""Test inputs: drawn from a seed, with the values at the edges among them."""

import numpy as np
import torch

__all__ = ["floats", "integers", "pictures"]


def floats(random: np.random.Generator, *shape: int, large: float = 1e30) -> torch.Tensor:
    """Return float32 numbers of many sizes, edges included: zeros, infinities, not-a-number, the largest.

    Args:
        random: Where they are drawn from.
        *shape: The shape; the edges fill as many elements as there are.
        large: The largest finite magnitude.

    Example:
        >>> floats(np.random.default_rng(0), 3, 7).isnan().sum().item()
        1
    """
    edges = np.array(
        [0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 1e4, -1e4, large, -large, np.inf, -np.inf, np.nan], np.float32
    )
    count = int(np.prod(shape))
    drawn = random.normal(size=count) * 10.0 ** random.integers(-3, 4, size=count)
    values = drawn.astype(np.float32)
    places = random.permutation(count)[: len(edges)]
    values[places] = edges[: len(places)]
    return torch.from_numpy(values.reshape(shape))


def integers(random: np.random.Generator, dtype: torch.dtype, count: int) -> torch.Tensor:
    """Return whole numbers of a type, its edges included: smallest, largest, 0, 1, -1 and their neighbours.

    Example:
        >>> integers(np.random.default_rng(0), torch.int8, 20).min().item()
        -128
    """
    limits = torch.iinfo(dtype)
    edges = [limits.min, limits.max, 0, 1, limits.min + 1, limits.max - 1]
    edges += [-1, -2, -5] if limits.min < 0 else [200, 128, 5]
    drawn = random.integers(limits.min, limits.max, size=max(count - len(edges), 0), endpoint=True)
    values = np.concatenate([np.array(edges[:count]), drawn])
    return torch.tensor(random.permutation(values).tolist(), dtype=dtype)


def pictures(random: np.random.Generator, *shape: int) -> torch.Tensor:
    """Return float32 numbers between 0 and 1, as the pixels of pictures.

    Example:
        >>> tuple(pictures(np.random.default_rng(0), 1, 3, 4, 5).shape)
        (1, 3, 4, 5)
    """
    return torch.from_numpy(random.random(shape, dtype=np.float32))
