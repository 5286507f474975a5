"""Serving the page of the room: on this machine for itself, or behind whoever says who may see it."""

import asyncio
import json
import secrets
import signal
import time
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from onnxlab.classroom.room.progress_files import ProgressFiles
from onnxlab.classroom.room.view import Names, Room, RoomView, learners_csv, room_exercises, view_json
from onnxlab.errors import OnnxLabError

__all__ = ["STATIC", "LiveRoom", "PortTaken", "RoomHandler", "room_routes", "serve_room"]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
STATIC = {"room.js": "text/javascript", "room.css": "text/css"}
"""Parts of the page that say nothing about anybody, with their types."""


class PortTaken(OnnxLabError):
    """The port that was asked for is somebody else's."""


class LiveRoom:
    """The room for many viewers: it is looked at once a second at most, however many ask.

    Args:
        folder: A class folder or a folder of progress files.
        title: What stands above the page.
    """

    def __init__(self, folder: Path, title: str = "") -> None:
        self.title = title
        self.room = Room(folder, room_exercises())
        self._view: RoomView | None = None
        self._lock = asyncio.Lock()

    async def view(self) -> RoomView:
        """Return the room as it is now, or was less than a second ago."""
        async with self._lock:
            loop = asyncio.get_running_loop()
            if self._view is None or not 0 <= time.time() - self._view.now < 1:
                self._view = await loop.run_in_executor(None, self.room.look)
            return self._view


class RoomHandler(RequestHandler):
    """What every answer of the page has in common. Who may see it is for others to say."""

    def initialize(self, live: LiveRoom) -> None:
        """Take the room."""
        self.live = live

    def set_default_headers(self) -> None:
        """Nothing is loaded from elsewhere, kept by the browser, or told to other sites."""
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.clear_header("Server")

    def names(self) -> Names:
        """Return how learners are to be named: without names, unless they are asked for."""
        asked = self.get_query_argument("names", Names.NUMBERS)
        if asked not in list(Names):
            raise HTTPError(400)
        return Names(asked)

    async def get(self, what: str) -> None:
        """Answer with the page, a part of it, the room, or a table."""
        if not what:
            self.finish(self.page())
        elif what in STATIC:
            self.set_header("Content-Type", f"{STATIC[what]}; charset=utf-8")
            self.finish(_file(what))
        elif what == "state":
            await self._state()
        elif what == "learners.csv":
            view = await self.live.view()
            self.set_header("Content-Type", "text/csv; charset=utf-8")
            self.set_header("Content-Disposition", f'attachment; filename="{what}"')
            self.finish(learners_csv(view, self.live.room.names, self.names()))
        else:
            raise HTTPError(404)

    def page(self) -> bytes:
        """Return the page itself."""
        return _file("room.html")

    async def _state(self) -> None:
        """Send the room; nothing where it is as the page has it."""
        view = await self.live.view()
        rows = self.get_query_argument("rows", "1") == "1"
        found = view_json(view, self.live.room.names, self.names(), rows=rows) | {"title": self.live.title}
        version = sha256(json.dumps(found).encode()).hexdigest()[:16]
        if self.get_query_argument("seen", "") == version:
            self.set_status(204)
            return
        self.finish(found | {"version": version, "now": view.now})


@cache
def _file(name: str) -> bytes:
    return files("onnxlab.classroom.room").joinpath(name).read_bytes()


def room_routes(
    prefix: str, live: LiveRoom, handler: type[RoomHandler] = RoomHandler
) -> list[tuple[str, type[RequestHandler], dict[str, LiveRoom]]]:
    """Return the page's addresses below a prefix that ends with a slash."""
    return [(f"{prefix}([a-z.]*)", handler, {"live": live})]


def serve_room(folder: Path, title: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page to this machine until Ctrl+C or SIGTERM.

    Its address holds a secret, so that another account of this machine cannot open it.

    Args:
        folder: A class folder or a folder of progress files.
        title: What stands above the page.
        port: Where to listen; 0 for any port.
        ready: Told the address when it answers.

    Raises:
        NoRoom: If there is no such folder.
        PortTaken: If the port cannot be had.
    """

    async def run() -> None:
        ProgressFiles(folder)  # what is wrong is said before the labs are loaded
        if not 0 <= port <= 65535:
            msg = f"{port} is not a port."
            raise PortTaken(msg, "Ports go from 1 to 65535.", "Leave out --port: a free one is found.")
        try:
            sockets = bind_sockets(port, "127.0.0.1")
        except OSError as error:
            msg = f"Port {port} cannot be used: {error.strerror}."
            raise PortTaken(msg, "", "Name another one, or leave out --port.") from None
        live = LiveRoom(folder, title)
        await live.view()  # a folder that cannot be read is said now
        prefix = f"/{secrets.token_urlsafe(24)}/"
        application = Application(room_routes(prefix, live), compress_response=True, log_function=_silent)
        server = HTTPServer(application)
        server.add_sockets(sockets)
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(end.set))
        ready(f"http://127.0.0.1:{sockets[0].getsockname()[1]}{prefix}")
        await end.wait()
        server.stop()
        await server.close_all_connections()

    asyncio.run(run())


def _silent(handler: RequestHandler) -> None:
    """Log nothing: an address holds the secret."""
