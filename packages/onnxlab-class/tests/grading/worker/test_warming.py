"""A fork server has loaded all that a task needs, and that changes no result. Each test in a new Python."""

import json
import os
import subprocess
import sys

import pytest

from onnxlab.kit.exercise import LABS, labs
from onnxlab_class.grading.worker.task import uses_exporter

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a fork server forks, on Linux"),
]
_LOADED = """
import json, os, sys
from pathlib import Path
from onnxlab_class.grading.worker import judge, server, student
from onnxlab_class.grading.submissions import cells_of
from onnxlab_class.grading.worker.task import CELLS, SECRET, JUDGES, Task
from onnxlab.kit import exercise
server.load()
server.load_exporter()
assert len(os.listdir("/proc/self/task")) == 1  # tqdm, if installed, would start a second one in an export
work = Path(sys.argv[1])
for lab in map(exercise.lab, sys.argv[3:]):
    folder = work / lab.name
    folder.mkdir()
    cells = cells_of(Path(sys.argv[2], f"{lab.name}.ipynb").read_bytes())
    (folder / CELLS).write_text(json.dumps(cells))
    ids = tuple(each.id for each in lab.exercises)
    for kind, run in (("student", student.run), ("judge", judge.run)):
        (folder / SECRET).write_text("7")
        (folder / JUDGES).write_text("")
        if not os.fork():
            before, quiet = set(sys.modules), os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            run(Task("", kind, str(folder), lab.name, ids, 7, None), folder)
            (folder / f"{kind}.imported").write_text(json.dumps(sorted(set(sys.modules) - before)))
            os._exit(0)
        os.wait()
"""
_EXPORTS = """
import functools, sys, torch
from onnxlab.exporters.export import Exporter, export
from onnxlab_class.grading.worker import server
from onnxscript import opset18 as op

class Asinh(torch.nn.Module):
    def forward(self, x):
        return torch.asinh(x)

def translated(self):
    return op.Neg(self)

def written(**options):
    return export(Asinh(), torch.ones(2), Exporter.TORCH_EXPORT, opset_version=18, **options).model

written()  # the first one numbers its nodes differently from all later ones, if it does
plain = written()
server.load()
server.load_exporter()
table = {torch.ops.aten.asinh.default: translated}
assert written() == plain
from torch.onnx._internal.exporter._registration import ONNXRegistry
for opset in (18, 20):
    [first, second] = (ONNXRegistry.from_torchlib(opset).functions for _ in range(2))
    assert first is not second
    assert all(a is b for name in first for a, b in zip(first[name], second[name], strict=True))
other = written(custom_translation_table=table)
assert other != plain, "the table was not used"
assert written() == plain, "a table stayed"
assert written(custom_translation_table=table) == other
"""
_SESSIONS = """
import numpy
import onnxruntime as ort
from onnxlab.kit.judging import expected_model
model = expected_model('<ir_version: 8, opset_import: ["" : 9]> g (float[N] x) => (float[N] y) {y = Sin(x)}')
sessions = [ort.InferenceSession(model) for _ in range(5)]
assert len(os.listdir("/proc/self/task")) == 1
options = ort.SessionOptions()
options.intra_op_num_threads = 3
sessions.append(ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]))
assert len(os.listdir("/proc/self/task")) == 3
assert sessions[0].run(None, {"x": numpy.zeros(1, "float32")})[0] == [0.0]
"""


def run(code: str, *arguments: object) -> None:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ORT_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ | environment)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_fork_server_has_one_thread_and_all_that_its_forks_import(tmp_path, pytestconfig):
    """An import in a fork costs time in every submission. Judges are imported late: no student has them.

    A session works in the thread that calls it.
    """
    names = LABS if pytestconfig.getoption("--all") else LABS[4::8]
    run(_LOADED + _SESSIONS, tmp_path, pytestconfig.rootpath / "solutions", *names)
    for lab in names:
        for kind in ("student", "judge"):
            imported = json.loads((tmp_path / lab / f"{kind}.imported").read_text())
            judges = [name for name in imported if name.split(".")[:2] == ["onnxlab", "judges"]]
            others = [name for name in imported if name not in judges]
            assert bool(judges) is (kind == "judge"), f"{lab}, {kind}: {judges}"
            assert len(others) <= 2, f"{lab}, {kind}: {others}"
            assert not [name for name in others if name.startswith("onnxlab")], others


def test_exports_stay_as_they_are():
    run(_EXPORTS)


def test_a_lab_whose_exercises_export_needs_the_exporter_whatever_its_source_says():
    for lab in labs():
        needed = any(exercise.torch_export for exercise in lab.exercises)
        assert uses_exporter(lab.name, ["x = 1"]) is needed, lab.name
    assert uses_exporter("lab07_pooling_indices", ["torch.onnx.export(m, x, dynamo=True)"])
