"""Starting JupyterLab on the first chapter, saying where it is, and ending it together with the command."""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starter import fast_kernels
from starter.console import Progress, Stop
from starter.environment import ROOT, Environment, child_variables
from starter.jupyter_options import port_asked_for, require_suitable
from starter.server_end import asked_to_end, end
from starter.server_output import ServerOutput, essence

__all__ = ["FIRST_CHAPTER", "command", "serve"]

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
_ALL_OUTPUT = (
    "--debug",
    "--log-level",
    "--Application.log_level",
    "--ServerApp.log_level",
    "--LabApp.log_level",
)


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


def serve(environment: Environment, options: Sequence[str], progress: Progress) -> int:
    """Run JupyterLab until it ends or the person presses Ctrl+C; return its exit code.

    Raises:
        Stop: The port or the address cannot be used, or JupyterLab ended before it was ready.
    """
    require_suitable(options)
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
        with asked_to_end() as asked:
            started = command(environment, options)
            server = subprocess.Popen(started, cwd=ROOT, env=variables, stderr=subprocess.PIPE, **own_group)
            assert server.stderr
            everything = any(option.partition("=")[0] in _ALL_OUTPUT for option in options)
            output = ServerOutput(server.stderr, everything=everything)
            try:
                facts = wait_until_ready(server, Path(variables["JUPYTER_RUNTIME_DIR"]), progress, asked)
                progress.clear()
                if facts:
                    output.release()
                    print(f"      ready after {progress.seconds:.1f} s. It is at", flush=True)
                    print(f"\n      {address(facts)}\n\n      Ctrl+C here ends it.", flush=True)
                while server.poll() is None and not asked:
                    time.sleep(0.2)
                if not asked:
                    return check_end(server, output, ready=bool(facts), options=options)
                output.release()
                with contextlib.suppress(OSError):  # the terminal may be closed
                    print("\nEnding JupyterLab ...", flush=True)
                return 0
            finally:
                end(server, asked)
                output.finish()


def wait_until_ready(
    server: "subprocess.Popen[bytes]", runtime: Path, progress: Progress, asked: Sequence[int]
) -> dict[str, Any]:
    """Return what the server has written down about where it listens, once it answers there.

    Nothing is returned if it has ended, or is to end, before.
    """
    noted = runtime / f"jpserver-{server.pid}.json"
    while server.poll() is None and not asked:
        progress.show("starting")
        try:
            facts: dict[str, Any] = json.loads(noted.read_text(encoding="utf-8"))
            if facts.get("sock"):
                return facts
            with socket.create_connection((facts["hostname"] or "127.0.0.1", facts["port"]), timeout=1):
                return facts
        except (OSError, ValueError, KeyError):
            time.sleep(0.1)
    return {}


def check_end(
    server: "subprocess.Popen[bytes]", output: ServerOutput, *, ready: bool, options: Sequence[str]
) -> int:
    """Return the exit code of a server that ended by itself.

    Raises:
        Stop: It failed before it was ready.
    """
    output.finish()
    if ready or not server.returncode:  # some options only print something, as --version does
        return server.returncode
    what = f"JupyterLab ended before it was ready (exit code {server.returncode})."
    why = essence(output.held)
    then = "Run this again with --debug to see all that JupyterLab says."
    if options:
        then = "Correct that option or leave it out; --help-all lists all, --debug shows all that is said."
    raise Stop(what, f"It says: {why}" if why else "", then, code=server.returncode)


def address(facts: dict[str, Any]) -> str:
    """Return the address to open, from what the server wrote down about itself.

    >>> address({"url": "http://localhost:8888/", "token": "abc"})
    'http://localhost:8888/lab/tree/notebooks/00_start_here.ipynb?token=abc'
    """
    token = f"?token={facts['token']}" if facts.get("token") else ""
    return f"{facts['url']}lab/tree/{FIRST_CHAPTER}{token}"
