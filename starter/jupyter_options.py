"""Where a person wants JupyterLab to listen, and whether it can."""

import errno
import os
import socket
from collections.abc import Sequence

from starter.console import Stop

__all__ = [
    "address_asked_for",
    "port_asked_for",
    "require_free",
    "require_suitable",
]

_PORT_FREE = "leave out --port: a free one is found."


def port_asked_for(options: Sequence[str]) -> int | None:
    """Return the port that a person asked for, if they did.

    Raises:
        Stop: What they gave is not a number.

    >>> port_asked_for(["--no-browser", "--port", "9000"]), port_asked_for(["--port=9001"])
    (9000, 9001)
    """
    given = _value("port", options, "a number from 1 to 65535")
    if given is None:
        return None
    try:
        return int(given)
    except ValueError:
        raise _no_port(repr(given[:40])) from None


def address_asked_for(options: Sequence[str]) -> str | None:
    """Return the address that a person asked JupyterLab to listen at, if they did.

    >>> address_asked_for(["--ip", "0.0.0.0"]), address_asked_for(["--port=9001"])
    ('0.0.0.0', None)
    """
    given = _value("ip", options, "an address of this machine")
    return "*" if given == "" else given  # as JupyterLab reads it


def _value(name: str, options: Sequence[str], wanted: str) -> str | None:
    """Return what an option was set to, in any of JupyterLab's ways to say it; None if it was not."""
    spellings = {f"--{name}", f"--ServerApp.{name}", f"--LabApp.{name}"}
    for number, option in enumerate(options):
        spelling, given, value = option.partition("=")
        if spelling not in spellings:
            continue
        if given:
            return value
        after = options[number + 1 : number + 2]
        if not after or after[0].startswith("--"):
            what = f"{spelling} has no value."
            raise Stop(what, f"It takes {wanted}.", "Give it one, or leave the option out.", code=2)
        return after[0]
    return None


def require_suitable(options: Sequence[str]) -> None:
    """Raise Stop if JupyterLab could not listen where a person wants it to."""
    port, address = port_asked_for(options), address_asked_for(options)
    if port or address:
        require_free(port or 0, address or "127.0.0.1")


def require_free(port: int, address: str = "127.0.0.1") -> None:
    """Raise Stop if somebody listens on a port, it is none, or the address is not this machine's."""
    if not 0 <= port <= 65535:
        raise _no_port(str(port))
    everywhere = address in ("*", "0.0.0.0", "::")
    try:
        places = socket.getaddrinfo(
            None if everywhere else address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):  # UnicodeError: what no name can be
        raise _no_address(address, "It is no address, and no name that this machine can look up.") from None
    for family, kind, protocol, _, place in places:
        try:
            probe = socket.socket(family, kind, protocol)
        except OSError:  # a system without this family, IPv6 mostly
            continue
        with probe:
            if os.name != "nt":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(place)
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    if everywhere or address == "localhost":
                        continue  # it stands for several, of which one will do
                    raise _no_address(address, "This machine does not have it.") from None
                why = "Another program listens there, perhaps a JupyterLab that still runs."
                if isinstance(error, PermissionError):
                    why = "This system keeps that port for itself."
                what = f"Port {port} cannot be used."
                raise Stop(what, why, f"Choose another port, or {_PORT_FREE}") from None


def _no_port(given: str) -> Stop:
    what = f"{given} is not a port."
    return Stop(what, "Ports go from 1 to 65535.", f"Choose another, or {_PORT_FREE}", code=2)


def _no_address(address: str, why: str) -> Stop:
    what = f"JupyterLab cannot listen at {address[:60]!r}."
    then = "Give --ip an address of this machine, or leave it out: then only this machine reaches it."
    return Stop(what, why, then, code=2)
