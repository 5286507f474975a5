"""Compiling requirements*.txt from the ranges in pyproject.toml.

One version of a package for every supported Python and platform (uv's universal resolution), so that the
course shows the same everywhere. Pins that still fit are kept; only the packages that are named move.
"""

import re
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path

from onnxlab.errors import OnnxLabError

__all__ = ["PinsNotCompiled", "compile_pins", "parse_pins"]

_HEADER = """\
# Exact versions of everything that {what}, for all supported Pythons and platforms.
# Compiled from pyproject.toml by `onnxlab author pin`: do not edit. See docs/maintainer.md.
"""

# Each file, what needs it, the file it adds to, and the extra whose packages it holds.
_FILES = [
    ("requirements.txt", "the course needs", "", ""),
    ("requirements-classroom.txt", "a class adds to requirements.txt", "requirements.txt", "classroom"),
    (
        "requirements-test.txt",
        "the tests add to requirements-classroom.txt",
        "requirements-classroom.txt",
        "test",
    ),
]


class PinsNotCompiled(OnnxLabError):
    """uv is missing, or no set of versions fits the ranges."""


def parse_pins(text: str) -> dict[str, str]:
    r"""Return package names and versions of a requirements file.

    >>> parse_pins("numpy==2.4.6  # via onnx\ncolorama==0.4.6 ; sys_platform == 'win32'\\n-e .")
    {'numpy': '2.4.6', 'colorama': '0.4.6'}
    """
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;#]+)", text, flags=re.MULTILINE))


def compile_pins(root: Path, move: Sequence[str] = ()) -> dict[str, tuple[str | None, str | None]]:
    """Write the requirements files of the repository at `root`.

    Args:
        root: The repository.
        move: Packages to take to the newest version in range (``name``), or to a given one (``name==1.2.3``).

    Returns:
        What changed: package -> version before and after (None: not there).

    Raises:
        PinsNotCompiled: uv is missing, or no set of versions fits the ranges.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    before = _all_pins(root)
    ranges, pinned = list(project["dependencies"]), dict[str, str]()
    for file, what, below, extra in _FILES:
        ranges += extras[extra] if extra else []
        exact = [f"{name}=={version}" for name, version in pinned.items()]
        lines = _resolve(root, ranges + exact, root / file, move)
        added = [line for line in lines if not parse_pins(line).keys() & pinned.keys()]
        pinned |= parse_pins("\n".join(added))
        parts = [f"-r {below}", *added] if below else [*added, "-e ."]  # the course itself comes last
        (root / file).write_text(_HEADER.format(what=what) + "\n".join(parts) + "\n", encoding="utf-8")
    after = _all_pins(root)
    names = sorted(name for name in before | after if before.get(name) != after.get(name))
    return {name: (before.get(name), after.get(name)) for name in names}


def _all_pins(root: Path) -> dict[str, str]:
    return {name: version for file, *_ in _FILES for name, version in _pins(root / file).items()}


def _pins(path: Path) -> dict[str, str]:
    return parse_pins(path.read_text(encoding="utf-8")) if path.exists() else {}


def _resolve(root: Path, ranges: Sequence[str], kept: Path, move: Sequence[str]) -> list[str]:
    """Return one line for each package; pins in the file `kept` are preferred to newer versions."""
    uv = shutil.which("uv")
    if uv is None:
        msg = "uv is not installed."
        raise PinsNotCompiled(msg, "It finds the versions that fit together.", "Run: pip install uv")
    moved = {re.split(r"[=<>!~ ]", package, maxsplit=1)[0].lower() for package in move}
    exact = [package for package in move if "==" in package]
    preferred = [f"{name}=={version}" for name, version in _pins(kept).items() if name.lower() not in moved]
    # The pins go in as an existing output file, which uv treats as a wish and not as a condition.
    output = kept.with_suffix(".compiling")
    output.write_text("\n".join(preferred) + "\n", encoding="utf-8")
    command = [
        uv,
        "pip",
        "compile",
        "-",
        "--universal",
        "--python-version",
        "3.11",
        "--fork-strategy",
        "fewest",
    ]
    command += ["--no-header", "--annotation-style", "line"]
    try:
        done = subprocess.run(
            [*command, "--quiet", "--output-file", str(output)],
            input="\n".join([*ranges, *exact]),
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        lines = output.read_text(encoding="utf-8").splitlines()
    finally:
        output.unlink(missing_ok=True)
    if done.returncode:
        msg = "No set of versions fits the ranges in pyproject.toml."
        raise PinsNotCompiled(msg, done.stderr.strip()[-600:], "Widen a range, or move fewer packages.")
    return [line for line in lines if line and not line.startswith("#")]
