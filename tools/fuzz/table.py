"""A table of the outcomes of many trials, with each kind of fault once."""

import sys
import time
from collections import Counter

from onnxlab.plain_text import aligned, plain

FAULT = "FAULT"


class Table:
    """Counts by row and kind.

    Args:
        heading: What the rows are.
        kinds: The kinds that are no faults.

    Attributes:
        faults: How many trials showed it, and an example, by row and reason.
    """

    def __init__(self, heading: str, kinds: list[str]) -> None:
        self._heading, self._kinds = heading, [*kinds, FAULT]
        self._counts: dict[str, Counter[str]] = {}
        self.faults: dict[tuple[str, str], tuple[int, str]] = {}
        self._began = self._reported = time.monotonic()

    def add(self, row: str, kind: str, reason: str = "", example: str = "") -> None:
        """Count one thing; keep the first example of each kind of fault."""
        self._counts.setdefault(row, Counter())[kind] += 1
        if kind == FAULT:
            count, first = self.faults.get((row, reason), (0, example))
            self.faults[row, reason] = count + 1, first

    def progress(self, done: int, total: int) -> None:
        """Say on stderr how far it is, every ten seconds."""
        if time.monotonic() - self._reported > 10:
            self._reported = time.monotonic()
            print(f"{done} of {total}, {len(self.faults)} kinds of fault", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        rows = [[self._heading, *self._kinds]]
        rows += [[row, *(str(count[kind]) for kind in self._kinds)] for row, count in self._counts.items()]
        lines = aligned(rows, 1)
        for (row, reason), (count, first) in sorted(self.faults.items(), key=lambda item: -item[1][0]):
            lines.append(f"{count} x {row}: {plain(reason)} ({plain(first, 160)})")
        return "\n".join([*lines, f"{time.monotonic() - self._began:.0f} seconds"])
