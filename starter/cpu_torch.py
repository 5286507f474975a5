"""Finding the small build of torch. On Linux the ordinary index gives one with several gigabytes of CUDA."""

import re
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starter.environment import Environment, child_variables

__all__ = ["CPU_INDEX", "Choice", "choose", "decide"]

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own index of CPU builds, as its install page gives it."""

_SECONDS = 3.0
_SETTINGS = re.compile(r"(index-url|extra-index-url|find-links|no-index)\s*=")


@dataclass(frozen=True)
class Choice:
    """Where torch comes from.

    Attributes:
        arguments: What to tell pip before the ordinary install; empty for nothing.
        cuda_expected: Whether the ordinary index will bring the CUDA packages.
    """

    arguments: tuple[str, ...] = ()
    cuda_expected: bool = False


def choose(environment: Environment, version: str) -> Choice:
    """Find out what this machine is and decide."""
    if sys.platform != "linux" or environment.has("torch"):
        return Choice()
    return decide(version, pip_is_configured(environment), has_nvidia(), answers)


def decide(version: str, configured: bool, nvidia: bool, cpu_index_answers: Callable[[], bool]) -> Choice:
    """Decide for a Linux machine that has no torch yet.

    A person who configured pip (a mirror, a folder of wheels) knows where packages come from: nothing is
    added. With an NVIDIA GPU the ordinary build is right. Otherwise the CPU index is used if it answers.
    """
    if configured:
        return Choice()
    if nvidia:
        return Choice(cuda_expected=True)
    if cpu_index_answers():
        # Its dependencies come from the pins, like everything else.
        return Choice(("--no-deps", "--index-url", CPU_INDEX, f"torch=={version}"))
    return Choice(cuda_expected=True)


def answers(address: str = f"{CPU_INDEX}/torch/", seconds: float = _SECONDS) -> bool:
    """Tell whether an address answers in time; the limit holds for looking up its name too."""
    good: list[bool] = []

    def ask() -> None:
        try:
            request = urllib.request.Request(address, method="HEAD")
            with urllib.request.urlopen(request, timeout=seconds) as reply:
                good.append(reply.status == 200)
        except (OSError, ValueError):
            pass

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return good == [True]


def has_nvidia() -> bool:
    """Tell whether this machine has a usable NVIDIA GPU."""
    signs = ("/proc/driver/nvidia/version", "/dev/nvidia0", "/usr/lib/wsl/lib/nvidia-smi")
    return any(Path(sign).exists() for sign in signs) or shutil.which("nvidia-smi") is not None


def pip_is_configured(environment: Environment) -> bool:
    """Tell whether a file or a variable says where pip takes packages from."""
    command = [str(environment.python), "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, env=child_variables(environment))
    return bool(_SETTINGS.search(done.stdout))
