"""Who is at the other end of a local socket."""

import socket
import struct
from dataclasses import dataclass

__all__ = ["Peer"]

_CREDENTIALS = struct.Struct("i2I")


@dataclass(frozen=True)
class Peer:
    """Who is at the other end of a connection: a process and its user."""

    process: int
    user: int

    @classmethod
    def of(cls, connection: socket.socket) -> "Peer":
        """Return who it was that connected, or listened, as the system noted it then."""
        noted = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process, user, _ = _CREDENTIALS.unpack(noted)
        return cls(process, user)
