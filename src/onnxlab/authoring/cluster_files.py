"""The files for a cluster in docs/kubernetes/: what is pinned in them follows the course's own pins.

A comment `# pinned: name` says that the value in the line below it is not written by hand. constraints.txt is
written as a whole.
"""

import re
import tomllib
from pathlib import Path

from onnxlab.authoring.pins import parse_pins
from onnxlab.errors import OnnxLabError

__all__ = ["CHART", "HUB", "PYTHON", "ClusterFilesBroken", "out_of_sync", "pinned", "sync"]

CHART = "4.4.2"
"""The chart "jupyterhub" that the files are written for."""

HUB = "5.5.2"
"""The JupyterHub in that chart; the image's has to be of the same major version."""

PYTHON = "3.11"
"""What the image runs: the oldest that the course supports, which the tests run on most often."""

# As measured, docs/kubernetes.md: what a server with a kernel needs, and what a learner may have at most.
_MEMORY = {"memory-guarantee": "1G", "memory-limit": "2G"}
_REPOSITORY = "registry.example.org/onnxlab"
_FOLDER = Path("docs", "kubernetes")
_MARKED = ("Dockerfile", "values.yaml", "class.yaml", "grading.yaml")
_CONSTRAINTS = "constraints.txt"
_MARK = re.compile(r'^([ ]*# pinned: ([a-z-]+)\n[^\n]*?(?:=|: ))("?)[^"\n]*("?)$', re.MULTILINE)
_HEADER = """\
# What the image installs besides requirements.txt has these versions; JupyterHub is the chart's.
# Compiled from requirements-*.txt by `onnxlab author cluster`: do not edit.
"""


class ClusterFilesBroken(OnnxLabError):
    """A file for a cluster is missing, or names a pin that does not exist."""


def pinned(root: Path) -> dict[str, str]:
    """Return what the files may name, by the name after "pinned:".

    Args:
        root: The repository.

    Raises:
        ClusterFilesBroken: If the pins cannot be read.
    """
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
        pins = {name: version for path in _requirements(root) for name, version in _pins(path).items()}
    except (OSError, KeyError, ValueError) as error:
        msg = f"The course's pins cannot be read: {error}."
        raise ClusterFilesBroken(msg, "", "Run this in the course's folder.") from None
    version = project["version"]
    return {
        **_MEMORY,
        "distributed": pins["distributed"],
        "image": f"{_REPOSITORY}:{version}",
        "jupyterhub": HUB,
        "onnxlab": version,
        "python": PYTHON,
        "torch": pins["torch"],
    }


def sync(root: Path) -> list[Path]:
    """Write what is pinned into the files.

    Returns:
        The files that changed.
    """
    changed = [(path, text) for path, text in _wanted(root) if not path.exists() or _text(path) != text]
    for path, text in changed:
        path.write_text(text, "utf-8", newline="\n")
    return [path for path, _ in changed]


def out_of_sync(root: Path) -> list[str]:
    """Return the files that `sync` would change; nothing is written."""
    stale = [path for path, text in _wanted(root) if not path.exists() or _text(path) != text]
    return [f"{path.relative_to(root).as_posix()} does not follow the pins" for path in stale]


def _wanted(root: Path) -> list[tuple[Path, str]]:
    values = pinned(root)
    found = []
    for name in _MARKED:
        path = root / _FOLDER / name
        found.append((path, _filled(name, _text(path), values)))
    return [*found, (root / _FOLDER / _CONSTRAINTS, _constraints(root))]


def _filled(name: str, text: str, values: dict[str, str]) -> str:
    def fill(match: re.Match[str]) -> str:
        before, what, opening, closing = match.groups()
        if what not in values:
            msg = f"{name} asks for the pin {what!r}, which does not exist."
            raise ClusterFilesBroken(msg, "", f"There are {', '.join(sorted(values))}.")
        return f"{before}{opening}{values[what]}{closing}"

    filled, count = _MARK.subn(fill, text)
    if count != text.count("# pinned: "):
        msg = f"In {name}, a line below '# pinned:' has no value."
        raise ClusterFilesBroken(msg, "", "It has to be 'key: value' or 'KEY=value'.")
    return filled


def _constraints(root: Path) -> str:
    lines = [line.partition("#")[0].rstrip() for path in _requirements(root)[1:] for line in _lines(path)]
    kept = sorted({line for line in lines if parse_pins(line) and "jupyterhub" not in parse_pins(line)})
    return _HEADER + "\n".join(kept) + "\n"


def _requirements(root: Path) -> list[Path]:
    return [root / f"requirements{part}.txt" for part in ("", "-classroom", "-test")]


def _pins(path: Path) -> dict[str, str]:
    return parse_pins(_text(path))


def _lines(path: Path) -> list[str]:
    return _text(path).splitlines()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        msg = f"{path.name} cannot be read: {error.strerror}."
        raise ClusterFilesBroken(
            msg, "", "Run this in the course's folder, or take the file from git again."
        ) from None
