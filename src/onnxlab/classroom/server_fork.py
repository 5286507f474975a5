"""What a fork of the warm process does: it reads what is asked for, and becomes a learner's server.

Two processes come of each: a keeper outside of the cage, and the server in it.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from onnxlab.classroom.confinement import Confinement, confine
from onnxlab.errors import OnnxLabError
from onnxlab.grading.process_tree import end_all
from onnxlab.grading.system_calls import LINUX, die_with_parent, prctl

__all__ = ["Request", "become_server", "keep", "read_request"]

_LARGEST = 1 << 20
_PR_SET_CHILD_SUBREAPER = 36
_SECONDS_TO_ASK = 10.0


@dataclass(frozen=True)
class Request:
    """A server that is to be started.

    Attributes:
        cage: The account's cage, as JSON.
        environment: All variables of the server.
        arguments: Its options.
        log: The file for what it says.
        course: The course's folder; "" to leave the learner's as it is.
        exchange: The class's part of nbgrader's exchange.
        place: The folder that it works in.
    """

    cage: str
    environment: dict[str, str]
    arguments: list[str]
    log: str
    course: str = ""
    exchange: str = ""
    place: str = ""

    def as_line(self) -> bytes:
        """Return it as it is sent."""
        return json.dumps(asdict(self)).encode() + b"\n"


def read_request(connection: socket.socket) -> Request:
    """Read what is asked for, in the fork. What asked and went away ends it."""
    received = b""
    with connection:
        connection.settimeout(_SECONDS_TO_ASK)
        while not received.endswith(b"\n"):
            more = connection.recv(_LARGEST)
            if not more or len(received) > _LARGEST:
                os._exit(1)
            received += more
    return Request(**json.loads(received))


def keep(serve: Callable[[], NoReturn], tell: int) -> NoReturn:
    """Fork once more: the fork serves, and this process sees that it leaves nothing behind.

    This one stays as it is, outside of the cage. What loses its parent in there becomes its child.

    Args:
        serve: What the fork does.
        tell: Where the number of the fork is written.
    """
    if LINUX:
        die_with_parent(signal.SIGTERM)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
    own = os.getpid()
    process = os.fork()
    if not process:
        os.close(tell)
        try:
            serve()
        except SystemExit as end:
            os._exit(end.code if isinstance(end.code, int) else 0)
        except BaseException as error:
            print(f"The server ended: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)

    def pass_on(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)

    signal.signal(signal.SIGTERM, pass_on)
    os.write(tell, str(process).encode())
    os.close(tell)
    code = 1
    with contextlib.suppress(ChildProcessError):
        while True:
            ended, status = os.waitpid(-1, 0)
            if ended == process:
                code = os.waitstatus_to_exitcode(status)
                break
    end_all(own)
    os._exit(code if code >= 0 else 128 - code)


def become_server(request: Request) -> NoReturn:
    """Be a learner's server from now on."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    _redirect(request.log)
    os.environ.clear()
    os.environ.update(request.environment)
    if hasattr(time, "tzset"):
        time.tzset()
    cage = Confinement.from_json(request.cage)
    confine(cage)
    if LINUX:
        die_with_parent(signal.SIGKILL)  # not before: a change of user takes it away
    from onnxlab.classroom.naming import name_this_user

    name_this_user()
    if request.course:
        try:
            _bring_up_to_date(request)
        except (OSError, OnnxLabError) as error:  # a full disk, or a file where a folder belongs
            print(f"The course was not brought up to date: {error}", flush=True)
    if request.place:
        os.chdir(request.place)
    from jupyterhub.singleuser.extension import main as serve

    sys.argv = ["jupyterhub-singleuser", *request.arguments]
    serve()
    sys.exit(0)


def _redirect(log: str) -> None:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    for source, target in ((nowhere, 0), (said, 1), (said, 2)):
        os.dup2(source, target)
    os.close(nowhere)
    os.close(said)


def _bring_up_to_date(request: Request) -> None:
    from onnxlab.classroom.learner_folder import bring_up_to_date, handed_out, link_assignments
    from onnxlab.classroom.letterbox import make_letterbox

    home, exchange = Path.cwd(), Path(request.exchange)
    brought = bring_up_to_date(home, handed_out(Path(request.course), exchange / "outbound"))
    link_assignments(home)
    make_letterbox(home, exchange)
    for line in brought.lines():
        print(line, flush=True)
