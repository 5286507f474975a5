"""The warm process of one user: `python -m onnxlab.kernels.warm DESCRIPTOR IDLE_SECONDS`.

It inherits a listening socket, loads torch and the others, and forks a kernel for each connection of its own
user. It ends when it had no kernel for a while, when its address is taken away, or when a file that it loaded
has changed; kernels that live then go on.
"""

import os
import socket
import sys

from onnxlab.kernels.becoming import become
from onnxlab.kernels.nursery import Nursery
from onnxlab.kernels.packages import Loaded
from onnxlab.kernels.preloading import NotLikeFresh, load

__all__ = ["main"]

_MOST = 256


def main(arguments: list[str]) -> None:
    """Detach from whoever started this, load, serve; in a fork, be the kernel."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder this was started in; a kernel has its own
    listener = socket.socket(fileno=int(arguments[0]))
    preloaded = None
    unlike = ""  # said to all who come, for as long as it would be idle
    try:
        preloaded = load()
    except NotLikeFresh as error:
        unlike = str(error)
    except Exception as error:
        unlike = f"the packages could not be loaded: {type(error).__name__}: {error}"
    loaded = Loaded.now()

    nursery = Nursery(
        listener,
        admit=lambda user: user == os.geteuid(),
        outdated=loaded.changed,
        refusal=unlike,
        most=_MOST,
        idle=float(arguments[1]),
    )
    new = nursery.serve()
    if new and preloaded:
        become(*new, preloaded)


if __name__ == "__main__":
    main(sys.argv[1:])
