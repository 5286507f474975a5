"""Keeps visitors away from other people's servers: Traefik asks the hub who may go to `/user/NAME/`.

All servers of a class have one origin, the hub's. A page that a learner serves would speak to the hub for
whoever opens it. So such a page reaches its own learner only: before Traefik passes on a request to
`/user/NAME/`, it asks the hub (`forwardAuth`), which wants a cookie of NAME's. The cookie is valid below that
path and gives nobody any right; it ends with the sign-in.
"""

from typing import Any
from urllib.parse import urlencode

from jupyterhub.handlers import BaseHandler
from jupyterhub.orm import User
from tornado.web import HTTPError, RequestHandler, authenticated

from onnxlab.language import tr

_COOKIE = "onnxlab-visitor"
_OTHERS = "This JupyterLab is somebody else's; only they can open it."


def open_gate(handler: BaseHandler, user: Any) -> None:  # noqa: ANN401 - a user of the hub's
    """Give somebody who is signed in the cookie for their own server."""
    handler._set_cookie(_COOKIE, user.cookie_id, path=user.base_url)


class VisitHandler(BaseHandler):  # type: ignore[misc]  # is not typed
    """Gives somebody who is signed in, and has lost the cookie for their own server, a new one."""

    @authenticated
    async def get(self) -> None:
        """Answer the redirect of `GateHandler`."""
        user, wanted = self.current_user, self.get_query_argument("next", "")
        if not wanted.startswith(user.base_url):
            raise HTTPError(403, tr(_OTHERS))
        open_gate(self, user)
        self.redirect(wanted)


class GateHandler(RequestHandler):
    """Answers Traefik's question: 204 if a request may pass, else a redirect for the visitor."""

    def get(self, name: str) -> None:
        """Let a request pass to the server of a learner if it has that learner's cookie."""
        cookie = self.get_signed_cookie(_COOKIE)
        user = (
            cookie and self.settings["db"].query(User).filter_by(cookie_id=cookie.decode(), name=name).first()
        )
        if user:
            self.set_status(204)
        else:
            wanted = self.request.headers.get("X-Forwarded-Uri", "")
            self.redirect(f"{self.settings['hub'].base_url}visit?{urlencode({'next': wanted})}")

    def _log(self) -> None:
        """Log nothing: there is one such request for each of a browser's."""


HANDLERS: list[tuple[str, Any]] = [(r"/visit", VisitHandler), (r"/gate/([a-z0-9_-]+)", GateHandler)]
"""The hub's handlers for this."""


def gate(hub_port: int, name: str) -> dict[str, Any]:
    """Return Traefik's middleware for the server of a learner."""
    address = f"http://127.0.0.1:{hub_port}/hub/gate/{name}"
    return {
        "forwardAuth": {
            "address": address,
            "authRequestHeaders": ["Cookie"],
            "trustForwardHeader": False,
            "preserveLocationHeader": True,  # else redirects would lead to the hub's own port
            "maxResponseBodySize": 10_000,
        }
    }
