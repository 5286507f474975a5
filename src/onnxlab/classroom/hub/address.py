"""Where a class's hub listens: on this machine only, unless somebody says otherwise."""

import ipaddress
import secrets
import socket
import ssl
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from onnxlab.errors import OnnxLabError

__all__ = ["Address", "AddressRefused", "address", "free_port"]


class AddressRefused(OnnxLabError):
    """The hub cannot, or should not, listen where it was told to."""


@dataclass(frozen=True)
class Address:
    """Where the hub listens.

    Attributes:
        ip: The address.
        port: The port.
        tls_key: The key for TLS; None without.
        tls_cert: The certificate.
    """

    ip: str
    port: int
    tls_key: Path | None = None
    tls_cert: Path | None = None

    @property
    def url(self) -> str:
        """What a learner types."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        if ipaddress.ip_address(self.ip).is_unspecified:
            host = socket.gethostname()
        return f"http{'s' if self.tls_key else ''}://{host}:{self.port}/"

    @property
    def open_to_others(self) -> bool:
        """Whether other machines reach it."""
        return not ipaddress.ip_address(self.ip).is_loopback


def address(
    ip: str, port: int, tls_key: Path | None, tls_cert: Path | None, *, without_tls: bool = False
) -> Address:
    """Return where to listen, if that is possible and safe.

    Args:
        ip: An address of this machine; 127.0.0.1 is for this machine only.
        port: The port; 0 for a free one.
        tls_key: The key.
        tls_cert: The certificate.
        without_tls: Whether it was said that others may read along.

    Raises:
        AddressRefused: If it is not; or if the port is taken, or TLS does not work.
    """
    try:
        found = ipaddress.ip_address("127.0.0.1" if ip == "localhost" else ip)
    except ValueError:
        msg = f"{ip!r} is no address."
        raise AddressRefused(
            msg, "", "As 127.0.0.1, 192.168.1.20, or 0.0.0.0 for all of this machine."
        ) from None
    if (tls_key is None) != (tls_cert is None):
        msg = "--tls-key and --tls-cert go together."
        raise AddressRefused(msg, "", "Give both, or neither.")
    if tls_key is not None and tls_cert is not None:
        _check_tls(tls_key, tls_cert)
    elif not found.is_loopback and not without_tls:
        msg = f"{found} can be reached from other machines, and there is no TLS."
        why = "Whoever is in the same network could read passwords and work, and sign in as others."
        raise AddressRefused(
            msg, why, "Give --tls-key and --tls-cert; or --no-tls, if the network is trusted."
        )
    if not 0 <= port <= 65535:
        msg = f"{port} is not a port."
        raise AddressRefused(msg, "Ports go from 1 to 65535.", "Give --port 0: a free one is found.")
    family = socket.AF_INET6 if found.version == 6 else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((str(found), port))
        except OSError as error:
            msg = f"The hub cannot listen on {found}, port {port}."
            reason = f"{error.strerror}."
            raise AddressRefused(msg, reason, "Give another --port; with 0 a free one is found.") from None
        return Address(str(found), int(probe.getsockname()[1]), tls_key, tls_cert)


def free_port(but: Container[int] = ()) -> int:
    """Return a port on loopback that nobody uses now.

    Args:
        but: Ports that are promised to others, who do not use them yet.

    Raises:
        AddressRefused: If there is none.
    """
    for _ in range(100):
        # Below the ports that the system itself gives away: it stays free, and no learner's code can get it.
        port = 20_000 + secrets.randbelow(12_000)
        if port in but:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    msg = "There is no free port on this machine between 20000 and 32000."
    raise AddressRefused(msg, "", "See who listens there with: ss -ltnp")


def _check_tls(key: Path, certificate: Path) -> None:
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError, ValueError) as error:
        msg = f"{certificate} and {key} cannot be used for TLS."
        reason = getattr(error, "strerror", None) or str(error)
        raise AddressRefused(msg, f"{reason}.", "Both are PEM files; the key without a passphrase.") from None
