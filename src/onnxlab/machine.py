"""The installed packages compared with those that the course was tested with, and the C++ compiler."""

import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from onnxlab.message import Message

COURSE_IN_WHEEL = Path(__file__).resolve().parent / "assets" / "course"
"""The folder of a wheel with the course's notebooks and requirements.txt; a clone has them beside src/."""

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own index of builds without CUDA, which are a tenth as large."""

INDEX_VARIABLE = "ONNXLAB_TORCH_INDEX"
"""The environment variable with the address of another such index, or of a page of links."""

PACKAGES = ("torch", "onnx", "onnxruntime", "onnxscript", "onnx-ir", "numpy", "netron")
"""The packages whose versions affect what the course's cells print and show."""

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;#\\]+)")


@dataclass(frozen=True)
class Installed:
    """A package: the installed version, if any, and the one the course was tested with, if that is known."""

    name: str
    installed: str | None
    tested: str | None

    @property
    def agrees(self) -> bool | None:
        """Whether both versions are the same release; None if the tested one is not known.

        Build tags do not count: 2.13.0+cpu is 2.13.0.
        """
        if self.tested is None:
            return None
        release = self.tested.partition("+")[0]
        return self.installed is not None and self.installed.partition("+")[0] == release


def environment(folder: Path | None = None) -> list[Installed]:
    """Return the packages that affect the course's outputs.

    Args:
        folder: The folder of requirements.txt; by default the package (in a wheel), the one beside it, the
            working directory and the folders above it are searched.

    Example:
        >>> [package.name for package in environment()][:3]
        ['torch', 'onnx', 'onnxruntime']
    """
    tested = pinned_versions(folder)
    return [Installed(name, _installed(name), tested.get(_key(name))) for name in PACKAGES]


def advice(packages: Iterable[Installed]) -> str:
    """Return whether outputs will be those of the course, and what to do if not; a line for each package.

    Example:
        >>> advice([Installed("torch", "2.13.0+cpu", "2.13.0")])
        'The installed packages are those the course was tested with.'
        >>> print(advice([Installed("torch", "2.15.0", "2.13.0")]))
        torch is 2.15.0, tested was 2.13.0.
        Outputs may differ. For the tested versions, run: pip install torch==2.13.0
    """
    packages = list(packages)
    if any(package.tested is None for package in packages):
        unknown = ", ".join(package.name for package in packages if package.tested is None)
        return Message(
            "The tested version of {unknown} is not known: no requirements.txt of the course names it. "
            "Start in the folder of the course to compare.",
            unknown=unknown,
        )
    different = [package for package in packages if not package.agrees]
    if not different:
        return "The installed packages are those the course was tested with."
    pins = " ".join(f"{p.name}=={p.tested}" for p in different)
    then = Message("Outputs may differ. For the tested versions, run: pip install {pins}", pins=pins)
    return Message.compose("\n", [*map(_difference, different), then])


def _difference(package: Installed) -> str:
    if package.installed is None:
        return Message("{package.name} is not installed, tested was {package.tested}.", package=package)
    return Message("{package.name} is {package.installed}, tested was {package.tested}.", package=package)


def pinned_versions(folder: Path | None = None) -> dict[str, str]:
    """Return the versions pinned in the course's requirements.txt, by package; empty if there is none.

    Example:
        >>> pinned_versions(Path("no such folder"))
        {}
    """
    file = _requirements(folder)
    if file is None:
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    return {_key(pin[1]): pin[2] for line in lines if (pin := _PIN.match(line.strip()))}


def _requirements(folder: Path | None) -> Path | None:
    if folder is not None:
        candidates = [folder]
    else:
        package = Path(__file__).resolve().parents[2]  # the repository, when installed with pip install -e
        here = Path.cwd()
        candidates = [COURSE_IN_WHEEL, package, here, *here.parents]
    for candidate in candidates:
        file = candidate / "requirements.txt"
        # Any project may have a requirements.txt; the course's is beside its package, or in it.
        ours = candidate in (folder, COURSE_IN_WHEEL) or (candidate / "src" / "onnxlab").is_dir()
        if file.is_file() and ours:
            return file
    return None


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Toolchain:
    """The paths of the programs that `torch.utils.cpp_extension` calls: the C++ compiler and ninja."""

    compiler: str | None
    ninja: str | None

    @property
    def ready(self) -> bool:
        """Whether an operator can be built."""
        return self.compiler is not None and self.ninja is not None

    @property
    def missing(self) -> str:
        """The missing programs and how to get them; empty if none is missing.

        Example:
            >>> Toolchain(compiler="c++", ninja=None).missing
            'ninja (pip install ninja)'
        """
        programs = {
            "a C++ compiler (g++, clang or Visual Studio's cl)": self.compiler,
            "ninja (pip install ninja)": self.ninja,
        }
        return " and ".join(name for name, path in programs.items() if path is None)

    @property
    def path(self) -> str:
        """A search path with the programs' folders, for `os.environ["PATH"]`."""
        folders = [str(Path(program).parent) for program in (self.compiler, self.ninja) if program]
        path = os.environ.get("PATH", "").split(os.pathsep)
        return os.pathsep.join([*path, *(folder for folder in folders if folder not in path)])


def cpp_toolchain() -> Toolchain:
    """Find a compiler and ninja; ninja also beside the running Python, where pip puts it.

    Example:
        >>> tools = cpp_toolchain()
        >>> tools.ready == (tools.missing == "")
        True
    """
    compiler = os.environ.get("CXX") or ("cl" if sys.platform == "win32" else "c++")
    beside_python = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
    return Toolchain(shutil.which(compiler), shutil.which("ninja", path=beside_python))
