"""What a fork does to be like a kernel that was just started, and then runs ipykernel."""

import os
import runpy
import secrets
import select
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from onnxlab.kernels.messages import MalformedRequest, Request, receive, say
from onnxlab.kernels.peer import Peer
from onnxlab.kernels.preloading import Preloaded
from onnxlab.kernels.surroundings import differing

__all__ = ["become"]

_PATIENCE = 10.0  # seconds for the request to arrive; it was sent before the fork


def become(
    connection: socket.socket, peer: Peer, preloaded: Preloaded, settle: Callable[[], None] = lambda: None
) -> None:
    """Read the request, and be that kernel until it ends. Returns then, for an ordinary end of the process.

    Args:
        connection: Where the request and the descriptors 0, 1 and 2 come from.
        peer: Who asked; the kernel ends with that process.
        preloaded: How this process was when it loaded its packages.
        settle: Called when the variables are the kernel's.
    """
    connection.settimeout(_PATIENCE)
    try:
        request, streams = receive(connection, 3)
        if names := differing(preloaded.variables, request.variables):
            msg = f"{', '.join(names[:5])} not as when the packages were loaded"
            raise MalformedRequest(msg)
        os.setsid()  # whoever asked signals the group
        os.chdir(request.folder)
        asking = os.pidfd_open(peer.process)
    except (MalformedRequest, OSError) as error:
        say(connection, refused=str(error))
        os._exit(1)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    _look_fresh(request, preloaded.added)
    settle()
    if request.independent:
        os.close(asking)
    else:
        threading.Thread(target=_end_with, args=(asking,), name="watch parent", daemon=True).start()
    say(connection, started=True)
    connection.close()
    runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)


def _look_fresh(request: Request, added: dict[str, str]) -> None:
    """Change what a fork has from the warm process and a new process would not have."""
    os.environ.clear()
    os.environ.update(added | request.variables)
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())  # type: ignore[union-attr]  # none is replaced yet
    sys.argv = ["ipykernel_launcher", *request.arguments]
    sys.orig_argv = request.command
    if not sys.flags.safe_path:
        sys.path.insert(0, request.folder)  # as `python -m` does; the launcher takes it away
    tempfile.tempdir = None  # it was looked up long ago
    if codecache := sys.modules.get("torch._inductor.codecache"):
        from torch._inductor.runtime.cache_dir_utils import default_cache_dir

        # Noted at the import; of a class, that was in another user's folder.
        headers = Path(default_cache_dir(), "precompiled_headers")
        vars(codecache).update(_HEADER_DIR=str(headers), _HEADER_LOCK_DIR=str(headers / "locks"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnxlab"]:
        del sys.modules[name]  # imported again, it is what the files say now
    _draw_seeds()


def _draw_seeds() -> None:
    """Seed the generators that libraries share in a process; Python's own does it by itself."""
    import numpy as np
    import onnxruntime  # type: ignore[import-untyped]  # ships no types
    import torch

    np.random.seed()
    torch.default_generator.seed()
    onnxruntime.set_seed(secrets.randbits(31))


def _end_with(process: int) -> None:
    """Wait for a process to end, and end then. In an ordinary kernel, ipykernel watches its parent."""
    ended = select.poll()
    ended.register(process, select.POLLIN)
    ended.poll()
    os._exit(1)
