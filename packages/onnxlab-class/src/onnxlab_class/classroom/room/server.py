"""Serves the live page of a room: to this machine, or through handlers that check who may see it."""

import asyncio
import json
import re
import secrets
import signal
import time
from collections.abc import Callable, Collection
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from onnxlab.errors import OnnxLabError
from onnxlab.kit.exercise import labs
from onnxlab.language import spoken_language, tr
from onnxlab_class.classroom.room.progress_files import ProgressFiles
from onnxlab_class.classroom.room.view import Names, Room, RoomView, learners_csv, view_json

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
STATIC = {"room.js": "text/javascript", "room.css": "text/css"}
"""Files of the page without personal data, with their types."""


class PortTaken(OnnxLabError):
    """The requested port cannot be used."""


class LiveRoom:
    """A room for many viewers: the files are read once a second at most.

    Args:
        folder: A class folder or a folder of progress files.
        title: The page's title.
        chosen: The names of the labs to show; all if empty.
    """

    def __init__(self, folder: Path, title: str = "", chosen: Collection[str] = ()) -> None:
        self.title = title
        shown = [lab for lab in labs() if not chosen or lab.name in chosen]
        self.room = Room(folder, [exercise for lab in shown for exercise in lab.exercises])
        self._view: RoomView | None = None
        self._lock = asyncio.Lock()

    async def view(self) -> RoomView:
        """Return the present state of the room, at most a second old."""
        async with self._lock:
            loop = asyncio.get_running_loop()
            if self._view is None or not 0 <= time.time() - self._view.now < 1:
                self._view = await loop.run_in_executor(None, self.room.view)
            return self._view


class RoomHandler(RequestHandler):
    """Answers the page's requests; a subclass or the address decides who may send them."""

    def initialize(self, live: LiveRoom) -> None:
        """Take the room."""
        self.live = live

    def set_default_headers(self) -> None:
        """Let the browser load nothing from other hosts, cache nothing, and send no referrer."""
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.clear_header("Server")

    def names(self) -> Names:
        """Return how learners are to be named: by numbers, unless accounts are requested."""
        value = self.get_query_argument("names", Names.NUMBERS)
        if value not in list(Names):
            raise HTTPError(400)
        return Names(value)

    async def get(self, what: str) -> None:
        """Answer with the page, one of its files, the room's state, or a table."""
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
        script = _file("room.js").decode()
        words = {text: tr(text) for text in re.findall(r'\btr\("([^"]+)"', script)}
        template = Environment(autoescape=True).from_string(_file("room.html").decode())
        return template.render(tr=tr, words=words, language=spoken_language()).encode()

    async def _state(self) -> None:
        """Send the room's state; or 204 if the page has it already."""
        view = await self.live.view()
        rows = self.get_query_argument("rows", "1") == "1"
        state = view_json(view, self.live.room.names, self.names(), rows=rows) | {"title": self.live.title}
        version = sha256(json.dumps(state).encode()).hexdigest()[:16]
        if self.get_query_argument("seen", "") == version:
            self.set_status(204)
            return
        self.finish(state | {"version": version, "now": view.now})


@cache
def _file(name: str) -> bytes:
    return files("onnxlab_class.classroom.room").joinpath(name).read_bytes()


def room_routes(
    prefix: str, live: LiveRoom, handler: type[RoomHandler] = RoomHandler
) -> list[tuple[str, type[RequestHandler], dict[str, LiveRoom]]]:
    """Return the page's addresses below a prefix that ends with a slash."""
    return [(f"{prefix}([a-z.]*)", handler, {"live": live})]


def serve_room(
    folder: Path, title: str, port: int, ready: Callable[[str], None], chosen: Collection[str] = ()
) -> None:
    """Serve the page to this machine until Ctrl+C or SIGTERM.

    Its address holds a secret, so that another account of this machine cannot open it.

    Args:
        folder: A class folder or a folder of progress files.
        title: The page's title.
        port: Where to listen; 0 for any port.
        ready: Called with the address once it answers.
        chosen: The names of the labs to show; all if empty.

    Raises:
        NoRoom: If there is no such folder.
        PortTaken: If the port cannot be used.
    """

    async def run() -> None:
        ProgressFiles(folder)  # raises early, before the labs are loaded
        if not 0 <= port <= 65535:
            raise PortTaken(
                f"{port} is not a port.",
                "Ports go from 1 to 65535.",
                "Leave out --port: a free one is found.",
            )
        try:
            sockets = bind_sockets(port, "127.0.0.1")
        except OSError as error:
            raise PortTaken(
                f"Port {port} cannot be used: {error.strerror}.", "", "Name another one, or leave out --port."
            ) from None
        live = LiveRoom(folder, title, chosen)
        await live.view()  # raises now if the folder cannot be read
        prefix = f"/{secrets.token_urlsafe(24)}/"
        application = Application(room_routes(prefix, live), compress_response=True, log_function=_silent)
        server = HTTPServer(application)
        server.add_sockets(sockets)
        stop = stop_signal()
        ready(f"http://127.0.0.1:{sockets[0].getsockname()[1]}{prefix}")
        await stop.wait()
        server.stop()
        await server.close_all_connections()

    asyncio.run(run())


def stop_signal() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    return stop


def _silent(handler: RequestHandler) -> None:
    """Log nothing, because the address holds the secret."""
