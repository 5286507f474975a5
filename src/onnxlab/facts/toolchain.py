"""What this machine has for building a C++ operator: a compiler, and the ninja that torch drives it with."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Toolchain", "cpp_toolchain"]


@dataclass(frozen=True)
class Toolchain:
    """The programs that `torch.utils.cpp_extension` calls.

    Attributes:
        compiler: Path of the C++ compiler, or None.
        ninja: Path of ninja, or None.
    """

    compiler: str | None
    ninja: str | None

    @property
    def ready(self) -> bool:
        """Whether an operator can be built."""
        return self.compiler is not None and self.ninja is not None

    @property
    def missing(self) -> str:
        """What is missing and how to get it; empty if nothing is.

        Example:
            >>> Toolchain(compiler="c++", ninja=None).missing
            'ninja (pip install ninja)'
        """
        wanted = {
            "a C++ compiler (g++, clang or Visual Studio's cl)": self.compiler,
            "ninja (pip install ninja)": self.ninja,
        }
        return " and ".join(name for name, found in wanted.items() if found is None)

    @property
    def path(self) -> str:
        """A search path on which the programs are found, for `os.environ["PATH"]`."""
        folders = [str(Path(program).parent) for program in (self.compiler, self.ninja) if program]
        known = os.environ.get("PATH", "").split(os.pathsep)
        return os.pathsep.join([*known, *(folder for folder in folders if folder not in known)])


def cpp_toolchain() -> Toolchain:
    """Look for a compiler and for ninja; ninja also beside the running Python, where pip puts it.

    Example:
        >>> tools = cpp_toolchain()
        >>> tools.ready == (tools.missing == "")
        True
    """
    compiler = os.environ.get("CXX") or ("cl" if sys.platform == "win32" else "c++")
    beside_python = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
    return Toolchain(shutil.which(compiler), shutil.which("ninja", path=beside_python))
