"""JupyterHub's configuration file, for `python -m jupyterhub -f`; all of it follows from `HubSettings`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from jupyterhub_traefik_proxy.fileprovider import TraefikFileProviderProxy

from onnxlab.language import speak, tr
from onnxlab_class.classroom.course.folder import open_class
from onnxlab_class.classroom.hub.accounts import NAME, NAME_TYPED, Accounts, stored_passwords
from onnxlab_class.classroom.hub.authenticator import RoomAuthenticator
from onnxlab_class.classroom.hub.settings import INSTRUCTOR, VARIABLE, HubSettings
from onnxlab_class.classroom.hub.spawner import ConfinedSpawner
from onnxlab_class.classroom.hub.visitors import gate

_BIND = """
import os, signal, sys
from onnxlab_class.sandbox.libc import die_with_parent
die_with_parent(signal.SIGTERM)
os.execv(sys.argv[1], sys.argv[1:])
"""
_BOUND = (sys.executable, "-I", "-c", _BIND)
"""Before a command: it then ends when the hub does, however the hub ends."""


class BoundProxy(TraefikFileProviderProxy):  # type: ignore[misc]  # is not typed
    """Traefik, which ends when the hub does, and asks the hub who may go to a learner's server."""

    def _dynamic_config_for_route(self, routespec: str, target: str, data: dict[str, str]) -> tuple[Any, Any]:
        traefik, jupyterhub = super()._dynamic_config_for_route(routespec, target, data)
        if "user" in data:
            name = f"gate-{data['user']}"
            for router in traefik["http"]["routers"].values():
                router["middlewares"] = [name]
            traefik["http"]["middlewares"] = {name: gate(self.hub.port, data["user"])}
        return traefik, jupyterhub

    def _start_traefik(self) -> None:
        traefik = shutil.which("traefik") or "traefik"
        command = [*_BOUND, traefik, "--configfile", self.static_config_file]
        self.traefik_process = subprocess.Popen(command, env=os.environ | self.traefik_env)


def configure(c: Any, settings: HubSettings) -> None:  # noqa: ANN401 - traitlets' configuration
    """Set JupyterHub's options for a class."""
    hub = settings.hub
    RoomAuthenticator.accounts = ConfinedSpawner.accounts = Accounts(hub / "accounts.json")
    RoomAuthenticator.passwords = stored_passwords(hub / "passwords.json")
    RoomAuthenticator.homes = settings.learners
    ConfinedSpawner.settings = settings
    address = settings.address
    secure = address.tls_key is not None

    jupyterhub = c.JupyterHub
    jupyterhub.authenticator_class = RoomAuthenticator
    jupyterhub.spawner_class = ConfinedSpawner
    jupyterhub.proxy_class = BoundProxy
    jupyterhub.bind_url = f"http{'s' * secure}://{address.host}:{address.port}/"
    jupyterhub.hub_ip, jupyterhub.hub_port = "127.0.0.1", settings.hub_port
    jupyterhub.db_url = f"sqlite:///{hub / 'jupyterhub.sqlite'}"
    jupyterhub.cookie_secret_file = str(hub / "cookie_secret")
    jupyterhub.template_paths = [str(Path(__file__).parent / "templates")]
    jupyterhub.default_url = _first_page
    speak(settings.language)
    course = open_class(settings.folder).name
    # JupyterHub calls what can be called, for the user.
    jupyterhub.template_vars = {"tr": lambda _user: tr, "course": course, "name_pattern": NAME_TYPED}
    jupyterhub.cleanup_servers = jupyterhub.cleanup_proxy = True
    jupyterhub.active_server_limit = 0
    jupyterhub.concurrent_spawn_limit = 0  # no limit: a room that signs in at once waits, nobody is refused
    jupyterhub.log_level = "INFO"
    if secure:
        jupyterhub.ssl_key, jupyterhub.ssl_cert = str(address.tls_key), str(address.tls_cert)
    jupyterhub.tornado_settings = {"slow_spawn_timeout": 30}
    jupyterhub.services = _services(settings)
    servers = ["list:users", "read:servers", "delete:servers"]
    jupyterhub.load_roles = [
        {"name": "idle-culler", "services": ["idle-culler"], "scopes": [*servers, "read:users:activity"]},
        # Not an administrator: with access to learners' servers, each of them could have itself authorized by
        # the instructor, and get a token of theirs.
        {
            "name": "instructor",
            "users": [INSTRUCTOR],
            "scopes": [*servers, "read:users", "delete:users", "admin-ui", "access:services!service=room"],
        },
        {"name": "admin", "users": []},
    ]

    proxy = c.TraefikFileProviderProxy
    proxy.static_config_file = str(settings.private / "traefik.toml")
    proxy.dynamic_config_file = str(settings.private / "routes.toml")
    proxy.traefik_api_url = f"http://127.0.0.1:{settings.proxy_port}"
    proxy.traefik_log_level = "WARN"
    # By default Traefik asks its makers for a newer version, and cuts off an upload after a minute.
    proxy.extra_static_config = {
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        "entryPoints": {
            "https" if secure else "http": {"transport": {"respondingTimeouts": {"readTimeout": "0s"}}}
        },
    }

    c.Authenticator.allow_all = True  # everybody with the room's password
    c.Authenticator.username_pattern = rf"{NAME}\Z"
    c.Spawner.start_timeout = c.Spawner.http_timeout = 180  # a whole room on two cores
    c.Spawner.poll_interval = 5
    c.Spawner.disable_user_config = True
    c.LocalProcessSpawner.interrupt_timeout = 150  # longer than `learner_server.py` takes; then it is killed


def _first_page(handler: Any) -> str:  # noqa: ANN401 - a handler of the hub's
    """Return where somebody who has signed in goes: the instructor to the room, a learner to JupyterLab."""
    user = handler.current_user
    return "/services/room/" if user is not None and user.name == INSTRUCTOR else ""


def _services(settings: HubSettings) -> list[dict[str, Any]]:
    room = "onnxlab_class.classroom.room.service"
    services: list[dict[str, Any]] = [
        {
            "name": "room",
            "url": f"http://127.0.0.1:{settings.room_port}",
            "command": [*_BOUND, sys.executable, "-I", "-m", room, str(settings.folder)],
            "environment": {"ONNXLAB_LANGUAGE": settings.language},
            "display": True,
            "oauth_no_confirm": True,
            "timeout": 110,  # seconds: it loads the labs first, and JupyterHub would give up after 30
        }
    ]
    if settings.idle:
        culler = [sys.executable, "-I", "-m", "jupyterhub_idle_culler", f"--timeout={60 * settings.idle}"]
        services.append({"name": "idle-culler", "command": [*_BOUND, *culler]})
    return services


if VARIABLE in os.environ and "get_config" in globals():
    configure(get_config(), HubSettings.read(Path(os.environ[VARIABLE])))  # type: ignore[name-defined]  # noqa: F821
