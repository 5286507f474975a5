"""How JupyterLab is started on the first chapter; it says itself where it is, and Ctrl+C ends it."""

import os
import re
import socket
import subprocess
from collections.abc import Sequence

from starter.console import Stop
from starter.environment import ROOT, Environment, child_variables

__all__ = ["command", "require_free_port", "run"]

# No news, no question about them, no look for updates, and no talk about what goes well.
_OURS = {
    "LabApp.app_settings_dir": str(ROOT / "starter" / "lab_settings"),
    "LabApp.news_url": "None",
    "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    "LabApp.extension_manager": "readonly",
    "LabApp.default_url": "/lab/tree/notebooks/00_start_here.ipynb",
    "ServerApp.root_dir": str(ROOT),
    "ServerApp.answer_yes": "True",  # one Ctrl+C ends it
    "Application.log_level": "ERROR",
}
# Other ways to say the same on JupyterLab's command line, which takes each once only.
_ALIASES = {"root_dir": ("--notebook-dir",), "log_level": ("--log-level", "--debug"), "answer_yes": ("-y",)}


def command(environment: Environment, options: Sequence[str], language: str = "en") -> list[str]:
    """Return the command line that starts JupyterLab with a person's own options."""
    ours = dict(_OURS)
    if language != "en":
        ours["LabApp.default_url"] = f"/lab/tree/notebooks/{language}/00_start_here.ipynb"
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in options:
        ours["ServerApp.allow_root"] = "True"  # a container; JupyterLab listens to this machine only
    if _given("port", options):
        ours["ServerApp.port_retries"] = "0"
    names = [option.partition("=")[0] for option in options]

    def said(trait: str) -> bool:
        return any(name.endswith(f".{trait}") or name in _ALIASES.get(trait, ()) for name in names)

    added = [f"--{name}={value}" for name, value in ours.items() if not said(name.partition(".")[2])]
    return [str(environment.python), "-m", "jupyterlab", *added, *options]


def require_free_port(options: Sequence[str]) -> None:
    """Raise Stop if the port that a person asked for is none, or somebody listens there."""
    port, address = _given("port", options), _given("ip", options) or "127.0.0.1"
    if not port:
        return
    then = "Choose another port, or leave out --port: a free one is found."
    if not re.fullmatch(r"\d{1,5}", port) or not 0 < int(port) < 65536:
        what = f"{port[:40]!r} is not a port."
        raise Stop(what, "Ports go from 1 to 65535.", then, code=2)
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        if os.name != "nt":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("" if address == "*" else address, int(port)))
        except OSError as error:
            what = f"Port {port} cannot be used."
            why = f"The system says: {error.strerror}. Perhaps another JupyterLab still runs there."
            raise Stop(what, why, then) from None


def _given(name: str, options: Sequence[str]) -> str:
    """Return what an option was set to, as `--port 9000` or `--ServerApp.port=9000`; empty if it was not."""
    found = re.findall(rf"--(?:ServerApp\.|LabApp\.)?{name}[=\n](?!--)(.*)", "\n".join(options))
    return found[-1] if found else ""


def run(arguments: list[str], environment: Environment, language: str = "en") -> int:
    """Let a program take the place of this one, so that it hears of Ctrl+C itself; return its exit code."""
    os.chdir(ROOT)
    if os.name != "nt":  # which has no exec
        os.execve(arguments[0], arguments, child_variables(environment, language))
    return subprocess.run(arguments, env=child_variables(environment, language)).returncode
