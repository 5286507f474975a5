"""A copy of the course that installs without the network: its files, and wheels from `pip download`.

The pins name every package of every Python and system, so nothing has to be resolved.
"""

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import compatible_tags, cpython_tags, mac_platforms
from packaging.utils import canonicalize_name, parse_wheel_filename

from onnxlab.errors import OnnxLabError
from onnxlab.machine import CPU_INDEX, INDEX_VARIABLE

PYTHONS = ("3.11", "3.12", "3.13")
# What PyTorch has packages for -> os.name, sys.platform, platform.system(), platform.machine()
SYSTEMS = {
    "linux": ("posix", "linux", "Linux", "x86_64"),
    "linux-arm64": ("posix", "linux", "Linux", "aarch64"),
    "macos-arm64": ("posix", "darwin", "Darwin", "arm64"),
    "windows": ("nt", "win32", "Windows", "AMD64"),
}
_NOTE = "INSTALL-OFFLINE.txt"
_NOTE_TEXT = """\
ONNX Lab, to be installed without the network

1. Copy this whole folder to the laptop, to a place where you may write.
2. Python has to be installed on it already. The wheels are for:
{machines}
3. In the folder, run `python3 course.py`; on Windows, `py course.py`.

It makes .venv, installs from the folder wheelhouse and opens JupyterLab; it takes 2 GB.
The folder wheelhouse may be deleted afterwards. In an environment of your own, run instead:
    pip install --no-index --find-links wheelhouse -r {file}
"""
_BYTES = 1_200_000_000  # of one target's wheels, with room to spare


class WheelhouseRefused(OnnxLabError):
    """A folder is not a wheelhouse or cannot become one, or a download failed."""


@dataclass(frozen=True, order=True)
class Target:
    """A kind of machine with a Python: one of `SYSTEMS`, one of `PYTHONS`."""

    system: str
    python: str

    def __post_init__(self) -> None:
        if self.system not in SYSTEMS or self.python not in PYTHONS:
            msg = f"The course does not run with Python {self.python} on {self.system}."
            then = f"It runs with Python {', '.join(PYTHONS)} on {', '.join(SYSTEMS)}."
            raise WheelhouseRefused(msg, "", then)

    def __str__(self) -> str:
        return f"{self.system}, Python {self.python}"

    @property
    def platforms(self) -> list[str]:
        """The platform tags of the wheels that it takes."""
        if self.system == "windows":
            return ["win_amd64"]
        if self.system == "macos-arm64":
            return list(mac_platforms((14, 0), "arm64"))
        # glibc 2.28 is of 2018: Debian 10, Ubuntu 20.04, RHEL 8; what PyTorch itself asks for.
        names = [*(f"manylinux_2_{minor}" for minor in range(28, 4, -1)), "manylinux2014", "manylinux2010"]
        return [f"{name}_{SYSTEMS[self.system][3]}" for name in [*names, "manylinux1", "linux"]]

    def lacking(self, pins: Iterable[str], wheels: Iterable[Path]) -> list[str]:
        """Return the pins of which none of some wheels can be installed on this machine."""
        version, digits = [int(part) for part in self.python.split(".")], self.python.replace(".", "")
        tags = {
            *cpython_tags(version, [f"cp{digits}"], self.platforms),
            *compatible_tags(version, f"cp{digits}", self.platforms),
        }
        parsed = [parse_wheel_filename(wheel.name) for wheel in wheels]
        present = {(name, release.public) for name, release, _, supported in parsed if supported & tags}
        return [pin for pin in pins if _name_and_version(pin) not in present]


def this_target() -> Target:
    """Return this machine.

    Raises:
        WheelhouseRefused: If the course does not run on it.
    """
    system, machine = platform.system(), platform.machine()
    keys = {(long, name.lower()): key for key, (_, _, long, name) in SYSTEMS.items()}
    key = keys.get((system, machine.lower()), f"{system} {machine}")
    return Target(key, f"{sys.version_info.major}.{sys.version_info.minor}")


def pins_for(text: str, target: Target) -> list[str]:
    r"""Return the pins of a requirements file whose conditions hold on a machine.

    >>> text = "numpy==2.4.6  # via onnx\ncolorama==0.4.6 ; sys_platform == 'win32'\n-e ."
    >>> pins_for(text, Target("linux", "3.12")), pins_for(text, Target("windows", "3.12"))
    (['numpy==2.4.6'], ['numpy==2.4.6', 'colorama==0.4.6'])
    """
    # pip evaluates conditions for the machine that it runs on, also with --platform.
    names = ("os_name", "sys_platform", "platform_system", "platform_machine")
    markers = dict(zip(names, SYSTEMS[target.system], strict=True))
    markers |= {"python_version": target.python, "python_full_version": f"{target.python}.9"}
    markers |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    lines = (line.partition(" #")[0].strip() for line in text.splitlines())
    pins = [Requirement(line) for line in lines if line and line[0] not in "#-"]
    return [f"{pin.name}{pin.specifier}" for pin in pins if not pin.marker or pin.marker.evaluate(markers)]


def make_wheelhouse(
    root: Path, folder: Path, targets: Sequence[Target], file: str
) -> dict[Target, list[str]]:
    """Make the folder, or update it: wheels that are there and intact are not downloaded again.

    Args:
        root: The course's own folder, a git checkout.
        folder: A new or empty folder, or one of an earlier run.
        targets: The machines; those of an earlier run stay.
        file: The name of the requirements file.

    Returns:
        For each machine, the pins without a wheel.

    Raises:
        WheelhouseRefused: The folder holds something else, the disk is too full, or git or the index fails.
    """
    if folder.exists() and not (folder / _NOTE).is_file() and (folder.is_file() or any(folder.iterdir())):
        raise WheelhouseRefused(
            f"{folder} is there and is no wheelhouse.", "What is in it is left alone.", "Name a new folder."
        )
    house = folder / "wheelhouse"
    house.mkdir(parents=True, exist_ok=True)
    all_targets = sorted({*targets, *(_targets(folder) if (folder / _NOTE).exists() else [])})
    free, present = shutil.disk_usage(house).free, sum(path.stat().st_size for path in house.glob("*.whl"))
    if free + present < _BYTES * len(all_targets):
        raise WheelhouseRefused(
            f"There is not enough free disk space for {house}.",
            f"It takes about {_BYTES * len(all_targets) / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free.",
            "Free some space, or name fewer machines.",
        )
    machines = "\n".join(f"  - {target}" for target in all_targets)
    (folder / _NOTE).write_text(_NOTE_TEXT.format(machines=machines, file=file), "utf-8")
    _copy_course(root, folder)
    text = (folder / file).read_text("utf-8")
    needed = {target: pins_for(text, target) for target in all_targets}
    current = {_name_and_version(pin) for pins in needed.values() for pin in pins}
    for path in house.glob("*.whl"):
        if _is_intact(path):
            name, version, *_ = parse_wheel_filename(path.name)
            if (name, version.public) in current:
                continue
        path.unlink()  # it is damaged, or the pins have moved
    lacking = {}
    for target, pins in needed.items():
        todo = target.lacking(pins, house.glob("*.whl"))
        print(f"{target}: {len(todo)} of {len(pins)} packages to download ...", flush=True)
        torch = [pin for pin in todo if pin.startswith("torch==")]
        own_index = os.environ.get(INDEX_VARIABLE, "")
        # Without CUDA. A configured index takes precedence over PyTorch's.
        if torch and target.system.startswith("linux") and (own_index or not _has_own_index()):
            links = [f"--find-links={own_index}"] if own_index else []
            with contextlib.suppress(WheelhouseRefused):  # without an answer, the ordinary index
                _download(torch, target, house, f"--index-url={own_index or CPU_INDEX}", *links)
        _download(target.lacking(todo, house.glob("*.whl")), target, house)
        lacking[target] = target.lacking(pins, house.glob("*.whl"))
    return lacking


def check_wheelhouse(folder: Path) -> tuple[dict[Target, list[str]], list[str]]:
    """Check a wheelhouse, without the network and without a change.

    Returns:
        For each machine the pins without an intact wheel; and the names of damaged wheels.

    Raises:
        WheelhouseRefused: The folder is not a wheelhouse.
    """
    if not (folder / _NOTE).is_file():
        raise WheelhouseRefused(
            f"{folder} is no wheelhouse.",
            f"It has no {_NOTE}.",
            f"Make it with: onnxlab class wheelhouse {folder}",
        )
    file = re.findall(r"-r (requirements\S*)", (folder / _NOTE).read_text("utf-8"))[0]
    text, wheels = (folder / file).read_text("utf-8"), sorted((folder / "wheelhouse").glob("*.whl"))
    damaged = [path for path in wheels if not _is_intact(path)]
    intact = [path for path in wheels if path not in damaged]
    lacking = {target: target.lacking(pins_for(text, target), intact) for target in _targets(folder)}
    return lacking, [path.name for path in damaged]


def _name_and_version(pin: str) -> tuple[str, str]:
    name, _, version = pin.partition("==")
    return canonicalize_name(name), version


def _has_own_index() -> bool:
    command = [sys.executable, "-P", "-m", "pip", "config", "list"]
    settings = subprocess.run(command, capture_output=True, text=True).stdout
    return re.search(r"(index-url|find-links|no-index)[.'\"]*\s*=", settings) is not None


def _download(pins: list[str], target: Target, house: Path, *options: str) -> None:
    """Download the wheels of pins, but for those of which the index has none for that machine."""
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar=off", "--retries=2", "--no-deps", "--only-binary=:all:"]
    command += ["--implementation=cp", f"--python-version={target.python}", f"--dest={house}"]
    command += [*(f"--platform={name}" for name in target.platforms), *options]
    while pins:  # pip stops at the first that there is not
        done = subprocess.run([*command, *pins], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode == 0:
            return
        refused = re.findall(r"No matching distribution found for (\S+)", done.stdout)
        # pip also says "No matching distribution" if the index does not answer.
        silent = re.search(
            r".*(connection broken|Could not fetch|CERTIFICATE_VERIFY|[Tt]imed out).*", done.stdout
        )
        if silent or not set(refused) & set(pins):
            why = silent[0] if silent else done.stdout.strip().splitlines()[-1]
            raise WheelhouseRefused(
                f"The wheels for {target} could not be downloaded.",
                f"pip said: {why.strip()[:200]}",
                "Check the network and the disk; the same command then goes on where it was.",
            )
        pins = [pin for pin in pins if pin not in refused]


def _is_intact(wheel: Path) -> bool:
    """Tell whether pip can read a wheel: an interrupted run, a bad disk or a renaming may have spoilt it."""
    try:
        parse_wheel_filename(wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            return archive.testzip() is None
    except (OSError, ValueError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile):
        return False


def _targets(folder: Path) -> list[Target]:
    lines = re.findall(r"^  - (\S+), Python (\S+)$", (folder / _NOTE).read_text("utf-8"), re.MULTILINE)
    return [Target(*line) for line in lines]


def _copy_course(root: Path, folder: Path) -> None:
    """Copy the files that git has into the folder, over those of an earlier run."""
    command = ["git", "checkout-index", "--all", "--force", f"--prefix={folder.absolute()}/"]
    try:
        subprocess.run(command, cwd=root, capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", "") or str(error)
        msg = f"The course's files could not be taken from {root}."
        why = f"git said: {reason.strip()[:200]}"
        raise WheelhouseRefused(msg, why, "Run this in a clone of the course.") from None
