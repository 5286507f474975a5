"""Small decoders with drawn weights: one without a cache, and one step with it; the ONNX model of a step."""

import math
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

VOCABULARY = 20
LONGEST = 64
"""Tokens of the longest text: the number of position embeddings."""

Module = TypeVar("Module", bound=nn.Module)
Pairs: TypeAlias = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values, layer by layer; each [batch, heads, tokens, size]."""


class Decoder(nn.Module):
    """One layer of attention that reads a whole text at once, without a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, 16), nn.Embedding(LONGEST, 16)
        self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.head = nn.Linear(16, VOCABULARY)

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """Split [batch, tokens, 16] into two heads: [batch, 2, tokens, 8]."""
        return x.reshape(*x.shape[:2], 2, 8).transpose(1, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of all tokens, [batch, tokens, 20], for their ids, [batch, tokens]."""
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        query, key, value = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        y = scaled_dot_product_attention(query, key, value, is_causal=True)
        logits: torch.Tensor = self.head(x + y.transpose(1, 2).flatten(2))
        return logits


class Step(nn.Module):
    """One step of a decoder: reads new tokens after those in the cache.

    Args:
        layers: How many layers of attention.
        heads: The heads of each layer; a head has size 4.
    """

    def __init__(self, layers: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, 4
        width = heads * self.size
        self.token, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(LONGEST, width)
        self.layers = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(
        self, ids: torch.Tensor, past: Pairs
    ) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]]:
        """Return the logits of the new tokens, the keys of all layers, and the values of all layers."""
        before, new = past[0][0].shape[2], ids.shape[1]
        positions = torch.arange(before, before + new)
        mask = torch.arange(before + new) <= positions[:, None]
        x, keys, values = self.token(ids) + self.position(positions), [], []
        for layer, (key, value) in zip(self.layers, past, strict=True):
            parts = layer(x).unflatten(-1, (3, self.heads, self.size)).permute(2, 0, 3, 1, 4)
            query, new_key, new_value = parts.contiguous().unbind(0)
            keys.append(torch.cat([key, new_key], 2))
            values.append(torch.cat([value, new_value], 2))
            y = scaled_dot_product_attention(query, keys[-1], values[-1], attn_mask=mask)
            x = x + y.transpose(1, 2).flatten(2)
        return self.head(x), keys, values


def draw_weights(random: np.random.Generator, module: Module) -> Module:
    """Draw a module's weights: embeddings of size 1, others such that sums are about as large as inputs.

    Layers add to what they read: the more there are, the less each adds, or rounding would grow with them.
    Scores of a `Decoder` are large: a mask of -20 does not hide a token whose score is higher by as much.
    """
    depth = len(module.layers) if isinstance(module, Step) else 1
    with torch.no_grad():
        for name, weights in module.named_parameters():
            is_embedding = name.startswith(("token", "position"))
            size = 1.0 if is_embedding else 1.0 / math.sqrt(weights.shape[-1])
            if name.startswith("layers"):
                size /= math.sqrt(depth)
            elif name.startswith("query"):
                size *= 3
            weights.copy_(torch.from_numpy(size * random.normal(size=tuple(weights.shape))))
    return module.eval()


def changed_part(module: nn.Module, original: nn.Module) -> str | None:
    """Return the name of a weight or of its setting in which a module differs from what it was, or None.

    The training flag does not count: the TorchScript exporter sets it again from the module around the step.
    """
    weights, expected = module.state_dict(), original.state_dict()
    for name in (*expected, *weights):
        if name not in weights or name not in expected or not torch.equal(weights[name], expected[name]):
            return name
    for name, parameter in original.named_parameters():
        if module.get_parameter(name).requires_grad != parameter.requires_grad:
            return f"{name}.requires_grad"
    return None
