"""Installs the pinned packages with pip, with a line of progress and a message if it fails.

They come from the index that pip is configured for; or, without the network, from a folder `wheelhouse`
beside course.py, which `onnxlab class wheelhouse` makes.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from starter.console import Message, Stop, show, show_line
from starter.environment import ROOT, Environment, child_variables

SETS = {
    "course": ("requirements.txt",),
    "classroom": ("requirements.txt", "requirements/class.txt"),
    "test": ("requirements.txt", "requirements/class.txt", "requirements/test.txt"),
    "site": ("requirements/site.txt",),
}
"""The requirements files for each command: the last one is installed, and includes the others."""

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's index of CPU builds: on Linux, the default index gives several gigabytes of CUDA."""

INDEX_VARIABLE = "ONNXLAB_TORCH_INDEX"
"""The environment variable with the address of another index, or page of links, of CPU builds."""

# What pip says once or more of each package, whether it comes from an index, a mirror, a folder, or is there.
_STEP = re.compile(
    r"\s*(Collecting|Processing|Obtaining|Requirement already satisfied:|Ignoring|Downloading) (\S+)"
)

CUDA_GIGABYTES = 8
"""The disk that torch's default build for Linux needs with what it brings."""

_CUDA_NOTICE = (
    Message(
        "torch's default build for Linux comes instead, with CUDA: "
        "3 GB to download, {cuda_gigabytes} GB of disk.",
        cuda_gigabytes=CUDA_GIGABYTES,
    ),
    Message(
        "To avoid it: Ctrl+C, set {index_variable} to an index of CPU builds, and run this again.",
        index_variable=INDEX_VARIABLE,
    ),
)

# A pattern in the output of a failed pip, the reason, and what to do.
_REASONS = (
    (r"No space left on device|Errno 28", "The disk is full.", Message("Free about 3 GB")),
    (
        r"Connection|imed out|ProxyError|unreachable",
        "The package index did not answer.",
        Message("Check the network"),
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED",
        "The index's certificate was refused.",
        Message("Ask who runs the network"),
    ),
    (
        r"No matching distribution",
        "The index has no such package for this Python.",
        Message("See pip's settings"),
    ),
    (
        r"Permission denied|Errno 13",
        "A folder is not writable.",
        Message("Make the course's folder writable"),
    ),
)


def install(environment: Environment, name: str) -> str:
    """Install the packages for a command unless they are installed; return what was done.

    Raises:
        Stop: The disk is too full, or pip failed.
    """
    file = SETS[name][-1]
    if environment.digest(file) in environment.stamp:
        return Message("nothing to install")
    environment.set_stamp([])  # so that an interrupted install is repeated at the next start
    complete = []
    for metadata in environment.folder.glob("[lL]ib/**/site-packages/*.dist-info"):
        if (metadata / "RECORD").is_file():
            complete.append(metadata.name.partition("-")[0])
        else:  # pip writes RECORD last: files may be missing, though pip takes the package for installed
            shutil.rmtree(metadata, ignore_errors=True)
    has_torch = "torch" in complete
    text = (ROOT / file).read_text(encoding="utf-8")
    torch = re.findall(r"^torch==[\w.]+", text, re.MULTILINE)
    require_space(environment.folder.parent, 3 if torch and not has_torch else 0.5)
    log = environment.folder / "onnxlab-install.log"
    wheels = ROOT / "wheelhouse"
    offline = ["--no-index", "--find-links", str(wheels)] if any(wheels.glob("*.whl")) else []
    if torch and not has_torch and not offline and sys.platform == "linux":
        _install_cpu_torch(environment, torch[0], log)
    code, output = _pip(
        environment, [*offline, "-r", file], log, len(re.findall(r"^(?:-e|[\w.-]+==)", text, re.MULTILINE))
    )
    if code:
        raise failure(output, log, offline=bool(offline))
    environment.set_stamp(SETS[name])
    return Message("installed from the folder wheelhouse") if offline else Message("installed")


def has_gpu() -> bool:
    """Tell whether the machine has a GPU that torch's default build for Linux could use."""
    return bool(shutil.which("nvidia-smi")) or Path("/proc/driver/nvidia/version").exists()


def _install_cpu_torch(environment: Environment, pin: str, log: Path) -> None:
    """Install torch's CPU build; where there is none, say what the default build costs before it comes.

    It comes from the index that ONNXLAB_TORCH_INDEX names; else, where pip is configured, from pip's own
    indexes; else from PyTorch's index. A version without the suffix +cpu may be the build with CUDA: only
    PyTorch's index is known to have none of those. A machine with a GPU keeps the default build, unless the
    variable is set.

    Raises:
        Stop: There is none, and the disk lacks the space for the default build.
    """
    own_index = os.environ.get(INDEX_VARIABLE, "")
    if own_index:  # an index has a page for each package, a mirror of files one page with all links
        attempt = ["--index-url", own_index, "--find-links", own_index, f"{pin}+cpu"]
        why: str = Message(
            "{own_index}, which {index_variable} names, has no CPU build of {pin} for this Python.",
            own_index=own_index,
            index_variable=INDEX_VARIABLE,
            pin=pin,
        )
    elif has_gpu():
        attempt = []
        why = "This machine has a GPU: no CPU build was looked for."
    elif is_configured(environment):
        attempt = [f"{pin}+cpu"]
        why = Message("The package index that pip is configured for has no CPU build ({pin}+cpu).", pin=pin)
    else:
        attempt = ["--index-url", CPU_INDEX, "--retries", "0", "--timeout", "10", pin]
        why = "PyTorch's index of CPU builds did not answer."
    if not attempt or _pip(environment, ["--no-deps", *attempt], log)[0]:
        for line in (why, *_CUDA_NOTICE):
            show_line(f"      {line}")
        require_space(environment.folder.parent, CUDA_GIGABYTES)


def is_configured(environment: Environment) -> bool:
    """Tell whether pip has an index or links of the user's own, in a file or in the environment."""
    command = [str(environment.python), "-P", "-m", "pip", "config", "list"]
    config = subprocess.run(command, capture_output=True, text=True, env=child_variables(environment)).stdout
    return bool(re.search(r"(index-url|find-links|no-index)[.'\"]*\s*=", config))


def require_space(folder: Path, gigabytes: float) -> None:
    """Raise Stop if the disk lacks the space for an install."""
    free = shutil.disk_usage(folder).free / 1e9
    if free < gigabytes:
        raise Stop(
            "There is not enough free disk space in {folder}.",
            "The install needs about {gigabytes:g} GB there, and {free:.1f} GB are free.",
            "Free some space and run the same command again.",
            folder=folder,
            gigabytes=gigabytes,
            free=free,
        )


def failure(output: str, log: Path, *, offline: bool = False) -> Stop:
    """Return the message about a failed pip, from its output."""
    fits = [reason for pattern, *reason in _REASONS if re.search(pattern, output)]
    why, then = fits[0] if fits else ("pip failed.", "Read the log")
    if offline and "distribution" in output:
        why = "The folder wheelhouse has no such package for this Python and system."
        then = Message(
            "Make one that has it (onnxlab class wheelhouse --help), or rename it to use the network"
        )
    errors = [line.strip() for line in output.splitlines() if line.strip().lower().startswith("error")]
    why = Message("{reason} pip said: {errors}", reason=why, errors=errors[-1][:160]) if errors else why
    then = Message(
        "{advice}, and run this again: it goes on where it stopped. Log: {log}", advice=then, log=log
    )
    return Stop("The packages could not be installed.", why, then)


def package(word: str) -> str:
    """Return the package that a line of pip's is about: a requirement, or a wheel's path or address.

    >>> [package(word) for word in ("jupyter_core==5.9", "./wheels/bb_b-1.0-py3-none-any.whl", "file:///course")]
    ['jupyter-core', 'bb-b', 'course']
    """
    file = word.rstrip("/").rpartition("/")[2]
    return re.sub(r"[-_]+", "-", re.split(r"-\d|[^\w.-]", file)[0]).lower()


def _pip(environment: Environment, arguments: Sequence[str], log: Path, total: int = 1) -> tuple[int, str]:
    """Run `pip install`; return its exit code and output, which is also appended to the log."""
    command = [str(environment.python), "-P", "-m", "pip", "install", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", *arguments]
    variables = child_variables(environment) | {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
    if "--no-index" in arguments:  # the user's settings may name other sources
        command.append("--isolated")
        variables["PIP_CONFIG_FILE"] = os.devnull
    lines, counted, pipe, both = [], set[str](), subprocess.PIPE, subprocess.STDOUT
    with (
        log.open("a", encoding="utf-8", buffering=1) as file,
        subprocess.Popen(command, cwd=ROOT, env=variables, encoding="utf-8", stdout=pipe, stderr=both) as pip,
    ):
        for line in pip.stdout or ():
            file.write(line)
            lines.append(line)
            if match := _STEP.match(line):
                name = package(match[2])
                counted |= {name} if match[1] != "Downloading" else set()
                show(
                    Message(
                        "      {min_len_counted_total} of {total} packages, {name}",
                        min_len_counted_total=min(len(counted), total),
                        total=total,
                        name=name,
                    )
                )
            elif line.startswith("Installing collected packages"):
                show(Message("      {total} of {total} packages are there; pip installs them", total=total))
    show("")
    return pip.returncode, "".join(lines)
