"""`course.py site`: builds the web site and serves it on loopback."""

import argparse
import functools
import hashlib
import http.server
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from starter.console import Stop, step
from starter.environment import ROOT, Environment, child_variables

FOLDER = ROOT / "artifacts" / "site"
"""The folder for the site unless --build names another."""

STAMP = FOLDER.with_name("site-sources.txt")
"""The digest of the sources that the site in FOLDER was built from."""

SOURCES = ("site", "notebooks", "labs", "docs", "packages/onnxlab-class/docs", "src", "pyproject.toml")
"""What the site is built from, below the repository."""


def run(options: Sequence[str], prepare: Callable[[], Environment]) -> int:
    """Build the site and serve it on loopback until Ctrl+C; with --build only build it.

    Args:
        options: The arguments of `course.py site`; those of the server are removed, the others go to
            site/build.py.
        prepare: Makes the environment for the build.

    Raises:
        Stop: The port is in use.
    """
    parser = argparse.ArgumentParser(prog="course.py site", allow_abbrev=False)
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="build into this folder and stop")
    parser.add_argument("--port", type=int, default=8000, help="of the server on this machine")
    try:
        server_options, build_options = parser.parse_known_args(options)
    except SystemExit as end:  # argparse has printed the error
        return int(end.code or 0)
    folder = server_options.build or FOLDER
    # The port is taken before half a minute of building.
    server = None if server_options.build else page_server(folder, server_options.port)
    digest = sources_digest(build_options)
    if server and (folder / "index.html").exists() and STAMP.exists() and STAMP.read_text() == digest:
        step(4, "The site, as it was built: its sources are unchanged")
        return serve(server)
    STAMP.unlink(missing_ok=True)
    environment = prepare()
    step(4, "The site")
    program = str(ROOT / "site" / "build.py")
    command = [str(environment.python), program, str(folder.absolute()), *build_options]
    variables = child_variables(environment) | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    code = subprocess.run(command, env=variables, check=False).returncode
    if code or server is None:
        return code
    STAMP.write_text(digest)
    return serve(server)


def sources_digest(options: Sequence[str]) -> str:
    """Return a digest of everything that the site is built from, and of the build's options."""
    digest = hashlib.sha256("\0".join(options).encode())
    for source in SOURCES:
        files = [ROOT / source] if (ROOT / source).is_file() else sorted((ROOT / source).rglob("*"))
        for file in files:
            if file.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(file.parts):
                digest.update(f"\0{file.relative_to(ROOT).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def serve(server: http.server.ThreadingHTTPServer) -> int:
    """Say where the site is, and serve it until Ctrl+C."""
    print(f"      http://127.0.0.1:{server.server_port}/ (Ctrl+C ends it)", flush=True)
    with server:
        server.serve_forever()
    return 0


def page_server(folder: Path, port: int = 0) -> http.server.ThreadingHTTPServer:
    """Return a server of a folder's files on a port of the loopback address; 0 for a free port.

    Raises:
        Stop: The port is in use.
    """

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Log nothing."""

    try:
        handler = functools.partial(Handler, directory=os.fspath(folder))
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except (OSError, OverflowError) as error:
        raise Stop(
            "Port {port} cannot be used.",
            "The system says: {error}.",
            "Choose another one: course.py site --port 8123",
            port=port,
            error=error,
        ) from None
