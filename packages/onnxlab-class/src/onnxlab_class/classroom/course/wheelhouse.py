"""A copy of the course that installs without the network: its files, and wheels from `pip download`.

The pins name every package of every Python and system, so nothing has to be resolved.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
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
        """The platform tags for pip, which fills in older ones for macOS only."""
        if self.system in ("windows", "macos-arm64"):
            return ["win_amd64" if self.system == "windows" else "macosx_14_0_arm64"]
        # glibc 2.28 is of 2018: Debian 10, Ubuntu 20.04, RHEL 8; what PyTorch itself asks for.
        names = [*(f"manylinux_2_{minor}" for minor in range(28, 4, -1)), "manylinux2014", "manylinux2010"]
        return [f"{name}_{SYSTEMS[self.system][3]}" for name in [*names, "manylinux1", "linux"]]


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
    root: Path, folder: Path, targets: Sequence[Target], file: str, progress: Callable[[str], None] = print
) -> dict[Target, list[str]]:
    """Make the folder, or update it: wheels that are there and intact are not downloaded again.

    Args:
        root: The course's own folder, a git checkout.
        folder: A new or empty folder, or one of an earlier run.
        targets: The machines; those of an earlier run stay.
        file: The name of the requirements file.
        progress: Called with a line before each step.

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
        why = f"It takes about {_BYTES * len(all_targets) / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free."
        raise WheelhouseRefused(
            f"There is not enough free disk space for {house}.",
            why,
            "Free some space, or name fewer machines.",
        )
    _write_note(folder, all_targets, file)
    progress("the course's files")
    _copy_course(root, folder)
    for path in _damaged(house):
        path.unlink()
    text = (folder / file).read_text("utf-8")
    needed = {target: pins_for(text, target) for target in all_targets}
    versions = {(_name(pin), pin.partition("==")[2]) for pins in needed.values() for pin in pins}
    for path in house.glob("*.whl"):  # the pins may have moved
        name, version, *_ = parse_wheel_filename(path.name)
        if (name, version.public) not in versions:
            path.unlink()
    lacking = {}
    for target, pins in needed.items():
        progress(f"{target}: {len(pins)} packages")
        torch = [pin for pin in pins if pin.startswith("torch==")]
        if target.system.startswith("linux") and not any(
            house.glob(f"torch-*{SYSTEMS[target.system][3]}.whl")
        ):
            command = [sys.executable, "-P", "-m", "pip", "config", "list"]
            settings = subprocess.run(command, capture_output=True, text=True).stdout
            own = os.environ.get(INDEX_VARIABLE, "")
            # A configured index takes precedence over PyTorch's.
            if own or not re.search(r"(index-url|find-links|no-index)\s*=", settings):
                # Without an answer, the ordinary index.
                links = ["--find-links", own] if own else []
                _pip(torch, target, house, "--index-url", own or CPU_INDEX, *links)
        lacking[target] = _fill(pins, target, house)
    return lacking


def check_wheelhouse(folder: Path) -> tuple[dict[Target, list[str]], list[str]]:
    """Check a wheelhouse, without the network and without a change.

    Returns:
        For each machine the pins without a wheel; and the names of damaged wheels.

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
    text, house = (folder / file).read_text("utf-8"), folder / "wheelhouse"
    damaged = _damaged(house)
    damaged_names = {parse_wheel_filename(path.name)[0] for path in damaged}  # pip would stop at them
    lacking = {}
    for target in _targets(folder):
        pins = [pin for pin in pins_for(text, target) if _name(pin) not in damaged_names]
        lacking[target] = _fill(pins, target, house, "--no-index")
    return lacking, [path.name for path in damaged]


def _name(pin: str) -> str:
    return canonicalize_name(pin.partition("==")[0])


def _fill(pins: list[str], target: Target, house: Path, *options: str) -> list[str]:
    """Download the wheels that are missing; return the pins that have none for that machine."""
    lacking: list[str] = []
    while todo := [pin for pin in pins if pin not in lacking]:
        code, output = _pip(todo, target, house, *options)
        if code == 0:
            break
        refused = re.findall(r"No matching distribution found for (\S+)", output)
        # pip also says "No matching distribution" if the index does not answer.
        silent = re.search(r".*(connection broken|Could not fetch|CERTIFICATE_VERIFY|[Tt]imed out).*", output)
        if silent or not set(refused) & set(todo):
            why = silent[0] if silent else output.strip().splitlines()[-1]
            then = "Check the network and the disk; the same command then goes on where it was."
            raise WheelhouseRefused(
                f"The wheels for {target} could not be downloaded.", f"pip said: {why.strip()[:200]}", then
            )
        lacking += refused
    return lacking


def _pip(pins: Sequence[str], target: Target, house: Path, *options: str) -> tuple[int, str]:
    quiet = ["--no-input", "--disable-pip-version-check", "--progress-bar=off", "--retries=2"]
    what = ["--no-deps", "--only-binary=:all:", "--implementation=cp", f"--python-version={target.python}"]
    command = [sys.executable, "-P", "-m", "pip", "download", *quiet, *what]
    command += [f"--platform={name}" for name in target.platforms]
    command += [f"--dest={house}", f"--find-links={house}", *options, *pins]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def _damaged(house: Path) -> list[Path]:
    """Return the wheels that an interrupted run or a bad disk has damaged."""

    def intact(path: Path) -> bool:
        try:
            with zipfile.ZipFile(path) as archive:
                return archive.testzip() is None
        except (OSError, ValueError, EOFError, zipfile.BadZipFile):
            return False

    return [path for path in sorted(house.glob("*.whl")) if not intact(path)]


def _targets(folder: Path) -> list[Target]:
    lines = re.findall(r"^  - (\S+), Python (\S+)$", (folder / _NOTE).read_text("utf-8"), re.MULTILINE)
    return [Target(*line) for line in lines]


def _write_note(folder: Path, targets: Sequence[Target], file: str) -> None:
    machines = "\n".join(f"  - {target}" for target in targets)
    lines = (
        "ONNX Lab, to be installed without the network",
        "",
        "1. Copy this whole folder to the laptop, to a place where you may write.",
        "2. Python has to be installed on it already. The wheels are for:",
        machines,
        "3. In the folder, run `python3 course.py`; on Windows, `py course.py`.",
        "",
        "It makes .venv, installs from the folder wheelhouse and opens JupyterLab; it takes 2 GB.",
        "The folder wheelhouse may be deleted afterwards. In an environment of your own, run instead:",
        f"    pip install --no-index --find-links wheelhouse -r {file}",
        "",
    )
    (folder / _NOTE).write_text("\n".join(lines), "utf-8")


def _copy_course(root: Path, folder: Path) -> None:
    """Copy the committed files of the course into the folder, over those of an earlier run."""
    with tempfile.TemporaryFile() as file:
        try:
            command = ["git", "archive", "HEAD"]
            subprocess.run(command, cwd=root, stdout=file, stderr=subprocess.PIPE, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", b"") or str(error).encode()
            msg = f"The course's files could not be taken from {root}."
            why = f"git said: {reason.decode(errors='replace').strip()[:200]}"
            raise WheelhouseRefused(msg, why, "Run this in a clone of the course.") from None
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            archive.extractall(folder, filter="data")
