"""Who asked not to be shown: remembered, so that who loses the file that says so stays out of the page."""

import contextlib
import json
from pathlib import Path

from onnxlab.grading.whole_files import CannotWrite, write_whole

__all__ = ["OptedOut"]


class OptedOut:
    """The accounts that asked not to be shown.

    Args:
        file: Where they are kept for the next start; None to remember them only as long as this runs.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._accounts = set[str]()
        if file is not None:
            with contextlib.suppress(OSError, ValueError, TypeError):
                self._accounts = {
                    each for each in json.loads(file.read_text("utf-8")) if isinstance(each, str)
                }

    @classmethod
    def of(cls, folder: Path) -> "OptedOut":
        """Return those of a class folder, whose `hub/` nobody but who teaches can enter; or of any folder."""
        return cls(folder / "hub" / "not_shown.json" if (folder / "hub").is_dir() else None)

    def still(self, account: str, asked: bool | None) -> bool:
        """Return whether an account is left out, and remember it.

        Args:
            account: The account.
            asked: Whether its file asks for it now; None if it does not say.

        Example:
            >>> out = OptedOut(None)
            >>> [out.still("ada", asked) for asked in (None, True, None, False, None)]
            [False, True, True, False, False]
        """
        if asked is not None and asked != (account in self._accounts):
            self._accounts ^= {account}
            self._write()
        return account in self._accounts

    def _write(self) -> None:
        if self._file is not None:
            with contextlib.suppress(CannotWrite):  # then it is forgotten with this process
                write_whole(self._file, json.dumps(sorted(self._accounts)), private=True)
