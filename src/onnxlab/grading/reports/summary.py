"""How a class did: which exercises, and which mistakes are behind them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxlab.files import write_atomically
from onnxlab.grading.reports.pages import rendered
from onnxlab.grading.results import Graded
from onnxlab.labs.kit.outcome import Status
from onnxlab.plain_text import plain

__all__ = ["Standing", "mistake", "standings", "summary_html", "summary_text", "write_summary"]

_SHOWN = 3
_VALUE = re.compile(r"'[^' ]{1,80}'|[-+]?\d[\d.,]*(?:e[-+]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Standing:
    """How a class stands with one exercise.

    Attributes:
        lab: The lab.
        exercise: The exercise.
        statuses: How many students stand how.
        mistakes: The most frequent messages with their counts.
    """

    lab: str
    exercise: str
    statuses: dict[Status, int]
    mistakes: tuple[tuple[str, int], ...]

    @property
    def students(self) -> int:
        """How many handed the exercise's lab in."""
        return sum(self.statuses.values())

    @property
    def spoken(self) -> str:
        """The counts in words, for who does not see the bar."""
        return ", ".join(
            f"{self.statuses[status]} {status}" for status in Status if self.statuses.get(status)
        )


def standings(rows: Iterable[Graded]) -> list[Standing]:
    """Count how a class stands, by lab and in the order of the exercises.

    Messages that differ in numbers or quoted names only count as one mistake; the most frequent one is shown.
    """
    statuses: dict[tuple[str, str], Counter[Status]] = defaultdict(Counter)
    messages: dict[tuple[str, str], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in rows:
        key = (row.lab, row.exercise)
        statuses[key][Status(row.status)] += 1
        if text := mistake(row.outcome):
            messages[key][_VALUE.sub("#", text)][text] += 1
    ordered = sorted(statuses, key=lambda key: key[0])  # stable: exercises stay in the order of their lab
    return [Standing(*key, dict(statuses[key]), _most_frequent(messages[key])) for key in ordered]


def mistake(outcome: dict[str, Any]) -> str:
    """Return what an outcome says in one line: the first part that does not hold, else the error.

    Example:
        >>> mistake({"findings": [{"holds": False, "title": "a valid model", "message": "No node."}]})
        '✗ a valid model: No node.'
    """
    findings = [each for each in outcome.get("findings") or [] if isinstance(each, dict)]
    failed = next((each for each in findings if each.get("holds") is False), None)
    title = failed.get("title") if failed else None
    said = (failed or outcome).get("message") or ""
    return plain(f"\u2717 {title}: {said}" if title else said, 300)


def summary_text(found: Sequence[Standing], width: int = 100) -> str:
    """Return a table for a terminal, with the mistakes below each exercise.

    Args:
        found: The standings.
        width: The columns of the terminal.
    """
    names = max([len(each.exercise) for each in found] + [len("exercise")])
    heads = [str(status) for status in Status]
    lines = [f"{'exercise':<{names}}  " + "  ".join(heads)]
    lab = ""
    for each in found:
        if each.lab != lab:
            lab = each.lab
            lines.append(f"{plain(lab, 60)}:")
        numbers = "  ".join(f"{each.statuses.get(status, 0):>{len(status)}}" for status in Status)
        lines.append(f"{plain(each.exercise, names):<{names}}  {numbers}")
        for text, count in each.mistakes:
            room = max(20, width - 8)
            cut = text if len(text) <= room else f"{text[: room - 1]}…"
            lines.append(f"  {count:>4}  {cut}")
    return "\n".join(lines)


def summary_html(found: Sequence[Standing]) -> str:
    """Return the same as a page, with a bar for each exercise."""
    return rendered("summary.html", standings=found)


def write_summary(path: Path, found: Sequence[Standing]) -> None:
    """Write the page."""
    write_atomically(path, summary_html(found))


def _most_frequent(groups: dict[str, Counter[str]]) -> tuple[tuple[str, int], ...]:
    found = [(max(texts, key=lambda text: (texts[text], text)), texts.total()) for texts in groups.values()]
    return tuple(sorted(found, key=lambda each: (-each[1], each[0]))[:_SHOWN])
