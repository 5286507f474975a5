"""A run's seed: kept in its folder, where only its owner reads it, and in no report."""

import json
import secrets
from pathlib import Path

from onnxlab.grading.ledger_rows import LedgerRefused
from onnxlab.grading.whole_files import write_whole

__all__ = ["seed_of"]


def seed_of(folder: Path, given: int | None) -> int:
    """Return the seed of an output folder; keep it there if it is new.

    Args:
        folder: The output folder.
        given: The seed that is asked for; None for the one that the folder has, else for a new one.

    Raises:
        LedgerRefused: If the folder has another seed, or a file that holds none.
        CannotWrite: If it cannot be kept.
    """
    path = folder / "run.json"
    try:
        known = json.loads(path.read_text("utf-8"))["seed"]
        if not isinstance(known, int) or isinstance(known, bool):
            raise TypeError
    except FileNotFoundError:
        known = secrets.randbits(48) if given is None else given
        write_whole(path, json.dumps({"seed": known}) + "\n", private=True)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        msg = f"{path} does not hold a run's seed."
        raise LedgerRefused(
            msg, "", "Delete it: what is graded stays graded, the rest gets a new seed."
        ) from None
    if given is not None and given != known:
        msg = f"{folder} was graded with another seed than {given}."
        raise LedgerRefused(msg, f"The seed is in {path}.", "Leave --seed out, or give another --out.")
    return int(known)
