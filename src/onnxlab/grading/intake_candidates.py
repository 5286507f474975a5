"""The files below a folder that may be submissions: whose, of which lab. `intake.py` chooses among them."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxlab.grading.names import AROUND, LabName, around, lab_alone, lab_in
from onnxlab.grading.submission_file import LARGEST, TOO_LARGE

__all__ = ["Candidate", "below", "single"]

_SILENT = {".ipynb_checkpoints", "__MACOSX", ".git"}  # made by programs; no student puts work there


@dataclass(frozen=True, slots=True)
class Candidate:
    """A notebook that may be a submission."""

    student: str
    lab: str
    path: Path
    age: int

    @property
    def rank(self) -> tuple[int, list[tuple[int, str]], bytes]:
        """The later, the greater: by time of change, then by name with numbers as numbers."""
        parts = re.split(r"(\d+)", self.path.stem)
        natural = [(int(each) if each.isdecimal() and len(each) < 20 else -1, each) for each in parts]
        return self.age, natural, os.fsencode(self.path)


def below(root: Path, labs: Sequence[str], ignored: list[tuple[Path, str]]) -> Iterator[Candidate]:
    """Find the candidates below a folder; what is none, and why, is added to `ignored`."""
    for entry in _entries(root, ignored):
        if not entry.is_dir(follow_symlinks=False):
            yield from single(Path(entry), root.absolute().name, labs, ignored)
        elif lab_alone(entry.name, labs):
            yield from _in_lab_folder(Path(entry), labs, ignored)
        else:
            yield from _of_student(Path(entry), labs, ignored)


def _in_lab_folder(folder: Path, labs: Sequence[str], ignored: list[tuple[Path, str]]) -> Iterator[Candidate]:
    """Single files in a folder that has a lab's name."""
    for entry in _entries(folder, ignored):
        if entry.is_dir(follow_symlinks=False):
            ignored.append((Path(entry), "The folder lies deeper than submissions do."))
        else:
            yield from single(Path(entry), folder.name, labs, ignored)


def _of_student(folder: Path, labs: Sequence[str], ignored: list[tuple[Path, str]]) -> Iterator[Candidate]:
    for entry in _entries(folder, ignored):
        if not entry.is_dir(follow_symlinks=False):
            yield from _candidate(Path(entry), folder.name, lab_in(entry.name, labs), ignored)
            continue
        named_by_folder = lab_in(entry.name, labs)
        for inner in _entries(Path(entry), ignored):
            if inner.is_dir(follow_symlinks=False):
                ignored.append((Path(inner), "The folder lies deeper than submissions do."))
            else:
                found = lab_in(inner.name, labs) or named_by_folder
                yield from _candidate(Path(inner), folder.name, found, ignored)


def single(
    path: Path, folder: str, labs: Sequence[str], ignored: list[tuple[Path, str]]
) -> Iterator[Candidate]:
    """Find whether a single file is a candidate. `folder` is the name of the one that it lies in."""
    found = lab_in(path.name, labs)
    by_folder = lab_alone(folder, labs)
    student = around(path.stem, found) if found else path.stem.strip(AROUND) if by_folder else ""
    if not student and not by_folder:
        student = folder
    if not student and path.suffix.lower() == ".ipynb":
        ignored.append((path, "Neither its name nor its folder says whose it is."))
        return
    yield from _candidate(path, student, found or by_folder, ignored)


def _candidate(
    path: Path, student: str, found: "LabName | None", ignored: list[tuple[Path, str]]
) -> Iterator[Candidate]:
    if path.suffix.lower() != ".ipynb":
        if found and found.in_file(path):
            ignored.append((path, "It is not a notebook (.ipynb)."))
        return
    if found is None:
        ignored.append((path, "Neither its name nor its folder says which lab it is."))
        return
    try:
        status = path.lstat()
    except OSError as error:
        ignored.append((path, f"It cannot be looked at: {error.strerror}."))
        return
    if not stat.S_ISREG(status.st_mode):
        ignored.append((path, "It is not an ordinary file."))
    elif status.st_size > LARGEST:
        ignored.append((path, TOO_LARGE))
    else:
        yield Candidate(student, found.lab, path, status.st_mtime_ns)


def _entries(folder: Path, ignored: list[tuple[Path, str]]) -> list["os.DirEntry[str]"]:
    """Return what a folder holds, by name, without links and hidden things."""
    try:
        with os.scandir(folder) as entries:
            everything = sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        ignored.append((folder, f"The folder cannot be read: {error.strerror}."))
        return []
    kept = []
    for entry in everything:
        if entry.name in _SILENT:
            continue
        if entry.is_symlink():
            ignored.append((Path(entry), "It is a link; links are not followed."))
        elif entry.name.startswith("."):
            if entry.is_dir(follow_symlinks=False) or entry.name.lower().endswith(".ipynb"):
                ignored.append((Path(entry), "It is hidden: its name begins with a dot."))
        else:
            kept.append(entry)
    return kept
