"""A fork server that several tests use: loading torch, onnx and the labs takes seconds."""

from collections.abc import Iterator

import pytest

from onnxlab_class.grading.worker import client
from onnxlab_class.grading.worker.client import ForkServerPool


@pytest.fixture(scope="module")
def pool() -> Iterator[ForkServerPool]:
    """One fork server for the tests of a module that do not end it.

    A run closes its pool at the end; closing this one does nothing.
    """
    fork_server = ForkServerPool()
    vars(fork_server)["close"] = lambda: None
    yield fork_server
    ForkServerPool.close(fork_server)


@pytest.fixture
def shared(pool: ForkServerPool, monkeypatch: pytest.MonkeyPatch) -> ForkServerPool:
    """The same pool for `onnxlab grade`, called in this process."""
    monkeypatch.setattr(client, "worker_pool", lambda: pool)
    return pool
