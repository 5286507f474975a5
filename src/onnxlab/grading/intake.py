"""Finding submissions in whatever an instructor has: nbgrader's tree, folders of students, single files.

What is taken, below a root that is a folder (a course folder with `submitted/` stands for that folder):

- `<student>/<assignment>/*.ipynb`: nbgrader's tree. The lab is the one named by the file, else by the folder.
- `<student>/labNN_*.ipynb`: a folder for each student.
- `<lab>/*.ipynb` and `*.ipynb`: single files. The student is what stands around the lab's name, without the
  marks of copies: `ada_lab04_asinh (1).ipynb` is ada's. If nothing stands there, it is the folder's name, but
  not if that is a lab's.

A lab may be named in full (lab04_asinh) or by its number (lab04, lab4), in capitals or not. Of several
files for one lab of one student, the one changed last is taken; of those changed in the same moment, the last
by name. Nothing is taken that would have to be looked for: links are not followed, deeper folders not opened.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.grading.intake_candidates import Candidate, below, single
from onnxlab.grading.names import safe_name
from onnxlab.grading.plain_text import plain
from onnxlab.grading.submission_file import LARGEST, CannotRead, digest, read
from onnxlab.labs.exercise import LABS

__all__ = ["LARGEST", "CannotRead", "Intake", "NoSubmissions", "Submission", "find", "read", "safe_name"]


class NoSubmissions(OnnxLabError):
    """There is nothing to grade where submissions were said to be."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One notebook of one student.

    Attributes:
        student: The student's name: data, never a path.
        lab: The lab's full name.
        path: The notebook.
        digest: What its content is: SHA-256 of the bytes; of "unreadable" and the reason if there are none.
    """

    student: str
    lab: str
    path: Path
    digest: str


@dataclass(frozen=True)
class Intake:
    """What was found.

    Attributes:
        submissions: What is graded, by student and lab.
        ignored: What is not, with the reason, by path.
    """

    submissions: tuple[Submission, ...]
    ignored: tuple[tuple[Path, str], ...]


def find(root: Path, labs: Sequence[str] = LABS) -> Intake:
    """Find the submissions in a file or below a folder.

    Args:
        root: A notebook, a folder of submissions, or nbgrader's course folder.
        labs: The labs' full names.

    Raises:
        NoSubmissions: If the root does not exist, or is neither a file nor a folder.
    """
    ignored: list[tuple[Path, str]] = []
    if os.path.isfile(root):  # noqa: PTH113 - never raises
        if root.suffix.lower() != ".ipynb":
            msg = f"{root} is not a notebook (.ipynb)."
            raise NoSubmissions(msg)
        candidates = list(single(root, root.absolute().parent.name, labs, ignored))
    elif os.path.isdir(root):  # noqa: PTH112 - never raises
        inner = root / "submitted"
        folder = inner if inner.is_dir() and not inner.is_symlink() else root
        candidates = list(below(folder, labs, ignored))
    else:
        there = os.path.lexists(root)
        msg = f"{root} is neither a file nor a folder." if there else f"{root} is not there."
        raise NoSubmissions(msg, "", "Name a notebook, a folder of notebooks or nbgrader's course folder.")
    submissions = tuple(
        Submission(each.student, each.lab, each.path, digest(each.path))
        for each in _newest(candidates, ignored)
    )
    return Intake(submissions, tuple(sorted(ignored, key=lambda each: os.fsencode(each[0]))))


def _newest(candidates: list[Candidate], ignored: list[tuple[Path, str]]) -> list[Candidate]:
    best: dict[tuple[str, str], Candidate] = {}
    for each in sorted(candidates, key=lambda one: one.rank):
        if older := best.get((each.student, each.lab)):
            newer = plain(each.path.name, 100)
            ignored.append((older.path, f"{newer} is a newer file for the same lab of the same student."))
        best[each.student, each.lab] = each
    return [
        best[key] for key in sorted(best, key=lambda key: (key[0].encode("utf-8", "surrogatepass"), key[1]))
    ]
