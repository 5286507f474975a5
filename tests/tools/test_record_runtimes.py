"""The recorder of runtimes, tried on the one that is installed."""

import json
import shutil
import sys

import numpy as np
import onnxruntime as ort

from onnxlab.history import RUNTIMES, recorded_runtime
from tools.record_runtimes import RECORDING, measured, write_versions


def test_the_installed_runtime_is_measured(tmp_path):
    write_versions(tmp_path)
    shutil.copy(tmp_path / "opset 13.onnx", tmp_path / "other numbers.onnx")
    np.savez(tmp_path / "other numbers.npz", x=np.array([-1, 2], np.float32), y=np.ones(2, np.float32))
    facts = measured(sys.executable, tmp_path)
    assert facts["version"] == ort.__version__
    assert facts["files"] == {"other numbers": "wrong"}
    newest = recorded_runtime(RUNTIMES[-1])
    assert facts["newest_ir"] >= newest["newest_ir"]
    assert facts["newest_opset"] >= newest["newest_opset"]
    assert f"max supported IR version: {facts['newest_ir']}" in facts["ir_message"]
    assert f"till opset {facts['newest_opset']}" in facts["opset_message"]
    assert "/" not in facts["ir_message"] + facts["opset_message"]


def test_a_python_without_the_runtime_is_said(tmp_path):
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('no such library')")
    facts = measured(sys.executable, tmp_path, cwd=tmp_path)
    assert facts == {"import": "ImportError: no such library"}


def test_the_recording_holds_the_releases_in_order():
    assert list(json.loads(RECORDING.read_text(encoding="utf-8"))) == list(RUNTIMES)
