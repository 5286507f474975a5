"""Virtual environments: checking and making one, and the stamp of what is installed in it."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from starter.console import Stop

ROOT = Path(__file__).resolve().parents[1]
"""The repository."""


@dataclass(frozen=True)
class Environment:
    """A Python with its packages.

    Attributes:
        folder: Its folder.
        python: Its interpreter.
        managed: Whether the starter makes it and installs into it.
    """

    folder: Path
    python: Path
    managed: bool = True

    def works(self) -> bool:
        """Tell whether it exists and can be used.

        Raises:
            Stop: Its folder is something else.
        """
        if not os.path.lexists(self.folder) or (self.folder.is_dir() and not any(self.folder.iterdir())):
            return False
        # `python -m venv` writes pyvenv.cfg early: without it this is somebody's own folder.
        if not (self.folder / "pyvenv.cfg").is_file():
            raise Stop(
                "{folder} is there and is not a virtual environment.",
                "It is not the course's, so it is left alone.",
                "Move it away and run this again.",
                folder=self.folder,
            )
        question = "import sys, pip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))"
        try:
            return not subprocess.run(
                [self.python, "-c", question], capture_output=True, timeout=60
            ).returncode
        except (OSError, subprocess.TimeoutExpired):
            return False

    def make(self) -> None:
        """Make it; a broken one is replaced.

        Raises:
            Stop: This Python cannot make one, as Debian's without the package python3-venv.
        """
        command = [sys.executable, "-P", "-m", "venv", "--clear", "--prompt", "onnxlab", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Stop(
                "The virtual environment {folder} could not be made.",
                "Python said: {output}",
                "Is the folder writable? On Debian and Ubuntu also: sudo apt install {package}",
                folder=self.folder,
                output=" ".join((done.stdout + done.stderr).split())[-200:],
                package=f"python{sys.version_info.major}.{sys.version_info.minor}-venv",
            )

    def digest(self, requirements: str) -> str:
        """Return the digest that the stamp has if a requirements file is installed.

        It changes with the file, with the metadata of the course's two packages, with the Python, and with
        the repository's path, because editable installs refer to it.
        """
        files = [self.folder / "pyvenv.cfg", ROOT / requirements, ROOT / "pyproject.toml"]
        files += sorted(path for path in ROOT.glob("packages/*/[!.]*") if path.is_file())
        project = [path.read_bytes().partition(b"\n[tool.")[0] for path in files]
        return hashlib.sha256(b"\0".join([str(ROOT).encode(), *project])).hexdigest()

    @property
    def stamp(self) -> list[str]:
        """The digests of the requirements files that are installed."""
        path = self.folder / "onnxlab-installed.txt"
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def set_stamp(self, requirements: Sequence[str]) -> None:
        """Record which requirements files are installed."""
        text = "\n".join(map(self.digest, requirements))
        (self.folder / "onnxlab-installed.txt").write_text(text, encoding="utf-8")


def course_environment(name: str = ".venv") -> Environment:
    """Return .venv; with ONNXLAB_ENVIRONMENT=current the running Python, into which nothing is installed."""
    if os.environ.get("ONNXLAB_ENVIRONMENT") == "current":
        return Environment(Path(sys.prefix), Path(sys.executable), managed=False)
    folder = ROOT / name
    return Environment(folder, folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def child_variables(environment: Environment, language: str = "en") -> dict[str, str]:
    """Return the environment variables for all processes that the starter starts.

    Telemetry is off, no setting of another Python leaks in, and programs of the environment are found first.

    Args:
        environment: The environment in which they run.
        language: The language of the course's commands, also in JupyterLab's terminals.
    """
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    variables["PATH"] = os.pathsep.join([str(environment.python.parent), variables.get("PATH", "")])
    variables["ORT_DISABLE_TELEMETRY"] = "1"
    variables["ONNXLAB_LANGUAGE"] = language
    # The kernel of this environment, not one of the same name that a person registered elsewhere.
    variables["JUPYTER_PREFER_ENV_PATH"] = "1"
    variables["PIP_USER"] = "0"  # a person's pip.conf may say user = true, which fails in an environment
    if environment.managed:
        variables["VIRTUAL_ENV"] = str(environment.folder)
        # The layout of open tabs is stored with the course: that of the user's other JupyterLab stays.
        variables.setdefault("JUPYTERLAB_WORKSPACES_DIR", str(environment.folder / "share" / "workspaces"))
    return variables
