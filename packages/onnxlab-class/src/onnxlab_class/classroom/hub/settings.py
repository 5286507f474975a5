"""The settings of a served class: the hub's address, and everything that its processes read.

`onnxlab class serve` writes them. The address is the loopback address unless the instructor names another.
"""

import ipaddress
import json
import secrets
import socket
import ssl
from collections.abc import Container
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onnxlab.errors import OnnxLabError
from onnxlab.files import write_atomically

INSTRUCTOR = "instructor"
"""The account that sees the live page, ends servers and deletes accounts."""

VARIABLE = "ONNXLAB_CLASS_SETTINGS"
"""The environment variable with the path of the settings; only the hub's process has it."""


_PATHS = ("folder", "runtime", "tls_key", "tls_cert")


@dataclass(frozen=True)
class HubSettings:
    """How a class is served.

    Attributes:
        folder: The class folder.
        runtime: A temporary folder with a short path, for sockets and the files for every home.
        address: Where the proxy listens.
        hub_port: The hub's own port, on loopback.
        proxy_port: The port of the proxy's API, on loopback.
        room_port: The port of the instructor's live page, on loopback.
        idle: Minutes after which a server that nobody uses is ended; 0 for never.
        memory: Megabytes of data that each process of a learner may have.
        processes: Processes and threads that a learner may have, where learners are users of their own.
        landlock: Whether Landlock confines learners.
        language: The edition that learners begin with.
        solutions: Whether learners may read the solutions, which a check shows after a pass.
    """

    folder: Path
    runtime: Path
    address: "Address"
    hub_port: int
    proxy_port: int
    room_port: int
    idle: int
    memory: int
    processes: int
    landlock: bool
    language: str = "en"
    solutions: bool = False

    @property
    def hub(self) -> Path:
        """The hub's files that are needed at the next start; only its user can enter it."""
        return self.folder / "hub"

    @property
    def learners(self) -> Path:
        """The homes."""
        return self.folder / "learners"

    @property
    def private(self) -> Path:
        """The part of the temporary folder that only the hub's user can enter."""
        return self.runtime / "hub"

    @property
    def confinements(self) -> Path:
        """What each learner's processes may do, as `<name>.json`."""
        return self.private / "confinements"

    @property
    def handed_out(self) -> Path:
        """The files for every home; every learner may read them."""
        return self.runtime / "handed_out"

    @property
    def file(self) -> Path:
        """The path of these settings as a file."""
        return self.private / "settings.json"

    def write(self) -> None:
        """Write them into `file`."""
        write_atomically(self.file, json.dumps(asdict(self), default=str), mode=0o600)

    @classmethod
    def read(cls, path: Path) -> "HubSettings":
        """Return the settings that `write` has written."""

        def with_paths(values: dict[str, Any]) -> dict[str, Any]:
            return {key: Path(value) if key in _PATHS and value else value for key, value in values.items()}

        values = json.loads(path.read_text("utf-8"), object_hook=with_paths)
        return cls(**values | {"address": Address(**values["address"])})


class AddressRefused(OnnxLabError):
    """The hub cannot, or should not, listen at an address."""


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
    def host(self) -> str:
        """The IP address as a part of a URL."""
        return f"[{self.ip}]" if ":" in self.ip else self.ip

    @property
    def url(self) -> str:
        """The address that a learner types into the browser."""
        host = self.host
        if ipaddress.ip_address(self.ip).is_unspecified:
            host = socket.gethostname()
        return f"http{'s' if self.tls_key else ''}://{host}:{self.port}/"

    @property
    def open_to_others(self) -> bool:
        """Whether other machines can reach it."""
        return not ipaddress.ip_address(self.ip).is_loopback


def address(
    ip: str, port: int, tls_key: Path | None, tls_cert: Path | None, *, without_tls: bool = False
) -> Address:
    """Return the address for the hub, if it is possible and safe.

    Args:
        ip: An address of this machine; 127.0.0.1 is for this machine only.
        port: The port; 0 for a free one.
        tls_key: The key.
        tls_cert: The certificate.
        without_tls: Whether an address for other machines is allowed without TLS.

    Raises:
        AddressRefused: If it is not possible or not safe; if the port is in use, or TLS does not work.
    """
    try:
        parsed = ipaddress.ip_address("127.0.0.1" if ip == "localhost" else ip)
    except ValueError:
        raise AddressRefused(
            f"{ip!r} is no address.", "", "As 127.0.0.1, 192.168.1.20, or 0.0.0.0 for all of this machine."
        ) from None
    if (tls_key is None) != (tls_cert is None):
        raise AddressRefused("--tls-key and --tls-cert go together.", "", "Give both, or neither.")
    if tls_key is not None and tls_cert is not None:
        _check_tls(tls_key, tls_cert)
        tls_key, tls_cert = tls_key.absolute(), tls_cert.absolute()
    elif not parsed.is_loopback and not without_tls:
        msg = f"{parsed} can be reached from other machines, and there is no TLS."
        why = "Whoever is in the same network could read passwords and work, and sign in as others."
        raise AddressRefused(
            msg, why, "Give --tls-key and --tls-cert; or --no-tls, if the network is trusted."
        )
    if not 0 <= port <= 65535:
        raise AddressRefused(
            f"{port} is not a port.", "Ports go from 1 to 65535.", "Give --port 0: a free one is found."
        )
    family = socket.AF_INET6 if parsed.version == 6 else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((str(parsed), port))
        except OSError as error:
            msg = f"The hub cannot listen on {parsed}, port {port}."
            reason = f"{error.strerror}."
            raise AddressRefused(msg, reason, "Give another --port; with 0 a free one is found.") from None
        return Address(str(parsed), int(probe.getsockname()[1]), tls_key, tls_cert)


def free_port(exclude: Container[int] = ()) -> int:
    """Return a free port on loopback.

    Args:
        exclude: Ports that are reserved, but not in use yet.

    Raises:
        AddressRefused: If there is none.
    """
    for _ in range(100):
        # Below the system's ephemeral ports, so that it stays free and no learner's code can get it.
        port = 20_000 + secrets.randbelow(12_000)
        if port in exclude:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AddressRefused(
        "There is no free port on this machine between 20000 and 32000.",
        "",
        "See who listens there with: ss -ltnp",
    )


def _check_tls(key: Path, certificate: Path) -> None:
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError, ValueError) as error:
        msg = f"{certificate} and {key} cannot be used for TLS."
        reason = getattr(error, "strerror", None) or str(error)
        raise AddressRefused(msg, f"{reason}.", "Both are PEM files; the key without a passphrase.") from None
