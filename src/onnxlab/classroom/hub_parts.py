"""The processes that a class's hub consists of, each as it is started."""

import http
import http.client
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

from onnxlab.classroom.hub_settings import VARIABLE, ServeSettings
from onnxlab.classroom.learner_server import base_variables
from onnxlab.grading.system_calls import die_with_parent

__all__ = ["Part", "answers", "start_hub", "start_kernels", "start_servers"]

Part = subprocess.Popen[bytes]
"""A process of the hub."""

_OWN = Path(__file__).parent


def start_servers(settings: ServeSettings) -> Part:
    """Start the process that learners' servers are forked from."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(settings.servers_socket))
        listener.listen(128)
        return _start(settings, "servers", ["onnxlab.classroom.hub_servers"], listener)


def start_kernels(settings: ServeSettings) -> Part:
    """Start the process that learners' kernels are forked from; again, if it has ended."""
    settings.kernels_socket.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(settings.kernels_socket))
        settings.kernels_socket.chmod(0o666)  # who connects is told by the system
        listener.listen(128)
        return _start(settings, "kernels", ["onnxlab.classroom.hub_kernels", str(settings.file)], listener)


def start_hub(settings: ServeSettings) -> Part:
    """Start JupyterHub, which starts the proxy and the services."""
    return _start(settings, "hub", ["jupyterhub", "-f", str(_OWN / "hub_config.py")], None)


def answers(settings: ServeSettings) -> bool:
    """Whether the sign-in page can be had, through the proxy."""
    ip = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.ip, settings.ip)
    connection = (
        http.client.HTTPConnection(ip, settings.port, timeout=5)
        if settings.tls_key is None
        else http.client.HTTPSConnection(
            ip, settings.port, timeout=5, context=ssl._create_unverified_context()
        )
    )
    try:
        connection.request("GET", "/hub/login")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _start(settings: ServeSettings, name: str, module: list[str], listener: socket.socket | None) -> Part:
    """Start a module, which hears from this process's end and says what it has to say into a log."""
    variables = base_variables() | {"HOME": str(settings.private)}
    if listener is None:
        variables |= {VARIABLE: str(settings.file)}
    given = [] if listener is None else [str(listener.fileno())]
    with (settings.hub / "logs" / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", module[0], *given, *module[1:]],
            cwd="/" if listener is not None else settings.hub,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[] if listener is None else [listener.fileno()],
            umask=0o077,
            start_new_session=True,  # Ctrl+C reaches the command only, which ends all in order
            preexec_fn=_with_this_process,
        )


def _with_this_process() -> None:
    die_with_parent(signal.SIGTERM)
