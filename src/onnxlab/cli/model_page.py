"""A model's graph as Netron's page, served to the browsers of this machine."""

import contextlib
import re
import webbrowser
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

from netron import server as netron
from onnx.external_data_helper import uses_external_data

from onnxlab.diagnosis.pair import compare_files, pair_of
from onnxlab.errors import ModelNotReadable
from onnxlab.model.load import load_alone, tensors
from onnxlab.notebook.graph.comparison_page import comparison_page

_OWN_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.IGNORECASE)


class _Content(netron._ContentProvider):  # type: ignore[misc]  # netron has no types
    """The model and the files that it keeps weights in; nothing else of its folder."""

    def __init__(self, path: Path, weights: set[str]) -> None:
        super().__init__(None, str(path), None, None)
        self.names = {path.name, *weights}
        self.base = quote(path.name)  # Netron writes it into the page as it is

    def read(self, path: str) -> bytes | None:
        return super().read(path) if path in self.names else None


class _OwnMachine(BaseHTTPRequestHandler):
    """For requests that name this machine: a page elsewhere can give its own name our address."""

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if _OWN_HOST.fullmatch(self.headers.get("Host", "")):
            return True
        self.send_error(403, "This page is for the browsers of its own machine")
        return False

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


class _Handler(_OwnMachine, netron._HTTPRequestHandler):  # type: ignore[misc]  # as above
    """Netron's."""


class _PageHandler(_OwnMachine):
    """One page, whatever is asked for."""

    page: bytes

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(self.page)))
        self.end_headers()
        self.wfile.write(self.page)


def serve_model(path: Path, ready: Callable[[str], None], *, browse: bool) -> None:
    """Serve the page until Ctrl+C.

    Raises:
        ModelNotReadable: If there is no such file, or it is not an ONNX model.
    """
    model = load_alone(path)  # Netron would show its error on the page, and keep serving
    external = (tensor for tensor, _ in tensors(model.graph) if uses_external_data(tensor))
    weights = {
        entry.value for tensor in external for entry in tensor.external_data if entry.key == "location"
    }
    _serve(type("Handler", (_Handler,), {"content": _Content(path, weights)}), ready, browse=browse)


def serve_comparison(first: Path, second: Path, ready: Callable[[str], None], *, browse: bool) -> None:
    """Compare two models, and serve a page with both graphs and what differs until Ctrl+C.

    Raises:
        ModelNotReadable: If there is no such file, or it is not an ONNX model.
    """
    names = (first.name, second.name)
    for path in (first, second):
        load_alone(path)
    try:
        pair = compare_files(first, second)
    except ModelNotReadable as error:  # its weights are elsewhere: the graph is complete without them
        pair = pair_of("", [], names, str(error))
    page = comparison_page(first, second, names, pair).encode()
    _serve(type("Handler", (_PageHandler,), {"page": page}), ready, browse=browse)


def _serve(handler: type[BaseHTTPRequestHandler], ready: Callable[[str], None], *, browse: bool) -> None:
    with ThreadingHTTPServer(("localhost", 0), handler) as server:
        server.daemon_threads = True
        address = f"http://localhost:{server.server_port}"
        ready(address)
        if browse:
            webbrowser.open(address)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
