"""What an account's server gets: its places, its cage, its variables."""

import os
import sys
from pathlib import Path

from onnxlab.classroom.accounts import Account, Accounts
from onnxlab.classroom.confinement import Confinement, system_places
from onnxlab.classroom.hub_settings import ServeSettings
from onnxlab.classroom.notice_file import VARIABLE as NOTICE

__all__ = [
    "INSTRUCTOR",
    "account_cage",
    "account_user",
    "account_variables",
    "base_variables",
    "lab_options",
    "learner_users",
    "prepare_places",
    "server_root",
]

INSTRUCTOR = "instructor"
"""The account with the rights of an administrator."""

_SETTINGS = Path(__file__).parent / "server_settings"
_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")


def account_user(settings: ServeSettings, accounts: Accounts, account: Account) -> int | None:
    """Return the machine's user that an account's processes run as; None for the hub's own."""
    return settings.instructor_user if account.name == INSTRUCTOR else accounts.user(account)


def learner_users(accounts: Accounts) -> dict[int, str]:
    """Return the machine's users that are a learner's and nobody else's, with the learners' names."""
    named = {accounts.user(each): name for name in accounts.names() if (each := accounts.get(name))}
    return {user: name for user, name in named.items() if user is not None and name != INSTRUCTOR}


def account_cage(settings: ServeSettings, account: Account, user: int | None) -> Confinement:
    """Return the cage of an account's processes."""
    home = settings.learners / account.name
    course = [str(settings.course / name) for name in ("notebooks", "requirements.txt")]  # not solutions/
    readable = [*system_places(), *course, str(settings.outbound)]
    readable.append(str(settings.notices / account.name))
    writable = [str(_sockets(settings, account))]
    lookup = [str(settings.exchange / "feedback")]
    if account.name == INSTRUCTOR:
        writable.append(str(settings.folder))  # the gradebook's database keeps its journal there
    return Confinement(
        user=user,
        home=str(home),
        writable=tuple(writable),
        readable=tuple(readable),
        lookup=tuple(lookup),
        connect=(settings.hub_port,),
        memory=settings.memory,
        processes=settings.processes,
        landlock=settings.landlock,
    )


def prepare_places(settings: ServeSettings, account: Account, user: int | None) -> None:
    """Make an account's home and its folder for sockets; they are its user's, and nobody else's."""
    home, sockets = settings.learners / account.name, _sockets(settings, account)
    for folder in (home, sockets):
        folder.mkdir(mode=0o700, exist_ok=True)
        _give(folder, user)
    notice = settings.notices / account.name
    notice.touch()
    notice.chmod(0o644)  # whatever this process's mask is: the learner's server reads it


def base_variables() -> dict[str, str]:
    """Return what servers, kernels and the processes that they are forked from have in common."""
    found = {name: os.environ[name] for name in _KEPT if name in os.environ}
    programs = [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    threads = {f"{name}_NUM_THREADS": "2" for name in ("OMP", "OPENBLAS", "MKL")}
    return (
        found
        | threads
        | {
            "PATH": os.pathsep.join(programs),
            "PYTHONPATH": str(_SETTINGS / "names"),
            "ORT_DISABLE_TELEMETRY": "1",
        }
    )


def account_variables(settings: ServeSettings, account: Account, user: int | None) -> dict[str, str]:
    """Return the variables of an account's server, beside the hub's."""
    home, sockets = settings.learners / account.name, _sockets(settings, account)
    instructor = account.name == INSTRUCTOR
    settings_folder = [str(_SETTINGS / ("instructor" if instructor else "learner"))]
    if instructor:
        settings_folder.append(str(settings.folder))
    found = base_variables() | {
        "HOME": str(home),
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": "/bin/bash",
        # Such users are in no list of the system: instead of "I have no name!" the prompt has the account's.
        "PROMPT_COMMAND": r"PS1=${PS1//\\u/$USER}",
        "TMPDIR": str(sockets),
        "JUPYTER_RUNTIME_DIR": str(sockets),
        "JUPYTER_CONFIG_PATH": os.pathsep.join(settings_folder),
        "JUPYTER_NO_CONFIG": "",
        "ONNXLAB_STATE": str(home / ".onnxlab" / "progress.json"),
        "ONNXLAB_COURSE": settings.name,
        "ONNXLAB_EXCHANGE": str(home / ".onnxlab" / "exchange"),
        NOTICE: str(settings.notices / account.name),
        "JUPYTERHUB_DISABLE_USER_CONFIG": "1",
    }
    if user is not None and settings.kernels_socket.exists():
        found["JUPYTER_DEFAULT_PROVISIONER_NAME"] = "onnxlab-forked"
        found["ONNXLAB_KERNELS_SOCKET"] = str(settings.kernels_socket)
    return found


def lab_options(settings: ServeSettings, account: Account) -> list[str]:
    """Return the options of an account's server."""
    kind = "instructor" if account.name == INSTRUCTOR else "learner"
    return [
        f"--LabApp.app_settings_dir={_SETTINGS / kind / 'lab'}",
        f"--ServerApp.root_dir={server_root(settings, account)}",
    ]


def server_root(settings: ServeSettings, account: Account) -> Path:
    """Return the folder that an account's server shows: nbgrader wants the instructor's to be the course."""
    return settings.folder if account.name == INSTRUCTOR else settings.learners / account.name


def _sockets(settings: ServeSettings, account: Account) -> Path:
    return settings.runtime / str(account.number)


def _give(folder: Path, user: int | None) -> None:
    """Make a folder a user's, with all that is in it, unless it is."""
    if user is None or folder.stat().st_uid == user:
        return
    for _, names, files, inside in os.fwalk(folder):  # does not follow links
        for name in [*names, *files]:
            os.chown(name, user, user, dir_fd=inside, follow_symlinks=False)
    os.chown(folder, user, user)  # last: until then nobody else can change what is in it
