"""Whose fault the end of a judge is: every combination of what it was at, its signal and its ending."""

import json
import sys
from dataclasses import asdict
from itertools import product

import pytest

from onnxlab.message import Message
from onnxlab_class.grading import marking
from onnxlab_class.grading.marking import JudgeFailed
from onnxlab_class.grading.private_judges import JudgeBroken
from onnxlab_class.grading.worker.report import Stage
from onnxlab_class.grading.worker.task import CRASH, STAGE
from onnxlab_class.sandbox.watcher import Ending, Limits

SIGNAL = "Segmentation fault"
STAGES = {
    "nothing was begun": None,
    "damaged": "{",
    "this exercise": Stage("one", ""),
    "another exercise": Stage("two", ""),
    "a private part of this exercise": Stage("one", "part"),
    "a private part of another exercise": Stage("two", "part"),
}
LIMITS = {
    Ending.TIME: "did not finish in 7 seconds",
    Ending.MEMORY: "more than 900 MB of memory",
    Ending.DISK: "wrote more than 50 MB",
}
ENDINGS = [ending for ending in Ending if ending not in (Ending.DISTURBED, Ending.SANDBOX_FAILED)]


@pytest.mark.parametrize(("stage", "signal", "ending"), list(product(STAGES, ("", SIGNAL), ENDINGS)))
def test_only_a_crash_or_a_limit_at_this_exercise_is_the_submissions(tmp_path, stage, signal, ending):
    at = STAGES[stage]
    if at is not None:
        (tmp_path / STAGE).write_text(at if isinstance(at, str) else json.dumps(asdict(at)))
    (tmp_path / CRASH).write_text(f"Fatal Python error: {signal}\n\nThread 1\n" if signal else "")

    def reason() -> str:
        return marking._crash_reason("one", ending, tmp_path, Limits(cpu=7, memory=900, disk=50))

    if isinstance(at, Stage) and at.part:
        with pytest.raises(JudgeBroken, match=f"The private judge of {at.exercise} failed: 'part'"):
            reason()
    elif at == Stage("one", "") and (signal or ending in LIMITS):
        assert (signal or LIMITS[ending]) in reason()
    else:
        with pytest.raises(JudgeFailed, match="The judge of one failed"):
            reason()


def test_a_message_without_the_graders_paths_is_still_one():
    message = marking._without_own_paths(Message("{name} is missing.", name=f"{sys.prefix}/x"))
    assert (message, message.template) == (".../x is missing.", "{name} is missing.")
