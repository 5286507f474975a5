"""Where no kernel can be forked there is an ordinary one, and a line that says why."""

import logging
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from jupyter_client.manager import KernelManager
from kernel_runs import WITHIN, wait_until

from onnxlab.kernels import provisioner

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only"),
    pytest.mark.slow,
]


@pytest.fixture
def reasons(monkeypatch: pytest.MonkeyPatch):
    """What the provisioner logs."""
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    handler, log = Keep(), logging.getLogger("traitlets")
    log.addHandler(handler)
    yield said
    log.removeHandler(handler)


def ordinary(kernel) -> bool:
    return isinstance(kernel.manager.provisioner.process, subprocess.Popen) and (
        kernel.run("print(1 + 1)") == "2"
    )


def only(reasons: list[str]) -> str:
    [reason] = [reason for reason in reasons if "forked" in reason]
    return reason


def test_another_system(start, reasons, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provisioner.sys, "platform", "darwin")
    kernel = start()
    monkeypatch.undo()
    assert ordinary(kernel)
    assert "on Linux only" in only(reasons)


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Have kernels started by another command."""
    monkeypatch.setattr(
        KernelManager, "format_kernel_cmd", lambda self, **_: [*words, "-f", self.connection_file]
    )


def test_another_python(start, reasons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    command(monkeypatch, str(other), "-m", "ipykernel_launcher")
    kernel = start()
    assert ordinary(kernel)
    assert "not of this Python" in only(reasons)


def test_another_kernel(start, reasons, monkeypatch: pytest.MonkeyPatch) -> None:
    command(monkeypatch, sys.executable, "-m", "ipykernel")
    kernel = start()
    assert ordinary(kernel)
    assert "not ipykernel" in only(reasons)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"stdout": subprocess.PIPE}, "a pipe is wanted as stdout"),
        ({"env": {"LARGE": "x" * 120_000, "TOO": "y" * 40_000}}, "can be passed on"),
        ({"preexec_fn": os.getpid}, "preexec_fn cannot be passed on"),
    ],
)
def test_what_cannot_be_passed_on(start, reasons, options: dict, reason: str) -> None:
    kernel = start(**options)
    if options.get("stdout"):
        kernel.manager.provisioner.process.stdout.close()
    assert ordinary(kernel)
    assert reason in only(reasons)


def test_a_folder_that_others_can_write(start, reasons, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "onnxlab-kernels").mkdir()
    (tmp_path / "onnxlab-kernels").chmod(0o777)
    monkeypatch.setenv("ONNXLAB_KERNELS_FOLDER", str(tmp_path))
    assert ordinary(start())
    assert "not a folder of this user alone" in only(reasons)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can listen as somebody else")
def test_an_address_of_somebody_else(start, reasons) -> None:
    """A listener that another user opened is not trusted; nothing is sent to it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, 65534, 65534)
        path = str(Path(folder, "socket"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            os.seteuid(65534)
            try:
                listener.bind(path)
                listener.listen()
            finally:
                os.seteuid(0)
            assert ordinary(start(env={"ONNXLAB_KERNELS_SOCKET": path}))
    assert "user 65534 listens" in only(reasons)


def test_nobody_at_the_address(start, reasons, tmp_path: Path) -> None:
    assert ordinary(start(env={"ONNXLAB_KERNELS_SOCKET": str(tmp_path / "nobody")}))
    assert "nobody answers" in only(reasons)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("raise RuntimeError('broken')", "fails: RuntimeError: broken"),
        ("import warnings; warnings.warn('Old.')", "says 'Old.'"),
        ("import os; os.write(2, b'from C')", "says 'from C'"),
        (
            "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
            "2 threads",
        ),
    ],
)
def test_an_import_that_a_fork_would_hide(start, reasons, tmp_path: Path, module: str, reason: str) -> None:
    """Here `onnxscript` is a file that misbehaves; in the kernel it does so before the cell's reader."""
    (tmp_path / "onnxscript.py").write_text(module)
    given = {"env": {"PYTHONPATH": str(tmp_path)}}
    first, second = start(**given), start(**given)
    assert ordinary(first)
    assert ordinary(second)
    said = [line for line in reasons if "forked" in line]
    assert len(said) == 2
    assert all(reason in line for line in said), said


def test_a_warm_process_that_hangs_or_dies_while_it_loads(start, reasons, tmp_path: Path) -> None:
    (tmp_path / "onnxscript.py").write_text("import os; os._exit(7)")
    assert ordinary(start(env={"PYTHONPATH": str(tmp_path)}))
    assert "ended" in only(reasons)


def test_as_an_ordinary_user() -> None:
    """Somebody who is not root gets a warm process of their own."""
    with tempfile.TemporaryDirectory(prefix="k-", ignore_cleanup_errors=True) as home:
        command = [sys.executable, "-c", AS_A_USER]
        variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "HOME": home, "TMPDIR": home}
        variables["ONNXLAB_KERNELS_IDLE"] = "1"
        for name in ("ONNXLAB_KERNELS_FOLDER", "XDG_RUNTIME_DIR"):
            variables.pop(name, None)
        if os.geteuid() == 0:
            os.chown(home, 65534, 65534)
            # Python may lie in root's home: the right to read is kept.
            rights = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
            command[:0] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *rights]
            try:
                subprocess.run([*command[:6], "true"], check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                pytest.skip("setpriv cannot drop rights here")
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=3 * WITHIN, cwd="/"
        )
        assert done.returncode == 0, done.stderr
        user, kernel, warm = map(int, done.stdout.split())
        assert user == (os.geteuid() or 65534)
        wait_until(lambda: not psutil.pid_exists(warm), "the warm process ends")
        assert not psutil.pid_exists(kernel)


AS_A_USER = """
import logging; logging.basicConfig()
from kernel_runs import started
kernel = started()
print(kernel.run("import os, torch; print(os.getuid(), os.getpid(), os.getppid())"))
assert type(kernel.manager.provisioner.process).__name__ == "ForkedProcess"
kernel.manager.interrupt_kernel()
kernel.manager.restart_kernel()
kernel.client.wait_for_ready(timeout=120)
assert kernel.run("print(1 + 1)") == "2"
kernel.manager.shutdown_kernel()
kernel.client.stop_channels()
"""
