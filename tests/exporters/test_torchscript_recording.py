"""The recording of the TorchScript exporter: a kernel records calls, then runs the same cells without it."""

import json
import re
import tempfile
import zipfile

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from onnxlab.exporters.export import Stage, failure
from onnxlab.exporters.torchscript_calls import cell_digest
from onnxlab.exporters.torchscript_recording import VARIABLE, answer
from tools.record_torchscript import RECORDED, ROOT, chapters, pack, run_chapter

SETUP = """
import hashlib, io, json, sys
from pathlib import Path
import onnx, torch
from onnxlab import export, Exporter, silenced
sys.path.append({root!r})
from tools.record_torchscript import Recorder, pack
from onnxlab.exporters.torchscript_recording import Recordings, stand_in

live, folder = torch.onnx.export, Path({folder!r})
torch.manual_seed(0)
Recorder(folder).start()

def show(file):
    print(hashlib.sha256(file.getvalue()).hexdigest())

def as_live(file, *call):
    live(*call, expected := io.BytesIO(), dynamo=False)
    both = [onnx.load_model_from_string(written.getvalue()) for written in (file, expected)]
    print("as the exporter's:", both[0] == both[1])

def refusal(call):
    try:
        call()
    except Exception as error:
        print(f"{{type(error).__name__}}: {{error}}".splitlines()[0])
"""
WITHOUT = """
packed = pack(folder, [])
import os
os.environ[{variable!r}] = "recorded"
torch.onnx.export = live
stand_in(lambda: Recordings([packed]))
"""
MODEL = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
        self.last = torch.nn.Linear(6, 5)
    def forward(self, x):
        return self.last(self.first(x) if x.dim() == 4 else x)

class Baked(torch.nn.Module):
    def forward(self, x):
        print("forward ran")
        return x * x[0].item()

model, rows, picture = Model().eval(), torch.rand(4, 6), torch.rand(1, 3, 8, 8)
"""
PLAIN = """
torch.onnx.export(model.last, (rows,), file := io.BytesIO(), dynamo=False)
as_live(file, model.last, (rows,))
"""
FOLDED = """
torch.onnx.export(model.first, (picture,), file := io.BytesIO(), dynamo=False)
as_live(file, model.first, (picture,))
"""
BAKED = """
with silenced() as heard:
    torch.onnx.export(Baked(), (rows[0],), file := io.BytesIO(), dynamo=False, verbose=True)
show(file)
print(heard.text)
"""
REFUSED = """
asinh = export(torch.nn.Sequential(type("Asinh", (torch.nn.Module,), {"forward": lambda _, x: x.asinh()})()),
               rows, Exporter.TORCHSCRIPT)
print(asinh.failure, type(asinh.failure.exception).__mro__[-4:-1])
"""
AGAIN = "model, rows = Model().eval(), torch.rand(4, 6)"
COMPARED = """
torch.onnx.export(model.last, (rows,), file := io.BytesIO(), dynamo=False)
[stored] = [t for t in onnx.load_model_from_string(file.getvalue()).graph.initializer if len(t.dims) == 2]
print((onnx.numpy_helper.to_array(stored) == model.last.weight.detach().numpy()).all())
"""
WARNED = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    torch.onnx.export(Baked(), (rows[0],), io.BytesIO(), dynamo=False)
print([(warning.category.__name__, str(warning.message)[:40]) for warning in caught])
"""
FOLDED_AGAIN = "refusal(lambda: torch.onnx.export(model.first, (picture,), io.BytesIO(), dynamo=False))"
CHANGED = (
    "refusal(lambda: torch.onnx.export(model.last, (rows,), io.BytesIO(), dynamo=False, opset_version=12))"
)
DYNAMO = "print(type(torch.onnx.export(model.last, (rows,), dynamo=True, verbose=False)).__name__)"


@pytest.fixture(scope="module")
def shown():
    """What each cell printed: live while it was recorded, and without the exporter."""
    with tempfile.TemporaryDirectory() as folder:
        setup = SETUP.format(root=str(ROOT), folder=folder)
        without = WITHOUT.format(variable=VARIABLE)
        same = [PLAIN, FOLDED, BAKED, REFUSED, COMPARED, WARNED, FOLDED_AGAIN]
        other_code = MODEL.replace("x * x[0].item()", "x + x[0].item()")
        then = [AGAIN, COMPARED, FOLDED_AGAIN, CHANGED, other_code, BAKED.replace("show(file)", ""), DYNAMO]
        sources = [setup, MODEL, *same, without, *same, *then]
        notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
        client = NotebookClient(notebook, kernel_name="python3", timeout=300, allow_errors=True)
        client.execute()
    printed = [_printed(cell) for cell in notebook.cells]
    n = len(same)
    return {
        "live": printed[2 : 2 + n],
        "recorded": printed[3 + n : 3 + 2 * n],
        "then": dict(
            zip(("", "weights", "folded", "changed", "", "code", "dynamo"), printed[3 + 2 * n :], strict=True)
        ),
        "setup": printed[0] + printed[1] + printed[2 + n],
    }


def _printed(cell):
    streams = [out.text for out in cell.outputs if out.output_type == "stream" and out.name == "stdout"]
    errors = [f"{out.ename}: {out.evalue}" for out in cell.outputs if out.output_type == "error"]
    return "".join(streams + errors)


def test_the_same_bytes_prints_warnings_and_failures_come_from_the_recording(shown):
    assert shown["setup"] == ""
    assert shown["live"][-1] == ""
    assert all(shown["live"][:-1])
    assert shown["recorded"] == shown["live"]
    plain, folded, baked, refused, compared, warned, _ = shown["live"]
    assert plain == folded == "as the exporter's: True\n"
    assert "forward ran" in baked
    assert "aten::mul" in baked or "onnx::Mul" in baked  # what verbose=True prints
    assert "Stage.TRANSLATE" in refused
    assert "UnsupportedOperatorError" in refused
    assert compared == "True\n"
    assert "TracerWarning" in warned


def test_a_model_with_other_weights_gets_its_own(shown):
    assert shown["then"]["weights"] == "True\n"


def test_calls_that_were_not_recorded_are_refused(shown):
    then = shown["then"]
    assert (
        then["folded"]
        == "UnknownRecord: This call of the TorchScript exporter was recorded with other weights.\n"
    )
    assert then["changed"].startswith("UnknownRecord: There is no recording of this call")
    assert then["code"].startswith(
        "UnknownRecord: There is no recording"
    )  # the cell is the same, its model is not


def test_the_other_exporter_is_left_alone(shown):
    assert shown["then"]["dynamo"] == "ONNXProgram\n"


def test_an_error_whose_class_torch_no_longer_has_is_a_runtime_error():
    link = {"class": "torch.onnx.errors.NoLongerThere", "text": "no rule"}
    with pytest.raises(RuntimeError, match="no rule") as raised:
        answer({"error": [link], "stage": "translate"}, None, (), None, {}, lambda name: b"")
    assert type(raised.value).__name__ == "NoLongerThere"
    assert failure(raised.value).stage is Stage.TRANSLATE


def _listing(recording):
    with zipfile.ZipFile(recording) as archive:
        return json.loads(archive.read("calls.json"))


def _cells(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_no_recording_is_stale(path):
    recording = RECORDED / f"{path.stem}.zip"
    sources = _cells(path)
    calling = [cell_digest(source) for source in sources if "dynamo=False" in source]
    again = f"run: python -m tools.record_torchscript {path.stem[:2]}"
    if not recording.exists():
        assert not calling, again
        return
    listing = _listing(recording)
    today = {cell_digest(source) for source in sources}
    assert {*listing["cells"], *listing["models"], *listing["silent"]} <= today, again
    assert set(calling) <= {*listing["cells"], *listing["silent"]}, again


@pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)
def test_the_chinese_cells_are_those_of_the_recording(path):
    recording = RECORDED / f"{path.stem}.zip"
    if recording.exists():
        listing = _listing(recording)
        translated = {cell_digest(source) for source in _cells(path.parent / "zh" / path.name)}
        assert {*listing["cells"], *listing["models"]} <= translated


def test_the_recordings_hold_no_path_of_a_machine_and_are_small():
    recordings = sorted(RECORDED.glob("*.zip"))
    assert sum(recording.stat().st_size for recording in recordings) < 3_000_000
    folders = re.compile(
        rb"(?<![\w.:])/(?:home|root|work|tmp|usr|opt|mnt|var|Users)/|[A-Za-z]:\\\\|ipykernel_[0-9]"
    )
    for recording in recordings:
        with zipfile.ZipFile(recording) as archive:
            for name in archive.namelist():
                content = archive.read(name)
                if name.endswith((".json", ".onnx")):
                    assert not folders.search(content), (recording.name, name)


def test_a_folder_without_calls_makes_no_recording(tmp_path):
    assert pack(tmp_path, ["torch.onnx.export(model, x, f, dynamo=False)"]) is None


# One chapter on every run; all of them with --whole-course.
WITHOUT_EXPORTER = ("01_first_deployment",)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the chapters that run without the exporter."""
    if "chapter" in metafunc.fixturenames:
        every = metafunc.config.getoption("--whole-course")
        names = [path.stem for path in chapters()]
        metafunc.parametrize("chapter", [name for name in names if every or name in WITHOUT_EXPORTER])


@pytest.mark.slow
def test_a_chapter_runs_without_the_exporter(chapter: str):
    outcome = run_chapter(ROOT / "notebooks" / f"{chapter}.ipynb", {VARIABLE: "recorded"})
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
