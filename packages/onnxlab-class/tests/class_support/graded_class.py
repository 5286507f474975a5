"""A made-up class, for tests of what is kept and shown: outcomes of every kind, hostile names and texts."""

import base64
import hashlib
from pathlib import Path

from onnx import parser

from onnxlab.kit.exercise import lab as lab_record
from onnxlab.kit.outcome import Difference, Finding, Outcome, Status
from onnxlab_class.grading.submissions import Submission

LAB = "lab13_clinic"
EXERCISES = lab_record(LAB).exercises[:4]
SCRIPT = "<script>alert(1)</script>"
HOSTILE = [
    "=HYPERLINK(1)",
    "<b>eve</b>",
    "../../etc/passwd",
    "\u202eada",
    'a\nb,c"d',
    "\x1b[2J",
    "\udc80",
    "x" * 200,
]


def submission(student: str, version: int = 0, lab: str = LAB) -> Submission:
    digest = hashlib.sha256(f"{student!r} {version}".encode()).hexdigest()
    return Submission(student, lab, Path("gone.ipynb"), digest)


def outcomes(kind: int = 0) -> list[Outcome]:
    """One outcome for each exercise of a lab; which, depends on a number."""
    return [outcome(exercise, kind + place) for place, exercise in enumerate(EXERCISES)]


def outcome(exercise, kind: int) -> Outcome:
    parts = [*exercise.parts]
    wrong = Finding(
        parts[0],
        False,
        f"The largest difference is 0.{kind}, `atol` is 1e-5; {SCRIPT}",
        f"the node `Log` {SCRIPT}",
        Difference(f"x = {kind}{SCRIPT}", "1.5", "\x1b[31mnan"),
    )
    rest = tuple(Finding(title, None) for title in parts[1:])
    kinds = [
        Outcome(
            exercise.id,
            Status.PASSED,
            exercise.points,
            exercise.points,
            tuple(Finding(title, True) for title in parts),
        ),
        Outcome(exercise.id, Status.INCORRECT, 0, exercise.points, (wrong, *rest)),
        Outcome(
            exercise.id,
            Status.ERROR,
            0,
            exercise.points,
            message=f"NameError: {SCRIPT}\x1b[2J\u202e",
            where=f'line 3: return "{SCRIPT}"',
            printed=12345,
        ),
        Outcome(
            exercise.id, Status.TIMED_OUT, 0, exercise.points, message="Not ready after 20 seconds, and left."
        ),
        Outcome(exercise.id, Status.NOT_ATTEMPTED, 0, exercise.points),
    ]
    return kinds[kind % len(kinds)]


def evidence(expected: bool = True) -> dict:
    text = '<ir_version: 8, opset_import: ["" : 18]> g (float[N] x) => (float[N] y) { y = Abs (x) }'
    model = base64.b64encode(parser.parse_model(text).SerializeToString()).decode()
    return {"model": model, "expected": model if expected else None, "highlight": [f"Log{SCRIPT}"]}
