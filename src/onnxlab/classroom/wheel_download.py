"""Asking pip for wheels: for another Python or system if need be, and for as many as there are."""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from onnxlab.classroom.wheel_targets import Target
from onnxlab.errors import OnnxLabError

__all__ = ["CPU_INDEX", "DownloadFailed", "download", "download_cpu_torch"]

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own index of builds without CUDA, which are a tenth as large."""

_NONE = re.compile(r"No matching distribution found for ([\w.-]+)")
# Without an answer pip also says that there is no such distribution.
_SILENT = re.compile(r"connection broken|Could not fetch URL|CERTIFICATE_VERIFY_FAILED|[Tt]imed out")
_SOURCES = re.compile(r"(index-url|extra-index-url|find-links|no-index)\s*=")


class DownloadFailed(OnnxLabError):
    """pip could not download; not because of one package."""


def download(
    requirements: Iterable[Requirement], target: Target, folder: Path, told: Callable[[int, int, str], None]
) -> list[Requirement]:
    """Download wheels into a folder; what is there already is kept.

    Args:
        requirements: What is wanted, to the version; what these need in turn is not looked for.
        target: For which machine.
        folder: Where to.
        told: Told how many of how many are there, and what happens now.

    Returns:
        What has no wheel for that machine.

    Raises:
        DownloadFailed: If the index does not answer or the disk is full.
    """
    wanted = list(requirements)
    lacking: list[Requirement] = []

    def follow(done: int, now: str) -> None:
        told(done, len(wanted), now)

    while wanted:
        code, said = _pip([str(each) for each in wanted], _for(target), folder, follow)
        if code == 0:
            break
        names = {
            canonicalize_name(name)
            for line in said
            if (match := _NONE.search(line))
            for name in match.groups()
        }
        refused = [each for each in wanted if canonicalize_name(each.name) in names]
        silent = next((line for line in said if _SILENT.search(line)), "")
        if silent or not refused:
            raise _failed(silent or _last_error(said), target)
        lacking += refused
        wanted = [each for each in wanted if each not in refused]
    return lacking


def download_cpu_torch(torch: Requirement, target: Target, folder: Path) -> bool:
    """Get the build of torch without CUDA for a Linux machine, where its index can be reached.

    Somebody who told pip where packages come from knows better: then that index is not asked.
    """
    if not target.system.startswith("linux") or _told_where():
        return False
    try:
        with urllib.request.urlopen(f"{CPU_INDEX}/torch/", timeout=5) as reply:
            reply.read(1)
    except (OSError, ValueError):
        return False
    code, _ = _pip([str(torch)], [*_for(target), "--index-url", CPU_INDEX], folder, lambda done, now: None)
    return code == 0


def _for(target: Target) -> list[str]:
    platforms = [argument for each in target.platforms for argument in ("--platform", each)]
    return ["--implementation", "cp", "--python-version", target.python, *platforms]


def _pip(
    wanted: Sequence[str], options: Sequence[str], folder: Path, told: Callable[[int, str], None]
) -> tuple[int, list[str]]:
    """Run one download; return pip's exit code and what it said."""
    command = [sys.executable, "-m", "pip", "download", "--no-input", "--disable-pip-version-check"]
    command += [
        "--retries",
        "2",
        "--progress-bar",
        "off",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        str(folder),
    ]
    process = subprocess.Popen(
        [*command, *options, *wanted],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    said: list[str] = []
    done = 0
    try:
        for line in process.stdout or ():
            said.append(line.rstrip())
            if match := re.match(r"Collecting ([\w.-]+)", line):
                done += 1
                told(done, match[1])
            elif match := re.match(r"\s+Downloading ([\w.]+?)-\d\S* \((.*)\)", line):
                told(done, f"{match[1]} ({match[2]})")
        return process.wait(), said
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _told_where() -> bool:
    command = [sys.executable, "-m", "pip", "config", "list"]
    return bool(_SOURCES.search(subprocess.run(command, capture_output=True, text=True).stdout))


def _last_error(said: Sequence[str]) -> str:
    return ([line for line in said if line.startswith("ERROR")] or [*said, "nothing"])[-1]


def _failed(line: str, target: Target) -> DownloadFailed:
    msg = f"The wheels for {target} could not be downloaded."
    then = "Check the network and the disk; the same command then goes on where it was."
    return DownloadFailed(msg, f"pip said: {line.strip()[:200]}", then)
