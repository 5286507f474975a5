"""Asking pytest whether it takes some options, before the checks that come first and take long."""

import subprocess
from collections.abc import Sequence

from starter.console import Stop
from starter.environment import ROOT, Environment, child_variables

__all__ = ["require_pytest_options"]


def require_pytest_options(environment: Environment, options: Sequence[str]) -> None:
    """Raise Stop if pytest does not take the options."""
    if not options:
        return
    done = subprocess.run(
        # It reads all options before it prints the markers, and looks for no test.
        [str(environment.python), "-m", "pytest", "--markers", *options],
        cwd=ROOT,
        env=child_variables(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    told = [line.partition(": error: ")[2] for line in done.stderr.splitlines() if ": error: " in line]
    if done.returncode and told:
        what = "course.py test does not take these options."
        raise Stop(what, f"pytest says: {told[0][:200]}", "Correct them; pytest --help lists all.", code=2)
