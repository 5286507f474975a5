"""A learner's server, as the hub starts and ends it: asked of the warm process, and confined."""

import asyncio
import json
from pathlib import Path
from typing import Any, ClassVar

from jupyterhub.spawner import Spawner

from onnxlab.classroom.accounts import Accounts
from onnxlab.classroom.hub_address import free_port
from onnxlab.classroom.hub_settings import ServeSettings
from onnxlab.classroom.learner_server import (
    INSTRUCTOR,
    account_cage,
    account_user,
    account_variables,
    lab_options,
    prepare_places,
    server_root,
)
from onnxlab.classroom.server_fork import Request

__all__ = ["ClassSpawner"]

_FIRST_PAGE = "/lab/tree/notebooks/00_start_here.ipynb"
_SECONDS_TO_END = 20.0


class ClassSpawner(Spawner):  # type: ignore[misc]  # is not typed
    """Asks for a server, keeps the connection that means it runs, and closes it to end it."""

    accounts: Accounts
    settings: ServeSettings
    ports: ClassVar[set[int]] = set()
    """Those of all servers, also of those that are only just starting."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - JupyterHub's
        super().__init__(**options)
        self._to: asyncio.StreamWriter | None = None
        self._end: asyncio.Task[int] | None = None
        self.process = 0

    async def start(self) -> str:
        """Start the server; return its address."""
        account = self.accounts.ensure(self.user.name)
        user = account_user(self.settings, self.accounts, account)
        await asyncio.to_thread(prepare_places, self.settings, account, user)
        if user is not None:
            (self.settings.users / str(user)).write_text(f"{account.number} {account.name}")
        self.default_url = "/lab" if account.name == INSTRUCTOR else _FIRST_PAGE
        self._forget()  # of a server that ended by itself
        self.ip, self.port = "127.0.0.1", free_port(but=self.ports)
        self.ports.add(self.port)
        cage = account_cage(self.settings, account, user).with_port(self.port)
        environment = self.get_env() | account_variables(self.settings, account, user)
        request = Request(
            cage=cage.as_json(),
            environment=environment,
            arguments=[*self.get_args(), *lab_options(self.settings, account)],
            log=str(self.settings.hub / "logs" / f"server-{account.name}.log"),
            course=str(self.settings.course),
            exchange=str(self.settings.exchange),
            place=str(server_root(self.settings, account)),
        )
        heard, self._to = await asyncio.open_unix_connection(str(self.settings.servers_socket))
        self._to.write(request.as_line())
        await self._to.drain()
        line = await heard.readline()
        if not line:
            self._forget()
            msg = "This machine cannot run another process now. Try again in a minute."
            raise RuntimeError(msg)
        started = json.loads(line)
        self.process = started["process"]
        self._end = asyncio.create_task(_code(heard))
        self._note().write_text(f"{started['keeper']} {self.process}")
        return f"http://{self.ip}:{self.port}"

    async def poll(self) -> int | None:
        """Return None if the server runs, or how it ended."""
        if self._end is None:
            return 0
        return self._end.result() if self._end.done() else None

    async def stop(self, now: bool = False) -> None:
        """End the server, and with it what it started."""
        if self._to is not None and self._end is not None and not self._end.done():
            self._to.write(b"{}\n")
            await asyncio.wait([self._end], timeout=_SECONDS_TO_END)
        self._forget()

    def _forget(self) -> None:
        """Close the connection, which ends a server that still runs, and let go of what belonged to it."""
        if self._to is not None:
            self._to.close()
        self.ports.discard(self.port)
        self._note().unlink(missing_ok=True)
        self._to, self._end, self.process = None, None, 0

    def _note(self) -> Path:
        """Where the watcher finds which process is whose server."""
        return self.settings.running / str(self.user.name)


async def _code(heard: asyncio.StreamReader) -> int:
    try:
        return int(json.loads(await heard.readline())["code"])
    except (ValueError, KeyError, OSError):
        return 1  # the warm process is gone, and with it the server
