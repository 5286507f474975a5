"""A chapter's edition for Colab, run in a plain kernel that has neither the repository nor the course."""

import os
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from packaging.requirements import Requirement

from onnxlab.course import colab
from onnxlab.course.colab import lacking, outdated
from onnxlab.course.colab_edition import colab_edition
from onnxlab.machine import pinned_versions
from tests.support.torch_wheel import make_torch

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def chapter():
    return nbformat.read(ROOT / "notebooks" / "01_first_deployment.ipynb", 4)


@pytest.mark.slow
@pytest.mark.parametrize("cells", [2, pytest.param(None, marks=pytest.mark.release)], ids=["imports", "all"])
def test_a_chapter_installs_the_course_and_runs(without_course, wheel, chapter, cells):
    """Its first cells; nbval runs the others, which the edition does not change."""
    edition = colab_edition(chapter, str(wheel))
    edition.cells = edition.cells[: cells and 1 + cells]
    edition.cells.append(nbformat.v4.new_code_cell("import onnxlab; print(onnxlab.__file__)"))
    path = without_course.folder / "01_first_deployment.ipynb"
    nbformat.write(edition, path)
    without_course.run_notebook(path)
    first, *_, last = nbformat.read(path, 4).cells
    assert first.outputs[-1].text.startswith(f"Ready: Python {sys.version.split()[0]}, torch ")
    assert Path(last.outputs[0].text.strip()).is_relative_to(without_course.python.parents[1])


def test_the_notebook_below_the_cell_is_the_committed_one(chapter):
    edition = colab_edition(chapter, "onnxlab.whl")
    nbformat.validate(edition)
    assert edition.cells[1:] == chapter.cells
    assert edition.cells[0].metadata.cellView == "form"
    assert chapter.cells[0].cell_type == "markdown"  # the argument is unchanged


def test_links_lead_to_where_the_notebook_was_published(chapter):
    edition = colab_edition(
        chapter, "onnxlab.whl", address="https://host/course/notebooks/01_first_deployment.ipynb"
    )
    text = "\n".join(cell.source for cell in edition.cells if cell.cell_type == "markdown")
    assert "](https://host/course/notebooks/00_start_here.ipynb)" in text
    assert "](https://host/course/docs/weights.md)" in text
    assert "](00_start_here.ipynb)" not in text


def test_the_cell_of_the_chinese_edition_speaks_chinese():
    (cell,) = colab_edition(nbformat.v4.new_notebook(), "onnxlab.whl", language="zh").cells
    assert "\u5355\u5143\u683c" in cell.source.splitlines()[0]
    assert cell.source.endswith("complete_session('zh')")


def test_the_cell_refuses_a_python_that_will_not_do(monkeypatch):
    (cell,) = colab_edition(nbformat.v4.new_notebook(), "onnxlab.whl").cells
    monkeypatch.setattr(sys, "version_info", (3, 10, 12, "final", 0))
    with pytest.raises(RuntimeError, match=r"needs Python 3\.11, 3\.12 or 3\.13"):
        exec(cell.source, {})


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch's default build has no CUDA")
def test_torch_comes_from_the_mirror_of_cpu_builds_that_the_variable_names(tmp_path, monkeypatch):
    version = pinned_versions()["torch"]
    mirror, ordinary = tmp_path / "mirror", tmp_path / "ordinary" / "torch"
    mirror.mkdir()
    ordinary.mkdir(parents=True)
    make_torch(mirror, f"{version}+cpu")
    make_torch(ordinary, version)
    for folder in (mirror, ordinary):
        [wheel] = folder.glob("*.whl")
        (folder / "index.html").write_text(f'<!DOCTYPE html><a href="{wheel.name}">{wheel.name}</a>')
    monkeypatch.setattr(colab, "_BUILT_FOR_TORCH", ())
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "installed"))  # and nothing into these tests' environment
    monkeypatch.setenv("PIP_INDEX_URL", ordinary.parent.as_uri())
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONNXLAB_TORCH_INDEX", mirror.as_uri())
    colab._install([Requirement("torch")])
    assert (tmp_path / "installed" / f"torch-{version}+cpu.dist-info").is_dir()


def test_here_nothing_is_lacking_and_nothing_loaded_is_outdated(capsys):
    import matplotlib  # noqa: F401 - loaded, so that its version is looked at
    import netron  # noqa: F401
    import onnxscript  # noqa: F401 - with onnx and protobuf

    assert (lacking(), outdated()) == ([], [])
    colab.complete_session()
    assert capsys.readouterr().out.startswith("Ready: Python")


def test_a_package_that_was_loaded_in_another_version_asks_for_a_restart(monkeypatch, capsys):
    monkeypatch.setattr(np, "__version__", "2.0.2")
    colab.complete_session()
    output = capsys.readouterr().out
    assert output.startswith("numpy: an older version was loaded")
    assert "Restart the session" in output
    assert "Ready" not in output
