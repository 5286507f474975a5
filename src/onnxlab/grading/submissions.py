"""Submissions: found in whatever an instructor has, and read in whatever state they are.

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

import codecs
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.files import FileTooLarge, NotRegularFile, read_untrusted
from onnxlab.labs.kit.exercise import LABS
from onnxlab.plain_text import plain

__all__ = [
    "LARGEST",
    "CannotRead",
    "Intake",
    "NoSubmissions",
    "NotebookUnreadable",
    "Submission",
    "SubmittedCell",
    "cells_of",
    "find",
    "read",
    "safe_name",
    "whole_cells",
]

LARGEST = 8 * 2**20
"""Bytes that a notebook may have."""
_TOO_LARGE = f"It has more than {LARGEST // 2**20} MB; outputs can be cleared."
_COPY = re.compile(r"(?:[ _-]*\(\d+\)|[ _-]+copy[ _-]?\d*)+$", re.IGNORECASE)
_AGAIN = re.compile(r"-\d{1,2}$")  # how Canvas marks a later submission
_AROUND = " \t_-.,+"
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d")  # no file of Windows may be called so
_SILENT = {".ipynb_checkpoints", "__MACOSX", ".git"}  # made by programs; no student puts work there


@dataclass(frozen=True)
class _LabName:
    """A lab's name in another name.

    Attributes:
        lab: The lab.
        name: The other name.
        start: Where it begins there.
        end: Where it ends.
    """

    lab: str
    name: str
    start: int
    end: int


def _lab_in(name: str, labs: Sequence[str]) -> _LabName | None:
    """Find the lab that a name holds, in full or as its number."""
    for short in (False, True):
        for lab in labs:
            number = lab.partition("_")[0][3:]
            pattern = rf"lab0*{int(number)}(?!\d)" if short and number.isdecimal() else re.escape(lab)
            if match := re.search(rf"(?<![^\W_]){pattern}(?![^\W_])", name, re.IGNORECASE):
                return _LabName(lab, name, match.start(), match.end())
    return None


def _lab_alone(name: str, labs: Sequence[str]) -> _LabName | None:
    """Find the lab that a name is, with nothing around it."""
    found = _lab_in(name, labs)
    return found if found and (found.start, found.end) == (0, len(name)) else None


def _around(stem: str, found: _LabName) -> str:
    """Return what stands around a lab's name, without the marks of copies."""
    before, after = stem[: found.start].strip(_AROUND), stem[found.end :]
    after = _COPY.sub("", after)
    if before:
        after = _AGAIN.sub("", after)
    return "_".join(each for each in (before, after.strip(_AROUND)) if each)


def safe_name(student: str) -> str:
    """Return a file name for a student: the name itself where that is plain, else one made from it.

    Two students never get the same one, also where capitals do not count: a made name ends in a hyphen and a
    hash of the student's, and a plain one has no hyphen.

    Example:
        >>> safe_name("ada"), safe_name("../Ada Lovelace")
        ('ada', 'ada-lovelace-504198ca2b1e5af7')
    """
    if re.fullmatch(r"[a-z0-9_]{1,40}", student) and not _RESERVED.fullmatch(student):
        return student
    slug = re.sub(r"[^a-z0-9]+", "-", student.lower()).strip("-")[:40].strip("-")
    digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{slug or 'student'}-{digest}"


@dataclass(frozen=True, slots=True)
class _Candidate:
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


class _Search:
    """What is below a root: candidates, and what is none of them, with the reason."""

    def __init__(self, labs: Sequence[str]) -> None:
        self._labs = labs
        self.ignored: list[tuple[Path, str]] = []

    def below(self, root: Path) -> Iterator[_Candidate]:
        """Find the candidates below a folder."""
        for entry in self._entries(root):
            if not entry.is_dir(follow_symlinks=False):
                yield from self.single(Path(entry), root.absolute().name)
            elif _lab_alone(entry.name, self._labs):
                for file in self._files(Path(entry)):
                    yield from self.single(file, entry.name)
            else:
                yield from self._of_student(Path(entry))

    def single(self, path: Path, folder: str) -> Iterator[_Candidate]:
        """Find whether a single file is a candidate. `folder` is the name of the one that it lies in."""
        found = _lab_in(path.name, self._labs)
        by_folder = _lab_alone(folder, self._labs)
        student = _around(path.stem, found) if found else path.stem.strip(_AROUND) if by_folder else ""
        if not student and not by_folder:
            student = folder
        if not student and path.suffix.lower() == ".ipynb":
            self.ignored.append((path, "Neither its name nor its folder says whose it is."))
            return
        yield from self._candidate(path, student, found or by_folder)

    def _of_student(self, folder: Path) -> Iterator[_Candidate]:
        for entry in self._entries(folder):
            named = _lab_in(entry.name, self._labs)
            if not entry.is_dir(follow_symlinks=False):
                yield from self._candidate(Path(entry), folder.name, named)
                continue
            for file in self._files(Path(entry)):
                yield from self._candidate(file, folder.name, _lab_in(file.name, self._labs) or named)

    def _candidate(self, path: Path, student: str, found: _LabName | None) -> Iterator[_Candidate]:
        if path.suffix.lower() != ".ipynb":
            if found and found.name == path.name:
                self.ignored.append((path, "It is not a notebook (.ipynb)."))
            return
        if found is None:
            self.ignored.append((path, "Neither its name nor its folder says which lab it is."))
            return
        try:
            status = path.lstat()
        except OSError as error:
            self.ignored.append((path, f"It cannot be looked at: {error.strerror}."))
            return
        if not stat.S_ISREG(status.st_mode):
            self.ignored.append((path, "It is not an ordinary file."))
        elif status.st_size > LARGEST:
            self.ignored.append((path, _TOO_LARGE))
        else:
            yield _Candidate(student, found.lab, path, status.st_mtime_ns)

    def _files(self, folder: Path) -> Iterator[Path]:
        """Give what a folder holds but for other folders."""
        for entry in self._entries(folder):
            if entry.is_dir(follow_symlinks=False):
                self.ignored.append((Path(entry), "The folder lies deeper than submissions do."))
            else:
                yield Path(entry)

    def _entries(self, folder: Path) -> list["os.DirEntry[str]"]:
        """Return what a folder holds, by name, without links and hidden things."""
        try:
            with os.scandir(folder) as entries:
                everything = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            self.ignored.append((folder, f"The folder cannot be read: {error.strerror}."))
            return []
        if not everything and folder.suffix.lower() == ".ipynb":  # other empty folders stand for nothing
            self.ignored.append((folder, "It is an empty folder, not a notebook."))
        kept = []
        for entry in everything:
            if entry.name in _SILENT:
                continue
            if entry.is_symlink():
                self.ignored.append((Path(entry), "It is a link; links are not followed."))
            elif entry.name.startswith("."):
                if entry.is_dir(follow_symlinks=False) or entry.name.lower().endswith(".ipynb"):
                    self.ignored.append((Path(entry), "It is hidden: its name begins with a dot."))
            else:
                kept.append(entry)
        return kept


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
    search = _Search(labs)
    if os.path.isfile(root):  # noqa: PTH113 - never raises
        if root.suffix.lower() != ".ipynb":
            msg = f"{root} is not a notebook (.ipynb)."
            raise NoSubmissions(msg)
        candidates = list(search.single(root, root.absolute().parent.name))
    elif os.path.isdir(root):  # noqa: PTH112 - never raises
        inner = root / "submitted"
        folder = inner if inner.is_dir() and not inner.is_symlink() else root
        candidates = list(search.below(folder))
    else:
        there = os.path.lexists(root)
        msg = f"{root} is neither a file nor a folder." if there else f"{root} is not there."
        raise NoSubmissions(msg, "", "Name a notebook, a folder of notebooks or nbgrader's course folder.")
    submissions = tuple(
        Submission(each.student, each.lab, each.path, _digest(each.path))
        for each in _newest(candidates, search.ignored)
    )
    return Intake(submissions, tuple(sorted(search.ignored, key=lambda each: os.fsencode(each[0]))))


def _newest(candidates: list[_Candidate], ignored: list[tuple[Path, str]]) -> list[_Candidate]:
    best: dict[tuple[str, str], _Candidate] = {}
    for each in sorted(candidates, key=lambda one: one.rank):
        if older := best.get((each.student, each.lab)):
            newer = plain(each.path.name, 100)
            ignored.append((older.path, f"{newer} is a newer file for the same lab of the same student."))
        best[each.student, each.lab] = each
    return [
        best[key] for key in sorted(best, key=lambda key: (key[0].encode("utf-8", "surrogatepass"), key[1]))
    ]


class NotebookUnreadable(OnnxLabError):
    """A submission is no notebook that could be run. Its text is one line, for the student."""


class CannotRead(NotebookUnreadable):
    """The system does not give a submission's bytes (rights, a disk): not the student's fault."""


def read(path: Path) -> bytes:
    """Read a submission; no link is followed, no pipe waited for.

    Raises:
        NotebookUnreadable: If it is not an ordinary file of a reasonable size.
        CannotRead: If the system refuses.
    """
    try:
        return read_untrusted(path, LARGEST)
    except NotRegularFile:
        msg = "It is not an ordinary file."
        raise NotebookUnreadable(msg) from None
    except FileTooLarge:
        raise NotebookUnreadable(_TOO_LARGE) from None
    except OSError as error:
        msg = f"The file cannot be read: {error.strerror or error}."
        raise CannotRead(msg) from None


def _digest(path: Path) -> str:
    """Return what a submission's content is, as in `Submission`."""
    try:
        data = read(path)
    except NotebookUnreadable as error:
        data = f"unreadable {error}".encode()
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class SubmittedCell:
    """One cell as it was handed in.

    Attributes:
        kind: "code", "markdown" or "raw"; what is none of these counts as markdown.
        source: Its text.
        grade_id: The name that nbgrader's metadata gives it; "" if there is none.
    """

    kind: str
    source: str
    grade_id: str = ""


def whole_cells(data: bytes) -> list[SubmittedCell]:
    r"""Return every cell, as `cells_of` reads them: also what is prose, and which cell nbgrader takes it for.

    Raises:
        NotebookUnreadable: If there is no notebook in these bytes, or it has no cells.

    Example:
        >>> whole_cells(b'{"cells": [{"cell_type": "markdown", "source": "# Title"}]}')
        [SubmittedCell(kind='markdown', source='# Title', grade_id='')]
    """
    found = []
    for cell in _some_cells(data):
        kind = cell.get("cell_type")
        metadata = cell.get("metadata")
        grading = metadata.get("nbgrader") if isinstance(metadata, dict) else None
        name = grading.get("grade_id") if isinstance(grading, dict) else None
        found.append(
            SubmittedCell(
                kind if kind in ("code", "raw") else "markdown",
                _source(cell),
                name if isinstance(name, str) else "",
            )
        )
    return found


def cells_of(data: bytes) -> list[str]:
    r"""Return the sources of the code cells in order; nothing else of a notebook is looked at.

    Notebooks of formats 3 (with worksheets) and 4, of any kernel, with or without metadata. A cell whose
    source is no text counts as empty. Magics and shell lines stay as they are.

    Raises:
        NotebookUnreadable: If there is no notebook in these bytes, or it has no cells.

    Example:
        >>> cells_of(b'{"cells": [{"cell_type": "code", "source": ["x = 1\\n", "x"]}]}')
        ['x = 1\nx']
    """
    return [_source(cell) for cell in _some_cells(data) if cell.get("cell_type") == "code"]


def _some_cells(data: bytes) -> list[dict[str, Any]]:
    cells = list(_cells(_notebook(data)))
    if not cells:
        msg = "The notebook has no cells."
        raise NotebookUnreadable(msg)
    return cells


def _notebook(data: bytes) -> dict[str, Any]:
    if not data.strip(b"\x00 \t\r\n" + codecs.BOM_UTF8):
        msg = "The file is empty."
        raise NotebookUnreadable(msg)
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        msg = f"The file is not text: byte {error.start} is not {error.encoding.upper()}."
        raise NotebookUnreadable(msg) from None
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        if any(line.startswith("<<<<<<< ") for line in text.splitlines()):
            msg = "The file holds an unresolved merge conflict of Git."
        else:
            msg = f"The file is not JSON: {error.msg}, line {error.lineno}."
        raise NotebookUnreadable(msg) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, a thousand brackets
        msg = "The file is JSON that no notebook would hold."
        raise NotebookUnreadable(msg) from None
    if not isinstance(found, dict) or not ({"cells", "worksheets"} & found.keys()):
        msg = "The file is JSON, but not a notebook: it has no list of cells."
        raise NotebookUnreadable(msg)
    return found


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    sheets = notebook.get("worksheets")
    lists = [notebook.get("cells")]
    if isinstance(sheets, list):
        lists += [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
    for cells in lists:
        if isinstance(cells, list):
            yield from (cell for cell in cells if isinstance(cell, dict))


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""
