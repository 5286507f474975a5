"""How the tests are shared out among the cores, and what many of them share."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import nbformat
import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# Their tests take long and share nothing but what each worker makes once. A module of hundreds of them would
# keep one worker busy long after the others have ended. The web site is built once.
ALONE = ("/browser/", "tests/labs/test_contract.py", "tests/hostile/")
TOGETHER = ("/browser/test_site.py", "/browser/test_room.py")
# One class, served by one hub, for all of them.
ON_THE_HUB = ("/browser/test_hub.py", "/hub/test_hub.py", "/hub/test_hostile_learners.py")
# They wait for browsers and servers. One worker takes them one after the other, with one JupyterLab for all,
# while the others compute: all at once would leave a processor idle, and then be late for want of one.
WAITING = ("/browser/", "/hub/", "tests/starter/")


class ByNotebook(LoadScopeScheduling):
    """A module, or a notebook with its one kernel, goes to one worker as a whole; tests in ALONE go alone."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Prefer, for the first worker, what waits, and for each other worker what computes."""
        waiting = node is self.nodes[0]
        for scope in self.workqueue:
            if any(name in scope for name in WAITING) is waiting:
                self.workqueue.move_to_end(scope, last=False)
                break
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        if any(name in nodeid for name in ON_THE_HUB):
            return "/hub/"
        alone = any(name in nodeid for name in ALONE) and not any(name in nodeid for name in TOGETHER)
        return nodeid if alone else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """Take the place of --dist loadscope."""
    return ByNotebook(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(scope="module")
def remembered_translations() -> Iterator[None]:
    """Has the torch.export exporter collect its translations once for each opset, not in every export."""
    from onnxlab.exporters.export import remembered_torchlib

    with remembered_torchlib():
        yield


@pytest.fixture
def write_notebook(tmp_path: Path) -> Callable[..., Path]:
    """Give a function that writes a notebook of code cells (str) and finished cells, and returns its path."""

    def write(cells: Sequence[object], name: str = "notebooks/chapter.ipynb") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        finished = [nbformat.v4.new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
        nbformat.write(nbformat.v4.new_notebook(cells=finished), path)
        return path

    return write
