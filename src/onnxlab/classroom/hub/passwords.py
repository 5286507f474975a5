"""The room's password and the instructor's: read, drawn, kept for the next start, refused if weak."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.files import write_atomically
from onnxlab.plain_text import many

__all__ = ["Passwords", "WeakPassword", "given_passwords", "kept_passwords", "passwords"]

_VARIABLES = {"room": "ONNXLAB_ROOM_PASSWORD", "instructor": "ONNXLAB_INSTRUCTOR_PASSWORD"}
_SHORTEST = {"room": 8, "instructor": 12}
_GROUPS = {"room": 3, "instructor": 5}  # of four letters, of a password that is drawn
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that look alike on a projector
_COMMON = ("password", "passwort", "jupyter", "workshop", "classroom", "onnxlab", "qwerty", "12345678")


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
