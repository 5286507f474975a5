"""The report of a benchmark: a table, a line about the machine, and its section in docs/benchmarks.md."""

import argparse
import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

__all__ = ["arguments", "finish", "table"]

_DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table; columns after the first are aligned to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(str(value) for value in line) + " |" for line in lines)


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the common option `--write`; it also notes the machine's load before the start."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the result into docs/benchmarks.md")
    parser.set_defaults(load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None)
    return parser


def finish(name: str, text: str, options: argparse.Namespace, packages: Sequence[str] = ()) -> None:
    """Print a result with a line about the machine; with `--write`, put it into its section."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    load = "" if options.load is None else f", load {options.load:.1f} before the start"
    where = f"{datetime.now(UTC):%Y-%m-%d}, {cores} cores{load}; Python {platform.python_version()}"
    text = f"{text.strip()}\n\n*{where}{', ' * bool(versions)}{versions}.*"
    print(text)
    if options.write:
        section = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        before = _DOCUMENT.read_text("utf-8")
        if not section.search(before):
            msg = f"{_DOCUMENT.name} has no section <!-- {name} --> that ends with <!-- end -->."
            raise SystemExit(msg)
        _DOCUMENT.write_text(section.sub(lambda match: f"{match[1]}{text}\n{match[2]}", before), "utf-8")
