"""Installing the pinned packages, with one line of progress and a diagnosis if it fails."""

import queue
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from starter import cpu_torch, wheelhouse
from starter.console import Progress, Stop
from starter.diagnosis import diagnosis
from starter.environment import ROOT, Environment, child_variables

__all__ = ["SETS", "install"]

SETS = {
    "course": ("requirements.txt",),
    "classroom": ("requirements.txt", "requirements-classroom.txt"),
    "test": ("requirements.txt", "requirements-classroom.txt", "requirements-test.txt"),
}
"""Which files make up what a command needs."""

_GB = 1_000_000_000
_LOG = "onnxlab-install.log"


def install(environment: Environment, name: str, progress: Progress) -> str:
    """Install one set of requirements if it changed, and say what was done.

    Raises:
        Stop: The disk is too full, or pip failed.
    """
    files = SETS[name]
    digest = environment.digest(files)
    stamp = environment.stamp
    if stamp.get(name) == digest:
        return "nothing to install"
    resumed = stamp.get("interrupted") == name
    # What is no longer certain is struck out first, so that an install that is cut off is not trusted.
    environment.set_stamp({"interrupted": name})
    drop_half_installed(environment)
    log = environment.folder / _LOG
    log.write_text("", encoding="utf-8")
    pinned = pins("\n".join((ROOT / file).read_text(encoding="utf-8") for file in files))

    offline = wheelhouse.pip_arguments()
    wanted = cpu_torch.Choice() if offline else cpu_torch.choose(environment, pinned["torch"])
    require_space(environment, needed=8 if wanted.cuda_expected else 3)
    if wanted.arguments:
        progress.show("the CPU build of torch")
        run_pip(environment, wanted.arguments, log, progress, total=1, required=False)
    # The last file names the ones before it.
    run_pip(environment, [*offline, "-r", files[-1]], log, progress, total=len(pinned))

    covered = [each for each, parts in SETS.items() if set(parts) <= set(files)]
    environment.set_stamp({each: environment.digest(SETS[each]) for each in covered})
    done = "installed from the folder wheelhouse" if offline else "installed"
    return "the unfinished install was completed" if resumed else done


def pins(text: str) -> dict[str, str]:
    r"""Return the packages that a requirements file pins on every platform.

    >>> pins("numpy==2.4.6  # via onnx\ncolorama==0.4.6 ; sys_platform == 'win32'\n-e .")
    {'numpy': '2.4.6'}
    """
    return dict(re.findall(r"^([\w.-]+)==([\w.!]+)(?![^#\n]*;)", text, flags=re.MULTILINE))


def require_space(environment: Environment, needed: int) -> None:
    """Raise Stop if the disk has not the gigabytes that an install needs."""
    rest = 0.5 if environment.has("torch") else needed
    places = {environment.folder.parent: rest, Path(tempfile.gettempdir()): 0.3}
    for place, gigabytes in places.items():
        free = shutil.disk_usage(place).free / _GB
        if free < gigabytes:
            what = f"There is not enough free disk space in {place}."
            why = f"The install needs about {gigabytes:g} GB there, and {free:.1f} GB are free."
            raise Stop(what, why, "Free some space and run the same command again.")


def drop_half_installed(environment: Environment) -> None:
    """Take away the metadata of packages whose install was cut off, so that pip installs them again.

    pip writes RECORD last. Without it files may be missing, though pip would take the package for installed.
    """
    for metadata in environment.metadata("*"):
        if not (metadata / "RECORD").is_file():
            shutil.rmtree(metadata, ignore_errors=True)


def run_pip(
    environment: Environment,
    arguments: Sequence[str],
    log: Path,
    progress: Progress,
    total: int,
    *,
    required: bool = True,
) -> None:
    """Run one pip install; its output goes to the log.

    Raises:
        Stop: pip failed, and the install was required.
    """
    command = [str(environment.python), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", *arguments]
    variables = child_variables(environment) | {"PYTHONUNBUFFERED": "1"}
    offline = "--no-index" in arguments
    if offline:
        variables = wheelhouse.pip_variables(variables)
    pip = subprocess.Popen(
        command,
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    try:
        began = "looking through the wheels" if offline else "asking the package index"
        said = follow(pip, log, progress, total, began)
        code = pip.wait()
    except BaseException:
        pip.terminate()
        try:
            pip.wait(10)
        except subprocess.TimeoutExpired:
            pip.kill()
        raise
    if code and required:
        raise diagnosis("\n".join(said), log, offline=offline)


def follow(pip: "subprocess.Popen[str]", log: Path, progress: Progress, total: int, began: str) -> list[str]:
    """Copy pip's output to the log and show how far it is; return the lines."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in pip.stdout or ():
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    said: list[str] = []
    seen, now = 0, began
    with log.open("a", encoding="utf-8") as file:
        while True:
            try:
                line = lines.get(timeout=0.5)
            except queue.Empty:
                line = ""
            if line is None:
                return said
            if line:
                file.write(line)
                said.append(line.rstrip())
                if re.match(r"(Collecting|Processing|Requirement already satisfied:) ", line):
                    seen += 1
                now = phase(line) or now
            progress.show(f"{min(seen, total)} of {total} packages, {now}")


def phase(line: str) -> str:
    """Return what a line of pip's output says about where it is, or an empty string.

    >>> phase("  Downloading torch-2.13.0-cp311-none-linux_x86_64.whl (196.5 MB)")
    'downloading torch (196.5 MB)'
    >>> phase("Installing collected packages: numpy, onnx")
    'installing'
    """
    if match := re.match(r"\s*(Downloading|Using cached) ([\w.]+?)-\d\S* \((.*)\)", line):
        return f"{'downloading' if match[1] == 'Downloading' else 'unpacking'} {match[2]} ({match[3]})"
    if match := re.match(r"Collecting ([\w.-]+?)==", line):
        return match[1]
    return "installing" if line.startswith("Installing collected packages") else ""
