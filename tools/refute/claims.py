"""A claim of a chapter, and the probe that tries to refute it."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import dataclass

import torch

from onnxlab.exporters.silence import silenced

Attempts = Iterator[tuple[str, bool]]
"""What a probe yields: what it tried, and whether the sentence is true of it."""


@dataclass(frozen=True)
class Claim:
    """A sentence of a chapter with the probe that tries to refute it.

    Attributes:
        notebook: The chapter's file name without its suffix.
        heading: The heading above the sentence.
        sentence: The sentence as it stands in the notebook, on one line.
        probe: Yields each attempt, and whether the sentence is true of it.
        fell: The sentence that stood there before the probe refuted it; empty if the first one held.
        why: What refuted the earlier sentence.
        seconds: About how long the probe takes; 0 for less than ten seconds.
    """

    notebook: str
    heading: str
    sentence: str
    probe: Callable[[], Attempts]
    fell: str = ""
    why: str = ""
    seconds: int = 0

    @property
    def name(self) -> str:
        """The probe's name in words."""
        return self.probe.__name__.replace("_", " ")


@dataclass(frozen=True)
class Verdict:
    """What became of a claim.

    Attributes:
        attempts: How many attempts there were.
        counterexamples: Those of which the sentence is not true.
        seconds: How long it took.
    """

    attempts: int
    counterexamples: tuple[str, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether something was tried and nothing refuted the sentence."""
        return self.attempts > 0 and not self.counterexamples


CLAIMS: list[Claim] = []
"""All claims, in the order in which the modules of this folder are loaded."""


def claim(
    notebook: str, heading: str, sentence: str, *, fell: str = "", why: str = "", seconds: int = 0
) -> Callable[[Callable[[], Attempts]], Callable[[], Attempts]]:
    """Make a function the probe of a sentence; the arguments are those of `Claim`."""

    def register(probe: Callable[[], Attempts]) -> Callable[[], Attempts]:
        CLAIMS.append(Claim(notebook, heading, sentence, probe, fell, why, seconds))
        return probe

    return register


def refute(one: Claim) -> Verdict:
    """Run a probe in an empty folder, with its warnings and its output silenced."""
    began = time.monotonic()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, chdir(folder), silenced():
        tried: list[tuple[str, bool]] = []
        try:
            tried.extend(one.probe())
        except Exception as error:
            tried.append((f"the probe raised {type(error).__name__}: {error}", False))
    counterexamples = tuple(text for text, holds in tried if not holds)
    return Verdict(len(tried), counterexamples, time.monotonic() - began)
