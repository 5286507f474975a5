"""What is said between Jupyter's end, the warm process and a fork: small JSON objects, one a packet.

A packet of a SOCK_SEQPACKET socket arrives whole or not at all, with its descriptors.
"""

import contextlib
import json
import os
import socket
from dataclasses import asdict, dataclass, field
from typing import Any

from onnxlab.errors import OnnxLabError

__all__ = ["LARGEST", "MalformedRequest", "NoFork", "Request", "receive", "say"]

LARGEST = 150_000
"""Bytes of the largest packet. A socket's buffer holds 208 KiB by default."""


class NoFork(OnnxLabError):
    """No kernel can be forked; an ordinary one can be started."""


class MalformedRequest(Exception):
    """What was sent does not ask for a kernel."""


@dataclass(frozen=True)
class Request:
    """A kernel that is wanted.

    Attributes:
        arguments: What follows `-m ipykernel_launcher`.
        folder: Its working directory.
        variables: Its whole environment.
        command: The command line that would have started it.
        independent: Whether it goes on when whoever asked for it ends.
    """

    arguments: list[str]
    folder: str
    variables: dict[str, str]
    command: list[str] = field(default_factory=list)
    independent: bool = False

    def encoded(self) -> bytes:
        """Return it as it is sent."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decoded(cls, data: bytes) -> "Request":
        """Return what was sent.

        Raises:
            MalformedRequest: If it is anything but a request.
        """
        try:
            read = json.loads(data)
            request = cls(**read)
        except (ValueError, TypeError, RecursionError) as error:
            raise MalformedRequest(str(error)) from None
        lists = (request.arguments, request.command)
        strings = [request.folder, *(word for words in lists if isinstance(words, list) for word in words)]
        if isinstance(request.variables, dict):
            strings += [*request.variables, *request.variables.values()]
        sound = (
            all(isinstance(words, list) for words in lists)
            and isinstance(request.variables, dict)
            and isinstance(request.independent, bool)
            and all(isinstance(string, str) and "\0" not in string for string in strings)
            and all(name and "=" not in name for name in request.variables)
        )
        if not sound:
            msg = "a field has a wrong type or a forbidden character"
            raise MalformedRequest(msg)
        return request


def receive(connection: socket.socket, descriptors: int) -> tuple[Request, list[int]]:
    """Receive a request with exactly so many descriptors.

    Raises:
        MalformedRequest: If something else came.
    """
    data, received, flags, _ = socket.recv_fds(connection, LARGEST, descriptors)
    if len(received) != descriptors or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        for descriptor in received:
            os.close(descriptor)
        msg = f"{len(received)} descriptors came, or more than {LARGEST} bytes"
        raise MalformedRequest(msg)
    return Request.decoded(data), received


def say(connection: socket.socket, **facts: Any) -> None:  # noqa: ANN401 (anything that JSON holds)
    """Send an object to whoever asked. If they are gone or do not listen, nothing happens."""
    with contextlib.suppress(OSError):
        connection.send(json.dumps(facts).encode(), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
