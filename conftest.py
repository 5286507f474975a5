"""Tests never touch the progress of the person who runs them; options of a run, and the kernels of nbval."""

import gc
import os
import re
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from unittest.mock import patch

import pytest

pytest_plugins = ["tests.support.chromium", "tools.author.learner_packages", "tools.author.strict_nbval"]

_FOLDER = tempfile.TemporaryDirectory(prefix="onnxlab-tests-")
os.environ["ONNXLAB_STATE"] = str(Path(_FOLDER.name) / "progress.json")
os.environ["ONNXLAB_LANGUAGE"] = "en"  # whatever the system of the person who runs them speaks

# What a kernel does before a notebook's first cell. `atexit` keeps the block open.
_STARTUP = """\
import atexit
import gc

from onnxlab.exporters.export import remembered_torchlib

torchlib = remembered_torchlib()
torchlib.__enter__()
atexit.register(torchlib.__exit__, None, None, None)
gc.freeze()
del atexit, gc, remembered_torchlib, torchlib
"""
_STARTUP_FILE = Path(_FOLDER.name) / "ipython" / "profile_default" / "startup" / "torchlib.py"
_HIDDEN_TESTS = re.compile(r"### BEGIN HIDDEN TESTS.*### END HIDDEN TESTS", re.DOTALL)
_SLOW_MODULE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.slow", re.MULTILINE)
_STARTUP_FILE.parent.mkdir(parents=True)
_STARTUP_FILE.write_text(_STARTUP, encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `course.py test --all` passes on."""
    parser.addoption(
        "--all",
        action="store_true",
        help="also the long tail: every chapter and lab in JupyterLab, forty seeds for each right answer, "
        "hostile files for each exercise, the Chinese of every text",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import neither a module without a doctest nor one of tests that `--fast` leaves out as a whole."""
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text("utf-8")
    if not collection_path.name.startswith("test_"):
        return ">>> " not in text or None
    slow = collection_path.parent.name == "browser" or _SLOW_MODULE.search(text)
    return bool(slow and "not slow" in config.option.markexpr) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is asked only before a release: a contributor need not know Chinese."""
    if config.getoption("--all"):
        return
    left_out = [item for item in items if item.get_closest_marker("release")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("release")]


def pytest_collection_finish() -> None:
    """Let no collection of garbage go over what was imported: it is a third of the time of an export."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Leave no IPython shell to the next test: what shows something asks whether there is one."""
    module = sys.modules.get("IPython.core.interactiveshell")
    if module is not None and module.InteractiveShell.initialized():
        module.InteractiveShell.clear_instance()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Let nbval start its kernels, at a notebook's first cell, with a profile that runs `_STARTUP`.

    The exporter then collects its translations once and not at every export: half the CPU time of a chapter.
    A solution is judged in the cell that shows it; its hidden tests, for a grader, judge the same again.
    """
    if type(item).__name__ != "IPyNbCell":
        return (yield)  # `patch.dict` would also take back what fixtures set
    if not item.config.getoption("--all"):
        item.cell.source = _HIDDEN_TESTS.sub("", item.cell.source)  # type: ignore[attr-defined]  # nbval's
    with patch.dict(os.environ, {"IPYTHONDIR": str(_STARTUP_FILE.parents[2])}):
        return (yield)
