"""`course.py site`: build the web site, and show it to this machine."""

import argparse
import functools
import http.server
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from starter.console import Stop, step
from starter.environment import ROOT, Environment, child_variables

__all__ = ["page_server", "run"]

FOLDER = ROOT / "artifacts" / "site"
"""Where the site is built if nobody says where."""


def run(options: Sequence[str], prepare: Callable[[], Environment]) -> int:
    """Build the site and serve it on the loopback address until Ctrl+C, or with --build only build it.

    Args:
        options: What was typed after `course.py site`; what is not for the server goes to site/build.py.
        prepare: Makes the environment that the site is built in.

    Raises:
        Stop: The port is taken.
    """
    parser = argparse.ArgumentParser(prog="course.py site", allow_abbrev=False)
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="build into this folder and stop")
    parser.add_argument("--port", type=int, default=8000, help="of the server on this machine")
    try:
        given, for_the_build = parser.parse_known_args(options)
    except SystemExit as end:  # argparse has said what is wrong
        return int(end.code or 0)
    folder = given.build or FOLDER
    server = None if given.build else page_server(folder, given.port)  # before half a minute of building
    environment = prepare()
    step(4, "The site")
    program = str(ROOT / "site" / "build.py")
    command = [str(environment.python), program, str(folder.absolute()), *for_the_build]
    variables = child_variables(environment) | {"PYTHONPATH": str(ROOT / "src")}
    code = subprocess.run(command, env=variables, check=False).returncode
    if code or server is None:
        return code
    print(f"      http://127.0.0.1:{server.server_port}/ (Ctrl+C ends it)", flush=True)
    with server:
        server.serve_forever()
    return 0


def page_server(folder: Path, port: int = 0) -> http.server.ThreadingHTTPServer:
    """Take a port of the loopback address for a folder's files: a given one, or one that is free.

    Raises:
        Stop: The port is taken.
    """

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing about what goes well."""

    try:
        handler = functools.partial(Handler, directory=os.fspath(folder))
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except (OSError, OverflowError) as error:
        what, why = f"Port {port} cannot be used.", f"The system says: {error}."
        raise Stop(what, why, "Choose another one: course.py site --port 8123") from None
