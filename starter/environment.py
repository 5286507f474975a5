"""The virtual environment .venv: whether it works, making it, and the stamp of what is installed in it."""

import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from starter.console import Stop

__all__ = ["ROOT", "Environment", "State", "child_variables", "course_environment"]

ROOT = Path(__file__).resolve().parents[1]
"""The repository."""

# Set to "current", the commands use the Python that runs course.py as it is, and install nothing.
ESCAPE = "ONNXLAB_ENVIRONMENT"


class State(StrEnum):
    """What was found where the environment should be."""

    MISSING = "missing"
    WORKS = "works"
    BROKEN = "broken"
    SOMETHING_ELSE = "something else"


@dataclass(frozen=True)
class Environment:
    """A place with a Python and packages.

    Attributes:
        folder: Its folder.
        python: Its interpreter.
        ours: Whether the starter makes it and installs into it.
    """

    folder: Path
    python: Path
    ours: bool = True

    def state(self) -> State:
        """Find out whether it can be used."""
        if not os.path.lexists(self.folder):
            return State.MISSING
        if not (self.folder / "pyvenv.cfg").is_file():
            empty = self.folder.is_dir() and not any(self.folder.iterdir())
            # `python -m venv` writes pyvenv.cfg early: without it this is somebody's own folder.
            return State.MISSING if empty else State.SOMETHING_ELSE
        question = "import sys, importlib.util as u; print(*sys.version_info[:2], bool(u.find_spec('pip')))"
        try:
            answer = subprocess.run([self.python, "-c", question], capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return State.BROKEN
        suitable = [f"3 {minor} True" for minor in (11, 12, 13)]
        return State.WORKS if answer.stdout.strip() in suitable else State.BROKEN

    def make(self) -> None:
        """Make it, in place of a broken one.

        Raises:
            Stop: This Python cannot make one.
        """
        require_venv()
        command = [sys.executable, "-m", "venv", "--clear", "--prompt", "onnxlab", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines()[-4:]
            then = f"Remove {self.folder.name}, see that the disk is writable, and run this again."
            what = f"The virtual environment {self.folder} could not be made."
            raise Stop(what, "\n".join(lines), then)

    def digest(self, requirements: Sequence[str]) -> str:
        """Return what the stamp must say for a set of requirements files to count as installed.

        It changes with the files, with the package's own metadata, with the Python, and with the place: an
        editable install points at the folder it was made from.
        """
        parts = [str(ROOT).encode(), (self.folder / "pyvenv.cfg").read_bytes()]
        parts += [(ROOT / name).read_bytes() for name in requirements]
        parts.append((ROOT / "pyproject.toml").read_bytes().partition(b"\n[tool.")[0])
        return hashlib.sha256(b"\0".join(parts)).hexdigest()

    def metadata(self, package: str) -> list[Path]:
        """Return the metadata folders of the installed packages whose name fits a pattern."""
        folders = [*self.folder.glob("lib/python3.*/site-packages"), *self.folder.glob("Lib/site-packages")]
        return [found for folder in folders for found in folder.glob(f"{package}-*.dist-info")]

    def has(self, package: str) -> bool:
        """Tell whether a package is installed to its end: pip writes RECORD last."""
        return any((found / "RECORD").is_file() for found in self.metadata(package))

    @property
    def stamp(self) -> dict[str, str]:
        """What is installed: a name of a set -> its digest. Empty where nothing can be trusted."""
        try:
            read = json.loads((self.folder / "onnxlab-installed.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return read if isinstance(read, dict) else {}

    def set_stamp(self, entries: dict[str, str]) -> None:
        """Write the stamp in one step."""
        path = self.folder / "onnxlab-installed.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps(entries, indent=1), encoding="utf-8")
        new.replace(path)


def course_environment() -> Environment:
    """Return the environment that the commands use."""
    if os.environ.get(ESCAPE) == "current":
        return Environment(Path(sys.prefix), Path(sys.executable), ours=False)
    folder = ROOT / ".venv"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    return Environment(folder, python)


def require_venv() -> None:
    """Raise Stop if this Python was installed without what makes virtual environments, as Debian does."""
    try:
        importlib.import_module("venv")
        importlib.import_module("ensurepip")
    except ImportError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        then = f"Install it and run this again. On Debian and Ubuntu: sudo apt install python{version}-venv"
        if shutil.which("dnf"):
            then = "Install it and run this again: sudo dnf install python3-pip"
        what = "This Python cannot make a virtual environment."
        raise Stop(what, f"It was installed without the module {error.name}.", then) from None


def child_variables(environment: Environment) -> dict[str, str]:
    """Return the environment variables of everything that the starter starts.

    Nothing reports home, nothing of another Python leaks in, and programs of the environment are found first.
    """
    variables = dict(os.environ)
    variables.pop("PYTHONHOME", None)
    variables["PATH"] = os.pathsep.join([str(environment.python.parent), variables.get("PATH", "")])
    variables["ORT_DISABLE_TELEMETRY"] = "1"
    # The kernel of this environment, not one of the same name that a person registered elsewhere.
    variables["JUPYTER_PREFER_ENV_PATH"] = "1"
    variables["PIP_USER"] = "0"  # a person's pip.conf may say user = true, which fails in an environment
    if environment.ours:
        variables["VIRTUAL_ENV"] = str(environment.folder)
    return variables
