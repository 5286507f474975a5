"""A fork server that several tests use: loading torch, onnx and the labs takes seconds."""

from collections.abc import Iterator

import pytest

from onnxlab.grading.worker import client
from onnxlab.grading.worker.client import ForkServerPool


@pytest.fixture(scope="module")
def pool() -> Iterator[ForkServerPool]:
    """One fork server for the tests of a module that leave it whole.

    A run closes its fork servers at the end: those that it made for a second attempt, and not this one.
    """
    lasting = ForkServerPool()
    vars(lasting)["close"] = lambda: None
    yield lasting
    ForkServerPool.close(lasting)


@pytest.fixture
def shared(pool: ForkServerPool, monkeypatch: pytest.MonkeyPatch) -> ForkServerPool:
    """The same for `onnxlab grade`, called in this process."""
    monkeypatch.setattr(client, "worker_pool", lambda: pool)
    return pool
