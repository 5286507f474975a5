"""What the first torch.export of a process imports is imported before an exercise's time is counted."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit import exporting
from onnxlab.labs.kit.checking import questions_seed
from onnxlab.labs.kit.exercise import exercise
from onnxlab.labs.kit.outcome import Wrong
from onnxlab.labs.kit.producing import produce
from onnxlab.labs.kit.work import Work
from tests.support.labs import contracts

CONTRACTS = contracts()

# Once all is imported, ReLU's own export takes less than half as long as the loading did.
_FRESH = """
import os, sys, time
from dataclasses import replace
import torch
from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.checking import check
from onnxlab.labs.kit.exercise import Part, exercise
from onnxlab.labs.kit.exporting import exported
from onnxlab.labs.kit.producing import load_exporter

def threads():
    return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0

def produce(answers, work, random):
    before = set(sys.modules)
    exported(work, "relu", torch.nn.ReLU(), torch.ones(2), Exporter.TORCH_EXPORT)
    work.write_json("imported", sorted(set(sys.modules) - before))

def judge(work, random):
    assert len(work.json("imported")) < 5, work.json("imported")

symbolic, translation = exercise("asinh-symbolic")[1], exercise("asinh-translation")[1]
load_exporter(symbolic)
assert "torch._dynamo" not in sys.modules
before, started = threads(), time.thread_time()
load_exporter(translation)
loading = time.thread_time() - started
assert threads() == before  # what has threads does not fork well
limit = 0.75 * loading  # less than loading takes, on a machine of any speed
record = replace(translation, produce=produce, parts=(Part("loaded", judge),), time_limit=limit)
outcome = check(record, {"asinh_translation": len})
assert outcome.passed, outcome
"""


@pytest.mark.slow
def test_the_import_is_no_part_of_the_limit():
    done = subprocess.run([sys.executable, "-c", _FRESH], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("named", CONTRACTS)
def test_an_exercise_says_whether_it_needs_torch_export(named, tmp_path, monkeypatch):
    asked = set()

    def export(*arguments, **options):
        asked.add(arguments[2])
        raise Wrong("Only the exporter's name is of interest here.")

    def exported_by_the_answer(*arguments, dynamo=True, **options):
        return export(None, None, Exporter.TORCH_EXPORT if dynamo else Exporter.TORCHSCRIPT)

    _, record = exercise(named)
    monkeypatch.setattr(exporting, "export", export)
    monkeypatch.setattr(torch.onnx, "export", exported_by_the_answer)
    for right in CONTRACTS[named].right:
        for seed in range(2):
            answers = dict(zip(record.answers, right, strict=True))
            produce(
                replace(record, torch_export=False), answers, Work(tmp_path, questions_seed(record, seed))
            )
    assert record.torch_export == (Exporter.TORCH_EXPORT in asked)
