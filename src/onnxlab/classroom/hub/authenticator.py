"""JupyterHub's authenticator: learners give the room's password and their PIN, the instructor a password."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field
from secrets import compare_digest
from typing import Any, ClassVar

from jupyterhub.auth import Authenticator
from tornado.web import HTTPError

from onnxlab.classroom.hub.accounts import Accounts, AccountsUnreadable, Passwords, is_name, plain_name
from onnxlab.classroom.hub.settings import INSTRUCTOR

__all__ = ["RoomAuthenticator", "Throttle"]

_WRONG = "The password or the PIN is not right. If the name is somebody else's, take another name."
_NO_NAME = "A name begins with a letter; then letters a-z, digits, - and _, 30 at most."
_SHORTEST_PIN = 4
_FREE_FAILURES = 3  # failures without a wait
_LONGEST_WAIT = 60.0  # seconds
_FORGOTTEN_AFTER = 900.0


@dataclass
class Throttle:
    """The failed sign-ins with one name, and how long the next one has to wait."""

    failures: int = 0
    last: float = field(default_factory=time.monotonic)

    def wait(self, now: float) -> float:
        """Return the seconds until the next sign-in is allowed.

        Example:
            >>> [Throttle(failures, last=0.0).wait(0.0) for failures in (2, 3, 5, 20)]
            [0.0, 1.0, 4.0, 60.0]
        """
        if now - self.last > _FORGOTTEN_AFTER:
            self.failures = 0
        if self.failures < _FREE_FAILURES:
            return 0.0
        return max(0.0, self.last + min(_LONGEST_WAIT, 2.0 ** (self.failures - _FREE_FAILURES)) - now)


class RoomAuthenticator(Authenticator):  # type: ignore[misc]  # is not typed
    """The room's password lets anybody in; a name belongs to the PIN that it was first used with.

    After each failure the next sign-in with the same name has to wait longer, up to a minute. Sessions that
    are signed in already are not affected. `jupyterhub_config.py` sets the accounts and the passwords.
    """

    accounts: Accounts
    passwords: Passwords

    _throttles: ClassVar[defaultdict[str, Throttle]] = defaultdict(Throttle)
    _one_at_a_time: ClassVar[defaultdict[str, asyncio.Lock]] = defaultdict(asyncio.Lock)

    async def authenticate(self, handler: Any, data: dict[str, str]) -> dict[str, Any]:  # noqa: ANN401
        """Return the account that somebody has proven to be.

        Raises:
            HTTPError: If they have not; its message is shown on the sign-in page.
        """
        name = plain_name(data.get("username", ""))
        if not is_name(name):
            raise HTTPError(400, _NO_NAME)
        async with self._one_at_a_time[name]:
            wait = self._throttles[name].wait(time.monotonic())
            if wait > 0:
                raise HTTPError(429, f"Too many tries with this name. Try again in {wait:.0f} seconds.")
            if not await self._proven(name, data.get("password", ""), data.get("pin", "")):
                self._throttles[name] = Throttle(self._throttles[name].failures + 1)
                raise HTTPError(403, _WRONG)
            del self._throttles[name]
        return {"name": name, "admin": name == INSTRUCTOR}

    async def _proven(self, name: str, password: str, pin: str) -> bool:
        if name == INSTRUCTOR:
            return _same(password, self.passwords.instructor)
        if not _same(password, self.passwords.room):
            return False
        if len(pin) < _SHORTEST_PIN:
            raise HTTPError(
                400, f"Choose a PIN of your own, at least {_SHORTEST_PIN} characters, and keep it."
            )
        try:
            # In a thread: a whole room signs in at once, and hashing is slow on purpose.
            return await asyncio.to_thread(self.accounts.check_pin, name, pin)
        except AccountsUnreadable as error:  # there are too many
            raise HTTPError(503, error.what) from None

    def delete_user(self, user: Any) -> None:  # noqa: ANN401 - a row of the hub's database
        """Delete the PIN when the instructor deletes a user: the next one with the name chooses a new PIN."""
        self.accounts.forget_pin(user.name)


def _same(password: str, expected: str) -> bool:
    return compare_digest(password.encode("utf-8", "replace"), expected.encode())
