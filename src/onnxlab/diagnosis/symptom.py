"""A symptom: what a model file shows, why it matters, what to do, and the section that explains it."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Weight: TypeAlias = Literal["wrong", "risk", "note"]
"""wrong: it fails, or its outputs cannot be trusted. risk: it can fail elsewhere. note: worth knowing."""

WEIGHTS: tuple[Weight, ...] = ("wrong", "risk", "note")

LESSONS = {
    "load": "03_export_arguments",
    "sizes": "04_dynamic_shapes",
    "right sizes": "04b_right_at_every_size",
    "training": "05_export_only_code",
    "branch": "02_trace_and_script",
    "kernels": "07_operator_support",
    "custom": "08_custom_operators",
    "back ends": "10_backends_differ",
    "fusion": "10b_what_runs",
    "names": "11_graph_surgery",
    "ship": "13_ship_it",
    "quantise": "15_quantise",
    "half": "16_half_precision",
}
"""The chapter that explains a kind of symptom."""


@dataclass(frozen=True)
class Symptom:
    """One thing that a model file shows.

    Attributes:
        weight: How bad it is.
        what: What was seen, with names and values.
        why: Why it matters.
        then: What to do.
        lesson: The chapter that explains it, as its file is called without ".ipynb".
    """

    weight: Weight
    what: str
    why: str
    then: str
    lesson: str

    def as_json(self) -> dict[str, Any]:
        """Return the symptom as plain data."""
        return asdict(self)


def by_weight(symptoms: list[Symptom]) -> list[Symptom]:
    """Return the symptoms, the worst first."""
    return sorted(symptoms, key=lambda symptom: WEIGHTS.index(symptom.weight))


def listing(names: list[str], most: int = 3) -> str:
    """Return the first names of a list, and how many more there are.

    Example:
        >>> listing(["a", "b"]), listing(["a", "b", "c", "d", "e"])
        ('a, b', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
