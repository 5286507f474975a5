"""What is right in first-divergence, part by part."""

from functools import partial

import numpy as np

from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.work import Work
from onnxlab.labs.lab08_graph_surgery.first_divergence import KINDS, draw_pairs
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.divergence import inner_values, intermediates
from onnxlab.runtime.parity import mismatches

_TOLERANCE = 1e-3


def _judge(work: Work, random: np.random.Generator, *, part: str) -> None:
    """Require the right answer for each pair of models of a part."""
    replies = work.answers("found", len(KINDS))
    for pair in draw_pairs(work.questions(), part):
        where, got = pair.where, replies[pair.number]
        names = inner_values(pair.model)
        values_a, values_b = (intermediates(model, pair.x) for model in (pair.model, pair.model_b))
        divergence = _first_divergence(values_a, values_b)
        name = divergence[0] if divergence else None
        if got == name:
            continue
        look_at = "Make every value an output of both models, and compare them from the first node on."
        agree = "By how much do the values differ, in every single element? Where both are nan, they agree."
        if got is not None and got not in names:
            msg = Message(
                "{where}: the answer is not the name of a value that a node of model_a makes.", where=where
            )
        elif name is None:
            msg = Message(
                "{where}: no value differs by more than {tolerance}, and one was named.",
                where=where,
                tolerance=_TOLERANCE,
            )
            look_at = agree
        elif got is None:
            msg = Message("{where}: a value differs, and None was returned.", where=where)
            look_at = (
                "Does your comparison see every element, and how far is too far? 0.001, whatever the size."
            )
        elif names.index(str(got)) < names.index(name):
            msg = Message("{where}: at the value named the numbers still agree.", where=where)
            look_at = agree
        else:
            msg = Message("{where}: a value before the one named differs already.", where=where)
        expected = Message("None")
        if name and divergence:
            expected = Message.compose(": ", [_node_of(name, names), divergence[1]])
        reply = _node_of(got, names) if isinstance(got, str) else repr(got)
        both = evidence(pair.model, pair.model_b.SerializeToString(), *filter(None, [name]))
        with pair.as_case():
            raise Wrong(msg, look_at, difference=Difference(where, expected, reply[:120]), evidence=both)


def _first_divergence(values_a: dict[str, Array], values_b: dict[str, Array]) -> tuple[str, str] | None:
    """Return the name of the first value that differs, and where and how it does."""
    for (name, value_a), value_b in zip(values_a.items(), values_b.values(), strict=True):
        a, b = value_a.astype(np.float64), value_b.astype(np.float64)
        places = np.argwhere(mismatches(a, b, 0, _TOLERANCE)[1])
        if len(places):
            place = tuple(map(int, places[0]))
            return (
                name,
                Message(
                    "{a:.8g} and {b:.8g} at {place}, {count} of {size} elements",
                    a=a[place],
                    b=b[place],
                    place=list(place),
                    count=len(places),
                    size=a.size,
                ),
            )
    return None


def _node_of(name: str, names: list[str]) -> str:
    if name not in names:
        return repr(name)
    return Message("{name}, made by node {number}", name=name, number=names.index(name))


JUDGES = Judges(
    (
        partial(_judge, part="weights"),
        partial(_judge, part="hidden"),
        partial(_judge, part="harmless"),
        partial(_judge, part="fine"),
    )
)
