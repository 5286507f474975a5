"""A small decoder with a cache, which was trained on four poems until it knew them by heart.

Its tokens are bytes. The keys and values of earlier tokens, for each layer, are its input `past`; it returns
them with those of the new tokens added. docs/weights.md says how it was trained.
"""

from collections.abc import Callable, Sequence
from importlib.resources import files

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from onnxlab.networks.weights import with_weights

LAYERS, HEADS, HEAD_SIZE = 2, 4, 16
WIDTH = HEADS * HEAD_SIZE
VOCABULARY = 256

Cache = Sequence[tuple[Tensor, Tensor]]
"""For each layer the keys and the values of the tokens so far, both (batch, HEADS, past, HEAD_SIZE)."""

Attend = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""Called with query, key and value of the new tokens, past key and past value; see `attend`."""

_ASSETS = files("onnxlab") / "assets" / "gpt"
_WEIGHTS = _ASSETS / "gpt.safetensors"
_POEMS = _ASSETS / "poems.txt"


def attend(
    query: Tensor, key: Tensor, value: Tensor, past_key: Tensor, past_value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Let each new token attend to all tokens before it and to itself.

    Args:
        query: Of the new tokens, (batch, heads, new, size); `key` and `value` have the same shape.
        key: Of the new tokens.
        value: Of the new tokens.
        past_key: Of the tokens before, (batch, heads, past, size); `past_value` has the same shape.
        past_value: Of the tokens before.

    Returns:
        The answer (batch, heads, new, size), and all keys and values, (batch, heads, past + new, size).
    """
    past, key, value = past_key.shape[2], torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
    total = key.shape[2]
    mask = torch.arange(total)[None, :] <= torch.arange(past, total)[:, None]
    return scaled_dot_product_attention(query, key, value, attn_mask=mask), key, value


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square.

    The TorchScript exporter refuses `torch.nn.RMSNorm`, so it is written out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """Scale `x` of shape (batch, new, WIDTH)."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Block(nn.Module):
    """One layer: attention, then two Linear with a GELU between, each added to its input."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.attend = attend
        self.before_attention, self.before_feed = RMSNorm(), RMSNorm()
        self.into = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(
        self, x: Tensor, angles: Tensor, past_key: Tensor, past_value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the new `x` (batch, new, WIDTH), and the keys and values of all tokens so far."""
        split = self.into(self.before_attention(x)).unflatten(-1, (3, HEADS, HEAD_SIZE))
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        query, key = _rotated(query, angles), _rotated(key, angles)
        answer, keys, values = self.attend(query, key, value, past_key, past_value)
        x = x + self.out(answer.transpose(1, 2).flatten(2))
        return x + self.feed(self.before_feed(x)), keys, values


class GPT(nn.Module):
    """Two layers, four heads, a width of 64, rotary positions, a vocabulary of 256 bytes; 132,032 parameters.

    Args:
        attend: The attention of new tokens to earlier ones. Chapter 17 puts wrong ones in its place.
    """

    def __init__(self, attend: Attend = attend) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(attend) for _ in range(LAYERS))
        self.norm, self.head = RMSNorm(), nn.Linear(WIDTH, VOCABULARY, bias=False)
        steps = torch.arange(HEAD_SIZE // 2) / (HEAD_SIZE // 2)
        self.frequencies: Tensor
        self.register_buffer("frequencies", 10000.0**-steps, persistent=False)

    def forward(
        self, tokens: Tensor, past: Cache, positions: Tensor | None = None
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Return scores for the token after each new token.

        Args:
            tokens: The new tokens, whole numbers (batch, new).
            past: The cache of all tokens before; see `cache` for an empty one.
            positions: The positions of the new tokens, whole numbers (new,); by default right after the past.

        Returns:
            The scores (batch, new, VOCABULARY), and the cache with the new tokens.
        """
        if positions is None:
            length = past[0][0].shape[2]
            positions = torch.arange(length, length + tokens.shape[1])
        angles = positions[:, None] * self.frequencies
        x = self.embedding(tokens)
        present: list[tuple[Tensor, Tensor]] = []
        for block, (past_key, past_value) in zip(self.blocks, past, strict=True):
            x, key, value = block(x, angles, past_key, past_value)
            present.append((key, value))
        return self.head(self.norm(x)), present


def cache(batch: int = 1, length: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Return a cache to begin with, or, with a length, one of random numbers as an example for an export.

    Example:
        >>> [key.shape for key, _ in cache(batch=2)]
        [torch.Size([2, 4, 0, 16]), torch.Size([2, 4, 0, 16])]
    """
    shape = (batch, HEADS, length, HEAD_SIZE)
    return [(torch.randn(shape), torch.randn(shape)) for _ in range(LAYERS)]


def load_trained(attend: Attend = attend) -> GPT:
    """Return the network with the course's trained weights, in inference mode.

    Args:
        attend: The attention of new tokens to earlier ones; the weights are the same.

    Example:
        >>> scores, present = load_trained()(torch.tensor([list(b"Jabber")]), cache())
        >>> scores.shape, chr(scores[0, -1].argmax()), present[0][0].shape
        (torch.Size([1, 6, 256]), 'w', torch.Size([1, 4, 6, 16]))
    """
    return with_weights(GPT(attend), _WEIGHTS)


def poems() -> str:
    r"""Return the text that the network was trained on: four poems, each below a title.

    Example:
        >>> [poem.splitlines()[0] for poem in poems().split("\n\n\n") if poem]
        ['Jabberwocky', 'The Crocodile', 'The Eagle', 'The Wind']
    """
    return _POEMS.read_text(encoding="ascii")


def _rotated(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary positions: turn the pairs of numbers in `x` (batch, HEADS, new, HEAD_SIZE) by `angles`."""
    first, second = x[..., : HEAD_SIZE // 2], x[..., HEAD_SIZE // 2 :]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)
