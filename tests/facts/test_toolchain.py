"""The search for a compiler: what is found really runs, what is not is named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onnxlab.facts.toolchain import Toolchain, cpp_toolchain


def program(folder, name):
    file = folder / (f"{name}.exe" if sys.platform == "win32" else name)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return str(file)


def test_nothing_found(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    tools = cpp_toolchain()
    assert tools == Toolchain(None, None)
    assert not tools.ready
    assert "compiler" in tools.missing
    assert "pip install ninja" in tools.missing


def test_ninja_beside_python_is_found_and_put_on_the_path(monkeypatch, tmp_path):
    (tmp_path / "venv").mkdir()
    ninja = program(tmp_path / "venv", "ninja")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "python"))
    tools = cpp_toolchain()
    assert tools.ninja == ninja
    assert tools.path.split(os.pathsep) == [str(tmp_path), str(tmp_path / "venv")]


def test_the_chosen_compiler_is_asked_for(monkeypatch, tmp_path):
    compiler = program(tmp_path, "my-compiler")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "my-compiler")
    assert cpp_toolchain().compiler == compiler


def test_the_path_does_not_grow(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    tools = Toolchain(compiler=str(tmp_path / "c++"), ninja=str(tmp_path / "ninja"))
    assert tools.path == str(tmp_path)


def test_what_is_found_here_runs():
    tools = cpp_toolchain()
    if not tools.ready:
        pytest.skip(f"nothing to try: {tools.missing} missing")
    assert Path(tools.compiler).exists()
    assert subprocess.run([tools.ninja, "--version"], capture_output=True, check=True).stdout
