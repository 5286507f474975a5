"""How the tests are shared out among the cores."""

import pytest
from xdist.scheduler import LoadScopeScheduling


class ByNotebook(LoadScopeScheduling):
    """A module or a notebook goes to one worker as a whole; a browser test, which takes long, goes alone.

    A notebook's cells share a kernel. Browser tests share a server and a browser within each worker.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith("tests/browser/") else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """Take the place of --dist loadscope."""
    return ByNotebook(config, log) if config.getvalue("dist") == "loadscope" else None
