"""Texts read in pieces: what a model with a cache has to give, whatever is read at a time."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import onnx

from onnxlab.labs.kit.judging import UNLIKE, evidence, first_apart
from onnxlab.labs.kit.outcome import Difference, Evidence, Wrong
from onnxlab.labs.lab11_cache.decoder import LONGEST, VOCABULARY
from onnxlab.model.distance import Array
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session

__all__ = ["LOOKS", "Reading", "readings", "require_names", "require_piece", "require_read"]

LOOKS = {
    "first": "Nothing is cached here. Which tokens may each of the new tokens see?",
    "one": "Which place does the new token have? It may see all of the cache, and itself.",
    "several": "The first of the new tokens sees the cache and itself, the last one sees all. "
    "Write this mask down for the sizes shown: a row for each new token.",
    "cache": "What comes out is the cache that came in, and behind it what is new, along the tokens.",
    "stop": "Is a size of the example a constant in this graph? The runtime names the node.",
}
"""Where to look, by the kind of piece whose numbers are wrong, and by what else can be wrong."""


@dataclass(frozen=True)
class Reading:
    """A text, and how much of it is read at a time.

    Attributes:
        where: What it is, for messages.
        ids: The tokens, [batch, tokens].
        sizes: How many tokens each piece has.
    """

    where: str
    ids: Array = field(repr=False)
    sizes: tuple[int, ...]

    def pieces(self) -> list[tuple[int, int]]:
        """Where each piece begins and ends."""
        return list(pairwise([0, *np.cumsum(self.sizes).tolist()]))

    def given(self, begin: int, end: int) -> str:
        """Say in words what a piece is."""
        tokens = f"{end - begin} new token{'s' if end - begin > 1 else ''}"
        behind = f"behind a cache of {begin}" if begin else "and an empty cache"
        return f"{tokens} {behind}, batch of {len(self.ids)}"


def readings(random: np.random.Generator) -> Iterator[Reading]:
    """Draw texts, and pieces to read them in."""

    def few() -> int:
        return int(random.integers(2, 6))

    long = int(random.integers(LONGEST // 3, LONGEST // 2))
    for where, sizes in (
        ("The whole text at once", (few() + few(),)),
        ("Some tokens, then one at a time", (few(), 1, 1, 1)),
        ("One token at a time from the start", (1, 1, 1, 1)),
        ("Several tokens at a time", (few(), few(), few())),
        ("A long cache", (long, 1, few(), 1)),
    ):
        ids = random.integers(VOCABULARY, size=(int(random.integers(1, 5)), sum(sizes)))
        yield Reading(where, ids, sizes)


def require_names(
    model: onnx.ModelProto, inputs: Collection[str], outputs: Collection[str], where: str, look_at: str
) -> None:
    """Require the names of a model's inputs and outputs, in any order."""
    weights = {each.name for each in model.graph.initializer}
    for kind, wanted, got in (
        ("inputs", inputs, [each.name for each in model.graph.input if each.name not in weights]),
        ("outputs", outputs, [each.name for each in model.graph.output]),
    ):
        if sorted(wanted) != sorted(got):
            difference = Difference(f"{where}: {kind}", ", ".join(wanted), ", ".join(got) or "none")
            msg = f"{where}: the {kind} of the model have other names than they should."
            raise Wrong(msg, look_at, difference=difference, evidence=evidence(model))


def require_read(
    model: onnx.ModelProto,
    reading: Reading,
    right: Mapping[str, Array],
    caches: Mapping[str, str],
    looks: Mapping[str, str] = LOOKS,
    *,
    ids: str = "ids",
    where: str = "",
) -> None:
    """Require that a model reads a text piece by piece as one without a cache reads all of it at once.

    Args:
        model: The model.
        reading: The text and its pieces.
        right: What the outputs are for the whole text, by name: the caches, and one other, the logits.
        caches: The output that holds a cache, by the name of the input that takes it.
        looks: Where to look, as `LOOKS`.
        ids: The name of the input for the tokens.
        where: Which model it is, for messages.

    Raises:
        Wrong: With the first piece that is read wrongly.
    """
    where = f"{where or 'The model'}, {reading.where.lower()}"
    session, outputs = open_session(model), list(right)
    cache = {name: right[output][:, :, :0] for name, output in caches.items()}
    for begin, end in reading.pieces():
        try:
            arrays = session.run(outputs, {ids: reading.ids[:, begin:end], **cache})
        except Exception as error:  # the runtime raises many kinds
            difference = Difference(reading.given(begin, end), "logits and a cache", "an error")
            msg = f"{where}: ONNX Runtime stops: {short_reason(error)}"
            raise Wrong(msg, looks["stop"], difference=difference, evidence=evidence(model)) from None
        got = dict(zip(outputs, map(np.asarray, arrays), strict=True))
        require_piece(got, reading, (begin, end), right, caches, looks, where=where, shown=evidence(model))
        cache = {name: got[output] for name, output in caches.items()}


def require_piece(
    got: Mapping[str, Array],
    reading: Reading,
    piece: tuple[int, int],
    right: Mapping[str, Array],
    caches: Mapping[str, str],
    looks: Mapping[str, str] = LOOKS,
    *,
    where: str,
    shown: Evidence | None = None,
) -> None:
    """Require what came out for one piece: the logits of its tokens, and the caches up to its end."""
    begin, end = piece
    for name, whole in right.items():
        is_cache = name in caches.values()
        expected = whole[:, :, :end] if is_cache else whole[:, begin:end]
        kind = "first" if not begin else "one" if end - begin == 1 else "several"
        look = looks["cache" if is_cache else kind]
        given, actual = f"{reading.given(begin, end)}; {name}", got[name]
        if actual.dtype != expected.dtype or actual.shape != expected.shape:
            sides = [f"{array.dtype}{list(array.shape)}" for array in (expected, actual)]
            msg = f"{where}: {name} has another shape or type than it should."
            look = look if actual.dtype == expected.dtype else UNLIKE["type"][1]
            raise Wrong(msg, look, difference=Difference(given, *sides), evidence=shown)
        place = first_apart(expected, actual)
        if place is not None:
            numbers = f"{expected[place]:.5g}", f"{actual[place]:.5g}"
            msg = f"{where}: {name} {'holds' if is_cache else 'has'} other numbers than without a cache."
            difference = Difference(f"{given} at {list(place)}", *numbers)
            raise Wrong(msg, look, difference=difference, evidence=shown)
