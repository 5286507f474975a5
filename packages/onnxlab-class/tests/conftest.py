"""What many of the class's tests share."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock

if TYPE_CHECKING:
    from class_support.hub import Hub

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def class_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class with all labs, the course "spring-2027". It is made once for all workers: copy it.

    `onnxlab class init` makes it, without an activated environment; `init.json` beside it has the output.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "made" / "spring-2027"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(shared / "made.lock"):
        if not (folder.parent / "init.json").exists():  # is written last
            command = [sys.executable, "-m", "onnxlab.cli", "class", "init", str(folder)]
            variables = os.environ | {"PATH": os.defpath}
            done = subprocess.run(
                command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=600
            )
            assert done.returncode == 0, done.stdout + done.stderr
            (folder.parent / "init.json").write_text(json.dumps([done.stdout, done.stderr]))
    return folder


@pytest.fixture(scope="session")
def hubs(class_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Generator[Hub]]":
    """A served class, once more each time that the one before has ended."""
    from class_support.hub import copied, hub, python_with_user_site

    python = python_with_user_site(tmp_path_factory.mktemp("python"))

    def serve() -> "Generator[Hub]":
        while True:
            with copied(class_folder) as folder, hub(folder, "--memory", "1500", python=python) as running:
                while running.process.poll() is None:
                    yield running

    served = serve()
    yield served
    served.close()


@pytest.fixture
def room(hubs: "Iterator[Hub]") -> "Hub":
    """A class, served: one for all tests that need a hub, as long as none ends it."""
    return next(hubs)
