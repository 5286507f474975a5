"""Where Jupyter asks for a kernel: it is forked if that can be done, else started as ever."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from onnxlab.kernels.messages import NoFork, Request

__all__ = ["ForkedProvisioner"]

_LAUNCHER = ["-m", "ipykernel_launcher"]
_KNOWN = {"env", "cwd", "stdin", "stdout", "stderr", "independent", "kernel_id", "extra_arguments"}


class ForkedProvisioner(LocalProvisioner):
    """Forks this interpreter's own ipykernel from a warm process; any other kernel it starts as ever.

    Chosen by the variable `JUPYTER_DEFAULT_PROVISIONER_NAME=onnxlab-forked`.
    """

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:  # noqa: ANN401
        """Start the kernel and return how to reach it."""
        try:
            process = await asyncio.to_thread(_forked, cmd, kwargs)
        except NoFork as reason:
            self.log.warning("An ordinary kernel is started, none is forked: %s", reason.what)
            return await super().launch_kernel(cmd, **kwargs)
        self.process = process
        self.pid = self.pgid = process.pid
        self.cwd = kwargs.get("cwd", Path.cwd())
        return self.connection_info

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel and what it started."""
        if self.process and not isinstance(self.process, subprocess.Popen):
            self.process.send_signal(signum)  # knows whether the number is still the kernel's
            return
        await super().send_signal(signum)


def _forked(command: list[str], wanted: dict[str, Any]) -> Any:  # noqa: ANN401 (a ForkedProcess, on Linux)
    """Have a kernel forked; `wanted` is what `subprocess.Popen` would be given.

    Raises:
        NoFork: With the reason.
    """
    if sys.platform != "linux":
        msg = "a process with torch loaded can be forked safely on Linux only"
        raise NoFork(msg)
    from onnxlab.kernels.asking import ask

    options, arguments = _taken_apart(command)
    if others := sorted(name for name in wanted.keys() - _KNOWN if wanted[name] is not None):
        msg = f"{', '.join(others)} cannot be passed on"
        raise NoFork(msg)
    variables = dict(os.environ if wanted.get("env") is None else wanted["env"])
    variables.setdefault("ORT_DISABLE_TELEMETRY", "1")
    independent = bool(wanted.get("independent"))
    if not independent:
        variables["JPY_PARENT_PID"] = str(os.getpid())
    folder = str(wanted.get("cwd") or Path.cwd())
    with ExitStack() as opened:
        streams = list(_streams(wanted, opened))
        return ask(Request(arguments, folder, variables, command, independent), streams, options)


def _taken_apart(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the options of Python and the arguments of ipykernel.

    Raises:
        NoFork: If it is another kernel or another Python.
    """
    python = Path(command[0])
    same = (
        python.parent == Path(sys.executable).parent and python.exists() and python.samefile(sys.executable)
    )
    if not same:
        msg = f"the kernel is not of this Python ({command[0]})"
        raise NoFork(msg)
    place = next((at for at in range(1, len(command)) if command[at : at + 2] == _LAUNCHER), 0)
    if not place:
        msg = "the kernel is not ipykernel"
        raise NoFork(msg)
    return list(command[1:place]), list(command[place + 2 :])


def _streams(wanted: dict[str, Any], opened: ExitStack) -> Iterator[int]:
    """Yield the descriptors that the kernel gets as 0, 1 and 2, as `subprocess.Popen` understands them.

    Raises:
        NoFork: If a pipe is wanted.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    opened.callback(os.close, nowhere)
    ended, other_end = os.pipe()  # where nothing is wanted, jupyter_client's kernels read the end of a pipe
    opened.callback(os.close, ended)
    os.close(other_end)
    before = nowhere
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        given = wanted.get(name)
        if given == subprocess.PIPE:
            msg = f"a pipe is wanted as {name}"
            raise NoFork(msg)
        if given is None:
            given = ended if not number else number if _is_open(number) else nowhere
        elif given == subprocess.DEVNULL:
            given = nowhere
        elif given == subprocess.STDOUT:
            given = before
        before = given if isinstance(given, int) else given.fileno()
        yield before


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
