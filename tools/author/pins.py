"""Compiles requirements.txt and requirements/ from both packages' ranges, with `uv pip compile --universal`.

There is one version of a package for all Pythons and platforms, so that the course shows the same everywhere.
uv's options stand in pyproject.toml, under `[tool.uv.pip]`.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from onnxlab.errors import OnnxLabError

FILES = {
    "requirements/test.txt": "-e .[backends,test]\n-e packages/onnxlab-class[classroom,cluster]",
    "requirements/class.txt": "-e .\n-e packages/onnxlab-class[classroom]",
    "requirements.txt": "-e .",
}
"""Each file, with the requirements that it is compiled from; the largest first."""

SITE = "requirements/site.txt"
"""What the web site is built with: the dependency group `site`. The course itself is not installed for it."""


class PinsNotCompiled(OnnxLabError):
    """uv is missing, a package is unknown, or no set of versions fits the ranges."""


def parse_pins(text: str) -> dict[str, str]:
    r"""Return package names and versions of a requirements file.

    >>> parse_pins("numpy==2.4.6  # via onnx\ncolorama==0.4.6 ; sys_platform == 'win32'\n-e .")
    {'numpy': '2.4.6', 'colorama': '0.4.6'}
    """
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;#]+)", text, flags=re.MULTILINE))


def compile_pins(root: Path, move: Sequence[str] = ()) -> dict[str, tuple[str | None, str | None]]:
    """Write the requirements files of the repository at `root`. Pins that still fit are kept.

    Args:
        root: The repository.
        move: Packages to take to the newest version in range (``name``), or to a given one (``name==1.2.3``).

    Returns:
        The changes: package -> version before and after (None: not there).

    Raises:
        PinsNotCompiled: uv is missing, a package is unknown, or no set of versions fits the ranges.
    """
    largest = root / next(iter(FILES))
    before = _pins(largest)
    for package in move:
        name = package.partition("==")[0]
        if name not in before and name not in (root / "pyproject.toml").read_text(encoding="utf-8"):
            raise PinsNotCompiled(
                f"{next(iter(FILES))} has no package {name!r}, so nothing was moved.",
                "A name is written as it is there.",
                "To add a package: write its range into pyproject.toml first.",
            )
    uv = shutil.which("uv")
    if uv is None:
        raise PinsNotCompiled(
            "uv is not installed.", "It finds the versions that fit together.", "Run: pip install uv"
        )
    options = [part for package in move for part in ("--upgrade-package", package)]
    for name, requirements in {**FILES, SITE: ""}.items():
        if root / name != largest:
            # uv prefers the versions that an output file has already, here those of the largest set.
            shutil.copyfile(largest, root / name)
        source = ["-"] if requirements else ["--group", "site"]
        command = [uv, "pip", "compile", *source, "--quiet", "--output-file", name, *options]
        done = subprocess.run(command, input=requirements, cwd=root, capture_output=True, text=True)
        if done.returncode:
            raise PinsNotCompiled(
                "No set of versions fits the ranges in pyproject.toml.",
                done.stderr.strip()[-600:],
                "Widen a range, or move fewer packages.",
            )
        options = []
    after = _pins(largest)
    names = sorted(name for name in before | after if before.get(name) != after.get(name))
    return {name: (before.get(name), after.get(name)) for name in names}


def _pins(path: Path) -> dict[str, str]:
    return parse_pins(path.read_text(encoding="utf-8")) if path.exists() else {}
