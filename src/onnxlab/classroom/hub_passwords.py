"""The room's password and the instructor's: read, drawn, kept for the next start, refused if weak."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onnxlab.errors import OnnxLabError
from onnxlab.grading.plain_text import many
from onnxlab.grading.whole_files import write_whole

__all__ = [
    "INSTRUCTOR_VARIABLE",
    "ROOM_VARIABLE",
    "Passwords",
    "WeakPassword",
    "kept_passwords",
    "passwords",
    "require_strong",
]

ROOM_VARIABLE = "ONNXLAB_ROOM_PASSWORD"
INSTRUCTOR_VARIABLE = "ONNXLAB_INSTRUCTOR_PASSWORD"
_SHORTEST = {"room": 8, "instructor": 12}
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


def passwords(
    kept: Path, variables: Mapping[str, str], room_file: Path | None, instructor_file: Path | None
) -> Passwords:
    """Return the passwords that count: from a file, from a variable, from the last time, or new ones.

    Args:
        kept: Where they are kept for the next start; only its owner can read it.
        variables: The environment.
        room_file: A file with the room's password in its first line.
        instructor_file: A file with the instructor's.

    Raises:
        WeakPassword: If one is empty or easy to guess, both are the same, or a file cannot be read.
    """
    before = _before(kept)
    room = _given(room_file, variables.get(ROOM_VARIABLE), "room")
    instructor = _given(instructor_file, variables.get(INSTRUCTOR_VARIABLE), "instructor")
    found = Passwords(
        room if room is not None else before.get("room") or _drawn(3),
        instructor if instructor is not None else before.get("instructor") or _drawn(5),
    )
    if found.room == found.instructor:
        msg = "The room's password is the instructor's, too."
        raise WeakPassword(msg, "Every learner would be an instructor.", "Give two different ones.")
    write_whole(kept, json.dumps({"room": found.room, "instructor": found.instructor}), private=True)
    return found


def require_strong(
    variables: Mapping[str, str], room_file: Path | None, instructor_file: Path | None
) -> None:
    """See that the passwords that are given will do, before anything is made.

    Raises:
        WeakPassword: If one does not.
    """
    _given(room_file, variables.get(ROOM_VARIABLE), "room")
    _given(instructor_file, variables.get(INSTRUCTOR_VARIABLE), "instructor")


def kept_passwords(kept: Path) -> Passwords:
    """Return the passwords that `passwords` has kept."""
    found = _before(kept)
    return Passwords(found["room"], found["instructor"])


def _given(file: Path | None, variable: str | None, whose: str) -> str | None:
    if file is None and variable is None:
        return None
    text = variable or ""
    if file is not None:
        try:
            text = (file.read_text("utf-8").splitlines() or [""])[0]
        except (OSError, ValueError) as error:
            msg = f"The {whose} password cannot be read from {file}."
            reason = getattr(error, "strerror", None) or "It is not a text file"
            raise WeakPassword(msg, f"{reason}.", "Give a text file with the password in it.") from None
    text = text.strip()
    least = _SHORTEST[whose]
    why = ""
    if len(text) < least:
        why = f"It has {many(len(text), 'character')}, at least {least} are needed."
    elif len(set(text.lower())) < 5:
        why = "It has the same few characters again and again."
    elif any(text.lower().replace(word, "").strip("0123456789!.-_ ") == "" for word in _COMMON):
        why = "It is among the first that anybody would try."
    if why:
        msg = f"The {whose} password is too weak."
        raise WeakPassword(msg, why, "Give another; or give none, and a good one is drawn.")
    return text


def _before(kept: Path) -> dict[str, str]:
    try:
        found = json.loads(kept.read_text("utf-8"))
        return {name: found[name] for name in ("room", "instructor") if isinstance(found[name], str)}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _drawn(groups: int) -> str:
    return "-".join("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(groups))
