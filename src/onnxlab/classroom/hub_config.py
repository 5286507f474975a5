"""The hub's own configuration: what `python -m jupyterhub -f` reads. All of it follows from the settings."""

import importlib.util
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from onnxlab.classroom.accounts import Accounts
from onnxlab.classroom.hub_passwords import kept_passwords
from onnxlab.classroom.hub_settings import VARIABLE, ServeSettings
from onnxlab.classroom.hub_signin import RoomAuthenticator
from onnxlab.classroom.learner_server import INSTRUCTOR
from onnxlab.classroom.spawner import ClassSpawner

__all__ = ["configure"]

_ROOM = "onnxlab.classroom.room_service"


def configure(c: Any, settings: ServeSettings) -> None:  # noqa: ANN401 - traitlets' configuration
    """Say how the hub of a class runs."""
    hub = settings.hub
    accounts = Accounts(hub / "accounts.json")
    RoomAuthenticator.accounts = ClassSpawner.accounts = accounts
    RoomAuthenticator.passwords = kept_passwords(hub / "passwords.json")
    ClassSpawner.settings = settings
    secure = settings.tls_key is not None

    own = c.JupyterHub
    own.authenticator_class = RoomAuthenticator
    own.spawner_class = ClassSpawner
    own.bind_url = f"http{'s' * secure}://{_in_address(settings.ip)}:{settings.port}/"
    own.hub_ip, own.hub_port = "127.0.0.1", settings.hub_port
    own.db_url = f"sqlite:///{hub / 'jupyterhub.sqlite'}"
    own.cookie_secret_file = str(hub / "cookie_secret")
    own.template_paths = [str(Path(__file__).parent / "templates")]
    own.cleanup_servers = own.cleanup_proxy = True
    own.active_server_limit = 0
    own.concurrent_spawn_limit = 0  # servers are forked: a whole room may come at once
    own.log_level = "INFO"
    if secure:
        own.ssl_key, own.ssl_cert = str(settings.tls_key), str(settings.tls_cert)
    own.tornado_settings = {"slow_spawn_timeout": 30}
    own.services = _services(settings)
    own.load_roles = [
        {
            "name": "idle-culler",
            "services": ["idle-culler"],
            "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        }
    ]

    c.Authenticator.admin_users = {INSTRUCTOR}
    c.ConfigurableHTTPProxy.command = list(settings.proxy)
    c.ConfigurableHTTPProxy.auth_token = secrets.token_hex(32)
    c.ConfigurableHTTPProxy.api_url = f"http+unix://{str(settings.private / 'proxy').replace('/', '%2F')}"
    c.ConfigurableHTTPProxy.pid_file = str(hub / "proxy.pid")
    c.ConfigurableHTTPProxy.log_level = "warn"
    c.Spawner.start_timeout = c.Spawner.http_timeout = 180  # a whole room on two cores
    c.Spawner.poll_interval = 5
    c.Spawner.disable_user_config = True


def _services(settings: ServeSettings) -> list[dict[str, Any]]:
    services: list[dict[str, Any]] = []
    if settings.idle:
        culler = [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={60 * settings.idle}"]
        services.append({"name": "idle-culler", "command": culler})
    if importlib.util.find_spec(_ROOM):
        services.append(
            {
                "name": "room",
                "url": f"http://127.0.0.1:{settings.room_port}",
                "command": [sys.executable, "-m", _ROOM, str(settings.folder)],
                "display": True,
                "oauth_no_confirm": True,
            }
        )
    return services


def _in_address(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


if VARIABLE in os.environ and "get_config" in globals():
    configure(get_config(), ServeSettings.read(Path(os.environ[VARIABLE])))  # type: ignore[name-defined]  # noqa: F821
