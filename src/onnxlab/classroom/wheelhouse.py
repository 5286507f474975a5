"""A copy of the course that installs without the network: its files, the wheels, and how to use them."""

import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from onnxlab.classroom.wheel_download import download, download_cpu_torch
from onnxlab.classroom.wheel_files import Wheel, digest, supply, wheels_in, whole
from onnxlab.classroom.wheel_list import WHEELS, read_list, write_list, write_note
from onnxlab.classroom.wheel_targets import Target, wanted_pins
from onnxlab.errors import OnnxLabError
from onnxlab.grading.plain_text import many

__all__ = ["Stock", "WheelhouseRefused", "check_wheelhouse", "make_wheelhouse", "wanted"]

_EACH = 1_200_000_000  # bytes for one kind of machine, with room to spare


class WheelhouseRefused(OnnxLabError):
    """A folder cannot be made into a wheelhouse, or is none."""


@dataclass(frozen=True)
class Stock:
    """What there is for one kind of machine.

    Attributes:
        target: The machine.
        wheels: How many wheels do for it.
        bytes: What they take.
        lacking: What it needs and is not there; empty if the course can be installed.
    """

    target: Target
    wheels: int
    bytes: int
    lacking: tuple[str, ...]


def wanted(root: Path, files: Sequence[str], target: Target) -> list[Requirement]:
    """Return what a machine needs: the pins, and what builds the course's own package."""
    pins = [pin for file in files for pin in wanted_pins((root / file).read_text("utf-8"), target)]
    build = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    return [*pins, *map(Requirement, build)]


def make_wheelhouse(
    root: Path,
    folder: Path,
    targets: Sequence[Target],
    files: Sequence[str],
    told: Callable[[str], None] = lambda text: None,
) -> list[Stock]:
    """Make the folder, or bring it up to date: what is there and whole is not downloaded again.

    Args:
        root: The course's own folder, a git checkout.
        folder: Where to; new, empty, or made by this before.
        targets: The machines.
        files: The requirements files that are wanted.
        told: Told how far it is.

    Returns:
        What there is now, for each machine that was ever asked for.

    Raises:
        WheelhouseRefused: If the folder holds something else, the disk is too full, or git cannot be asked.
        DownloadFailed: If the index does not answer.
    """
    before = read_list(folder) or {}
    if not before and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        msg = f"{folder} is there and is no wheelhouse."
        raise WheelhouseRefused(msg, "What is in it is left alone.", "Name a new folder.")
    house = folder / WHEELS
    house.mkdir(parents=True, exist_ok=True)
    every = sorted({*targets, *(Target(*each) for each in before.get("targets", []))}, key=str)
    _require_space(house, every)
    known, course = before.get("wheels", {}), before.get("course", [])
    write_list(folder, course, known, every, files)  # from here on the folder is ours, whatever happens
    told("the course's files")
    course = _copy_course(root, folder, course)
    _drop_damaged(house, known, told)
    needed = {target: wanted(root, files, target) for target in every}
    for target in every:
        _fill(house, needed[target], target, told)
    _drop_unneeded(house, needed, known)
    told("looking through the wheels")
    known = {wheel.path.name: [wheel.path.stat().st_size, digest(wheel.path)] for wheel in wheels_in(house)}
    write_list(folder, course, known, every, files)
    write_note(folder, every)
    return [_stock(house, needed[target], target) for target in every]


def check_wheelhouse(folder: Path) -> tuple[list[Stock], list[str]]:
    """Look through a folder that was made before, a copy on a stick for instance; nothing is downloaded.

    Returns:
        What there is for each machine, and the wheels that are gone or are not what they were.

    Raises:
        WheelhouseRefused: If the folder is no wheelhouse.
    """
    listed = read_list(folder)
    if listed is None:
        msg = f"{folder} is no wheelhouse."
        raise WheelhouseRefused(msg, "", f"Make one with: onnxlab class wheelhouse {folder}")
    house = folder / WHEELS
    wrong = [name for name, listed_as in listed["wheels"].items() if not _is(house / name, *listed_as)]
    targets = [Target(*each) for each in listed["targets"]]
    good = [wheel for wheel in wheels_in(house) if wheel.path.name not in wrong]
    return [_stock_of(good, wanted(folder, listed["files"], target), target) for target in targets], wrong


def _fill(
    house: Path, requirements: Sequence[Requirement], target: Target, told: Callable[[str], None]
) -> None:
    """Download what is missing, and then what the downloaded packages need that nobody pinned."""
    refused: set[str] = set()
    while True:
        lacking = supply(wheels_in(house), requirements, target)[1]
        todo = [each for each in lacking if str(each) not in refused]
        if not todo:
            return
        told(f"{target}: {many(len(todo), 'package')} to get")
        for torch in (each for each in todo if each.name == "torch"):
            if download_cpu_torch(torch, target, house):
                todo.remove(torch)
        download(todo, target, house, lambda done, total, now: told(f"{target}: {done} of {total}, {now}"))
        refused |= {str(each) for each in todo}  # asked for once; what came is there, the rest does not exist


def _stock(house: Path, requirements: Sequence[Requirement], target: Target) -> Stock:
    return _stock_of(list(wheels_in(house)), requirements, target)


def _stock_of(wheels: Sequence[Wheel], requirements: Sequence[Requirement], target: Target) -> Stock:
    needed, lacking = supply(wheels, requirements, target)
    size = sum(wheel.path.stat().st_size for wheel in needed)
    return Stock(target, len(needed), size, tuple(map(str, lacking)))


def _drop_damaged(house: Path, known: dict[str, Any], told: Callable[[str], None]) -> None:
    """Take away what an interrupted run or a bad disk left, so that it is downloaded again."""
    for wheel in wheels_in(house):
        told(f"looking through the wheels: {wheel.path.name}")
        listed = known.get(wheel.path.name)
        if not (_is(wheel.path, *listed) if listed else whole(wheel)):
            wheel.path.unlink()


def _is(path: Path, size: int, sha: str) -> bool:
    return path.is_file() and path.stat().st_size == size and digest(path) == sha


def _drop_unneeded(house: Path, needed: dict[Target, list[Requirement]], known: Iterable[str]) -> None:
    """Take away wheels of ours that no machine needs any more: the pins have moved."""
    wheels = list(wheels_in(house))
    keep = {each.path for target, pins in needed.items() for each in supply(wheels, pins, target)[0]}
    for wheel in wheels:
        if wheel.path.name in known and wheel.path not in keep:
            wheel.path.unlink()


def _copy_course(root: Path, folder: Path, before: Iterable[str]) -> list[str]:
    """Put the committed files of the course into the folder; return their paths."""
    with tempfile.TemporaryFile() as file:
        try:
            subprocess.run(
                ["git", "archive", "HEAD"], cwd=root, stdout=file, stderr=subprocess.PIPE, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", b"") or str(error).encode()
            msg = f"The course's files could not be taken from {root}."
            why = f"git said: {said.decode(errors='replace').strip()[:200]}"
            raise WheelhouseRefused(msg, why, "Run this in a clone of the course.") from None
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            names = [each.name for each in archive.getmembers() if each.isfile()]
            archive.extractall(folder, filter="data")
    for gone in set(before) - set(names):
        (folder / gone).unlink(missing_ok=True)
    return names


def _require_space(house: Path, targets: Sequence[Target]) -> None:
    there = sum(path.stat().st_size for path in house.glob("*.whl"))
    free = shutil.disk_usage(house).free
    if free + there < _EACH * len(targets):
        msg = f"There is not enough free disk space for {house}."
        why = f"It takes about {_EACH * len(targets) / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free."
        raise WheelhouseRefused(msg, why, "Free some space, or name fewer machines.")
