"""JupyterHub's authenticator: learners give the room's password and their PIN, the instructor a password."""

import asyncio
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from secrets import compare_digest
from typing import Any
from weakref import WeakValueDictionary

from jupyterhub.auth import Authenticator
from jupyterhub.handlers import LoginHandler, LogoutHandler
from jupyterhub.utils import new_token
from tornado.web import HTTPError

from onnxlab.language import tr
from onnxlab.message import Message
from onnxlab_class.classroom.hub.accounts import Accounts, AccountsUnreadable, Passwords, is_name, plain_name
from onnxlab_class.classroom.hub.settings import INSTRUCTOR
from onnxlab_class.classroom.hub.visitors import HANDLERS as VISITS
from onnxlab_class.classroom.hub.visitors import open_gate
from onnxlab_class.classroom.names import is_reserved

_WRONG = "The password or the PIN is not right. If the name is somebody else's, take another name."
_NO_NAME = "A name begins with a letter; then letters a-z, digits, - and _, 30 at most."
_SHORTEST_PIN = 4


class Throttle:
    """Lets so many events happen at once, and then one in so many seconds, for each key by itself.

    It remembers a key for `free * seconds` at most (the generic cell rate algorithm).

    Args:
        free: How many may happen at once.
        seconds: Between two of them afterwards.

    Example:
        >>> throttle = Throttle(2, 60.0)
        >>> for now in (0.0, 1.0):
        ...     throttle.count("ada", now)
        >>> throttle.wait("ada", 1.0), throttle.wait("ada", 61.0), throttle.wait("bob", 1.0)
        (59.0, 0.0, 0.0)
    """

    def __init__(self, free: int, seconds: float) -> None:
        self._free, self._seconds = free, seconds
        self._until: dict[str, float] = {}  # when the last event of a key no longer counts

    def wait(self, key: str, now: float) -> float:
        """Return the seconds until the next event is allowed."""
        return max(0.0, self._until.get(key, now) - now - (self._free - 1) * self._seconds)

    def count(self, key: str, now: float) -> None:
        """Count an event."""
        self._until = {other: until for other, until in self._until.items() if until > now}
        self._until[key] = self._until.get(key, now) + self._seconds

    def forget(self, key: str) -> None:
        """Forget the events of a key."""
        self._until.pop(key, None)


class SignInHandler(LoginHandler):  # type: ignore[misc]  # is not typed
    """JupyterHub's sign-in, which opens the own server's gate, too."""

    def set_login_cookie(self, user: Any) -> None:  # noqa: ANN401 - a user of the hub's
        """Set the cookies of somebody who has signed in."""
        super().set_login_cookie(user)
        open_gate(self, user)


class SignOutHandler(LogoutHandler):  # type: ignore[misc]  # is not typed
    """Signs out a name in all browsers, so that copies of its cookies are worth nothing."""

    async def handle_logout(self) -> None:
        """Change what the cookies of the user stand for."""
        if self.current_user:
            self.current_user.orm_user.cookie_id = new_token()
            self.db.commit()


class RoomAuthenticator(Authenticator):  # type: ignore[misc]  # is not typed
    """The room's password lets anybody in; a name belongs to the PIN that it was first used with.

    Failures are counted by name, by address and for the room, new names by address and for the room: a class
    of a hundred behind one address gets in, somebody who guesses has one try a second at most. Sessions that
    are signed in already are not affected. `jupyterhub_config.py` sets the accounts, the passwords and the
    folder of the homes.
    """

    accounts: Accounts
    passwords: Passwords
    homes: Path

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - traitlets' options
        super().__init__(**options)
        self._by_name, self._by_address, self._in_room = Throttle(5, 60), Throttle(100, 2), Throttle(200, 1)
        self._new_by_address, self._new_in_room = Throttle(100, 60), Throttle(300, 10)
        self._one_at_a_time: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def authenticate(self, handler: Any, data: dict[str, str]) -> dict[str, Any]:  # noqa: ANN401
        """Return the account that somebody has proven to be.

        Raises:
            HTTPError: If they have not; its message is shown on the sign-in page.
        """
        name, address = plain_name(data.get("username", "")), str(handler.request.remote_ip)
        if not is_name(name):
            raise HTTPError(400, tr(_NO_NAME))
        if is_reserved(name):
            raise HTTPError(
                400, tr("{name} is the name of a folder of the class: take another one.", name=name)
            )
        failures = ((self._by_name, name), (self._by_address, address), (self._in_room, ""))
        newcomers = ((self._new_by_address, address), (self._new_in_room, ""))
        lock = self._one_at_a_time.setdefault(name, asyncio.Lock())
        async with lock:
            now, new = time.monotonic(), name != INSTRUCTOR and name not in self.accounts
            wait = max(throttle.wait(key, now) for throttle, key in failures + newcomers * new)
            if wait > 0:
                raise HTTPError(429, tr("Too many tries. Try again in {ceil} seconds.", ceil=math.ceil(wait)))
            # Up to the check of the PIN there is no await, so that tries at the same time are all counted.
            expected = self.passwords.instructor if name == INSTRUCTOR else self.passwords.room
            proven = _same(data.get("password", ""), expected)
            if proven and name != INSTRUCTOR:
                proven = await self._has_pin(name, data.get("pin", ""), newcomers * new)
            if not proven:
                _count(failures, now)
                raise HTTPError(403, tr(_WRONG))
            self._by_name.forget(name)
        return {"name": name, "admin": False}

    async def _has_pin(self, name: str, pin: str, newcomers: Sequence[tuple[Throttle, str]]) -> bool:
        if len(pin) < _SHORTEST_PIN:
            msg = Message("Choose a PIN of your own, at least {n} characters, and keep it.", n=_SHORTEST_PIN)
            raise HTTPError(400, tr(msg))
        _count(newcomers, time.monotonic())
        try:
            # In a thread: a whole room signs in at once, and hashing is slow on purpose.
            return await asyncio.to_thread(self.accounts.check_pin, name, pin)
        except AccountsUnreadable as error:  # there are too many
            raise HTTPError(503, tr(error.what)) from None

    def get_handlers(self, app: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - the hub
        """Return the handlers for signing in and out, and for visits to servers."""
        return [("/login", SignInHandler), ("/logout", SignOutHandler), *VISITS]

    def delete_user(self, user: Any) -> None:  # noqa: ANN401 - a row of the hub's database
        """When the instructor deletes a user, delete the PIN; and the account, if it has no home."""
        self.accounts.forget(user.name, keep=os.path.lexists(self.homes / user.name))


def _same(password: str, expected: str) -> bool:
    return compare_digest(password.encode("utf-8", "replace"), expected.encode())


def _count(throttles: Sequence[tuple[Throttle, str]], now: float) -> None:
    for throttle, key in throttles:
        throttle.count(key, now)
