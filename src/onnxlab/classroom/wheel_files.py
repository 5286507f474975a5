"""The wheels in a folder: whether each is whole, and whether together they are enough for a machine."""

import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from functools import cached_property
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from onnxlab.classroom.wheel_targets import Target

__all__ = ["Wheel", "chosen", "digest", "supply", "wheels_in", "whole"]


@dataclass(frozen=True)
class Wheel:
    """A wheel in a folder.

    Attributes:
        path: The file.
        name: The package, in the form in which names are compared.
        version: Its version.
        tags: Where it can be installed.
    """

    path: Path
    name: str
    version: Version
    tags: frozenset[Tag]

    @cached_property
    def requires(self) -> tuple[Requirement, ...]:
        """What the package says that it needs."""
        with zipfile.ZipFile(self.path) as archive:
            (file,) = [
                each for each in archive.namelist() if each.count("/") == 1 and each.endswith("info/METADATA")
            ]
            lines = BytesHeaderParser().parsebytes(archive.read(file)).get_all("Requires-Dist", [])
        return tuple(Requirement(str(line)) for line in lines)

    def fits(self, requirement: Requirement, target: Target) -> bool:
        """Tell whether it is what a requirement asks for, and can be installed on a machine."""
        named = canonicalize_name(requirement.name) == self.name
        right = requirement.specifier.contains(self.version, prereleases=True)
        return named and right and not self.tags.isdisjoint(target.tags)


def wheels_in(folder: Path) -> Iterator[Wheel]:
    """Return the wheels in a folder."""
    for path in sorted(folder.glob("*.whl")):
        try:
            name, version, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        yield Wheel(path, str(name), version, tags)


def whole(wheel: Wheel) -> bool:
    """Tell whether a wheel can be read to its end and its metadata understood."""
    try:
        with zipfile.ZipFile(wheel.path) as archive:
            good = archive.testzip() is None
        return good and wheel.requires is not None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, InvalidRequirement):
        return False


def digest(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def chosen(wheels: Iterable[Wheel], requirement: Requirement, target: Target) -> list[Wheel]:
    """Return the wheels that do for a requirement on a machine, the newest first.

    Example:
        >>> wheel = Wheel(Path("a"), "a", Version("1+cpu"), frozenset([Tag("py3", "none", "any")]))
        >>> [len(chosen([wheel], Requirement(each), Target("linux", "3.12"))) for each in ("A==1", "a==2")]
        [1, 0]
    """
    found = [wheel for wheel in wheels if wheel.fits(requirement, target)]
    return sorted(found, key=lambda wheel: wheel.version, reverse=True)


def supply(
    wheels: Iterable[Wheel], requirements: Iterable[Requirement], target: Target
) -> tuple[list[Wheel], list[Requirement]]:
    """Find what a machine needs: of the requirements, and of what their packages need in turn.

    Returns:
        The wheels that pip would choose from, and what there is no wheel for.
    """
    there = list(wheels)
    todo = [_unconditional(each) for each in requirements if target.needs(each)]
    seen: set[str] = set()
    needed: dict[Path, Wheel] = {}
    lacking = []
    while todo:
        requirement = todo.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        found = chosen(there, requirement, target)
        if not found:
            lacking.append(requirement)
            continue
        needed |= {each.path: each for each in found if each.version == found[0].version}
        todo += [_unconditional(each) for each in found[0].requires if target.needs(each)]
    return list(needed.values()), sorted(lacking, key=str)


def _unconditional(requirement: Requirement) -> Requirement:
    """Return a requirement that counts without its condition; what extras ask for is pinned itself."""
    bare = Requirement(str(requirement))
    bare.marker, bare.extras = None, set()
    return bare
