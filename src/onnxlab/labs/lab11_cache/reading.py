"""Texts read in pieces, and what a model with a cache must return for each piece."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from onnxlab.labs.lab11_cache.decoder import LONGEST, VOCABULARY
from onnxlab.message import Message
from onnxlab.model.distance import Array

ADVICE = {
    "alone": "One token that nothing precedes sees itself and nothing else. If your mask allows that, "
    "compare weights, heads, scale and the position 0 with the decoder's own forward.",
    "first": "Nothing is cached here. Which tokens may each of the new tokens see?",
    "one": "Which place does the new token have? It may see all of the cache, and itself.",
    "several": "The first of the new tokens sees the cache and itself, the last one sees all. "
    "Write this mask down for the sizes shown: a row for each new token.",
    "cache": "The output is the cache that came in, then what is new, along the axis of tokens.",
    "stop": "Is a size of the example a constant in this graph? The runtime names the node.",
}
"""Where to look, by the kind of the piece whose logits are wrong, and for a wrong cache or an error."""


@dataclass(frozen=True)
class Reading:
    """A text, and how much of it is read at a time.

    Attributes:
        where: What it is an example of, for messages.
        ids: The tokens, [batch, tokens].
        sizes: The number of tokens of each piece.
    """

    where: str
    ids: Array = field(repr=False)
    sizes: tuple[int, ...]

    def pieces(self) -> list[tuple[int, int]]:
        """Return the first token of each piece, and the one after its last."""
        return list(pairwise([0, *np.cumsum(self.sizes).tolist()]))

    def describe(self, begin: int, end: int) -> str:
        """Return a piece in words."""
        count, batch = end - begin, len(self.ids)
        tokens = Message("1 new token") if count == 1 else Message("{count} new tokens", count=count)
        if begin:
            return Message(
                "{tokens} after a cache of {size}, batch of {batch}", tokens=tokens, size=begin, batch=batch
            )
        return Message("{tokens} and an empty cache, batch of {batch}", tokens=tokens, batch=batch)


def readings(random: np.random.Generator) -> Iterator[Reading]:
    """Draw texts and the sizes of their pieces."""

    def few() -> int:
        return int(random.integers(2, 6))

    # Every second text is read by the same module. Two of these have one batch: what a module keeps for a
    # batch is another text's.
    same, (one, two, *others) = few(), random.permutation([1, 2, 3, 4, 7]).tolist()
    batches = [one, others[0], one, two, others[1], two, others[2]]
    nearly_all = few()
    for batch, (where, sizes) in zip(
        batches,
        (
            # First what no mask and no cache decides: what fails later then says why.
            (Message("one token at a time from the start"), (1,) * (few() + few())),
            (Message("the whole text at once"), (few() + few(),)),
            (Message("some tokens, then one at a time"), (few(), 1, 1, 1)),
            (Message("several tokens at a time"), (few(), few(), few())),
            (Message("as many new tokens as there are cached"), (same, same, 2 * same)),
            (Message("a cache up to the last position"), (LONGEST - nearly_all - 2, 1, nearly_all, 1)),
            (Message("the longest text at once"), (LONGEST,)),
        ),
        strict=True,
    ):
        yield Reading(where, random.integers(VOCABULARY, size=(batch, sum(sizes))), sizes)
