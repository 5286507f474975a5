"""Chapters and labs for Colab, or any notebook server without the course: one more cell at the top.

The cell installs the package if it is missing and then calls `complete_session`, so the cell itself stays
short. Colab's pages rely on the versions of IPython, the kernel and the widgets: installed ones are kept.
"""

import copy
import importlib
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any
from urllib.parse import urljoin

from packaging.requirements import Requirement

from onnxlab.errors import OnnxLabError
from onnxlab.machine import CPU_INDEX, PACKAGES, pinned_versions
from onnxlab.notebook.language import speak, tr

__all__ = ["CELL", "InstallFailed", "colab_edition", "complete_session", "lacking", "outdated"]

CELL = """\
# @title {title}
import importlib, subprocess, sys
from importlib.util import find_spec

if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    raise RuntimeError("ONNX Lab needs Python 3.11, 3.12 or 3.13; this is " + sys.version.split()[0])
if find_spec("onnxlab") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", {source!r}], check=True)
    importlib.invalidate_caches()
from onnxlab.authoring.colab import complete_session

complete_session({language!r})
"""
"""The first cell. `title` is what Colab shows in place of the code, `source` where pip gets the course."""

_TITLES = {
    "en": "First run this cell: it installs the course (the first time it takes some minutes)",
    "zh": "\u8bf7\u5148\u8fd0\u884c\u8fd9\u4e2a\u5355\u5143\u683c\uff1a"
    "\u5b83\u4f1a\u5b89\u88c5\u672c\u8bfe\u7a0b\uff08\u7b2c\u4e00\u6b21\u9700\u8981\u51e0\u5206\u949f\uff09",
}
_LINK = re.compile(r"\]\(([^():\s]+\.(?:ipynb|md)(?:#[^()\s]*)?)\)")
# These show the notebook in which this runs: an installed version is never replaced.
_SHOWN_BY = frozenset({"ipython", "ipykernel", "ipywidgets", "nbformat", "nbclient", "nbconvert"})
_NOT_HERE = frozenset({"jupyterlab", "nbval"})  # a server, and what the tests run notebooks with
# Each release of these works with one release of torch; transformers imports them if they are installed.
_BUILT_FOR_TORCH = ("torchvision", "torchaudio")


class InstallFailed(OnnxLabError):
    """Pip could not install what the course needs."""


def colab_edition(
    notebook: dict[str, Any], source: str, *, language: str = "en", address: str = ""
) -> dict[str, Any]:
    """Return a notebook with the cell in front that makes it run where the course is not installed.

    Args:
        notebook: A chapter or a lab, as nbformat reads it. It is not changed.
        source: Where pip installs the course from: a wheel's address or path, or
            "onnxlab @ git+https://host/owner/name".
        language: The notebook's.
        address: The notebook's address on the web, which its relative links are then resolved against: the
            copy that Colab opens is alone. Empty: links stay as they are.

    Example:
        >>> import nbformat
        >>> edition = colab_edition(nbformat.v4.new_notebook(), "onnxlab-0.1.0-py3-none-any.whl")
        >>> print(edition["cells"][0]["source"].splitlines()[0])
        # @title First run this cell: it installs the course (the first time it takes some minutes)
    """
    from nbformat.v4 import new_code_cell  # not needed in the session that the cell prepares

    result = copy.deepcopy(notebook)
    for cell in result["cells"]:
        if address and cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(lambda link: f"]({urljoin(address, link[1])})", cell["source"])
    code = CELL.format(title=_TITLES[language], source=source, language=language)
    # Folded: Colab shows the title, JupyterLab three dots.
    folded = {"cellView": "form", "jupyter": {"source_hidden": True}}
    result["cells"].insert(0, new_code_cell(code.rstrip("\n"), id="onnxlab-setup", metadata=folded))
    return result


def complete_session(language: str = "en") -> None:
    """Install the missing requirements of the course; print that it is ready, or what to restart.

    Args:
        language: Of its messages, "en" or "zh".

    Raises:
        InstallFailed: Pip could not install something.
    """
    speak(language)
    if missing := lacking():
        print(tr(f"Installing {', '.join(requirement.name for requirement in missing)} ..."), flush=True)
        _install(missing)
    if old := outdated():
        print(tr(f"{', '.join(old)}: an older version was loaded before the right one was installed."))
        print(tr("Restart the session (Colab: Runtime, Restart session; Jupyter: Kernel, Restart Kernel)."))
        print(tr("Then run this cell again."))
        return
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "onnx", "onnxruntime"))
    print(tr(f"Ready: Python {sys.version.split()[0]}, {versions}."))


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
            torch = [exact[name] for name in ("torch", *_BUILT_FOR_TORCH) if name in exact]
            _pip("--retries", "0", "--timeout", "10", "--index-url", CPU_INDEX, *torch)
    done = _pip(*exact.values())
    importlib.invalidate_caches()
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        msg = "pip could not install what the course needs."
        then = "If the network is there, restart the session and run this cell again."
        raise InstallFailed(msg, " ".join(reasons)[:300], then)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _pip(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True)
