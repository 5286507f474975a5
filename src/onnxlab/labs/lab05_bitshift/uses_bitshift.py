"""Exercise: for which types and opsets the exporter's own rule writes BitShift.

What the statement asks: the right answer for each type at opsets 9 to 20. uint8 is asked about at each of
them, the other types at six; in a drawn order.
"""

from contextlib import AbstractContextManager

import numpy as np
import torch

from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import require_type
from onnxlab.kit.outcome import trying
from onnxlab.kit.work import Work
from onnxlab.labs.lab05_bitshift.shifts import INTEGERS
from onnxlab.message import Message

SINCE = 11  # the first opset that has BitShift


def draw_questions(random: np.random.Generator) -> list[tuple[torch.dtype, int]]:
    """Pair uint8 with every opset from 9 to 20, and each other type with six of them."""
    questions = []
    for dtype in INTEGERS:
        later = list(range(SINCE + 1, 20))
        if dtype is not torch.uint8:
            later = sorted(random.choice(later, 2, replace=False).tolist())
        questions += [(dtype, opset) for opset in (20, SINCE, *later, SINCE - 1, 9)]
    return questions


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Ask about each type and opset."""
    questions = draw_questions(random)
    replies: list[object] = [None] * len(questions)
    for number in random.permutation(len(questions)):
        dtype, opset = questions[number]
        with case(dtype, opset):
            reply = answers["uses_bitshift"](dtype, opset)
            reply = bool(reply) if isinstance(reply, np.bool_) else reply
            require_type(reply, bool, f"uses_bitshift({dtype}, {opset})")
        replies[number] = reply
    work.write_json("given", replies)


def case(dtype: torch.dtype, opset: int) -> AbstractContextManager[None]:
    """Attach the question to whatever is raised in the block."""
    return trying(Message("{name} at opset {opset}", name=dtype, opset=opset), dtype=dtype, opset=opset)
