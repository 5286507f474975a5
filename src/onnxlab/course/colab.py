"""Installs what a session of Colab, or of another notebook server without the course, is missing.

Colab's pages rely on the versions of IPython, the kernel and the widgets: installed ones are kept.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from onnxlab.errors import OnnxLabError
from onnxlab.language import speak, tr
from onnxlab.machine import CPU_INDEX, INDEX_VARIABLE, PACKAGES, pinned_versions

# These show the notebook in which this runs: an installed version is never replaced.
_SHOWN_BY = frozenset({"ipython", "ipykernel", "ipywidgets", "nbformat", "nbclient", "nbconvert"})
_NOT_HERE = frozenset({"jupyterlab", "nbval"})  # a server, and what the tests run notebooks with
# Each release of these works with one release of torch; transformers imports them if they are installed.
_BUILT_FOR_TORCH = ("torchvision", "torchaudio")


class InstallFailed(OnnxLabError):
    """Pip could not install what the course needs."""


def complete_session(language: str = "en") -> None:
    """Install the missing requirements of the course; print that it is ready, or what to restart.

    Args:
        language: Of its messages, "en" or "zh".

    Raises:
        InstallFailed: Pip could not install something.
    """
    speak(language)
    if missing := lacking():
        print(
            tr(
                "Installing {requirements} ...",
                requirements=", ".join(requirement.name for requirement in missing),
            ),
            flush=True,
        )
        _install(missing)
    if old := outdated():
        print(
            tr("{old}: an older version was loaded before the right one was installed.", old=", ".join(old))
        )
        print(tr("Restart the session (Colab: Runtime, Restart session; Jupyter: Kernel, Restart Kernel)."))
        print(tr("Then run this cell again."))
        return
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "onnx", "onnxruntime"))
    print(tr("Ready: Python {version}, {versions}.", version=sys.version.split()[0], versions=versions))


def lacking(requirements: Iterable[str] | None = None) -> list[Requirement]:
    """Return the course's requirements that this environment does not meet.

    Args:
        requirements: Those to check; None for the requirements of the installed package.

    Example:
        >>> names = ["packaging>=24", "packaging>=9999", "ipykernel>=9999", "no-such-thing"]
        >>> [str(requirement) for requirement in lacking(names)]
        ['packaging>=9999', 'no-such-thing']
    """
    unmet = []
    for requirement in map(Requirement, requires("onnxlab") or () if requirements is None else requirements):
        meant = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if not meant or requirement.name in _NOT_HERE:
            continue
        have = _installed(requirement.name)
        fits = have is not None and requirement.specifier.contains(have, prereleases=True)
        if not fits and not (have and requirement.name in _SHOWN_BY):
            unmet.append(requirement)
    return unmet


def outdated() -> list[str]:
    """Return the packages that this session has loaded in another version than the installed one."""
    modules = {name: name.replace("-", "_") for name in (*PACKAGES, "matplotlib")}
    modules["protobuf"] = "google.protobuf"
    loaded = {name: sys.modules[module] for name, module in modules.items() if module in sys.modules}
    # Without build tags: torch calls itself 2.13.0+cpu where its package is 2.13.0.
    return [
        name
        for name, module in loaded.items()
        if module.__version__.partition("+")[0] != version(name).partition("+")[0]
    ]


def _install(requirements: Iterable[Requirement]) -> None:
    """Install requirements, in the tested versions; torch from the index of CPU builds, if that answers."""
    pins = pinned_versions()
    exact = {
        need.name: f"{need.name}=={pins[need.name]}" if need.name in pins else str(need)
        for need in requirements
    }
    if "torch" in exact:
        exact |= {name: name for name in _BUILT_FOR_TORCH if _installed(name)}
        if sys.platform == "linux":
            # The default index, which gives gigabytes of CUDA, is used if the CPU index does not answer.
            # A mirror may be a page of links to torch alone: the rest comes from pip's own index.
            own_index = os.environ.get(INDEX_VARIABLE, "")
            links = ["--find-links", own_index] if own_index else []
            torch = [exact[name] for name in ("torch", *_BUILT_FOR_TORCH) if name in exact]
            source = ["--index-url", own_index or CPU_INDEX, *links]
            _pip("--no-deps", "--retries", "0", "--timeout", "10", *source, *torch)
    done = _pip(*exact.values())
    importlib.invalidate_caches()
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        then = "If the network is there, restart the session and run this cell again."
        raise InstallFailed("pip could not install what the course needs.", " ".join(reasons)[:300], then)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _pip(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True)
