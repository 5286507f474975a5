"""Fixtures of several tests of the start."""

import socket

import pytest


@pytest.fixture
def used_port():
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]
