"""When a warm process is shared, when another is started, and when it ends."""

import os
import socket
import sys
import time
from pathlib import Path

import pytest
from kernel_runs import Kernel, wait_until, warm_processes

from onnxlab.kernels.messages import MalformedRequest, Request, receive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")


def warm(kernel: Kernel) -> int:
    parent = kernel.process.parent()
    assert parent.cmdline()[2] == "onnxlab.kernels.warm", "the kernel is an ordinary one"
    return parent.pid


@pytest.mark.slow
def test_it_is_shared_by_those_with_the_same_variables(start) -> None:
    count = "import torch; print(torch.get_num_threads())"
    one = start()
    two = start(env={"EDITOR": "vi", "ONNXLAB_STATE": "/nowhere/progress.json"})
    three = start(env={"OMP_NUM_THREADS": "1"})
    assert warm(one) == warm(two) != warm(three)
    assert three.run(count) == "1"
    assert two.run("import os; print(os.environ['ONNXLAB_STATE'])") == "/nowhere/progress.json"


@pytest.mark.slow
def test_it_ends_when_it_was_idle(start, place: Path) -> None:
    given = {"env": {"TZ": "Asia/Tokyo"}}  # for a warm process of this test's own
    os.environ["ONNXLAB_KERNELS_IDLE"] = "1"
    try:
        kernel = start(**given)
    finally:
        del os.environ["ONNXLAB_KERNELS_IDLE"]
    number = warm(kernel)
    time.sleep(5)
    assert warm(kernel) == number, "not while a kernel lives"
    kernel.manager.shutdown_kernel()
    wait_until(lambda: number not in [process.pid for process in warm_processes(place)], "it ends")
    assert warm(start(**given)) != number


@pytest.mark.slow
def test_it_ends_when_packages_change(start, tmp_path: Path) -> None:
    given = {"env": {"PYTHONPATH": str(tmp_path)}}
    kernel = start(**given)
    before = warm(kernel)
    (tmp_path / "new_package.py").touch()
    after = start(**given)
    assert warm(after) != before
    assert kernel.run("print('goes on')") == "goes on"


@pytest.mark.slow
def test_it_ends_when_its_address_is_gone(
    start, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("a")  # a socket's path has 107 characters at most
    monkeypatch.setenv("ONNXLAB_KERNELS_FOLDER", str(folder))
    kernel = start()
    [process] = warm_processes(folder)
    [address] = (folder / "onnxlab-kernels").glob("*.sock")
    assert address.stat().st_mode & 0o777 == 0o600
    assert address.parent.stat().st_mode & 0o777 == 0o700
    address.unlink()
    kernel.manager.shutdown_kernel()
    wait_until(lambda: not process.is_running(), "it ends")


@pytest.mark.slow
def test_it_holds_no_variable_that_does_not_matter(start, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = start(env={"A_SECRET": "hidden", "TZ": "Asia/Seoul"})
    assert "A_SECRET" not in kernel.process.parent().environ()
    assert kernel.run("import os; print(os.environ['A_SECRET'])") == "hidden"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"arguments": "no list", "folder": "/", "variables": {}}',
        b'{"arguments": [1], "folder": "/", "variables": {}}',
        b'{"arguments": [], "folder": "/", "variables": {"A=B": "c"}}',
        b'{"arguments": [], "folder": "/", "variables": {"A": "\\u0000"}}',
        b'{"arguments": [], "folder": "/", "variables": {}, "user": 0}',
        b'{"arguments": [], "folder": null, "variables": {}}',
        Request([], "/", {"A": "b"}).encoded(),  # without its descriptors
    ],
)
def test_only_a_request_is_taken(sent: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.send(sent) if sent else ours.close()
        with pytest.raises(MalformedRequest):
            receive(theirs, 3)


def test_a_request_arrives_as_it_was_sent() -> None:
    wanted = Request(["-f", "ü"], "/tmp", {"A": "\udcff\n"}, ["python"], independent=True)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        socket.send_fds(ours, [wanted.encoded()], [0, 1, 2])
        came, descriptors = receive(theirs, 3)
    assert came == wanted
    assert len(descriptors) == 3
    for descriptor in descriptors:
        os.close(descriptor)
