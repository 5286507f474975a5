"""A class's shared process, as a hub would start it: DESCRIPTOR WAY, where the way is how it confines."""

import os
import socket
import sys
from pathlib import Path

from onnxlab.grading.users import become
from onnxlab.kernels.shared import serve

LEARNERS = (310_001, 310_002)
MOST = 2


def confine(user: int) -> None:
    become(user, [Path(sys.executable)])
    os.umask(0o077)


def fail(user: int) -> None:
    msg = "secret detail"
    raise OSError(msg)


def forget(user: int) -> None:
    """Confine nothing."""


def forget_for_good(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, 0)  # can come back


def swap(user: int) -> None:
    become(LEARNERS[user == LEARNERS[0]], [Path(sys.executable)])


WAYS = {each.__name__: each for each in (confine, fail, forget, forget_for_good, swap)}

if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        serve(
            listener,
            LEARNERS.__contains__,
            WAYS[sys.argv[2]],
            settle=lambda: os.environ.__setitem__("SETTLED_FOR", os.environ.get("WHO", "nobody")),
            most=MOST,
        )
