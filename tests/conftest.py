"""How the tests are shared out among the cores."""

import pytest
from xdist.scheduler import LoadScopeScheduling

# Their tests take long and share nothing but what each worker makes once. A module of hundreds of them would
# keep one worker busy long after the others have ended.
ALONE = ("tests/browser/", "tests/labs/test_contract.py", "tests/labs/test_hostile_files.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of our own."""
    parser.addoption(
        "--every-chapter",
        action="store_true",
        help="run every chapter in JupyterLab, and without the exporter, not only some",
    )


class ByNotebook(LoadScopeScheduling):
    """A module, or a notebook with its one kernel, goes to one worker as a whole; tests in ALONE go alone."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(ALONE) else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """Take the place of --dist loadscope."""
    return ByNotebook(config, log) if config.getvalue("dist") == "loadscope" else None
