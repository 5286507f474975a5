"""An answer to an error message: what it means, what helps, and the section that explains it."""

import math
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from onnxlab.runtime.refusals import short_reason

_ENOUGH = 0.55
"""The part of a known message's words, by weight, that a text must have to be taken for it."""

_FEW = 3
"""Words of a known message that must all be there if it has no more: "failed" and "size" say nothing."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z_]{2,}")


@dataclass(frozen=True)
class Answer:
    """What is known about an error message.

    Attributes:
        texts: Its wordings, without names and numbers of one model.
        cause: What it means.
        cure: What helps.
        chapter: The chapter that explains it.
        section: The heading there.
        patient: The patient of the clinic who has it, if any.
    """

    texts: tuple[str, ...]
    cause: str
    cure: str
    chapter: str
    section: str
    patient: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """The chapter and section that explain it."""
        return self.chapter, self.section


@cache
def answers() -> tuple[Answer, ...]:
    """Return all that is known."""
    content = (files("onnxlab") / "assets" / "messages.toml").read_text("utf-8")
    return tuple(Answer(**{**row, "texts": tuple(row["texts"])}) for row in tomllib.loads(content)["message"])


def explain(text: str, most: int = 3) -> list[Answer]:
    """Return what is known about an error message, the best first; nothing if it is unknown.

    Args:
        text: A message, or a whole traceback.
        most: The most answers.

    Example:
        >>> [answer] = explain("Unsupported model IR version: 10, max supported IR version: 9")
        >>> answer.chapter
        '13_ship_it'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # A message can go over some lines; a traceback around it would only add words of its own.
    windows = [_words(" ".join(lines[i : i + 4])) for i in range(len(lines))] + [_words(short_reason(text))]
    scores = [
        (max(_score(text, words) for text in answer.texts for words in windows), answer)
        for answer in answers()
    ]
    ranked = sorted((pair for pair in scores if pair[0]), key=lambda pair: -pair[0])
    return [answer for _, answer in ranked[:most]]


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))


@cache
def _rarity() -> dict[str, float]:
    """How much a word says: little if many messages have it."""
    known = answers()
    counts = Counter(word for answer in known for word in _words(" ".join(answer.texts)))
    return {word: math.log(1 + len(known) / count) for word, count in counts.items()}


def _score(text: str, words: frozenset[str]) -> float:
    """Return the weight of the words in common, 0 if they are too small a part of the known message's."""
    own, rarity = _words(text), _rarity()
    if len(own) <= _FEW and not own <= words:
        return 0.0
    common = sum(rarity[word] for word in own & words)
    return common if common >= _ENOUGH * sum(rarity[word] for word in own) else 0.0
