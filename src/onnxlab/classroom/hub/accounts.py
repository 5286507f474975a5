"""Who may sign in: the accounts of a class with their PINs, the room's password and the instructor's.

The accounts are kept in `hub/accounts.json`: who has which name, and which of the machine's users they are. A
name belongs to whoever signs in with it first; from then on it needs the PIN that was chosen then. Only the
PIN's Argon2 hash is kept. The passwords are read, or drawn and kept for the next start, and refused if weak.
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
from onnxlab.plain_text import many
from onnxlab.sandbox.users import ACCOUNTS, FEW_ACCOUNTS, throw_away_user

__all__ = [
    "Account",
    "Accounts",
    "AccountsUnreadable",
    "Passwords",
    "WeakPassword",
    "given_passwords",
    "is_name",
    "kept_passwords",
    "passwords",
    "plain_name",
]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,29}")
_MOST = 900  # accounts of one class; a container may have no more users than a thousand to spare
_BLOCK = 1000  # users of each class on a machine
_VARIABLES = {"room": "ONNXLAB_ROOM_PASSWORD", "instructor": "ONNXLAB_INSTRUCTOR_PASSWORD"}
_SHORTEST = {"room": 8, "instructor": 12}
_GROUPS = {"room": 3, "instructor": 5}  # of four letters, of a password that is drawn
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that look alike on a projector
_COMMON = ("password", "passwort", "jupyter", "workshop", "classroom", "onnxlab", "qwerty", "12345678")


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


class WeakPassword(OnnxLabError):
    """A password would not keep anybody out."""


@dataclass(frozen=True)
class Passwords:
    """The two passwords.

    Attributes:
        room: Lets anybody in as a learner.
        instructor: Lets the instructor in.
    """

    room: str
    instructor: str


def given_passwords(files: dict[str, Path | None]) -> dict[str, str]:
    """Return the passwords that somebody chose, by file or by variable.

    Args:
        files: For "room" and "instructor" a file with the password in its first line; None to look at
            ONNXLAB_ROOM_PASSWORD or ONNXLAB_INSTRUCTOR_PASSWORD instead.

    Raises:
        WeakPassword: If one is easy to guess, or a file cannot be read.
    """
    chosen = {whose: _chosen(whose, files.get(whose)) for whose in _VARIABLES}
    return {whose: text for whose, text in chosen.items() if text is not None}


def passwords(kept: Path, given: dict[str, str]) -> Passwords:
    """Return the passwords that count: those given, or those of the last time, or new ones; and keep them.

    Raises:
        WeakPassword: If both are the same.
    """
    drawn = {whose: _drawn(groups) for whose, groups in _GROUPS.items()}
    counted = Passwords(**drawn | _kept(kept) | given)
    if counted.room == counted.instructor:
        msg = "The room's password is the instructor's, too."
        raise WeakPassword(msg, "Every learner would be an instructor.", "Give two different ones.")
    write_atomically(kept, json.dumps(asdict(counted)), mode=0o600)
    return counted


def kept_passwords(kept: Path) -> Passwords:
    """Return the passwords that `passwords` has kept."""
    return Passwords(**_kept(kept))


def _chosen(whose: str, file: Path | None) -> str | None:
    text = os.environ.get(_VARIABLES[whose])
    if file is not None:
        try:
            text = (file.read_text("utf-8").splitlines() or [""])[0]
        except (OSError, ValueError) as error:
            msg = f"The {whose} password cannot be read from {file}."
            reason = getattr(error, "strerror", None) or "It is not a text file"
            raise WeakPassword(msg, f"{reason}.", "Give a text file with the password in it.") from None
    if text is None:
        return None
    text = text.strip()
    why = ""
    if len(text) < _SHORTEST[whose]:
        why = f"It has {many(len(text), 'character')}, at least {_SHORTEST[whose]} are needed."
    elif len(set(text.lower())) < 5:
        why = "It has the same few characters again and again."
    elif any(text.lower().replace(word, "").strip("0123456789!.-_ ") == "" for word in _COMMON):
        why = "It is among the first that anybody would try."
    if why:
        msg = f"The {whose} password is too weak."
        raise WeakPassword(msg, why, "Give another; or give none, and a good one is drawn.")
    return text


def _kept(kept: Path) -> dict[str, str]:
    try:
        content = json.loads(kept.read_text("utf-8"))
        return {whose: content[whose] for whose in _VARIABLES if isinstance(content[whose], str)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _drawn(groups: int) -> str:
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(groups))
