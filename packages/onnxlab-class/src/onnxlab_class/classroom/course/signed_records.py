"""Records that a class signs: made from graded work alone, with a key that stays with the class.

A signature is the HMAC-SHA256 of everything before it in the file, so that no letter of a page or a picture
can be changed. It needs the class's key to be made, and to be verified.
"""

import hmac
import html
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from onnxlab.course.record import make_record
from onnxlab.files import read_untrusted, write_atomically
from onnxlab.kit.exercise import labs
from onnxlab.kit.tracks import Track, exercise_for
from onnxlab.notebook.predict.answers import scores_of
from onnxlab.plain_text import plain
from onnxlab_class.classroom.course.folder import RECORDS, ClassFolder, ClassRefused, open_class
from onnxlab_class.grading.results import read_points
from onnxlab_class.grading.submissions import safe_name

_KEY_BYTES = 32
_LARGEST = 1_000_000
_SIGNED = re.compile(rb"(.*\n)<!-- onnxlab-signature ([0-9a-f]{64}) -->\n?", re.DOTALL)


class RecordUnreadable(ClassRefused):
    """A file to be verified is missing, or is no file of a record's size."""


def write_records(
    folder: Path, results: Path, names: Mapping[str, str], track: Track | None = None
) -> tuple[list[str], list[str]]:
    """Write a signed page and a signed picture for each student with graded work, into `results/records/`.

    Args:
        folder: The class.
        results: What `onnxlab grade --out` wrote.
        names: The names on some students' records; on the others it is the account's.
        track: The track that they are of; None for the whole course.

    Returns:
        The students that have a record, and those that have none, as the grader failed on their work.

    Raises:
        ClassRefused: If there is no class, its key is damaged, or a name is given for nobody.
        LedgerRefused: If the results cannot be read.
        NameRefused: If a name cannot stand on a record.
    """
    place = open_class(folder)
    points, failed = read_points(results)
    if absent := sorted(names.keys() - points.keys()):
        msg = f"{results} has no graded work by {', '.join(absent)}."
        raise ClassRefused(msg, "", "Give the learner's name as grades.csv there has it.")
    key = _key(place, make=True)
    students = sorted(points.keys() - failed)
    whole = {exercise.id: exercise.points for lab in labs() for exercise in lab.exercises}
    for student in students:
        marks = points[student]
        passed = {exercise for exercise, have in marks.items() if have == whole.get(exercise)}
        shown = [score for score in scores_of({}, passed) if exercise_for(score.chapter)]
        name = names.get(student, plain(student, 50).strip() or safe_name(student))
        record = make_record(name, marks, shown, track, place.name)
        for ending, text in ((".html", record.page), (".svg", record.picture)):
            signature = f"<!-- onnxlab-signature {_digest(text.encode(), key)} -->\n"
            write_atomically(results / RECORDS / f"{safe_name(student)}{ending}", text + signature)
    return students, sorted(failed)


def verify_record(folder: Path, file: Path) -> str:
    """Return what a record says, in one line, if a class signed it and nothing in it was changed; else "".

    Raises:
        ClassRefused: If there is no class, or it has signed nothing.
        RecordUnreadable: If the file cannot be read.
    """
    key = _key(open_class(folder), make=False)
    try:
        data = read_untrusted(file, _LARGEST)
    except OSError as error:
        msg = f"{file} cannot be read: {error.strerror}."
        raise RecordUnreadable(msg, "", "Name a record's file.") from None
    parts = _SIGNED.fullmatch(data.replace(b"\r\n", b"\n"))  # as some mail programs send it
    if parts is None or not hmac.compare_digest(_digest(parts[1], key), parts[2].decode()):
        return ""
    title = re.search(r"<title>(.*?)</title>", parts[1].decode())
    return html.unescape(title[1]) if title else ""


def _digest(content: bytes, key: bytes) -> str:
    return hmac.new(key, b"onnxlab record\n" + content, "sha256").hexdigest()


def _key(folder: ClassFolder, *, make: bool) -> bytes:
    """Return the key of a class, among the hub's secrets, which no learner can read."""
    path = folder.hub / "record_key"
    if make and not path.exists():
        write_atomically(folder.hub / ".gitignore", "*\n", mode=0o600)  # a class may lie in somebody's clone
        with FileLock(
            path.with_suffix(".lock")
        ):  # two first runs at once: the second takes the first one's key
            if not path.exists():
                write_atomically(path, secrets.token_bytes(_KEY_BYTES), mode=0o600)
    try:
        key = read_untrusted(path, _KEY_BYTES)
    except OSError as error:
        msg = f"The class {folder.name!r} has no key to be read in {path}: {error.strerror}."
        raise ClassRefused(msg, "A class that has signed a record has one.", "Name that class.") from None
    if len(key) < _KEY_BYTES:
        msg = f"{path} is damaged: it has {len(key)} bytes, not {_KEY_BYTES}."
        raise ClassRefused(msg, "", "Take it from a backup; without it no older record can be verified.")
    return key
