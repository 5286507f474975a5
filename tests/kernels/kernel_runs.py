"""A kernel as a test sees it, and the processes that belong to it."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

WITHIN = 120.0  # seconds; a machine may be busy


class Kernel:
    """A running kernel and a client of it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager, self.client = manager, client

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.manager.provisioner.pid)

    def run(self, code: str) -> str:
        """Return what a cell prints; an error's last line if it raises."""
        said: list[str] = []

        def hear(message: dict) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                said.append(content["text"])
            elif message["msg_type"] == "error":
                said.append(f"{content['ename']}: {content['evalue']}\n")

        self.client.execute_interactive(code, output_hook=hear, timeout=WITHIN)
        return "".join(said).strip()

    def close(self) -> None:
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)


def started(
    provisioner: str = "onnxlab-forked", env: Mapping[str, str] | None = None, **options: object
) -> Kernel:
    """Return a kernel that is ready. `env` comes on top of this process's variables."""
    manager = KernelManager(kernel_name="python3")
    manager.kernel_spec.metadata["kernel_provisioner"] = {"provisioner_name": provisioner, "config": {}}
    variables = {**os.environ, **(env or {})}
    variables.pop(
        "PYTEST_CURRENT_TEST", None
    )  # ipykernel looks at it, and does not capture what C code prints
    manager.start_kernel(env=variables, **options)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=WITHIN)
    return Kernel(manager, client)


def warm_processes(folder: Path) -> list[psutil.Process]:
    """Return the warm processes whose addresses are in a folder, without their forks."""
    found = []
    for process in psutil.process_iter():
        try:
            if "onnxlab.kernels.warm" in process.cmdline() and process.cwd().startswith(str(folder)):
                parent = process.parent()
                if parent is None or "onnxlab.kernels.warm" not in parent.cmdline():
                    found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.is_running()]


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + WITHIN
    while not holds():
        assert time.monotonic() < end, f"not within {WITHIN:g} s: {what}"
        time.sleep(0.05)


def end(process: psutil.Process) -> None:
    """End a process that the test started, by its number."""
    os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "it ends")
