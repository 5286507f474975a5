"""How the tests are shared out among the cores."""

import pytest
from xdist.scheduler import LoadScopeScheduling

# Their tests take long and share nothing but what each worker makes once. A module of hundreds of them would
# keep one worker busy long after the others have ended. The web site is built once.
ALONE = ("tests/browser/", "tests/labs/test_contract.py", "tests/labs/test_hostile_files.py")
TOGETHER = "tests/browser/test_site.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of our own."""
    parser.addoption(
        "--whole-course",
        action="store_true",
        help="run every chapter and lab in JupyterLab, and every chapter without the exporter, not only some",
    )


class ByNotebook(LoadScopeScheduling):
    """A module, or a notebook with its one kernel, goes to one worker as a whole; tests in ALONE go alone."""

    def _split_scope(self, nodeid: str) -> str:
        alone = nodeid.startswith(ALONE) and not nodeid.startswith(TOGETHER)
        return nodeid if alone else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """Take the place of --dist loadscope."""
    return ByNotebook(config, log) if config.getvalue("dist") == "loadscope" else None
