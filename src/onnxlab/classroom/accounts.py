"""The accounts of a class: who has which name, which of the machine's users they are, and their own PIN.

Kept in `hub/accounts.json`. A name belongs to whoever signs in with it first; from then on it needs the PIN
that was chosen then. Only the PIN's Argon2 hash is kept.
"""

import json
import os
import re
import secrets
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.grading.users import throw_away_user
from onnxlab.grading.whole_files import write_whole

__all__ = ["SHORTEST_PIN", "Account", "Accounts", "AccountsUnreadable", "is_name", "plain_name"]

SHORTEST_PIN = 4
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,29}")
_MOST = 900  # accounts of one class; a container may have no more users than a thousand to spare
# Blocks of users above those that a grading run takes, one block for each class on a machine.
_FIRST_BLOCK, _BLOCKS, _BLOCK = 10_000, 50, 1000


class AccountsUnreadable(OnnxLabError):
    """The file of the accounts is damaged."""


@dataclass(frozen=True)
class Account:
    """An account.

    Attributes:
        name: Its name, which is the name of the folder too.
        number: Its number in this class, from 0; it keeps it.
        pin: The hash of the PIN; "" if none was chosen yet, or if the instructor took it away.
    """

    name: str
    number: int
    pin: str = ""


class Accounts:
    """The accounts in a file. One process writes it: the hub; others read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # PINs are hashed in threads
        self._by_name: dict[str, Account] = {}
        self._first = _free_block()
        if path.exists():
            self._read()

    def names(self) -> list[str]:
        """Return all names, in the order in which they came."""
        return [each.name for each in sorted(self._by_name.values(), key=lambda one: one.number)]

    def get(self, name: str) -> Account | None:
        """Return an account; None if nobody has that name."""
        return self._by_name.get(name)

    def user(self, account: Account) -> int | None:
        """Return the machine's user whom an account's processes run as; None for whoever runs the hub."""
        return None if self._first is None else throw_away_user(self._first + account.number)

    def of_user(self, user: int) -> Account | None:
        """Return the account whose processes run as a user."""
        return next((each for each in self._by_name.values() if self.user(each) == user), None)

    def reload(self) -> None:
        """Read again what another process has written."""
        with self._lock:
            self._read()

    def ensure(self, name: str) -> Account:
        """Return the account of a name, a new one if there is none.

        Raises:
            AccountsUnreadable: If there are too many.
        """
        with self._lock:
            if name in self._by_name:
                return self._by_name[name]
            if len(self._by_name) >= _MOST:
                msg = f"This class has {_MOST} accounts already."
                raise AccountsUnreadable(msg, "", "Make another class for the others.")
            account = Account(name, len(self._by_name))
            self._by_name[name] = account
            self._write()
            return account

    def check_pin(self, name: str, pin: str) -> bool:
        """Whether a PIN is a name's; the first one given becomes it. Takes some hundredths of a second."""
        from argon2 import PasswordHasher
        from argon2.exceptions import InvalidHashError, VerificationError

        account = self.ensure(name)
        hasher = PasswordHasher()
        if not account.pin:
            hashed = hasher.hash(pin)
            with self._lock:
                now = self._by_name[name]
                if not now.pin:  # nobody else was first meanwhile
                    self._by_name[name] = replace(now, pin=hashed)
                    self._write()
                    return True
                account = now
        try:
            return hasher.verify(account.pin, pin)
        except (VerificationError, InvalidHashError):
            return False

    def forget_pin(self, name: str) -> None:
        """Let the next one who signs in with a name choose its PIN; the folder and its work stay."""
        with self._lock:
            if name in self._by_name:
                self._by_name[name] = replace(self._by_name[name], pin="")
                self._write()

    def _read(self) -> None:
        try:
            found = json.loads(self._path.read_text("utf-8"))
            accounts = [Account(str(e["name"]), int(e["number"]), str(e["pin"])) for e in found["accounts"]]
            first = found["first_user"]
            if not all(is_name(each.name) for each in accounts) or not isinstance(first, int | None):
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError):
            msg = f"{self._path} cannot be read."
            then = "Put back a copy of it; or delete it: then names and PINs are chosen anew, work is kept."
            raise AccountsUnreadable(msg, "It says who has which name.", then) from None
        self._by_name = {each.name: each for each in accounts}
        if os.geteuid() == 0 and first is not None and throw_away_user(first) is not None:
            self._first = first

    def _write(self) -> None:
        entries = [asdict(each) for each in sorted(self._by_name.values(), key=lambda one: one.number)]
        text = json.dumps({"first_user": self._first, "accounts": entries}, indent=1)
        write_whole(self._path, text, private=True)


def plain_name(given: str) -> str:
    """Return a name as it is kept: small letters, no space around it.

    Example:
        >>> plain_name(" Ada "), is_name("ada"), is_name("../ada"), is_name("-ada")
        ('ada', True, False, False)
    """
    return given.strip().lower()


def is_name(name: str) -> bool:
    """Whether a name can be an account's: it becomes a folder's, and part of a path and of an address."""
    return _NAME.fullmatch(name) is not None


def _free_block() -> int | None:
    """Return the first of a thousand users that a new class may have; None if there are no users to give."""
    block = _FIRST_BLOCK + _BLOCK * secrets.randbelow(_BLOCKS)
    places = (block, 50)  # a container may have few users: then some of the last of them
    return next((each for each in places if throw_away_user(each) is not None), None)
