"""What `onnxlab class serve` has decided, for the processes that it starts."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from onnxlab.grading.whole_files import write_whole

__all__ = ["VARIABLE", "ServeSettings"]

VARIABLE = "ONNXLAB_CLASS_SETTINGS"
"""Names the file with the settings; only the processes of the hub itself have it."""


@dataclass(frozen=True)
class ServeSettings:
    """How a class is served.

    Attributes:
        folder: The class folder.
        name: The course's name for nbgrader.
        course: The course's folder, with notebooks/.
        runtime: A short-lived folder with a short path, for sockets.
        ip: Where the proxy listens.
        port: Its port.
        hub_port: The hub's own port, on loopback.
        room_port: The port of the instructor's live page, on loopback.
        tls_key: The key for TLS; None without.
        tls_cert: The certificate.
        proxy: The command that starts the proxy.
        idle: Minutes after which a server that nobody uses is ended.
        memory: Megabytes that all processes of a learner may use.
        processes: Processes and threads of a learner.
        landlock: Whether Landlock keeps learners apart.
        shared_kernels: Whether all kernels are forked from one process of root's.
        instructor_user: The user that the instructor's server runs as; None for the one there is.
    """

    folder: Path
    name: str
    course: Path
    runtime: Path
    ip: str
    port: int
    hub_port: int
    room_port: int
    tls_key: Path | None
    tls_cert: Path | None
    proxy: tuple[str, ...]
    idle: int
    memory: int
    processes: int
    landlock: bool
    shared_kernels: bool
    instructor_user: int | None

    @property
    def hub(self) -> Path:
        """What the hub keeps for the next start; nobody else can enter it."""
        return self.folder / "hub"

    @property
    def learners(self) -> Path:
        """The homes."""
        return self.folder / "learners"

    @property
    def exchange(self) -> Path:
        """The class's part of nbgrader's exchange."""
        return self.folder / "exchange" / self.name

    @property
    def outbound(self) -> Path:
        """The labs that are released."""
        return self.exchange / "outbound"

    @property
    def private(self) -> Path:
        """The part of the short-lived folder that only the hub's user can enter."""
        return self.runtime / "hub"

    @property
    def servers_socket(self) -> Path:
        """Where servers are asked for."""
        return self.private / "servers"

    @property
    def running(self) -> Path:
        """Which process is whose server: a file for each account."""
        return self.private / "running"

    @property
    def users(self) -> Path:
        """Which of the machine's users is which account: a file for each, without its PIN."""
        return self.private / "users"

    @property
    def kernels_socket(self) -> Path:
        """Where learners' servers ask for kernels."""
        return self.runtime / "kernels"

    @property
    def notices(self) -> Path:
        """Where the watcher leaves word for learners' servers."""
        return self.runtime / "notices"

    @property
    def file(self) -> Path:
        """Where these settings are for the hub's processes; only its user can read them."""
        return self.private / "settings.json"

    def write(self) -> None:
        """Write them there."""
        write_whole(self.file, json.dumps(asdict(self), default=str), private=True)

    @classmethod
    def read(cls, path: Path) -> "ServeSettings":
        """Return what `write` wrote."""
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        for field in fields(cls):
            if "Path" in str(field.type) and found[field.name] is not None:
                found[field.name] = Path(found[field.name])
        return cls(**found | {"proxy": tuple(found["proxy"])})
