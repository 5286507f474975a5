"""Submissions: find the notebooks below a folder, and read their cells as untrusted files.

The layouts, below a root that is a folder (in a class or an nbgrader course, which `class.json` or
`nbgrader_config.py` marks and no folder's name, that is its `submitted/`):

- `<student>/<assignment>/*.ipynb`: nbgrader's tree. The lab is the one named by the file, else by the folder.
- `<student>/labNN_*.ipynb`: a folder for each student.
- `<lab>/*.ipynb` and `*.ipynb`: single files. The student is the rest of the file's name beside the lab's,
  without the number of a copy: `ada_lab04_asinh (1).ipynb` is ada's. If there is no rest, the student is the
  folder's name, unless that is a lab's.

A lab may be named in full (lab04_asinh) or by its number (lab04, lab4), in capitals or not. Of several files
for one lab of one student, the one changed last counts; of those changed in the same moment, the last by
name. A lab with no code cell but those that were handed out is not submitted, whatever was run in it. Links
are not followed, and folders below these are not opened.
"""

import codecs
import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.files import FileTooLarge, NotRegularFile, read_untrusted
from onnxlab.kit.exercise import LABS
from onnxlab.message import Message
from onnxlab.plain_text import plain

LARGEST = 8 * 2**20
"""Bytes that a notebook may have."""
_TOO_LARGE = Message("It has more than {largest} MB; outputs can be cleared.", largest=LARGEST // 2**20)
NOT_SUBMITTED = "not submitted"
NOT_TAKEN = "not taken"  # files are there, and none is a submission
_MOST_CONTAINERS = 500_000  # objects and arrays of a notebook; eight megabytes of `{}` take 500 in memory
_LARGEST_UNTOUCHED = 2 * 2**20  # bytes; what an untouched lab prints when it is run is short
_COURSE_FILES = ("class.json", "nbgrader_config.py")
_COURSE_FOLDERS = {"source", "release", "submitted", "autograded", "feedback", "exchange", "hub", "learners"}
_SEPARATORS = " \t_-.,+"
# What is appended to a name: by browsers and file managers " (1)", "-Copy2", " copy 2"; by Canvas, to a later
# submission of somebody whom the name has already named, "-3".
_APPENDED = r"(?:\(\d+\)|(?<=[ _-])copy[ _-]*\d*{})\Z"
_TO_A_LAB = re.compile(_APPENDED.format(""), re.IGNORECASE | re.ASCII)
_TO_A_STUDENTS_LAB = re.compile(_APPENDED.format(r"|-\d{1,2}"), re.IGNORECASE | re.ASCII)
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d")  # names that Windows reserves
_PROGRAM_FOLDERS = {".ipynb_checkpoints", "__MACOSX", ".git"}  # ignored without a message


@dataclass(frozen=True)
class _LabName:
    """A lab's name inside the name of a file or folder.

    Attributes:
        lab: The lab.
        name: The name of the file or folder.
        start: Where the lab's name begins in it.
        end: Where it ends.
    """

    lab: str
    name: str
    start: int
    end: int


def _lab_in(name: str, labs: Sequence[str]) -> _LabName | None:
    """Find the lab that a name contains, in full or by its number."""
    for short in (False, True):
        for lab in labs:
            number = lab.partition("_")[0][3:]
            pattern = rf"lab0*{int(number)}(?!\d)" if short and number.isdecimal() else re.escape(lab)
            if match := re.search(rf"(?<![^\W_]){pattern}(?![^\W_])", name, re.IGNORECASE):
                return _LabName(lab, name, match.start(), match.end())
    return None


def _lab_alone(name: str, labs: Sequence[str]) -> _LabName | None:
    """Find the lab whose name is the whole name."""
    match = _lab_in(name, labs)
    return match if match and (match.start, match.end) == (0, len(name)) else None


def _student_in(stem: str, lab_name: _LabName) -> str:
    """Return the rest of a file's name beside the lab's, without what was appended to it.

    One by one from the end: a regular expression for all of them would try every way to divide them.
    """
    before, after = stem[: lab_name.start].strip(_SEPARATORS), stem[lab_name.end :]
    appended = _TO_A_STUDENTS_LAB if before else _TO_A_LAB
    while match := appended.search(after := after.rstrip(" _-")):
        after = after[: match.start()]
    return "_".join(filter(None, (before, after.strip(_SEPARATORS))))


def safe_name(student: str) -> str:
    """Return a file name for a student: the name itself if it is plain, else one derived from it.

    No two students get the same one, also on file systems that ignore case: a derived name ends in a hyphen
    and a hash of the student's name, and a plain name has no hyphen.

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
    """A notebook that may be a student's submission of a lab."""

    student: str
    lab: str
    path: Path
    modified: int

    @property
    def rank(self) -> tuple[int, list[tuple[int, str]], bytes]:
        """A sort key: the time of the last change, then the name with its numbers as numbers."""
        parts = re.split(r"(\d+)", self.path.stem)
        natural = [(int(part) if part.isdecimal() and len(part) < 20 else -1, part) for part in parts]
        return self.modified, natural, os.fsencode(self.path)


class _Search:
    """A search for candidates below a root; notes the ignored files with the reason."""

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

    def beside(self, course: Path) -> None:
        """Note folders of notebooks in a course that are none of its own."""
        for entry in self._entries(course):
            notebooks = (*Path(entry).glob("*.ipynb"), *Path(entry).glob("*/*.ipynb"))
            of_labs = any(_lab_in(file.name, self._labs) for file in notebooks)
            if of_labs and entry.name not in _COURSE_FOLDERS:
                self.ignored.append((Path(entry), "In a course only what is in submitted/ is graded."))

    def single(self, path: Path, folder: str) -> Iterator[_Candidate]:
        """Yield a single file if it is a candidate; `folder` is the name of the folder it is in."""
        by_name = _lab_in(path.name, self._labs)
        by_folder = _lab_alone(folder, self._labs)
        student = ""
        if by_name:
            student = _student_in(path.stem, by_name)
        elif by_folder:
            student = path.stem.strip(_SEPARATORS)
        if not student and not by_folder:
            student = folder
        if not student and path.suffix.lower() == ".ipynb":
            self.ignored.append((path, "Neither its name nor its folder says whose it is."))
            return
        yield from self._candidate(path, student, by_name or by_folder)

    def _of_student(self, folder: Path) -> Iterator[_Candidate]:
        for entry in self._entries(folder):
            lab_name = _lab_in(entry.name, self._labs)
            if not entry.is_dir(follow_symlinks=False):
                yield from self._candidate(Path(entry), folder.name, lab_name)
                continue
            for file in self._files(Path(entry)):
                yield from self._candidate(file, folder.name, _lab_in(file.name, self._labs) or lab_name)

    def _candidate(self, path: Path, student: str, lab_name: _LabName | None) -> Iterator[_Candidate]:
        if path.suffix.lower() != ".ipynb":
            if lab_name and lab_name.name == path.name:
                self.ignored.append((path, "It is not a notebook (.ipynb)."))
            return
        if lab_name is None:
            self.ignored.append((path, "Neither its name nor its folder says which lab it is."))
            return
        try:
            status = path.lstat()
        except OSError as error:
            self.ignored.append((path, Message("It cannot be looked at: {error.strerror}.", error=error)))
            return
        if not stat.S_ISREG(status.st_mode):
            self.ignored.append((path, "It is not an ordinary file."))
        elif status.st_size > LARGEST:
            self.ignored.append((path, _TOO_LARGE))
        else:
            yield _Candidate(student, lab_name.lab, path, status.st_mtime_ns)

    def _files(self, folder: Path) -> Iterator[Path]:
        """Yield the files in a folder; note the folders in it as ignored."""
        for entry in self._entries(folder):
            if entry.is_dir(follow_symlinks=False):
                self.ignored.append((Path(entry), "The folder lies deeper than submissions do."))
            else:
                yield Path(entry)

    def _entries(self, folder: Path) -> list["os.DirEntry[str]"]:
        """Return the entries of a folder by name, without links and hidden ones."""
        try:
            with os.scandir(folder) as entries:
                by_name = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            self.ignored.append(
                (folder, Message("The folder cannot be read: {error.strerror}.", error=error))
            )
            return []
        if not by_name and folder.suffix.lower() == ".ipynb":
            self.ignored.append((folder, "It is an empty folder, not a notebook."))
        visible = []
        for entry in by_name:
            if entry.name in _PROGRAM_FOLDERS:
                continue
            if entry.is_symlink():
                self.ignored.append((Path(entry), "It is a link; links are not followed."))
            elif entry.name.startswith("."):
                if entry.is_dir(follow_symlinks=False) or entry.name.lower().endswith(".ipynb"):
                    self.ignored.append((Path(entry), "It is hidden: its name begins with a dot."))
            else:
                visible.append(entry)
        return visible


class NoSubmissions(OnnxLabError):
    """The path of the submissions does not exist, or is neither a notebook nor a folder."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One notebook of one student.

    Attributes:
        student: The student's name. It is data and never part of a path.
        lab: The lab's full name.
        path: The notebook.
        digest: SHA-256 of the content; of "unreadable" and the reason if it cannot be read.
    """

    student: str
    lab: str
    path: Path
    digest: str


@dataclass(frozen=True)
class Intake:
    """The submissions and the ignored files below a root.

    Attributes:
        submissions: The notebooks to grade, by student and lab.
        ignored: The other files, by path, with the reason.
        untouched: How many labs are as they were handed out.
        without: The students without a submission: `NOT_SUBMITTED` or `NOT_TAKEN`. Where nothing says whose a
            file is, the file's name stands for the student.
    """

    submissions: tuple[Submission, ...]
    ignored: tuple[tuple[Path, str], ...]
    untouched: int = 0
    without: Mapping[str, str] = field(default_factory=dict)


def find(
    root: Path, labs: Sequence[str] = LABS, *, wanted: Collection[str] = (), handed_out: Collection[str] = ()
) -> Intake:
    """Find the submissions in a file or below a folder.

    Args:
        root: A notebook, a folder of submissions, or nbgrader's course folder.
        labs: The labs' full names.
        wanted: The labs whose submissions are returned; all if empty.
        handed_out: The code cells of the labs as they were handed out.

    Raises:
        NoSubmissions: If the root does not exist, or is neither a file nor a folder.
    """
    search, folder, roster = _Search(labs), root, set[str]()
    if os.path.isfile(root):  # noqa: PTH113 - never raises
        if root.suffix.lower() != ".ipynb":
            raise NoSubmissions("{root} is not a notebook (.ipynb).", root=root)
        candidates = list(search.single(root, root.absolute().parent.name))
    elif os.path.isdir(root):  # noqa: PTH112 - never raises
        if any((root / name).is_file() for name in _COURSE_FILES):
            folder, roster = root / "submitted", _roster(root)
            search.beside(root)
        candidates = list(search.below(folder)) if folder.is_dir() and not folder.is_symlink() else []
    else:
        exists = os.path.lexists(root)
        msg = (
            Message("{root} is neither a file nor a folder.", root=root)
            if exists
            else Message("{root} is not there.", root=root)
        )
        raise NoSubmissions(msg, "", "Name a notebook, a folder of notebooks or nbgrader's course folder.")
    not_taken = {_owner(path, folder, labs) for path, _ in search.ignored} - {""}
    digests = {candidate: _digest(candidate.path, handed_out) for candidate in candidates}
    touched = {candidate: digest for candidate, digest in digests.items() if digest}
    newest = _newest(list(touched), search.ignored)
    submissions = tuple(
        Submission(candidate.student, candidate.lab, candidate.path, touched[candidate])
        for candidate in newest
        if not wanted or candidate.lab in wanted
    )
    without = dict.fromkeys(not_taken, NOT_TAKEN)
    without |= dict.fromkeys({candidate.student for candidate in candidates} | roster, NOT_SUBMITTED)
    for submission in submissions:
        without.pop(submission.student, None)
    ignored = tuple(sorted(search.ignored, key=lambda entry: os.fsencode(entry[0])))
    return Intake(submissions, ignored, len(candidates) - len(touched), without)


def _roster(root: Path) -> set[str]:
    """Return the learners of a class that is served."""
    names = set[str]()
    if (root / _COURSE_FILES[0]).is_file():
        with contextlib.suppress(OSError), os.scandir(root / "learners") as entries:
            names = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
    return {name for name in names if not name.startswith(".") and name != "instructor"}


def _owner(path: Path, folder: Path, labs: Sequence[str]) -> str:
    """Return whose a file is that was not taken, or its name; "" for a hidden one."""
    if not path.is_relative_to(folder) or path == folder:
        return ""
    parts = path.relative_to(folder).parts
    if any(part.startswith(".") for part in parts):
        return ""
    inside = len(parts) > 1 and not _lab_alone(parts[0], labs)
    return parts[0] if inside else "/".join(parts)


def _newest(candidates: list[_Candidate], ignored: list[tuple[Path, str]]) -> list[_Candidate]:
    newest: dict[tuple[str, str], _Candidate] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.rank):
        key = candidate.student, candidate.lab
        if older := newest.get(key):
            newer = plain(candidate.path.name, 100)
            ignored.append(
                (
                    older.path,
                    Message("{newer} is a newer file for the same lab of the same student.", newer=newer),
                )
            )
        newest[key] = candidate
    order = sorted(newest, key=lambda key: (key[0].encode("utf-8", "surrogatepass"), key[1]))
    return [newest[key] for key in order]


_NO_NOTEBOOK = "The file is JSON that no notebook would hold."


class NotebookUnreadable(OnnxLabError):
    """A submission is not a notebook that can be run. The message is one line, for the student."""


class CannotRead(NotebookUnreadable):
    """The system refuses to read a submission (permissions, a disk): not the student's fault."""


def read(path: Path) -> bytes:
    """Read a submission without following a link or waiting for a pipe.

    Raises:
        NotebookUnreadable: If it is not an ordinary file of a reasonable size.
        CannotRead: If the system refuses.
    """
    try:
        return read_untrusted(path, LARGEST)
    except NotRegularFile:
        raise NotebookUnreadable("It is not an ordinary file.") from None
    except FileTooLarge:
        raise NotebookUnreadable(_TOO_LARGE) from None
    except OSError as error:
        raise CannotRead("The file cannot be read: {strerror}.", strerror=error.strerror or error) from None


def _digest(path: Path, handed_out: Collection[str]) -> str:
    """Return a submission's digest, as in `Submission`; "" for a lab as it was handed out."""
    try:
        data = read(path)
    except NotebookUnreadable as error:
        data = f"unreadable {error}".encode()
    return "" if is_untouched(data, handed_out) else hashlib.sha256(data).hexdigest()


def is_untouched(data: bytes, handed_out: Collection[str]) -> bool:
    """Tell whether a notebook has no code of its author's: outputs, prose and the format do not count.

    Args:
        data: The notebook.
        handed_out: The code cells of the labs as they were handed out, as `code_of` returns them.
    """
    if not handed_out or len(data) > _LARGEST_UNTOUCHED:
        return False
    try:
        code = code_of(data)
    except NotebookUnreadable:
        return False
    return bool(code) and code <= set(handed_out)


def code_of(data: bytes) -> set[str]:
    """Return the sources of the code cells that are not empty, with line ends and space at the end removed.

    Raises:
        NotebookUnreadable: If these bytes are no notebook, or it has no cells.
    """
    sources = ("\n".join(map(str.rstrip, source.splitlines())).strip() for source in cells_of(data))
    return {source for source in sources if source}


@dataclass(frozen=True)
class SubmittedCell:
    """One cell of a submission.

    Attributes:
        kind: "code", "markdown" or "raw"; any other type counts as markdown.
        source: Its text.
        grade_id: The cell's id in nbgrader's metadata; "" if there is none.
    """

    kind: str
    source: str
    grade_id: str = ""


def all_cells(data: bytes) -> list[SubmittedCell]:
    r"""Return every cell, prose too, read as tolerantly as by `cells_of`.

    Raises:
        NotebookUnreadable: If these bytes are no notebook, or it has no cells.

    Example:
        >>> all_cells(b'{"cells": [{"cell_type": "markdown", "source": "# Title"}]}')
        [SubmittedCell(kind='markdown', source='# Title', grade_id='')]
    """
    cells = []
    for cell in _cells_or_error(data):
        kind = cell.get("cell_type")
        metadata = cell.get("metadata")
        grading = metadata.get("nbgrader") if isinstance(metadata, dict) else None
        name = grading.get("grade_id") if isinstance(grading, dict) else None
        cells.append(
            SubmittedCell(
                kind if kind in ("code", "raw") else "markdown",
                _source(cell),
                name if isinstance(name, str) else "",
            )
        )
    return cells


def cells_of(data: bytes) -> list[str]:
    r"""Return the sources of the code cells in order; the rest of a notebook is ignored.

    Notebooks of formats 3 (with worksheets) and 4, of any kernel, with or without metadata. A cell whose
    source is no text counts as empty. Magics and shell lines stay as they are.

    Raises:
        NotebookUnreadable: If these bytes are no notebook, or it has no cells.

    Example:
        >>> cells_of(b'{"cells": [{"cell_type": "code", "source": ["x = 1\\n", "x"]}]}')
        ['x = 1\nx']
    """
    return [_source(cell) for cell in _cells_or_error(data) if cell.get("cell_type") == "code"]


def _cells_or_error(data: bytes) -> list[dict[str, Any]]:
    cells = list(_cells(_notebook(data)))
    if not cells:
        raise NotebookUnreadable("The notebook has no cells.")
    return cells


def _notebook(data: bytes) -> dict[str, Any]:
    if not data.strip(b"\x00 \t\r\n" + codecs.BOM_UTF8):
        raise NotebookUnreadable("The file is empty.")
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        msg: str = Message(
            "The file is not text: byte {error.start} is not {encoding}.",
            error=error,
            encoding=error.encoding.upper(),
        )
        raise NotebookUnreadable(msg) from None
    if data.count(b"{") + data.count(b"[") > _MOST_CONTAINERS:
        raise NotebookUnreadable(_NO_NOTEBOOK)
    try:
        notebook = json.loads(text)
    except json.JSONDecodeError as error:
        if any(line.startswith("<<<<<<< ") for line in text.splitlines()):
            msg = "The file holds an unresolved merge conflict of Git."
        else:
            msg = Message("The file is not JSON: {error.msg}, line {error.lineno}.", error=error)
        raise NotebookUnreadable(msg) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, a thousand brackets
        raise NotebookUnreadable(_NO_NOTEBOOK) from None
    if not isinstance(notebook, dict) or not ({"cells", "worksheets"} & notebook.keys()):
        raise NotebookUnreadable("The file is JSON, but not a notebook: it has no list of cells.")
    return notebook


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
