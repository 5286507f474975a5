"""How many examples hypothesis tries: always the same few, and before a release many new ones."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """Choose before a module is imported: `given` takes the settings of that moment."""
    everything = parent.config.getoption("--all")
    settings.register_profile(
        "hostile",
        max_examples=1000 if everything else 60,
        derandomize=not everything,
        deadline=None,  # a busy machine is no fault; the suite's own limit ends what hangs
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    settings.load_profile("hostile")
