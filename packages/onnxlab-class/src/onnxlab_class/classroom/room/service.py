"""The live page as a service of JupyterHub: `python -m onnxlab_class.classroom.room.service CLASS_FOLDER`.

The variables JUPYTERHUB_* say where to listen and how to ask the hub who is signed in. Users with the scope
`access:services!service=<name>` see the page: those that the hub's configuration names.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jupyterhub.services.auth import HubOAuthCallbackHandler, HubOAuthenticated
from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, authenticated

from onnxlab.errors import OnnxLabError
from onnxlab.language import chosen_language, speak
from onnxlab_class.classroom.course.folder import open_class
from onnxlab_class.classroom.room.server import STATIC, LiveRoom, RoomHandler, room_routes, stop_signal


class HubRoomHandler(HubOAuthenticated, RoomHandler):  # type: ignore[misc]  # ships no types
    """The page, for users whom the hub lets in."""

    async def get(self, what: str) -> None:
        """Answer, or redirect to the hub's sign-in.

        The script and the style sheet are public: a browser's request for them does not pass the hub's check
        against cross-site requests.
        """
        if what == "state" and not self.current_user:
            raise HTTPError(403)  # no redirect for the page's own request every two seconds
        answer = super().get(what) if what in STATIC else self._get_signed_in(what)
        if answer is not None:  # None: redirected to the sign-in
            await answer

    @authenticated
    async def _get_signed_in(self, what: str) -> None:
        await super().get(what)

    def page(self) -> bytes:
        """Return the page with links to the hub, and the token that its script sends with every request."""
        empty, filled = b'name="xsrf" content=""', b'name="xsrf" content="%s"'
        return super().page().replace(b'id="hub" hidden', b"").replace(empty, filled % self.xsrf_token)


async def _serve(folder: Path) -> None:
    prefix = os.environ["JUPYTERHUB_SERVICE_PREFIX"]
    address = urlsplit(os.environ["JUPYTERHUB_SERVICE_URL"])
    live = LiveRoom(folder, open_class(folder).name)
    routes: list[Any] = [(f"{prefix}oauth_callback", HubOAuthCallbackHandler)]
    routes += room_routes(prefix, live, HubRoomHandler)
    server = HTTPServer(Application(routes, cookie_secret=os.urandom(32), compress_response=True))
    server.listen(address.port or 80, address.hostname or "127.0.0.1")
    await stop_signal().wait()
    server.stop()


def main(arguments: list[str] | None = None) -> int:
    """Serve until the hub ends it; return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) != 1 or "JUPYTERHUB_SERVICE_URL" not in os.environ:
        print(
            "A JupyterHub starts this as a service, with the class's folder. Alone: onnxlab class room DIR",
            file=sys.stderr,
        )
        return 2
    try:
        speak(chosen_language()[0])
        asyncio.run(_serve(Path(arguments[0])))
    except OnnxLabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
