"""Lining up two sequences as a text diff does, in time that grows with their length, not its square."""

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

__all__ = ["aligned"]

# Stretches of at most so many elements on either side are left to difflib. It takes cubic time at worst, and
# a network is what is worst for it: the same few operators over and over.
_SHORT = 64
_CONTEXTS = (1, 4, 16)  # elements looked at together, to find a row that is unique
_DEPTH = 6  # cuts at unique rows that may follow one another, each of which reads a stretch once


class _Stretch(NamedTuple):
    """The elements from `start` to `end` of one sequence, beside those of the other, after `depth` cuts."""

    start: int
    end: int
    other_start: int
    other_end: int
    depth: int


def aligned(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the places of equal elements that belong together, rising on both sides.

    Short sequences are lined up by `difflib.SequenceMatcher`. Longer ones are first cut where they agree on
    something that each has only once (a "patience diff"): an element or, failing that, a row of 4 or
    16. Where nothing is unique they are cut in the middle.

    Example:
        >>> aligned("abcd", "xacd")
        [(0, 1), (2, 2), (3, 3)]
    """
    # Small numbers stand for the elements, which may be large and slow to hash.
    numbers: dict[Hashable, int] = {}
    a, b = ([numbers.setdefault(item, len(numbers)) for item in side] for side in (ours, theirs))
    pairs: list[tuple[int, int]] = []
    stretches = [_Stretch(0, len(a), 0, len(b), 0)]
    while stretches:
        start, end, other_start, other_end, depth = stretches.pop()
        if max(end - start, other_end - other_start) <= _SHORT:
            matcher = SequenceMatcher(None, a[start:end], b[other_start:other_end], autojunk=False)
            for i, j, size in matcher.get_matching_blocks():
                pairs += [(start + i + k, other_start + j + k) for k in range(size)]
            continue
        while start < end and other_start < other_end and a[start] == b[other_start]:
            pairs.append((start, other_start))
            start, other_start = start + 1, other_start + 1
        while start < end and other_start < other_end and a[end - 1] == b[other_end - 1]:
            end, other_end = end - 1, other_end - 1
            pairs.append((end, other_end))
        if start < end and other_start < other_end:
            stretches += _cut(a, b, _Stretch(start, end, other_start, other_end, depth + 1), pairs)
    return sorted(pairs)


def _cut(
    a: Sequence[int], b: Sequence[int], stretch: _Stretch, pairs: list[tuple[int, int]]
) -> list[_Stretch]:
    """Cut a stretch behind what is unique on both sides, which is added to the pairs, or in the middle."""
    start, end, other_start, other_end, depth = stretch
    for width in _CONTEXTS if depth <= _DEPTH else ():
        mine = _unique_rows(a, start, end, width)
        other = _unique_rows(b, other_start, other_end, width)
        anchors = _rising([(place, other[row]) for row, place in mine.items() if row in other])
        if anchors:
            pairs += anchors
            ends = [*anchors, (end, other_end)]
            starts = [(start, other_start), *((i + 1, j + 1) for i, j in anchors)]
            return [
                _Stretch(i, i_end, j, j_end, depth)
                for (i, j), (i_end, j_end) in zip(starts, ends, strict=True)
                if i < i_end and j < j_end
            ]
    i, j = (start + end) // 2, (other_start + other_end) // 2
    return [_Stretch(start, i, other_start, j, depth), _Stretch(i, end, j, other_end, depth)]


def _unique_rows(items: Sequence[int], start: int, end: int, width: int) -> dict[tuple[int, ...], int]:
    """The rows of so many elements that occur once, in order, with their places."""
    places: dict[tuple[int, ...], int] = {}
    repeated = set()
    for place in range(start, end - width + 1):
        row = tuple(items[place : place + width])
        if places.setdefault(row, place) != place:
            repeated.add(row)
    return {row: place for row, place in places.items() if row not in repeated}


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest selection of pairs, sorted by their first place, of which the second places rise too."""
    lowest: list[int] = []  # the lowest second place with which a selection of each length can end
    at: list[int] = []  # the pair that has it
    before: list[int | None] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(lowest, place)
        before.append(at[length - 1] if length else None)
        lowest[length : length + 1] = [place]
        at[length : length + 1] = [number]
    chosen: list[tuple[int, int]] = []
    step = at[-1] if at else None
    while step is not None:
        chosen.append(pairs[step])
        step = before[step]
    return chosen[::-1]
