"""JupyterHub's spawner of local processes; its command confines the server, and ends all that it started."""

import asyncio
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

from jupyterhub.spawner import LocalProcessSpawner

import onnxlab
from onnxlab.kit.solutions import VARIABLE as SOLUTIONS
from onnxlab_class.classroom.hub.accounts import Accounts
from onnxlab_class.classroom.hub.confinement import Confinement, system_paths
from onnxlab_class.classroom.hub.homes import make_home
from onnxlab_class.classroom.hub.settings import INSTRUCTOR, HubSettings, free_port

_SERVER_SETTINGS = Path(__file__).parent / "server_settings"
_KERNEL_STARTUP = Path(onnxlab.__file__).parent / "notebook" / "kernel_startup.py"
_PINS = Path(onnxlab.__file__).resolve().parents[2] / "requirements.txt"  # for chapter 00's table of versions
_FIRST_CHAPTER = "00_start_here.ipynb"
_INHERITED = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")


class ConfinedSpawner(LocalProcessSpawner):  # type: ignore[misc]  # is not typed
    """Starts an account's server with `learner_server.py`."""

    accounts: Accounts
    settings: HubSettings
    ports: ClassVar[dict[str, int]] = {}
    """The port of each account's last server, which may still be starting or ending."""

    async def start(self) -> tuple[str, int]:
        """Start the server; return the address and the port on which it will listen."""
        settings, name = self.settings, str(self.user.name)
        account = self.accounts.ensure(name)
        user = self.accounts.user(account)
        sockets = settings.runtime / str(account.number)
        await asyncio.to_thread(make_home, settings.learners, name, user)
        await asyncio.to_thread(make_home, settings.runtime, sockets.name, user)
        self.ip, self.port = "127.0.0.1", free_port(exclude=self.ports.values())
        self.ports[name] = self.port
        edition = "" if settings.language == "en" else f"{settings.language}/"
        self.default_url = "/lab" if name == INSTRUCTOR else f"/lab/tree/notebooks/{edition}{_FIRST_CHAPTER}"
        confinement = settings.confinements / f"{name}.json"
        confinement.write_text(confined_to(settings, name, user, sockets).as_json())
        module = "onnxlab_class.classroom.hub.learner_server"
        # -I: it starts as the hub's user, so Python must not run a line of the learner's, as a user site has.
        # Nor may the server, which its notebooks shall not control.
        self.cmd = [sys.executable, "-I", "-m", module, str(confinement), str(settings.handed_out)]
        self.args = [
            f"--LabApp.app_settings_dir={_SERVER_SETTINGS / 'lab' / edition}",
            f"--LabApp.extra_labextensions_path={files('onnxlab') / 'notebook' / 'labextensions'}",
            f"--ServerApp.root_dir={settings.learners / name}",
        ]
        log = os.open(
            settings.hub / "logs" / f"server-{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        try:
            self.popen_kwargs = {"cwd": "/", "stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            address: tuple[str, int] = await super().start()
        finally:
            os.close(log)
        return address

    def make_preexec_fn(self, name: str) -> None:
        """Do nothing: the command changes the user itself, because these users are not in /etc/passwd."""

    def user_env(self, env: dict[str, str]) -> dict[str, str]:
        """Return JupyterHub's variables with those of the account's server, which sets HOME itself."""
        settings, name = self.settings, str(self.user.name)
        sockets = str(settings.runtime / str(self.accounts.ensure(name).number))
        variables = {
            "USER": name,
            "LOGNAME": name,
            "SHELL": "/bin/bash",
            # These users are not in /etc/passwd: the prompt would show "I have no name!".
            "PROMPT_COMMAND": r"PS1=${PS1//\\u/$USER}",
            "TMPDIR": sockets,
            "JUPYTER_RUNTIME_DIR": sockets,
            "JUPYTER_CONFIG_PATH": str(_SERVER_SETTINGS),
            "JUPYTER_NO_CONFIG": "",
            "PYTHONSTARTUP": str(_KERNEL_STARTUP),
            "ONNXLAB_LANGUAGE": settings.language,
            SOLUTIONS: str(settings.handed_out / "solutions") if settings.solutions else "",
            "ONNXLAB_STATE": str(settings.learners / name / ".onnxlab" / "progress.json"),
        }
        return env | base_variables() | variables


def confined_to(settings: HubSettings, name: str, user: int | None, sockets: Path) -> Confinement:
    """Return the confinement of an account's processes."""
    return Confinement(
        user=user,
        home=str(settings.learners / name),
        writable=(str(sockets),),
        readable=(*system_paths(), str(settings.handed_out), str(_PINS)),
        connect=(settings.hub_port,),
        memory=settings.memory,
        processes=settings.processes,
        landlock=settings.landlock,
    )


def base_variables() -> dict[str, str]:
    """Return the environment variables of the hub and of all servers."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    programs = [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    threads = {f"{name}_NUM_THREADS": "2" for name in ("OMP", "OPENBLAS", "MKL")}
    return inherited | threads | {"PATH": os.pathsep.join(programs), "ORT_DISABLE_TELEMETRY": "1"}
