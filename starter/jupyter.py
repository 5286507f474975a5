"""Starts JupyterLab on the first chapter. JupyterLab prints its address, and Ctrl+C ends it."""

import os
import re
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from starter.console import Message, Stop, show_line
from starter.environment import ROOT, Environment, child_variables

WORKBOOK = ROOT / "workbook"
"""The learner's own notebooks, which git ignores; `onnxlab.course.workbook` keeps them up to date."""

KERNEL_STARTUP = ROOT / "src" / "onnxlab" / "notebook" / "kernel_startup.py"
"""What a kernel runs before the first cell, unless the user has a PYTHONSTARTUP of their own."""

NEWS = "whats_new.md"
"""The page in the learner's folder that says what the last update changed."""

_NBGRADER = tuple(
    f"nbgrader.server_extensions.{name}"
    for name in ("assignment_list", "course_list", "formgrader", "validate_assignment")
)

FIRST_PAGE = "/lab/tree/notebooks/00_start_here.ipynb"

# No news, no question about news, no check for updates, no log of what goes well.
_DEFAULTS = {
    "LabApp.app_settings_dir": str(ROOT / "starter" / "lab_settings"),
    "LabApp.news_url": "None",
    "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    "LabApp.extension_manager": "readonly",
    "LabApp.extra_labextensions_path": str(ROOT / "src" / "onnxlab" / "notebook" / "labextensions"),
    "LabApp.default_url": FIRST_PAGE,
    # An instructor has nbgrader's: a second to import, and a warning that nobody can use here.
    "ServerApp.jpserver_extensions": repr({"onnxlab.course.panel": True} | dict.fromkeys(_NBGRADER, False)),
    # Other users of this machine could listen on loopback, and a kernel without encryption warns of that.
    "KernelManager.transport_encryption": "auto",
    "ServerApp.contents_manager_class": "onnxlab.course.contents.CourseContents",
    "ServerApp.answer_yes": "True",  # one Ctrl+C ends it
    "Application.log_level": "ERROR",
}
# Other names of these options on the command line, on which each may be set only once.
_ALIASES = {"root_dir": ("--notebook-dir",), "log_level": ("--log-level", "--debug"), "answer_yes": ("-y",)}


def update_workbook(environment: Environment, folder: Path, language: str = "en") -> None:
    """Bring the learner's folder up to date, and print what happened to it.

    Raises:
        Stop: Something in it cannot be read or written.
    """
    command = [str(environment.python), "-P", "-m", "onnxlab.course.workbook", str(ROOT), str(folder)]
    variables = child_variables(environment, language) | {"PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8")
    if done.returncode:
        what = Message(
            "The folder of your notebooks, {folder}, could not be brought up to date.", folder=folder
        )
        why = " ".join(done.stderr.split())[-300:]
        raise Stop(what, why, "Mend that, or name another folder: python3 course.py --folder FOLDER")
    for line in done.stdout.splitlines():
        show_line(f"      {line}")


def command(
    environment: Environment, options: Sequence[str], language: str = "en", folder: Path = WORKBOOK
) -> list[str]:
    """Return the command line that starts JupyterLab with our defaults and the user's options."""
    defaults = _DEFAULTS | {"ServerApp.root_dir": str(folder)}
    if language != "en":
        defaults["LabApp.default_url"] = FIRST_PAGE.replace("notebooks/", f"notebooks/{language}/")
        defaults["LabApp.app_settings_dir"] = str(ROOT / "starter" / "lab_settings" / language)
    if not names_a_root(options):
        workspaces = folder / ".onnxlab" / "workspaces" / language
        defaults["LabApp.workspaces_dir"] = str(workspaces)
        defaults["LabApp.default_url"] = page(folder, workspaces, defaults["LabApp.default_url"])
    if environment.managed:  # what is trusted is recorded with the course, not in the user's other Jupyter
        defaults["NotebookNotary.data_dir"] = str(environment.folder / "share" / "jupyter")
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in options:
        defaults["ServerApp.allow_root"] = "True"  # in a container; JupyterLab listens on loopback only
    if _value_of("port", options):
        defaults["ServerApp.port_retries"] = "0"
    names = [option.partition("=")[0] for option in options]
    if any(re.search(r"\.(token|password|hashed_password)$", name) for name in names):
        # JupyterLab prints the address as an urgent message only with a token that it made itself.
        defaults["Application.log_level"] = "INFO"

    def is_set(trait: str) -> bool:
        return any(name.endswith(f".{trait}") or name in _ALIASES.get(trait, ()) for name in names)

    added = [f"--{name}={value}" for name, value in defaults.items() if not is_set(name.partition(".")[2])]
    return [str(environment.python), "-m", "jupyterlab", *added, *options]


def page(folder: Path, workspaces: Path, first: str) -> str:
    """Return the page that JupyterLab opens: what an update changed, where the learner was, or a first page.

    Args:
        folder: The learner's folder.
        workspaces: Where JupyterLab saves which tabs are open.
        first: The page for those who have no notebook open.
    """
    saved = list(workspaces.glob("*.jupyterlab-workspace"))
    news = folder / NEWS
    if news.is_file() and all(news.stat().st_mtime > file.stat().st_mtime for file in saved):
        return f"/lab/tree/{NEWS}"
    was_open = any('"notebook:' in file.read_text(encoding="utf-8", errors="replace") for file in saved)
    return "/lab" if was_open else first


def require_free_port(options: Sequence[str]) -> None:
    """Raise Stop if the requested port is invalid or in use."""
    port, address = _value_of("port", options), _value_of("ip", options) or "127.0.0.1"
    if not port:
        return
    then = "Choose another port, or leave out --port: a free one is found."
    if not re.fullmatch(r"\d{1,5}", port) or not 0 < int(port) < 65536:
        raise Stop("{port!r} is not a port.", "Ports go from 1 to 65535.", then, code=2, port=port[:40])
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        if os.name != "nt":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("" if address == "*" else address, int(port)))
        except OSError as error:
            why = "The system says: {error.strerror}. Perhaps another JupyterLab still runs there."
            raise Stop("Port {port} cannot be used.", why, then, port=port, error=error) from None


def names_a_root(options: Sequence[str]) -> bool:
    """Tell whether the options give JupyterLab a folder of the user's own, as authors do."""
    return bool(re.search(r"^--([A-Za-z]+\.root_dir|notebook-dir)([= ]|$)", "\n".join(options), re.MULTILINE))


def _value_of(name: str, options: Sequence[str]) -> str:
    """Return the value of an option, as of `--port 9000` or `--ServerApp.port=9000`; "" if it is not set."""
    values = re.findall(rf"--(?:ServerApp\.|LabApp\.)?{name}[=\n](?!--)(.*)", "\n".join(options))
    return values[-1] if values else ""


def run(arguments: list[str], environment: Environment, language: str = "en") -> int:
    """Replace this process by a program, which then gets Ctrl+C itself; return its exit code."""
    os.chdir(ROOT)
    variables = {"PYTHONSTARTUP": str(KERNEL_STARTUP), **child_variables(environment, language)}
    if os.name != "nt":  # Windows has no exec
        os.execve(arguments[0], arguments, variables)
    return subprocess.run(arguments, env=variables).returncode
