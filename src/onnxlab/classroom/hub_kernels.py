"""A process with torch loaded, run by root, from which all learners' kernels are forked.

Its own user is root's, so it does nothing for anybody but fork; `onnxlab.kernels.shared` says how. Here
stands who is a learner, and what a fork is put into.
"""

import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

from onnxlab.classroom.accounts import Account
from onnxlab.classroom.confinement import confine
from onnxlab.classroom.hub_settings import ServeSettings
from onnxlab.classroom.learner_server import account_cage
from onnxlab.classroom.naming import name_this_user
from onnxlab.grading.system_calls import die_with_parent

__all__ = ["main"]

_MOST_KERNELS = 6
_LATER_THAN_SERVERS = 5  # so that a click is answered while everybody computes


class Learners:
    """Who may have kernels, and how each is confined.

    Known from the hub's notes about servers that were started, not from the accounts' file: a fork has the
    memory of this process, and what was read there could be read in it.
    """

    def __init__(self, settings: ServeSettings) -> None:
        """Look into the notes of a hub."""
        self._settings = settings

    def admit(self, user: int) -> bool:
        """Whether a user is one of the class's who has, or had, a server."""
        return self._of(user) is not None

    def prepare(self, user: int) -> None:
        """Put this process into the cage of a user, for good."""
        account = self._of(user)
        if account is None:
            raise PermissionError(0, f"user {user} is not of this class")
        cage = account_cage(self._settings, account, user)
        os.nice(_LATER_THAN_SERVERS)
        # Any free port, as a kernel wants for itself; and no way to the hub, whom only the server asks.
        confine(replace(cage, bind=(0,), connect=()))

    def _of(self, user: int) -> Account | None:
        try:
            number, name = (self._settings.users / str(user)).read_text().split()
        except (OSError, ValueError):
            return None
        return Account(name, int(number))


def main(arguments: list[str]) -> None:
    """Serve on the socket whose descriptor is given, for the class whose settings are in the file given."""
    die_with_parent(signal.SIGTERM)
    learners = Learners(ServeSettings.read(Path(arguments[1])))
    from onnxlab.kernels.shared import serve

    with socket.socket(fileno=int(arguments[0])) as listener:
        serve(listener, learners.admit, learners.prepare, most=_MOST_KERNELS, settle=name_this_user)


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.exit(0)
