"""`course.py test`: the steps, side by side where that saves time, and a table of what came out."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from starter import fast_kernels
from starter.environment import ROOT, Environment, child_variables

__all__ = ["Check", "Outcome", "find_chromium", "run_checks"]

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_APPLICATIONS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
)
WITHOUT_BROWSER = (
    "no Chromium was found. Debian, Ubuntu: apt install chromium. macOS: brew install --cask chromium. "
    "Elsewhere set CHROME to the program's path."
)


@dataclass(frozen=True)
class Check:
    """One step: a name and the commands it runs, each the arguments of a Python."""

    name: str
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """What came of a step."""

    name: str
    passed: bool
    seconds: float
    printed: str

    @property
    def result(self) -> str:
        """The one word for it."""
        return "ok" if self.passed else "FAILED"

    @property
    def note(self) -> str:
        """The line that says it in short: the last one that was printed."""
        lines = [line.strip(" =") for line in self.printed.splitlines() if line.strip(" =")]
        return re.sub(r"\x1b\[[0-9;]*m", "", lines[-1])[:100] if lines else ""


STATIC = (
    Check("lint", (("-m", "ruff", "check", "."), ("-m", "ruff", "format", "--check", "."))),
    Check("types", (("-m", "mypy"),)),
    Check("imports", (("-c", "from importlinter.cli import lint_imports_command as run; run()"),)),
)
NOTEBOOKS = Check("notebooks", (("-m", "onnxlab.cli", "author", "check"),))


def find_chromium() -> str | None:
    """Return the path of a Chromium or Chrome, from the variable CHROME or the usual places."""
    given = os.environ.get("CHROME")
    if given:
        return shutil.which(given)
    found = (shutil.which(name) for name in _BROWSERS)
    return next(filter(None, found), None) or next(filter(os.path.exists, _APPLICATIONS), None)


def pytest_arguments(options: Sequence[str], *, fast: bool) -> list[str]:
    """Return the arguments of the one pytest run; a person's own come last, and their paths replace ours."""
    arguments = ["-m", "pytest"]
    if fast:
        arguments += ["-m", "not slow and not browser"]
        places = ["tests", "src", "starter"]
    else:
        arguments += ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=600"]
        places = ["tests", "src", "starter", "notebooks", "labs", "solutions"]
    if not any(re.match(r"-n|--numprocesses", option) for option in options):
        arguments += ["-n", "auto", "--dist", "loadscope"]
    if sys.stdout.isatty():
        arguments.append("--color=yes")
    named = [
        option for option in options if not option.startswith("-") and (ROOT / option.split("::")[0]).exists()
    ]
    return [*arguments, *options, *([] if named else [place for place in places if has_files(ROOT / place)])]


def has_files(folder: Path) -> bool:
    """Tell whether there is anything for pytest in a folder."""
    return any(folder.glob("*.ipynb")) or any(folder.rglob("*.py"))


def run_checks(environment: Environment, options: Sequence[str], *, fast: bool) -> int:
    """Run every step, even if an earlier one failed, print the table, and return the exit code."""
    tests = Check("tests", (tuple(pytest_arguments(options, fast=fast)),))
    static = STATIC if fast else (*STATIC, NOTEBOOKS)
    with (
        ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool,
        tempfile.TemporaryDirectory(prefix="onnxlab-", ignore_cleanup_errors=True) as folder,
    ):
        waiting = [pool.submit(run_check, environment, check) for check in static]
        if not fast:
            # The long run gets the machine to itself.
            report(waiting)
        forking = {} if fast else fast_kernels.variables(environment, Path(folder))
        last = run_check(environment, tests, live=True, variables=forking)
        if fast:
            report(waiting)
    outcomes = [*(future.result() for future in waiting), last]
    print_table(outcomes)
    if fast:
        print("Left out by --fast: slow tests, browser tests, notebooks. Everything: course.py test")
    elif find_chromium() is None:
        print(f"Skipped: the browser tests, as {WITHOUT_BROWSER}")
    return 0 if all(outcome.passed for outcome in outcomes) else 1


def run_check(
    environment: Environment,
    check: Check,
    *,
    live: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Outcome:
    """Run one step, with variables of its own. Its output is kept; live, it is shown at once too."""
    began = time.monotonic()
    passed, printed = True, []
    for arguments in check.commands:
        process = subprocess.Popen(
            [str(environment.python), *arguments],
            cwd=ROOT,
            env={**(variables or {}), **child_variables(environment)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        try:
            for line in process.stdout or ():
                printed.append(line)
                if live:
                    sys.stdout.write(line)
                    sys.stdout.flush()
            if process.wait():
                passed = False
                break
        except BaseException:
            process.terminate()
            process.wait()
            raise
    return Outcome(check.name, passed, time.monotonic() - began, "".join(printed))


def report(waiting: Sequence["Future[Outcome]"]) -> None:
    """Print the steps that ran in the background: all of it where one failed."""
    for future in waiting:
        outcome = future.result()
        print(
            f"      {outcome.name}: {'ok' if outcome.passed else 'FAILED'}, {outcome.seconds:.1f} s",
            flush=True,
        )
        if not outcome.passed:
            print(outcome.printed, flush=True)


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Print one line for each step."""
    print(f"\n{'step':<10} {'result':<7} {'seconds':>7}  in short")
    for outcome in outcomes:
        print(f"{outcome.name:<10} {outcome.result:<7} {outcome.seconds:>7.1f}  {outcome.note}")
