"""Record which files seven releases of ONNX Runtime load: src/onnxlab/assets/recorded/runtimes.json.

    python -m measurements.record_runtimes            measure again, and say what is different from the recording
    python -m measurements.record_runtimes --write    record what was measured

Each release gets a virtual environment of its own (in --environments, by default a temporary folder; about
1 GB), with pip's usual sources. The oldest release has wheels up to Python 3.11 only: run this with 3.11.
The files are written by the torch and onnx that are installed here; chapter 13 reads the recording.
"""

import argparse
import difflib
import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # it ships no types
import torch
from onnx import TensorProto, helper

from onnxlab.exporters.silence import silenced
from onnxlab.history import RUNTIMES

RECORDING = Path(__file__).resolve().parents[1] / "src" / "onnxlab" / "assets" / "recorded" / "runtimes.json"
NUMPY_2_FROM = (1, 19)
"""The first release that can be imported beside NumPy 2. Not all before it say so to pip."""

IR_VERSIONS = range(3, 15)
OPSETS = range(6, 29)  # 6 has the oldest Relu that there is a kernel for

PROBE = """
import json, sys
from pathlib import Path
try:
    import onnxruntime
except BaseException as error:
    print(json.dumps({"import": f"{type(error).__name__}: {error}"}))
    sys.exit()
import numpy as np
onnxruntime.set_default_logger_severity(4)
outcomes = {}
for path in sorted(Path(sys.argv[1]).glob("*.onnx")):
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        numbers = np.load(path.with_suffix(".npz"))
        (got,) = session.run(None, {session.get_inputs()[0].name: numbers["x"]})
        right = got.shape == numbers["y"].shape and np.allclose(got, numbers["y"], atol=1e-5)
        outcomes[path.stem] = "right" if right else "wrong"
    except Exception as error:
        outcomes[path.stem] = f"{type(error).__name__}: {error}"
print(json.dumps({"version": onnxruntime.__version__, "outcomes": outcomes}))
"""


class Picture(torch.nn.Module):
    """Two convolutions and an enlargement: what the torch.export exporter can lower to opset 17."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Enlarge pictures [n, 1, h, w] to [n, 1, 2h, 2w]."""
        return torch.nn.functional.pixel_shuffle(self.second(torch.relu(self.first(x))), 2)


class Attention(torch.nn.Module):
    """A layer whose default export uses Gelu (opset 20), and Attention from opset 23 on."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Let the rows of [n, t, 16] attend to one another."""
        q, k, v = self.into(x)[:, None].chunk(3, dim=-1)
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v)[:, 0]
        return torch.nn.functional.gelu(self.out(attended))


def write_versions(folder: Path) -> None:
    """Write a Relu at each IR version and at each opset, with an input and its output beside it."""
    for ir in IR_VERSIONS:
        _relu(folder, f"ir {ir}", ir_version=ir, opset_imports=[helper.make_opsetid("", 13)])
    for opset in OPSETS:
        _relu(folder, f"opset {opset}", ir_version=8, opset_imports=[helper.make_opsetid("", opset)])


def write_exports(folder: Path) -> None:
    """Write what today's onnx and both exporters make, with an input and PyTorch's output beside each."""
    torch.manual_seed(0)
    _relu(folder, "onnx.helper default")
    layer, rows = Attention().eval(), torch.rand(2, 5, 16)
    _exported(folder, "TorchScript default", layer, rows, dynamo=False)
    _exported(folder, "torch.export default", layer, rows)
    _exported(folder, "torch.export opset 23", layer, rows, opset_version=23)
    picture, pixels = Picture().eval(), torch.rand(2, 1, 8, 8)
    for name, dynamo in {"TorchScript": False, "torch.export": True}.items():
        old = f"{name} opset 17, IR 8"
        _exported(folder, old, picture, pixels, dynamo=dynamo, opset_version=17)
        model = onnx.load(folder / f"{old}.onnx")
        model.ir_version = 8
        onnx.save(model, folder / f"{old}.onnx")
    _optimised(folder, "optimised, not for a processor", ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
    _optimised(folder, "optimised for this processor", ort.GraphOptimizationLevel.ORT_ENABLE_ALL)


def _relu(folder: Path, name: str, **versions: Any) -> None:
    x, y = (helper.make_tensor_value_info(value, TensorProto.FLOAT, [2]) for value in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [x], [y])
    onnx.save(helper.make_model(graph, **versions), folder / f"{name}.onnx")
    numbers = np.array([-1, 2], np.float32)
    np.savez(folder / f"{name}.npz", x=numbers, y=np.maximum(numbers, 0))


def _exported(folder: Path, name: str, model: torch.nn.Module, x: torch.Tensor, **options: Any) -> None:
    with silenced():
        torch.onnx.export(model, (x,), folder / f"{name}.onnx", external_data=False, verbose=False, **options)
    np.savez(folder / f"{name}.npz", x=x.numpy(), y=model(x).detach().numpy())


def _optimised(folder: Path, name: str, level: ort.GraphOptimizationLevel) -> None:
    """Have the installed runtime save what it makes of the picture network as torch.export wrote it."""
    model, x = Picture().eval(), torch.rand(2, 1, 8, 8)
    with tempfile.TemporaryDirectory() as scratch:
        _exported(Path(scratch), name, model, x)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(folder / f"{name}.onnx")
        ort.InferenceSession(Path(scratch) / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
    np.savez(folder / f"{name}.npz", x=x.numpy(), y=model(x).detach().numpy())


def measured(python: Path | str, models: Path, *, cwd: Path | None = None) -> dict[str, Any]:
    """Load and run each file with one Python's ONNX Runtime, and return the facts about that release.

    Args:
        python: The interpreter of an environment that has the release.
        models: A folder with the files, and a .npz with x and y beside each.
        cwd: Where the interpreter is started, if not here.

    Returns:
        `version`; `newest_ir` and `newest_opset` that load; `files`, each "right", "wrong" or the error;
        `ir_message` and `opset_message`, the refusals of the first versions that are too new, empty where onnx
        itself knows none. Only `import`, the error, if the runtime cannot be imported.
    """
    done = subprocess.run([python, "-c", PROBE, models], cwd=cwd, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1:] or ["{}"]
    facts = json.loads(last[0])
    if "outcomes" not in facts:
        return {"import": facts.get("import") or done.stderr.strip().splitlines()[-1]}
    outcomes: dict[str, str] = facts["outcomes"]
    by_ir = {number: outcomes.pop(f"ir {number}") for number in IR_VERSIONS}
    by_opset = {number: outcomes.pop(f"opset {number}") for number in OPSETS}
    return {
        "version": facts["version"],
        "newest_ir": _newest(by_ir),
        "newest_opset": _newest(by_opset),
        "ir_message": _without_places(by_ir.get(_newest(by_ir) + 1, "")),
        "opset_message": _without_places(by_opset.get(_newest(by_opset) + 1, "")),
        "files": {name: _without_places(outcome) for name, outcome in outcomes.items()},
    }


def _newest(outcomes: dict[int, str]) -> int:
    return max(number for number, outcome in outcomes.items() if outcome == "right")


def _without_places(outcome: str) -> str:
    """Remove the paths of files from a message: they belong to the machine that measured."""
    text = re.sub(r"Load model from .*?\.onnx failed:", "", outcome)
    return re.sub(r"\S+\.(?:cc|h):\d+ [^\n]*?\) (?=\w)", "", text).strip()


def _environment(folder: Path, release: str, numpy: str) -> Path:
    """Make a virtual environment with a release of ONNX Runtime, and return its Python."""
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run(
        [python, "-m", "pip", "install", "-q", f"onnxruntime=={release}", numpy],
        check=True,
        stdout=sys.stderr,
    )
    return python


def _beside_numpy_2(environments: Path, release: str, models: Path) -> str:
    """Return what happens to a release beside NumPy 2: pip refuses, the import fails, or both work."""
    try:
        python = _environment(environments / f"{release}-numpy2", release, "numpy>=2")
    except subprocess.CalledProcessError:
        return "pip refuses"
    outcome: str = measured(python, models).get("import", "imports")
    return outcome


def record(environments: Path) -> dict[str, Any]:
    """Measure all releases, each in an environment below a folder."""
    facts = {}
    with tempfile.TemporaryDirectory() as temporary:
        models = Path(temporary)
        write_versions(models)
        write_exports(models)
        for release in RUNTIMES:
            print(f"ONNX Runtime {release} ...", file=sys.stderr)
            old = tuple(map(int, release.split(".")[:2])) < NUMPY_2_FROM
            python = _environment(environments / release, release, "numpy<2" if old else "numpy")
            facts[release] = measured(python, models)
            if old:
                facts[release]["with_numpy_2"] = _beside_numpy_2(environments, release, models)
    return facts


def main() -> None:
    """Measure, and write or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="record what was measured")
    parser.add_argument("--environments", type=Path, help="keep the virtual environments in this folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        facts = record(arguments.environments or Path(temporary))
    text = json.dumps(facts, indent=1) + "\n"
    if arguments.write:
        RECORDING.write_text(text, encoding="utf-8")
        return
    recorded = RECORDING.read_text(encoding="utf-8")
    sys.stdout.writelines(
        difflib.unified_diff(
            recorded.splitlines(keepends=True), text.splitlines(keepends=True), "recorded", "measured"
        )
    )
    sys.exit(recorded != text)


if __name__ == "__main__":
    main()
