import sys
from pathlib import Path

import pytest
from starter.checks import Check
from starter.console import Progress
from starter.environment import Environment

from starter import checks, fast_kernels, jupyter

NAMES = ("JUPYTER_DEFAULT_PROVISIONER_NAME", "ONNXLAB_KERNELS_FOLDER")


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An environment in which this package is installed."""
    metadata = tmp_path / "lib" / "python3.11" / "site-packages" / "onnxlab-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    points = "[jupyter_client.kernel_provisioners]\nonnxlab-forked = onnxlab.kernels.provisioner:Forked\n"
    (metadata / "entry_points.txt").write_text(points)
    return Environment(tmp_path, Path(sys.executable), ours=False)


def test_kernels_are_forked_where_that_is_known(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    assert fast_kernels.variables(environment, tmp_path) == dict(
        zip(NAMES, ("onnxlab-forked", str(tmp_path)), strict=True)
    )


def test_elsewhere_nothing_is_said_to_jupyter(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert fast_kernels.variables(environment, tmp_path) == {}


def test_an_older_install_is_left_alone(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    [points] = environment.folder.rglob("entry_points.txt")
    points.write_text("[console_scripts]\nonnxlab = onnxlab.cli:main\n")
    assert fast_kernels.variables(environment, tmp_path) == {}


def test_the_option_is_not_jupyterlabs(environment, monkeypatch, capfd):
    """A server that only prints what it was given."""
    said = "import os, sys; print(sys.argv[1:], os.environ.get('JUPYTER_DEFAULT_PROVISIONER_NAME'))"
    monkeypatch.setattr(jupyter, "command", lambda _, options: [sys.executable, "-c", said, *options])
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv(NAMES[0], raising=False)
    with Progress() as progress:
        assert jupyter.serve(environment, ["--fast-kernels", "--no-browser"], progress) == 0
    assert "['--no-browser'] onnxlab-forked" in capfd.readouterr().out
    with Progress() as progress:
        assert jupyter.serve(environment, ["--no-browser"], progress) == 0
    assert "['--no-browser'] None" in capfd.readouterr().out


def test_the_tests_run_with_forked_kernels(environment, monkeypatch, capfd):
    said = f"import os; print([os.environ.get(name, '-') for name in {NAMES}])"
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(checks, "STATIC", ())
    monkeypatch.setattr(checks, "NOTEBOOKS", Check("nothing", ()))
    monkeypatch.setattr(checks, "pytest_arguments", lambda options, fast: ["-c", said])
    assert checks.run_checks(environment, [], fast=False) == 0
    assert "onnxlab-forked" in capfd.readouterr().out
    assert checks.run_checks(environment, [], fast=True) == 0
    assert "['-', '-']" in capfd.readouterr().out
