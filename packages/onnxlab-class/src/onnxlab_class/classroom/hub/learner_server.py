"""Starts a learner's server, and ends everything that it has started.

`python -I -m onnxlab_class.classroom.hub.learner_server CONFINEMENT HANDED_OUT [its options]`
is `jupyterhub-singleuser`, confined.

The hub's spawner runs this as the hub's user. It forks: the child confines itself, updates the home and
becomes the server; the parent, which no learner can signal or trace, is the subreaper of all that the server
starts. When the server ends, however it ends, or the hub does, the parent kills what is left.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn
from urllib.parse import urlsplit

from tornado import tcpserver
from tornado.netutil import bind_sockets

from onnxlab.course.learner_folder import bring_up_to_date, course_files
from onnxlab.errors import OnnxLabError
from onnxlab_class.classroom.hub.confinement import Confinement, confine
from onnxlab_class.sandbox.libc import become_subreaper, die_with_parent, set_dumpable
from onnxlab_class.sandbox.watcher import end_all

_SECONDS_TO_STOP = 8  # until a server that was asked to end is killed


def main(arguments: list[str]) -> int:
    """Run a learner's server until it ends; return the exit code."""
    path, course, *options = arguments
    confinement = Confinement.from_json(Path(path).read_text("utf-8"))
    die_with_parent(signal.SIGTERM)
    become_subreaper()
    server = os.fork()
    if not server:
        _become_server(confinement, Path(course), options)
    code = _wait_for(server)
    if not end_all(os.getpid()):
        print("Some processes of this learner could not be ended.", file=sys.stderr)
    if confinement.user is not None:
        _remove_shared_memory(confinement.user)
    return code


def _wait_for(server: int) -> int:
    """Wait for the server, and pass on requests to end. Reap orphans: a zombie is a process of its user's."""
    handle = os.pidfd_open(server)  # unlike a process ID, it never names another process

    def stop(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL if number == signal.SIGALRM else signal.SIGTERM)
        signal.alarm(_SECONDS_TO_STOP)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, stop)
    while True:
        process, status = os.wait()
        if process == server:
            return min(1, abs(os.waitstatus_to_exitcode(status)))


def _become_server(confinement: Confinement, course: Path, options: list[str]) -> NoReturn:
    """Confine this process and run the server in it."""
    _keep_log()
    port = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"]).port
    listening = bind_sockets(port or 0, "127.0.0.1")  # before Landlock forbids it to all that a learner runs
    confine(confinement)
    die_with_parent(signal.SIGKILL)  # after the change of user, which would undo it
    set_dumpable(False)  # so that no kernel can take its descriptors or trace it
    try:
        for line in bring_up_to_date(Path.cwd(), course_files(course)).lines():
            print(line, flush=True)
    except (OSError, OnnxLabError) as error:
        # A full disk, or a file where a folder belongs: the server starts all the same.
        print(f"The course was not brought up to date: {error}", flush=True)
    os.environ["HOME"] = str(Path.cwd())  # not before: what starts as the hub's user must not know it
    sys.argv[1:] = options
    from jupyter_server import serverapp
    from jupyterhub.singleuser import main as serve

    # Jupyter's server takes no open sockets: what it binds a port with returns these.
    for module in (serverapp, tcpserver):
        vars(module)["bind_sockets"] = lambda *_, **__: [bound.dup() for bound in listening]
    serve()
    sys.exit()


def _keep_log() -> None:
    """Let this process alone write the log: descriptors 1 and 2, which kernels inherit, lead nowhere."""
    log, nowhere = os.dup(sys.stderr.fileno()), os.open(os.devnull, os.O_RDWR)
    for inherited in (sys.stdout, sys.stderr):
        os.dup2(nowhere, inherited.fileno())
    sys.stdout = sys.stderr = os.fdopen(log, "w", buffering=1, encoding="utf-8", errors="backslashreplace")


def _remove_shared_memory(user: int) -> None:
    """Remove a user's files in /dev/shm, which take memory."""
    with contextlib.suppress(OSError), os.scandir("/dev/shm") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_uid == user:
                    Path(entry).unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
