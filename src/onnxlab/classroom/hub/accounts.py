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
from onnxlab.files import write_atomically
from onnxlab.sandbox.users import ACCOUNTS, FEW_ACCOUNTS, throw_away_user

__all__ = ["Account", "Accounts", "AccountsUnreadable", "is_name", "plain_name"]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,29}")
_MOST = 900  # accounts of one class; a container may have no more users than a thousand to spare
_BLOCK = 1000  # users of each class on a machine


class AccountsUnreadable(OnnxLabError):
    """The file of the accounts is damaged."""


@dataclass(frozen=True)
class Account:
    """An account.

    Attributes:
        name: Its name, which is the name of the home too.
        number: Its number in this class, from 0; it keeps it.
        pin: The hash of the PIN; "" if none was chosen yet, or if the instructor took it away.
    """

    name: str
    number: int
    pin: str = ""


class Accounts:
    """The accounts in a file. One process writes it: the hub."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # PINs are hashed in threads
        self._by_name: dict[str, Account] = {}
        self._first = _free_block()
        if path.exists():
            self._read()

    def user(self, account: Account) -> int | None:
        """Return the machine's user whom an account's processes run as; None for whoever runs the hub."""
        return None if self._first is None else throw_away_user(self._first + account.number)

    def ensure(self, name: str) -> Account:
        """Return the account of a name, a new one if there is none.

        Raises:
            AccountsUnreadable: If there are too many.
        """
        with self._lock:
            if name not in self._by_name:
                if len(self._by_name) >= _MOST:
                    msg = f"This class has {_MOST} accounts already."
                    raise AccountsUnreadable(msg, "", "Make another class for the others.")
                self._put(Account(name, len(self._by_name)))
            return self._by_name[name]

    def check_pin(self, name: str, pin: str) -> bool:
        """Whether a PIN is a name's; the first one given becomes it. Takes some hundredths of a second."""
        from argon2 import PasswordHasher
        from argon2.exceptions import InvalidHashError, VerificationError

        hasher = PasswordHasher()
        if not self.ensure(name).pin:
            hashed = hasher.hash(pin)
            with self._lock:
                if not self._by_name[name].pin:  # nobody else was first meanwhile
                    self._put(replace(self._by_name[name], pin=hashed))
                    return True
        try:
            return hasher.verify(self._by_name[name].pin, pin)
        except (VerificationError, InvalidHashError):
            return False

    def forget_pin(self, name: str) -> None:
        """Let the next one who signs in with a name choose its PIN; the home and its work stay."""
        with self._lock:
            if name in self._by_name:
                self._put(replace(self._by_name[name], pin=""))

    def _read(self) -> None:
        try:
            content = json.loads(self._path.read_text("utf-8"))
            accounts = [Account(str(e["name"]), int(e["number"]), str(e["pin"])) for e in content["accounts"]]
            first = content["first_user"]
            if not all(is_name(account.name) for account in accounts) or not isinstance(first, int | None):
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError):
            msg = f"{self._path} cannot be read."
            then = "Put back a copy of it; or delete it: then names and PINs are chosen anew, work is kept."
            raise AccountsUnreadable(msg, "It says who has which name.", then) from None
        self._by_name = {account.name: account for account in accounts}
        # A class from before grading's users and these were kept apart gets new ones; its homes follow.
        if os.geteuid() == 0 and first is not None and throw_away_user(first) is not None:
            self._first = first if first in ACCOUNTS or first in FEW_ACCOUNTS else self._first

    def _put(self, account: Account) -> None:
        self._by_name[account.name] = account
        entries = sorted(map(asdict, self._by_name.values()), key=lambda entry: int(entry["number"]))
        text = json.dumps({"first_user": self._first, "accounts": entries}, indent=1)
        write_atomically(self._path, text, mode=0o600)


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
    places = (secrets.choice(ACCOUNTS[::_BLOCK]), FEW_ACCOUNTS[0])
    return next((each for each in places if throw_away_user(each) is not None), None)
