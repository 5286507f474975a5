"""The accounts of a class with their PINs, and the two passwords: the room's and the instructor's.

`hub/accounts.json` stores each account's name, its number (which gives its user on this machine) and the
Argon2 hash of its PIN. A name belongs to whoever signs in with it first, and then needs the PIN chosen there.
The passwords are read, or generated and stored for the next start; weak ones are refused.
"""

import json
import os
import re
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.files import write_atomically
from onnxlab.plain_text import pluralise
from onnxlab_class.sandbox.users import ACCOUNTS, FEW_ACCOUNTS, throw_away_user

NAME = r"[a-z][a-z0-9_-]{0,29}"
"""The pattern of a valid name, in lower case."""
NAME_TYPED = r"\s*[A-Za-z][A-Za-z0-9_\-]{0,29}\s*"
"""The pattern of what `plain_name` makes a valid name of, as HTML wants it."""

_MOST = 900  # accounts of one class; in a container there may be only a thousand users to give
_BLOCK = 1000  # users of each class on a machine
_VARIABLES = {"room": "ONNXLAB_ROOM_PASSWORD", "instructor": "ONNXLAB_INSTRUCTOR_PASSWORD"}
_SHORTEST = {"room": 8, "instructor": 12}
_GROUPS = {"room": 3, "instructor": 5}  # of four letters, in a generated password
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that look alike on a projector
_COMMON = ("password", "passwort", "jupyter", "workshop", "classroom", "onnxlab", "qwerty", "12345678")


class AccountsUnreadable(OnnxLabError):
    """The file of the accounts is damaged."""


@dataclass(frozen=True)
class Account:
    """An account.

    Attributes:
        name: Its name and the name of its home.
        number: Its number in this class, from 0; no other account has it as long as this one exists.
        pin: The hash of the PIN; "" if none was chosen yet, or if the instructor deleted it.
    """

    name: str
    number: int
    pin: str = ""


class Accounts:
    """The accounts in a file. Only the hub's process writes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # PINs are hashed in threads
        self._by_name: dict[str, Account] = {}
        self._first = _free_block()
        if path.exists():
            self._read()

    def user(self, account: Account) -> int | None:
        """Return the user id of an account's processes; None if they run as the hub's own user."""
        return None if self._first is None else throw_away_user(self._first + account.number)

    @contextmanager
    def reserved_users(self) -> Iterator[None]:
        """Reserve the users for this class, which gets others if a class that is being served has them.

        A socket is named after them: no two can have one name, and the name is free once its process ends.

        Raises:
            AccountsUnreadable: If other classes have all users.
        """
        if self._first is None:
            yield
            return
        others = secrets.SystemRandom().sample(ACCOUNTS[::_BLOCK], len(ACCOUNTS) // _BLOCK)
        blocks = [self._first, *others, FEW_ACCOUNTS[0]]
        for first in (block for block in blocks if throw_away_user(block) is not None):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as holder:
                try:
                    holder.bind(f"\0onnxlab-class-users-{first}")
                except OSError:  # another class's
                    continue
                if first != self._first:
                    self._first = first
                    self._write()
                yield
                return
        raise AccountsUnreadable(
            "Other classes that are being served have all users of this machine.",
            "Learners of two classes could disturb each other.",
            "Stop one of them.",
        )

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def ensure(self, name: str) -> Account:
        """Return the account of a name, a new one if there is none.

        Raises:
            AccountsUnreadable: If there are too many.
        """
        with self._lock:
            if name not in self._by_name:
                if len(self._by_name) >= _MOST:
                    raise AccountsUnreadable(
                        f"This class has {_MOST} accounts already.", "", "Make another class for the others."
                    )
                used = {account.number for account in self._by_name.values()}
                self._put(Account(name, next(number for number in range(_MOST) if number not in used)))
            return self._by_name[name]

    def check_pin(self, name: str, pin: str) -> bool:
        """Tell whether a PIN is a name's, whose first PIN is stored. Takes some hundredths of a second."""
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

    def forget(self, name: str, *, keep: bool) -> None:
        """Delete a PIN: the next person who signs in with the name chooses one.

        Args:
            name: The account's name.
            keep: Whether the account stays, because files belong to its user.
        """
        with self._lock:
            account = self._by_name.pop(name, None)
            if account is not None:
                self._by_name |= {name: replace(account, pin="")} if keep else {}
                self._write()

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
        # Old classes may have users that now belong to grading: they get new ones, and so do their homes.
        if os.geteuid() == 0 and first is not None and throw_away_user(first) is not None:
            self._first = first if first in ACCOUNTS or first in FEW_ACCOUNTS else self._first

    def _put(self, account: Account) -> None:
        self._by_name[account.name] = account
        self._write()

    def _write(self) -> None:
        entries = sorted(map(asdict, self._by_name.values()), key=lambda entry: int(entry["number"]))
        text = json.dumps({"first_user": self._first, "accounts": entries}, indent=1)
        write_atomically(self._path, text, mode=0o600)


def plain_name(name: str) -> str:
    """Return a name in the form in which it is stored: lower case, without space around it.

    Example:
        >>> plain_name(" Ada "), is_name("ada"), is_name("../ada"), is_name("-ada")
        ('ada', True, False, False)
    """
    return name.strip().lower()


def is_name(name: str) -> bool:
    """Tell whether a name is valid: it becomes the name of a folder and part of an address."""
    return re.fullmatch(NAME, name) is not None


def _free_block() -> int | None:
    """Return the first of a thousand free users for a new class; None if there are none."""
    candidates = (secrets.choice(ACCOUNTS[::_BLOCK]), FEW_ACCOUNTS[0])
    return next((candidate for candidate in candidates if throw_away_user(candidate) is not None), None)


class WeakPassword(OnnxLabError):
    """A password is easy to guess."""


@dataclass(frozen=True)
class Passwords:
    """The two passwords.

    Attributes:
        room: Lets anybody in as a learner.
        instructor: Lets the instructor in.
    """

    room: str
    instructor: str


def chosen_passwords(files: dict[str, Path | None]) -> dict[str, str]:
    """Return the passwords that the instructor chose, in a file or in an environment variable.

    Args:
        files: For "room" and "instructor", a file with the password in its first line; None for the variable
            ONNXLAB_ROOM_PASSWORD or ONNXLAB_INSTRUCTOR_PASSWORD.

    Raises:
        WeakPassword: If one is easy to guess, or a file cannot be read.
    """
    chosen = {whose: _chosen(whose, files.get(whose)) for whose in _VARIABLES}
    return {whose: text for whose, text in chosen.items() if text is not None}


def passwords(path: Path, chosen: dict[str, str]) -> Passwords:
    """Return the chosen passwords, else the stored ones, else new ones; and store them.

    Args:
        path: The file that they are stored in.
        chosen: Those of `chosen_passwords`.

    Raises:
        WeakPassword: If both are the same.
    """
    random = {whose: _random_password(groups) for whose, groups in _GROUPS.items()}
    combined = Passwords(**random | _stored(path) | chosen)
    if combined.room == combined.instructor:
        raise WeakPassword(
            "The room's password is the instructor's, too.",
            "Every learner would be an instructor.",
            "Give two different ones.",
        )
    write_atomically(path, json.dumps(asdict(combined)), mode=0o600)
    return combined


def stored_passwords(path: Path) -> Passwords:
    """Return the passwords that `passwords` has stored."""
    return Passwords(**_stored(path))


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
        why = f"It has {pluralise(len(text), 'character')}, at least {_SHORTEST[whose]} are needed."
    elif len(set(text.lower())) < 5:
        why = "It has the same few characters again and again."
    elif any(text.lower().replace(word, "").strip("0123456789!.-_ ") == "" for word in _COMMON):
        why = "It is among the first that anybody would try."
    if why:
        raise WeakPassword(
            f"The {whose} password is too weak.", why, "Give another; or give none, and a good one is drawn."
        )
    return text


def _stored(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_text("utf-8"))
        return {whose: content[whose] for whose in _VARIABLES if isinstance(content[whose], str)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _random_password(groups: int) -> str:
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(groups))
