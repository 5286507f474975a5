"""Kernels for the tests: forked in a folder of their own, and nothing left of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kernel_runs import Kernel, started, wait_until, warm_processes

StartKernel = Callable[..., Kernel]


@pytest.fixture(autouse=True, scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for this module's warm processes; they end when it is empty."""
    folder = tmp_path_factory.mktemp("k")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNXLAB_KERNELS_FOLDER", str(folder))
        patch.delenv("ONNXLAB_KERNELS_SOCKET", raising=False)
        yield folder
    for path in (folder / "onnxlab-kernels").glob("*"):
        path.unlink()
    wait_until(lambda: not warm_processes(folder), "the warm processes end")


@pytest.fixture
def start() -> Iterator[StartKernel]:
    """Start kernels; what runs at the end is ended."""
    kernels: list[Kernel] = []

    def one(*arguments: object, **options: object) -> Kernel:
        kernels.append(started(*arguments, **options))
        return kernels[-1]

    yield one
    for kernel in kernels:
        kernel.close()
