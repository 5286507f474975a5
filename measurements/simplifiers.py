"""Measure what onnxsim and onnxslim do with the course's networks: `python -m measurements.simplifiers`.

It prints the rows of the table in docs/targets.md and docs/targets.zh.md, in about two minutes. Both tools
get an environment of their own (--environment, by default a temporary folder; about 150 MB of downloads).
"""

import argparse
import logging
import os
import subprocess
import tempfile
import venv
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import onnxscript.optimizer
import torch
from onnxruntime.tools.onnx_model_utils import (  # type: ignore[import-untyped]  # ships no types
    fix_output_shapes,
    make_input_shape_fixed,
)

from onnxlab import detection, digits, gpt, quiet_exporters, super_resolution

SIMPLIFIERS = {"onnxsim": "onnxsim==0.8.1", "onnxslim": "onnxslim==0.1.98"}
BESIDES = ["onnx==1.23.2", "onnxruntime==1.31.1"]
CALLS = {
    "onnxsim": "import sys, onnx, onnxsim; onnx.save(onnxsim.simplify(sys.argv[1])[0], sys.argv[2])",
    "onnxslim": "import sys, onnxslim; onnxslim.slim(sys.argv[1], sys.argv[2])",
}
TOLERANCE = 1e-5  # of an output's largest value
CACHE = [f"past.{layer}.{part}" for layer in (0, 1) for part in ("key", "value")]

Runs = Sequence[tuple[Any, ...]]


class Flatten(torch.nn.Module):
    """Chapter 06's last layers: the target shape of `flatten` is computed in the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the pixels of each channel in one row."""
        result: torch.Tensor = self.conv(x).flatten(2)
        return result


def networks() -> dict[str, tuple[torch.nn.Module, Runs, list[str], Any]]:
    """Return the course's networks: inputs at three sizes each, input names, and the free axes."""
    free = torch.export.Dim.DYNAMIC
    past, axes = {0: free, 2: free}, {0: free, 1: free}
    return {
        "super resolution": (
            super_resolution.load_trained(),
            [(torch.rand(1, 1, h, w),) for h, w in ((20, 30), (17, 8), (64, 64))],
            ["x"],
            ({2: free, 3: free},),
        ),
        "flatten": (
            Flatten(),
            [(torch.rand(n, 3, h, w),) for n, h, w in ((2, 6, 7), (1, 9, 5), (3, 4, 4))],
            ["x"],
            ({0: free, 2: free, 3: free},),
        ),
        "digits": (
            digits.load_trained(),
            [(torch.rand(n, 1, 28, 28),) for n in (2, 1, 7)],
            ["x"],
            ({0: free},),
        ),
        "detector": (
            detection.load_trained(),
            [(torch.rand(n, 3, 96, 96),) for n in (2, 1, 5)],
            ["x"],
            ({0: free},),
        ),
        "decoder with cache": (
            gpt.load_trained(),
            [
                (torch.randint(0, 256, (n, new)), gpt.cache(n, length))
                for n, new, length in ((2, 5, 4), (1, 1, 9), (3, 6, 0))
            ],
            ["tokens", *CACHE],
            (axes, [(past, past), (past, past)]),
        ),
    }


def flat(value: Any) -> list[Any]:
    """Return what is nested in lists and tuples, in its order."""
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, (list, tuple)) else [value]


def nodes(model: onnx.ModelProto) -> int:
    """Count a graph's nodes without Constant, which only holds a value."""
    return sum(node.op_type != "Constant" for node in model.graph.node)


def equal_runs(path: Path, feeds: list[dict[str, Any]], expected: list[list[Any]]) -> int:
    """Count the runs in which a file computes what is expected."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    equal = 0
    for feed, wanted in zip(feeds, expected, strict=True):
        try:
            outputs = session.run(None, feed)
        except Exception:  # ONNX Runtime's errors have no common class; a run that stops is not equal
            continue
        equal += all(
            got.shape == want.shape
            and np.abs(got - want).max(initial=0) <= TOLERANCE * np.abs(want).max(initial=1)
            for got, want in zip(outputs, wanted, strict=True)
        )
    return equal


def rewrite(source: Path, python: Path) -> dict[str, Path]:
    """Let each optimiser write its own version of a file."""
    files = {name: source.with_name(f"{source.stem}_{name}.onnx") for name in ("onnxscript", "ORT", *CALLS)}
    onnx.save(onnxscript.optimizer.optimize(onnx.load(source)), files["onnxscript"])
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(files["ORT"])
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    for name, call in CALLS.items():
        subprocess.run([python, "-c", call, source, files[name]], check=True, capture_output=True)
    return files


def fix_sizes(source: Path, feed: dict[str, Any]) -> Path:
    """Write a file's copy whose inputs have the sizes of one run."""
    model = onnx.load(source)
    for name, array in feed.items():
        make_input_shape_fixed(model.graph, name, array.shape)
    fix_output_shapes(model)
    target = source.with_name(f"{source.stem}_fixed.onnx")
    onnx.save(model, target)
    return target


def measure(folder: Path, python: Path) -> list[str]:
    """Return the table's rows: nodes as exported and after each optimiser, with free and with fixed sizes.

    A file with free sizes is run at three sizes, a file with fixed ones at its own.
    """
    rows: list[str] = []
    for name, (network, runs, inputs, axes) in networks().items():
        network.eval()
        with torch.no_grad():
            expected = [[leaf.numpy() for leaf in flat(network(*run))] for run in runs]
        feeds = [dict(zip(inputs, (leaf.numpy() for leaf in flat(run)), strict=True)) for run in runs]
        marks = dict(zip(inputs, flat(axes), strict=True))
        if "tokens" in marks:  # outputs are marked too, as in chapter 17
            marks |= {"logits": {0: None, 1: None}, **{f"present.{i}": {0: None, 2: None} for i in range(4)}}
        outputs = [name for name in marks if name not in inputs]
        named: dict[str, Any] = {
            "input_names": inputs,
            "output_names": outputs or None,
            "opset_version": 18,
            "verbose": False,
        }
        dynamic_axes = {key: {i: f"{key}_{i}" for i in axis} for key, axis in marks.items()}
        unmarked = {key: axis for key, axis in dynamic_axes.items() if key in inputs}
        by_export = {"dynamo": True, "dynamic_shapes": axes, "external_data": False}
        ways: dict[str, dict[str, Any]] = {
            "torch.export": by_export,
            "torch.export, `optimize=False`": {**by_export, "optimize": False},
            "TorchScript": {"dynamo": False, "dynamic_axes": dynamic_axes},
        }
        if outputs:
            ways["TorchScript, outputs not marked"] = {"dynamo": False, "dynamic_axes": unmarked}
        for way, options in ways.items():
            path = folder / f"{len(rows)}.onnx"
            torch.onnx.export(network, runs[0], path, **named, **options)
            cells: tuple[list[str], list[str]] = [], []
            for part, source, count in ((0, path, 3), (1, fix_sizes(path, feeds[0]), 1)):
                for file in (source, *rewrite(source, python).values()):
                    equal = equal_runs(file, feeds[:count], expected[:count])
                    failed = f" **({equal} of {count} equal)**" if equal < count else ""
                    cells[part].append(f"{nodes(onnx.load(file))}{failed}")
            both = (f"{free}, {fixed}" for free, fixed in zip(*cells, strict=True))
            rows.append(f"| {name} | {way} | {' | '.join(both)} |")
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Install the two tools, measure, and say what was measured with what."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--environment", type=Path, help="where both tools are or will be installed")
    arguments = parser.parse_args()
    quiet_exporters()
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as temporary:
        environment = arguments.environment or Path(temporary) / "environment"
        python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        if not python.exists():
            venv.create(environment, with_pip=True)
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", *SIMPLIFIERS.values(), *BESIDES], check=True
            )
        measure(Path(temporary), python)
    here = [f"{name} {version(name)}" for name in ("torch", "onnx", "onnxruntime", "onnxscript")]
    print("Measured with", ", ".join([*SIMPLIFIERS.values(), *here]))


if __name__ == "__main__":
    main()
