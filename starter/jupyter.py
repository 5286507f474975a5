"""Starting JupyterLab on the first chapter, saying where it is, and ending it together with the command."""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from starter import fast_kernels
from starter.console import Progress, Stop
from starter.environment import ROOT, Environment, child_variables

__all__ = ["FIRST_CHAPTER", "command", "port_asked_for", "require_free", "serve"]

FIRST_CHAPTER = "notebooks/00_start_here.ipynb"

# No news, no question about them, no look for updates, and no talk about what goes well.
_OURS = {
    "LabApp.app_settings_dir": str(ROOT / "starter" / "lab_settings"),
    "LabApp.news_url": "None",
    "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    "LabApp.extension_manager": "readonly",
    "LabApp.default_url": f"/lab/tree/{FIRST_CHAPTER}",
    "ServerApp.root_dir": str(ROOT),
    "Application.log_level": "WARN",
}
# Other ways to say the same on JupyterLab's command line.
_ALIASES = {"root_dir": ("--notebook-dir",), "log_level": ("--log-level", "--debug")}


def command(environment: Environment, options: Sequence[str]) -> list[str]:
    """Return the command line that starts JupyterLab with a person's own options."""
    ours = dict(_OURS)
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in options:
        ours["ServerApp.allow_root"] = "True"  # a container; JupyterLab listens to this machine only
    if port_asked_for(options) is not None:
        ours["ServerApp.port_retries"] = "0"
    said = [f"--{name}={value}" for name, value in ours.items() if not _said(name, options)]
    return [str(environment.python), "-m", "jupyterlab", *said, *options]


def _said(name: str, options: Sequence[str]) -> bool:
    """Tell whether a person set this option: JupyterLab takes each once only."""
    trait = name.partition(".")[2]
    given = [option.partition("=")[0] for option in options]
    return any(option.endswith(f".{trait}") or option in _ALIASES.get(trait, ()) for option in given)


def port_asked_for(options: Sequence[str]) -> int | None:
    """Return the port that a person asked for, if they did.

    >>> port_asked_for(["--no-browser", "--port", "9000"]), port_asked_for(["--port=9001"])
    (9000, 9001)
    """
    match = re.search(r"--(?:ServerApp\.|LabApp\.)?port[= ](\d+)(?: |$)", " ".join(options))
    return int(match[1]) if match else None


def require_free(port: int) -> None:
    """Raise Stop if somebody listens on a port, or it is none."""
    if not 0 <= port <= 65535:
        what = f"{port} is not a port."
        raise Stop(what, "Ports go from 1 to 65535.", "Leave out --port: a free one is found.")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if os.name != "nt":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            why = "Another program listens there, perhaps a JupyterLab that still runs."
            if isinstance(error, PermissionError):
                why = "This system keeps that port for itself."
            then = "Choose another port, or leave out --port: a free one is found."
            what = f"Port {port} cannot be used."
            raise Stop(what, why, then) from None


def serve(environment: Environment, options: Sequence[str], progress: Progress) -> int:
    """Run JupyterLab until it ends or the person presses Ctrl+C; return its exit code.

    Raises:
        Stop: The port is taken, or JupyterLab ended before it was ready.
    """
    port = port_asked_for(options)
    if port:
        require_free(port)
    fast = fast_kernels.OPTION in options
    options = [option for option in options if option != fast_kernels.OPTION]
    with tempfile.TemporaryDirectory(prefix="onnxlab-", ignore_cleanup_errors=True) as runtime:
        variables = child_variables(environment)
        variables.setdefault("JUPYTER_TOKEN", secrets.token_hex(24))
        variables.setdefault("JUPYTER_RUNTIME_DIR", runtime)
        if fast:
            forking = fast_kernels.variables(environment, Path(runtime))
            if not forking:
                print(f"      {fast_kernels.OPTION}: not on this system; kernels start as ever.", flush=True)
            variables |= forking
        if environment.ours:
            # The layout of open tabs is kept with the course: a person's other JupyterLab is left as it was.
            workspaces = environment.folder / "share" / "jupyter" / "lab" / "workspaces"
            variables.setdefault("JUPYTERLAB_WORKSPACES_DIR", str(workspaces))
        # In a group of its own, Ctrl+C reaches this process only, and the server is ended in order.
        own_group: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            own_group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), _interrupt)
        server = subprocess.Popen(command(environment, options), cwd=ROOT, env=variables, **own_group)
        try:
            facts = wait_until_ready(server, Path(variables["JUPYTER_RUNTIME_DIR"]), progress)
            progress.clear()
            print(f"      ready after {progress.seconds:.1f} s. It is at", flush=True)
            print(f"\n      {address(facts)}\n\n      Ctrl+C here ends it.", flush=True)
            return wait(server)
        except KeyboardInterrupt:
            print("\nEnding JupyterLab ...", flush=True)
            return 0
        finally:
            end(server)


def wait_until_ready(server: "subprocess.Popen[bytes]", runtime: Path, progress: Progress) -> dict[str, Any]:
    """Wait until the server has written down where it listens, and answers there."""
    noted = runtime / f"jpserver-{server.pid}.json"
    while True:
        code = server.poll()
        if code is not None:
            then = "Its own message stands above. Correct the option it names, or run this again."
            what = f"JupyterLab ended before it was ready (exit code {code})."
            raise Stop(what, "", then, code=code or 1)
        progress.show("starting")
        try:
            facts: dict[str, Any] = json.loads(noted.read_text(encoding="utf-8"))
            if facts.get("sock"):
                return facts
            with socket.create_connection((facts["hostname"] or "127.0.0.1", facts["port"]), timeout=1):
                return facts
        except (OSError, ValueError, KeyError):
            time.sleep(0.1)


def wait(server: "subprocess.Popen[bytes]") -> int:
    """Wait for the end, in short steps: on Windows, Ctrl+C does not interrupt a long one."""
    while True:
        try:
            return server.wait(0.5)
        except subprocess.TimeoutExpired:
            continue


def address(facts: dict[str, Any]) -> str:
    """Return the address to open, from what the server wrote down about itself.

    >>> address({"url": "http://localhost:8888/", "token": "abc"})
    'http://localhost:8888/lab/tree/notebooks/00_start_here.ipynb?token=abc'
    """
    token = f"?token={facts['token']}" if facts.get("token") else ""
    return f"{facts['url']}lab/tree/{FIRST_CHAPTER}{token}"


def end(server: "subprocess.Popen[bytes]") -> None:
    """End the server in order: it ends its kernels. If it does not, end it all the same."""
    if server.poll() is not None:
        return
    server.terminate()
    try:
        server.wait(15)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        server.kill()
        server.wait()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
