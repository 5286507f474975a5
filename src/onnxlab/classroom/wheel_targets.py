"""The machines that wheels are wanted for: which tags fit there, and which pins count there."""

import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from packaging import tags
from packaging.requirements import Requirement

from onnxlab.errors import OnnxLabError

__all__ = ["PYTHONS", "SYSTEMS", "Target", "UnknownTarget", "this_target", "wanted_pins"]

PYTHONS = ("3.11", "3.12", "3.13")

# system -> os.name, sys.platform, platform.system(), platform.machine()
_MARKERS = {
    "linux": ("posix", "linux", "Linux", "x86_64"),
    "linux-arm64": ("posix", "linux", "Linux", "aarch64"),
    "macos-arm64": ("posix", "darwin", "Darwin", "arm64"),
    "windows": ("nt", "win32", "Windows", "AMD64"),
}
SYSTEMS = tuple(_MARKERS)
"""The systems that PyTorch has packages for."""

_OLDER_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_GLIBC = 28  # of 2018 and later: Debian 10, Ubuntu 20.04, RHEL 8; what PyTorch itself asks for
_MACOS = (14, 0)


class UnknownTarget(OnnxLabError):
    """Wheels were asked for a machine that the course does not run on."""


@dataclass(frozen=True)
class Target:
    """A kind of machine with a Python.

    Attributes:
        system: One of `SYSTEMS`.
        python: The version, as "3.12".
    """

    system: str
    python: str

    def __post_init__(self) -> None:
        if self.system not in SYSTEMS or self.python not in PYTHONS:
            msg = f"The course does not run with Python {self.python} on {self.system}."
            then = f"It runs with Python {', '.join(PYTHONS)} on {', '.join(SYSTEMS)}."
            raise UnknownTarget(msg, "", then)

    def __str__(self) -> str:
        return f"{self.system}, Python {self.python}"

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """The tags of platforms, the newest first."""
        if self.system == "windows":
            return ("win_amd64",)
        if self.system == "macos-arm64":
            return tuple(tags.mac_platforms(_MACOS, "arm64"))
        machine = _MARKERS[self.system][3]
        names = []
        for minor in range(_GLIBC, 4, -1):
            names += [f"manylinux_2_{minor}", *([_OLDER_NAMES[minor]] if minor in _OLDER_NAMES else [])]
        return (*(f"{name}_{machine}" for name in names), f"linux_{machine}")

    @cached_property
    def tags(self) -> frozenset[tags.Tag]:
        """Every tag of a wheel that can be installed there."""
        major, minor = map(int, self.python.split("."))
        interpreter = f"cp{major}{minor}"
        return frozenset(
            [
                *tags.cpython_tags((major, minor), [interpreter], self.platforms),
                *tags.compatible_tags((major, minor), interpreter, self.platforms),
            ]
        )

    @cached_property
    def markers(self) -> dict[str, str]:
        """What the conditions of requirements are answered with."""
        name, short, long, machine = _MARKERS[self.system]
        return {
            "os_name": name,
            "sys_platform": short,
            "platform_system": long,
            "platform_machine": machine,
            "platform_release": "",
            "platform_version": "",
            "python_version": self.python,
            "python_full_version": f"{self.python}.9",
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.9",
            "platform_python_implementation": "CPython",
            "extra": "",
        }

    def needs(self, requirement: Requirement) -> bool:
        """Tell whether a requirement counts there."""
        return requirement.marker is None or requirement.marker.evaluate(self.markers)


def this_target() -> Target:
    """Return this machine.

    Raises:
        UnknownTarget: If the course does not run on it.
    """
    system, machine = platform.system(), platform.machine().lower()
    known = {(long.lower(), each.lower()): name for name, (_, _, long, each) in _MARKERS.items()}
    found = known.get((system.lower(), machine), f"{system} {machine}")
    return Target(found, f"{sys.version_info.major}.{sys.version_info.minor}")


def wanted_pins(text: str, target: Target) -> list[Requirement]:
    r"""Return the pins of a requirements file that count on a machine.

    Example:
        >>> text = "numpy==2.4.6  # via onnx\ncolorama==0.4.6 ; sys_platform == 'win32'\n-e ."
        >>> [str(each) for each in wanted_pins(text, Target("linux", "3.12"))]
        ['numpy==2.4.6']
        >>> [each.name for each in wanted_pins(text, Target("windows", "3.12"))]
        ['numpy', 'colorama']
    """
    found = (Requirement(line) for line in _lines(text.splitlines()))
    return [each for each in found if target.needs(each)]


def _lines(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        bare = line.partition(" #")[0].strip()
        if bare and not bare.startswith(("#", "-")):
            yield bare
