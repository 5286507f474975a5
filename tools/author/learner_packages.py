"""A pytest plugin: nbval runs a notebook with what requirements.txt installs, which is all a learner has.

The suite's environment has more. What is not in requirements.txt, nor needed by what is, is hidden from the
kernels and from the programs that they start. With `--all`, a notebook that imports something hidden is run a
second time, with it. The tag ``optional`` says that a cell's output needs such a package: the second run
compares it.
"""

import ast
import os
import re
from collections.abc import Generator, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
import pytest
from nbval.plugin import IPyNbFile  # type: ignore[import-untyped]  # nbval ships no types
from packaging.requirements import Requirement

from onnxlab.course.notebooks import code_cells

OPTIONAL = "optional"

_REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements.txt"
_HIDING = Path(__file__).with_name("hidden_packages")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_distributions() -> dict[str, metadata.Distribution]:
    """Return what is installed, by name, without the copies that setuptools puts onto the path for itself."""
    return {
        _normal(distribution.name): distribution
        for distribution in metadata.distributions()
        if Path(str(distribution.locate_file(""))).name != "_vendor"
    }


@cache
def hidden_distributions() -> frozenset[str]:
    """Return the installed distributions that `pip install -r requirements.txt` would not install."""
    installed = installed_distributions()
    pins = re.findall(r"^([\w.-]+)==", _REQUIREMENTS.read_text("utf-8"), re.MULTILINE)
    waiting = ["pip", "onnxlab", "onnxlab-class", *map(_normal, pins)]
    present: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in present or name not in installed:
            continue
        present.add(name)  # and what it needs: requirements.txt does not list torch's CUDA, for one
        for need in map(Requirement, installed[name].requires or ()):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                waiting.append(_normal(need.name))
    return frozenset(installed) - present


@cache
def hidden_modules() -> frozenset[str]:
    """Return the top-level modules that only hidden distributions have."""
    owners = metadata.packages_distributions()
    return frozenset(
        module for module, names in owners.items() if hidden_distributions().issuperset(map(_normal, names))
    )


def optional_modules(path: Path) -> list[str]:
    """Return the hidden modules that a notebook's code imports, also inside a function."""
    imported = {module for cell in _code(path) for module in _imports(cell)}
    return sorted(imported & hidden_modules())


def variables() -> dict[str, str]:
    """Return the environment variables with which a Python does not see what is hidden."""
    path = [str(_HIDING), os.environ.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "ONNXLAB_HIDDEN_MODULES": ",".join(sorted(hidden_modules())),
        "ONNXLAB_HIDDEN_DISTRIBUTIONS": ",".join(sorted(hidden_distributions())),
    }


class WithOptional(IPyNbFile):  # type: ignore[misc]  # as above
    """A notebook with the optional packages that it imports: what few learners see costs a whole run."""

    def collect(self) -> Iterator[pytest.Item]:
        """Mark the cells as what only `course.py test --all` runs."""
        for cell in super().collect():
            cell.add_marker("release")
            yield cell


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a notebook once more, beside nbval's own collector, if it imports something optional."""
    option = parent.config.option
    if not (option.nbval and file_path.suffix == ".ipynb" and (names := optional_modules(file_path))):
        return None
    relative = file_path.relative_to(parent.config.rootpath).as_posix()
    name = f"{relative} with {', '.join(names)}"  # a scope of its own for xdist
    collector: pytest.Collector = WithOptional.from_parent(parent, path=file_path, name=name, nodeid=name)
    return collector


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Start a notebook's kernel, which nbval does at its first cell, without what a learner does not have."""
    if type(item).__name__ != "IPyNbCell" or isinstance(item.parent, WithOptional):
        return (yield)
    if OPTIONAL in item.cell.metadata.get("tags", ()) and optional_modules(item.path):  # type: ignore[attr-defined]  # nbval's
        item.options["check"] = False  # type: ignore[attr-defined]  # nbval's
    with patch.dict(os.environ, variables()):
        return (yield)


@cache
def _code(path: Path) -> tuple[str, ...]:
    return tuple(cell["source"] for _, cell in code_cells(nbformat.read(path, as_version=4)))


def _imports(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a magic
        return
    for node in ast.walk(tree):
        names: list[Any] = [node.module] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (name.partition(".")[0] for name in names if name)
