"""Run one model in one program: `python runners.py PROGRAM FOLDER MODEL` ends with one line of JSON.

It runs with the Python that has the program's packages, which need not be the course's: it imports nothing of
the course. A process runs one model, because some programs end with a crash.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Feed = dict[str, Any]
Runner = Callable[[Feed], list[Any]]
TOLERANCE = 1e-3
"""Absolute and relative: MNN computes super resolution to about 3e-4."""


class Refused(Exception):
    """A program does not take the model."""


def onnx_runtime(path: Path, feeds: list[Feed]) -> Runner:
    """ONNX Runtime, on the CPU."""
    import onnxruntime  # type: ignore[import-untyped]  # ships no types

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda feed: list(session.run(None, feed))


def onnx_reference(path: Path, feeds: list[Feed]) -> Runner:
    """ONNX's own implementation, in NumPy."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(path))
    return lambda feed: list(evaluator.run(None, feed))


def openvino(path: Path, feeds: list[Feed]) -> Runner:
    """OpenVINO, on the CPU, in float32."""
    import openvino

    compiled = openvino.compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(feed: Feed) -> list[Any]:
        result = compiled(list(feed.values()))
        return [result[output] for output in compiled.outputs]

    return run


def opencv(path: Path, feeds: list[Feed]) -> Runner:
    """OpenCV's module dnn."""
    import cv2

    network = cv2.dnn.readNetFromONNX(str(path))
    outputs = network.getUnconnectedOutLayersNames()

    def run(feed: Feed) -> list[Any]:
        for name, value in feed.items():
            network.setInput(value, name)
        return list(network.forward(outputs))

    return run


def mnn(path: Path, feeds: list[Feed]) -> Runner:
    """MNN: converted first, then run at precision "high"."""
    import MNN.expr as expr
    import MNN.nn as nn
    import onnx

    converted = path.with_suffix(".mnn")
    command = [
        "mnnconvert",
        "-f",
        "ONNX",
        "--modelFile",
        str(path),
        "--MNNModel",
        str(converted),
        "--bizCode",
        "x",
    ]
    # In a process of its own, as it may crash. The program of this name would first run `pip install`.
    code = f"import MNN, _tools; _tools.mnnconvert({command!r})"
    log = _output([sys.executable, "-c", code])
    if not converted.exists():
        raise Refused(_errors(log))
    graph = onnx.load(path).graph
    names = [value.name for value in graph.input]
    outputs = [value.name for value in graph.output]
    settings = {"backend": "CPU", "numThread": 1, "precision": "high"}
    manager = nn.create_runtime_manager((settings,))
    module = nn.load_module_from_file(str(converted), names, outputs, runtime_manager=manager)
    types = {"float32": expr.float, "int32": expr.int, "uint8": expr.uint8}

    def constant(value: Any) -> Any:
        value = np.ascontiguousarray(value.astype(np.int32) if value.dtype == np.int64 else value)
        return expr.const(value, list(value.shape), expr.NCHW, types[str(value.dtype)])

    def run(feed: Feed) -> list[Any]:
        result = module.forward([constant(feed[name]) for name in names])
        result = result if isinstance(result, list) else [result]
        plain = [expr.convert(value, expr.NCHW) if len(value.shape) == 4 else value for value in result]
        return [np.array(value.read()).reshape(value.shape) for value in plain]

    return run


def ncnn(path: Path, feeds: list[Feed]) -> Runner:
    """The program ncnn, for phones: converted by pnnx for the shapes of the first inputs."""
    param = path.with_suffix(".ncnn.param")
    _pnnx(path, feeds[0])
    import ncnn

    net = ncnn.Net()
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.num_threads = 1
    if net.load_param(str(param)) or net.load_model(str(path.with_suffix(".ncnn.bin"))):
        raise Refused(f"ncnn does not load the layers {', '.join(ncnn_layers(path))}")

    def run(feed: Feed) -> list[Any]:
        extractor = net.create_extractor()
        for name, value in zip(net.input_names(), feed.values(), strict=True):
            picture = value[0] if value.ndim > 2 and len(value) == 1 else value
            # An array gives a Mat no batch: its first axis would be channels.
            # A Mat shares the array's memory without keeping it alive: hold both until the copy is made.
            array = np.ascontiguousarray(picture.astype(np.float32))
            extractor.input(name, ncnn.Mat(array).clone())
        mats = [extractor.extract(name)[1] for name in net.output_names()]
        results = [np.array(mat).copy() for mat in mats]
        return [result[None] if next(iter(feed.values())).ndim > 2 else result for result in results]

    return run


def ncnn_layers(path: Path) -> list[str]:
    """The layers that pnnx made of a model."""
    lines = path.with_suffix(".ncnn.param").read_text(encoding="utf-8").splitlines()[2:]
    return [line.split()[0] for line in lines if not line.startswith("Input")]


def iree(path: Path, feeds: list[Feed]) -> Runner:
    """IREE: imported, compiled for this processor, then run."""
    import onnx
    from iree import runtime

    listing, binary = path.with_suffix(".mlir"), path.with_suffix(".vmfb")
    programs = Path(sys.executable).parent
    log = _output([str(programs / "iree-import-onnx"), str(path), "-o", str(listing)])
    if not listing.exists():
        raise Refused(log.strip().splitlines()[-1])
    options = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    options.append("--iree-llvmcpu-target-cpu=host")
    log = _output([str(programs / "iree-compile"), str(listing), "-o", str(binary), *options])
    if not binary.exists():
        raise Refused(_errors(log))
    module = runtime.load_vm_flatbuffer_file(str(binary), driver="local-task")
    function = module[onnx.load(path).graph.name]

    def run(feed: Feed) -> list[Any]:
        result = function(*feed.values())
        return [np.asarray(value) for value in (result if isinstance(result, list | tuple) else [result])]

    return run


def tvm(path: Path, feeds: list[Feed]) -> Runner:
    """TVM, compiled for the shapes of the first inputs."""
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    shapes = {name: list(value.shape) for name, value in feeds[0].items()}
    module = from_onnx(onnx.load(path), shape_dict=shapes, keep_params_in_input=False)
    module = relax.transform.DecomposeOpsForInference()(module)
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())

    def run(feed: Feed) -> list[Any]:
        result = machine["main"](*[tvm.runtime.tensor(np.asarray(value)) for value in feed.values()])
        return [value.numpy() for value in ([result] if hasattr(result, "numpy") else result)]

    return run


RUNNERS: dict[str, Callable[[Path, list[Feed]], Runner]] = {
    "ONNX Runtime": onnx_runtime,
    "onnx.reference": onnx_reference,
    "OpenVINO": openvino,
    "OpenCV": opencv,
    "MNN": mnn,
    "ncnn": ncnn,
    "IREE": iree,
    "TVM": tvm,
}


def judge(results: list[list[Any]], expected: list[list[Any]]) -> dict[str, str]:
    """Compare a program's outputs with the expected ones, run by run."""
    for run, (outputs, expected_outputs) in enumerate(zip(results, expected, strict=True), start=1):
        if len(outputs) != len(expected_outputs):
            return {
                "verdict": "wrong",
                "says": f"run {run}: {len(outputs)} outputs, {len(expected_outputs)} expected",
            }
        for value, truth in zip(map(np.asarray, outputs), expected_outputs, strict=True):
            if value.shape != truth.shape:
                return {"verdict": "wrong", "says": f"shape {value.shape}, {truth.shape} expected"}
            a, b = value.astype(np.float64), truth.astype(np.float64)
            if not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
                return {"verdict": "wrong", "says": f"{_few(value)}, expected {_few(truth)}"}
    return {"verdict": "right", "says": ""}


def main(program: str, folder: str, model: str) -> dict[str, Any]:
    """Run one model and return the verdict on it."""
    path = Path(folder, f"{model}.onnx")
    arrays = np.load(path.with_suffix(".npz"))
    runs = 1 + max(int(key.split("::")[0].lstrip("inout")) for key in arrays.files)
    feeds = [
        {k.split("::", 1)[1]: arrays[k] for k in arrays.files if k.startswith(f"in{i}::")}
        for i in range(runs)
    ]
    expected = [[arrays[k] for k in arrays.files if k.startswith(f"out{i}::")] for i in range(runs)]
    try:
        run = RUNNERS[program](path, feeds)
        result: dict[str, Any] = judge([run(feed) for feed in feeds], expected)
    except Exception as error:  # every program has its own
        text = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        result = {"verdict": "refused", "says": plain(text)}
    if program == "ncnn" and path.with_suffix(".ncnn.param").exists():
        result["layers"] = ncnn_layers(path)
    return result


def plain(text: str) -> str:
    """The beginning of a message without colours, addresses and folders."""
    text = re.sub(r"\x1b?\[[0-9;]*m|\[\d\d:\d\d:\d\d\] ", "", text)  # colours, times
    text = " ".join(text.split())
    return re.sub(r"(?:[\w.-]*/)+([\w.-]+)", r"\1", text)[:300]


def _few(array: Any) -> str:
    return " ".join(f"{number:.4g}" for number in np.ravel(array)[:8])


def _output(command: list[str]) -> str:
    """Run a command and return its output, of both streams. Nothing is installed meanwhile."""
    environment = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env=environment, errors="replace"
    )
    return done.stdout + done.stderr


def _pnnx(path: Path, feed: Feed) -> None:
    types = {"float32": "f32", "int64": "i64", "int32": "i32", "uint8": "u8"}
    shapes = [f"[{','.join(map(str, value.shape))}]{types[str(value.dtype)]}" for value in feed.values()]
    package = importlib.util.find_spec("pnnx")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("pnnx is not installed.")
    program = Path(package.submodule_search_locations[0], "pnnx")
    log = _output([str(program), str(path), f"inputshape={','.join(shapes)}"])
    if not path.with_suffix(".ncnn.param").exists():
        raise Refused("pnnx: " + _errors(log))


def _errors(log: str) -> str:
    """The lines of a log that say what went wrong; its end where no line does."""
    words = ("error", "not support", "unsupported", "expect", "fail", "invalid")
    lines = [line for line in log.splitlines() if any(word in line.lower() for word in words)]
    return " / ".join(lines or log.splitlines()[-2:] or ["it ended without a word"])


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4])))
