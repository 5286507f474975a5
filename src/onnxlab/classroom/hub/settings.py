"""How a class is served: decided by `onnxlab class serve`, read again by the processes that it starts."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from onnxlab.files import write_atomically

__all__ = ["INSTRUCTOR", "VARIABLE", "HubSettings"]

INSTRUCTOR = "instructor"
"""The account that administers the hub and sees the page of the room."""

VARIABLE = "ONNXLAB_CLASS_SETTINGS"
"""Names the file with the settings; only the hub's own process has it."""


@dataclass(frozen=True)
class HubSettings:
    """How a class is served.

    Attributes:
        folder: The class folder.
        runtime: A short-lived folder with a short path, for sockets and for what is handed out.
        ip: Where the proxy listens.
        port: Its port.
        hub_port: The hub's own port, on loopback.
        proxy_port: The port of the proxy's interface, on loopback.
        room_port: The port of the instructor's live page, on loopback.
        tls_key: The key for TLS; None without.
        tls_cert: The certificate.
        idle: Minutes after which a server that nobody uses is ended; 0 for never.
        memory: Megabytes of data of each process of a learner.
        processes: Processes and threads of a learner, where learners are users of their own.
        landlock: Whether Landlock keeps learners apart.
    """

    folder: Path
    runtime: Path
    ip: str
    port: int
    hub_port: int
    proxy_port: int
    room_port: int
    tls_key: Path | None
    tls_cert: Path | None
    idle: int
    memory: int
    processes: int
    landlock: bool

    @property
    def hub(self) -> Path:
        """What the hub keeps for the next start; nobody else can enter it."""
        return self.folder / "hub"

    @property
    def learners(self) -> Path:
        """The homes."""
        return self.folder / "learners"

    @property
    def private(self) -> Path:
        """The part of the short-lived folder that only the hub's user can enter."""
        return self.runtime / "hub"

    @property
    def handed_out(self) -> Path:
        """What every home gets, as files that every learner may read."""
        return self.runtime / "handed_out"

    @property
    def file(self) -> Path:
        """Where these settings are for the hub's process."""
        return self.private / "settings.json"

    def write(self) -> None:
        """Write them there."""
        write_atomically(self.file, json.dumps(asdict(self), default=str), mode=0o600)

    @classmethod
    def read(cls, path: Path) -> "HubSettings":
        """Return what `write` wrote."""
        values: dict[str, Any] = json.loads(path.read_text("utf-8"))
        for field in fields(cls):
            if "Path" in str(field.type) and values[field.name] is not None:
                values[field.name] = Path(values[field.name])
        return cls(**values)
