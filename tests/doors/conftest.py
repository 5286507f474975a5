"""The course's wheel, and environments that have every package the tests have, but not the course."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from sysconfig import get_path

import pytest

ROOT = Path(__file__).parents[2]
RUN = """
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], 4)
options = {"kernel_name": "python3", "timeout": 300, "allow_errors": "errors" in sys.argv}
nbclient.NotebookClient(notebook, **options).execute()
nbformat.write(notebook, sys.argv[1])
"""


class Environment:
    """A virtual environment and a folder to work in, both far from the repository."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder = python, folder

    def run(self, *arguments: str, cwd: Path | None = None, code: int = 0) -> str:
        """Run its Python; return what it printed, on stderr if it is to end with a code other than 0."""
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ONNXLAB"))
        }
        own = {"ONNXLAB_STATE": str(self.folder / "progress.json"), "JUPYTER_PREFER_ENV_PATH": "1"}
        command = [str(self.python), *arguments]
        done = subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=variables | own,
            capture_output=True,
            encoding="utf-8",
            timeout=600,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stderr if code else done.stdout

    def install(self, wheel: Path) -> None:
        """Install a wheel without its requirements."""
        self.run("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel))

    def run_notebook(self, path: Path, *, errors: bool = False) -> None:
        """Run a notebook in the folder in which it lies, and save it."""
        self.run("-c", RUN, str(path), *(["errors"] if errors else []), cwd=path.parent)


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository as it is: a build leaves folders behind where it runs."""
    folder = tmp_path_factory.mktemp("clone")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.check_output(command, cwd=ROOT, text=True).split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Give a function that builds the wheel from a folder or an sdist, without the network."""

    def build(source: Path) -> Path:
        out = tmp_path_factory.mktemp("wheel")
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        done = subprocess.run(
            [*command, "--wheel-dir", str(out), str(source)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (wheel,) = out.iterdir()
        return wheel

    return build


@pytest.fixture(scope="session")
def wheel(build: Callable[[Path], Path], clone: Path) -> Path:
    return build(clone)


@pytest.fixture(scope="session")
def class_wheel(build: Callable[[Path], Path], clone: Path) -> Path:
    return build(clone / "packages" / "onnxlab-class")


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of links to what is installed here, except for the course."""
    folder = tmp_path_factory.mktemp("packages")
    for entry in {path for kind in ("purelib", "platlib") for path in Path(get_path(kind)).iterdir()}:
        if "onnxlab" not in entry.name and not (folder / entry.name).exists():
            try:
                (folder / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
            except OSError as error:  # on Windows not everybody may
                pytest.skip(f"this system makes no links: {error}")
    return folder


@pytest.fixture(scope="module")
def without_course(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Environment:
    """An environment of its own that cannot import onnxlab."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv", symlinks=os.name != "nt")
    python = folder / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    (folder / "work").mkdir()
    environment = Environment(python, folder / "work")
    site = environment.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(site, "packages.pth").write_text(f"{packages}\n", encoding="utf-8")
    assert "None" in environment.run(
        "-c", "from importlib.util import find_spec; print(find_spec('onnxlab'))"
    )
    return environment
