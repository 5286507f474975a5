"""`course.py test`: runs the tests, and linters and type checks at the same time; prints their results."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from starter.environment import ROOT, Environment, child_variables

STATIC = (
    ("lint", ("-m", "ruff", "check", "--no-cache", ".")),
    ("format", ("-m", "ruff", "format", "--no-cache", "--check", ".")),
    ("types", ("-m", "mypy")),
    ("imports", ("-c", "from importlinter.cli import lint_imports_command as run; run()")),
)
# A test compares the code of all translated notebooks with the English; these are run, and with --all each.
TRANSLATED = (
    "notebooks/zh/00_start_here.ipynb",
    "notebooks/zh/02_trace_and_script.ipynb",
    "notebooks/zh/04_dynamic_shapes.ipynb",  # grids of predictions, tables
    "labs/zh/lab05_bitshift.ipynb",
    "labs/zh/lab13_clinic.ipynb",
)
NOTEBOOKS = ("notebooks", ("-m", "tools.author", "check"))


def pytest_arguments(options: Sequence[str], *, fast: bool) -> list[str]:
    """Return pytest's arguments; the user's options come last, and paths in them replace the default ones."""
    paths = ["tests", "src", "packages", "starter"]
    arguments = ["-m", "pytest", "--instafail", "--durations=15"]
    arguments += ["--color=yes"] if sys.stdout.isatty() else []
    if fast:
        arguments += ["-m", "not slow and not browser"]
    else:
        arguments += ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=600"]
        arguments += ["--nbval-kernel-startup-timeout=300"]  # a kernel that is late fails every cell
        # A lab is its solution without the answers, which is run: with --all every lab is run, too.
        labs = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("labs/*.ipynb"))]
        chinese = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("*/zh/*.ipynb"))]
        paths += ["notebooks", "solutions"]
        paths += [*labs, *chinese] if "--all" in options else [*labs[::4], *TRANSLATED]
    if not any(re.match(r"-n|--numprocesses", option) for option in options):
        # One more than cores for the tests of servers and browsers, which wait most of their time.
        arguments += ["-n", str((os.cpu_count() or 1) + (not fast)), "--dist", "loadscope"]
    named = any(option[0] != "-" and (ROOT / option.split("::")[0]).exists() for option in options if option)
    return [*arguments, *options, *([] if named else paths)]


def run_checks(environment: Environment, options: Sequence[str], *, fast: bool) -> int:
    """Run every step, also after a failure; print the table and return the exit code.

    The other steps run one after the other beside the tests, which often wait for a server or a browser.
    """
    # PASSIVE: a waiting thread of one worker must not spin on the core that another worker needs.
    variables = {"OMP_WAIT_POLICY": "PASSIVE", **child_variables(environment)}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # some hundred Pythons would compile the course anew

    def run_step(step: tuple[str, tuple[str, ...]]) -> tuple[str, str, float]:
        name, arguments = step
        began = time.monotonic()
        output = None if name == "tests" else subprocess.PIPE  # which is shown only after a failure
        command = [str(environment.python), *arguments]
        done = subprocess.run(command, cwd=ROOT, env=variables, text=True, stdout=output, stderr=output)
        if done.returncode and done.stdout:
            print(done.stdout, done.stderr, flush=True)
        return name, "FAILED" if done.returncode else "ok", time.monotonic() - began

    steps = [*STATIC, *([] if fast else [NOTEBOOKS])]
    with ThreadPoolExecutor(max_workers=1) as thread:
        checked = thread.map(run_step, steps)
        tested = run_step(("tests", tuple(pytest_arguments(options, fast=fast))))
        rows = [*checked, tested]
    print(f"\n{'step':<10} {'result':<7} {'seconds':>7}")
    for name, result, seconds in rows:
        print(f"{name:<10} {result:<7} {seconds:>7.1f}")
    if fast:
        print("Left out by --fast: slow tests, browser tests, notebooks. Everything: course.py test")
    return int(any(row[1] != "ok" for row in rows))
