"""Names: of labs in the names of files and folders, and of files for students."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AROUND", "LabName", "around", "lab_alone", "lab_in", "safe_name"]

_COPY = re.compile(r"(?:[ _-]*\(\d+\)|[ _-]+copy[ _-]?\d*)+$", re.IGNORECASE)
_AGAIN = re.compile(r"-\d{1,2}$")  # how Canvas marks a later submission
AROUND = " \t_-.,+"
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d")  # no file of Windows may be called so


@dataclass(frozen=True)
class LabName:
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

    def in_file(self, path: Path) -> bool:
        """Whether it stands in the file's own name."""
        return self.name == path.name


def lab_in(name: str, labs: Sequence[str]) -> LabName | None:
    """Find the lab that a name holds, in full or as its number."""
    for short in (False, True):
        for lab in labs:
            number = lab.partition("_")[0][3:]
            pattern = rf"lab0*{int(number)}(?!\d)" if short and number.isdecimal() else re.escape(lab)
            if match := re.search(rf"(?<![^\W_]){pattern}(?![^\W_])", name, re.IGNORECASE):
                return LabName(lab, name, match.start(), match.end())
    return None


def lab_alone(name: str, labs: Sequence[str]) -> LabName | None:
    """Find the lab that a name is, with nothing around it."""
    found = lab_in(name, labs)
    return found if found and (found.start, found.end) == (0, len(name)) else None


def around(stem: str, found: LabName) -> str:
    """Return what stands around a lab's name, without the marks of copies."""
    before, after = stem[: found.start].strip(AROUND), stem[found.end :]
    after = _COPY.sub("", after)
    if before:
        after = _AGAIN.sub("", after)
    return "_".join(each for each in (before, after.strip(AROUND)) if each)


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
