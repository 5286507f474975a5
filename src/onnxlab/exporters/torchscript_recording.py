"""A recording of the chapters' calls of the TorchScript exporter, for a torch that no longer has it.

`torch.onnx.export(..., dynamo=False)` is deprecated, and almost every chapter calls it. Each call of a
chapter was recorded with torch 2.13: the graph, the warnings, what was printed, or the error. `stand_in`
answers calls from the recording if torch has no such exporter, or if the environment variable
ONNXLAB_TORCHSCRIPT is "recorded", so that the recording can be tried today.

Replaced is `torch.onnx.export` with dynamo=False, in this process. It runs the model's forward as often as
the exporter did, so that a chapter sees it run. Not replaced are `torch.jit`, `torch.onnx.symbolic_helper`,
`register_custom_op_symbolic` and the registry of rules, nor the exporter in a Python that a cell starts.
Nothing is recorded for the labs.

A recording answers a call only if the cell, the learner's code that the model reaches, the options and the
kinds of the arguments are the same (`torchscript_calls`). Weights in a file are those of the model at hand.
If the exporter computed weights, as when it folds a BatchNorm, the model's weights must be those of the
recording; if it turned values of the example into constants, the example must be. Other calls are refused.
"""

import functools
import importlib
import inspect
import io
import itertools
import json
import os
import sys
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from onnxlab.errors import UnknownRecord
from onnxlab.exporters import torchscript_calls as calls
from onnxlab.machine import has_torchscript_exporter

__all__ = [
    "FOLDER",
    "VARIABLE",
    "Recordings",
    "answer",
    "examples",
    "fingerprint",
    "stand_in",
    "weight_bytes",
]

VARIABLE = "ONNXLAB_TORCHSCRIPT"
FOLDER = ("assets", "recorded", "torchscript")

Call = dict[str, Any]
"""One recorded call, as tools/record_torchscript.py writes it. All keys are optional.

`file` (the key of a graph, and the source of each weight), `values` and `examples` (fingerprints of the
weights and of the arguments, if the file depends on them), `ran` (how often forward ran), `warnings`,
`printed_by_c` (and by the model), `registers` (rules that the exporter added), `error` (the exception and its
causes) and `stage` (at which it failed).
"""


class Recordings:
    """Recorded calls in zip files, each with calls.json, graphs and tensors.

    Args:
        archives: The contents of the files.
    """

    def __init__(self, archives: Iterable[bytes]) -> None:
        self._archives: dict[str, zipfile.ZipFile] = {}
        self._cells: dict[str, dict[str, list[Call]]] = {}
        for archive in (zipfile.ZipFile(io.BytesIO(content)) for content in archives):
            self._archives |= dict.fromkeys(archive.namelist(), archive)
            for cell, recorded in json.loads(archive.read("calls.json"))["cells"].items():
                self._cells.setdefault(cell, {}).update(recorded)

    def calls(self, cell: str, facts: str) -> list[Call]:
        """Return the recorded calls of a cell that have certain facts, in order; both are digests."""
        return self._cells.get(cell, {}).get(facts, [])

    def content(self, name: str) -> bytes:
        """Return a graph or a tensor."""
        return self._archives[name].read(name)


@cache
def shipped() -> Recordings:
    """Return the recordings of the chapters."""
    folder = files("onnxlab").joinpath(*FOLDER)
    return Recordings(entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith(".zip"))


def _is_gone() -> bool:
    """Whether torch has no TorchScript exporter, or is to be treated as if it had none."""
    without = "dynamo" not in inspect.signature(torch.onnx.export).parameters
    return without or not has_torchscript_exporter() or os.environ.get(VARIABLE) == "recorded"


def stand_in(recordings: Callable[[], Recordings] = shipped) -> None:
    """Answer torch.onnx.export(dynamo=False) from a recording if torch has no TorchScript exporter."""
    if _is_gone() and not hasattr(torch.onnx.export, "recordings"):
        torch.onnx.export = _with_recordings(torch.onnx.export, recordings)


def _with_recordings(export: Callable[..., Any], recordings: Callable[[], Recordings]) -> Callable[..., Any]:
    knows_dynamo = "dynamo" in inspect.signature(export).parameters
    counts: Counter[tuple[str, str]] = Counter()
    last_execution: object = None

    @functools.wraps(export)
    def export_or_replay(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - as torch's function
        nonlocal last_execution
        if options.get("dynamo", True) is not False:
            if not knows_dynamo:
                options.pop("dynamo", None)
            return export(*args, **options)
        if last_execution != (execution := _execution_count()):  # another run of a cell counts its calls anew
            last_execution = execution
            counts.clear()
        model, example, f, others = calls.arguments(args, options)
        cell = calls.cell_digest(calls.calling_cell(sys._getframe(1)))
        facts = calls.digest(json.dumps(calls.facts(model, example, others), ensure_ascii=False))
        recorded = recordings().calls(cell, facts)
        if not recorded:
            what = "There is no recording of this call of the TorchScript exporter."
            why = (
                "This torch has no such exporter, and the cell, the model's code or the arguments are not "
                "those of a chapter."
            )
            raise _unknown(what, why)
        call = recorded[min(counts[cell, facts], len(recorded) - 1)]
        counts[cell, facts] += 1
        _check_values(call, model, (example, others.get("kwargs")))
        answer(call, model, example, f, others, recordings().content)
        return None

    export_or_replay.recordings = recordings  # type: ignore[attr-defined]  # marks that it stands in
    return export_or_replay


def _unknown(what: str, why: str) -> UnknownRecord:
    then = "Undo the change and run the chapter from the top, or export with dynamo=True."
    return UnknownRecord(what, why, then)


def _execution_count() -> object:
    shell = getattr(sys.modules["__main__"], "get_ipython", lambda: None)()
    return getattr(shell, "execution_count", None)


def fingerprint(tensors: Mapping[str, torch.Tensor]) -> dict[str, list[float]]:
    """Return mean and standard deviation of each tensor, to five digits: processors differ in the rest."""
    prints = {}
    for name, tensor in tensors.items():
        if tensor.numel() and not tensor.is_complex():
            numbers = tensor.detach().double()
            prints[name] = [float(f"{x:.5g}") for x in (numbers.mean(), numbers.std(unbiased=False))]
    return prints


def examples(args: object) -> dict[str, torch.Tensor]:
    """Return the tensors among the arguments of a call, by their position."""
    if isinstance(args, torch.Tensor):
        return {"": args}
    if isinstance(args, list | tuple):
        args = dict(enumerate(args))
    inner = args.items() if isinstance(args, Mapping) else ()
    return {f"{place} {below}": tensor for place, part in inner for below, tensor in examples(part).items()}


def _check_values(call: Call, model: object, args: object) -> None:
    if "values" in call and not _close(call["values"], fingerprint(calls.state(model))):
        what = "This call of the TorchScript exporter was recorded with other weights."
        why = "This torch has no such exporter, and the file holds what was computed from those weights."
        raise _unknown(what, why)
    if "examples" in call and not _close(call["examples"], fingerprint(examples(args))):
        what = "This call of the TorchScript exporter was recorded with another example."
        why = "This torch has no such exporter, and values of that example are constants of the graph."
        raise _unknown(what, why)


def _close(recorded: Mapping[str, Sequence[float]], current: Mapping[str, Sequence[float]]) -> bool:
    if recorded.keys() != current.keys():
        return False
    numbers = [current[name] for name in recorded]
    return np.allclose(list(recorded.values()), numbers, rtol=2e-3, atol=1e-6, equal_nan=True)


def answer(
    call: Call,
    model: object,
    args: object,
    f: object,
    options: Mapping[str, Any],
    content: Callable[[str], bytes],
) -> None:
    """Do what the exporter did: run the model, warn, print, write the file or fail.

    Args:
        call: The recorded call.
        model: The model.
        args: The example inputs.
        f: The destination of the file: a path, or an object with `write`.
        options: Further arguments of the call.
        content: Returns a recorded graph or tensor by its name.

    Raises:
        Exception: What the exporter raised; a RuntimeError if torch no longer has its class.
    """
    with _in_export():
        for _ in range(call.get("ran", 0)):
            _run(model, args, options)
    for operator, opset in call.get("registers", ()):
        torch.onnx.register_custom_op_symbolic(operator, _only_recorded, opset)  # type: ignore[attr-defined]  # public, and deprecated
    for warning in call.get("warnings", ()):
        _warn(**warning)
    if "printed_by_c" in call:
        sys.stdout.flush()
        os.write(1, call["printed_by_c"].encode())
    if "file" in call:
        data = _file_with_weights(call["file"], model, content)
        if hasattr(f, "write"):
            f.write(data)
        else:
            Path(os.fsdecode(f)).write_bytes(data)  # type: ignore[arg-type]  # a path, as when it was recorded
    if "error" in call:
        raise _replayed_error(call["error"], call["stage"])


@contextmanager
def _in_export() -> Iterator[None]:
    try:
        from torch.onnx._internal.exporter import _flags  # read by torch.onnx.is_in_onnx_export
    except ImportError:  # then a model cannot tell that it is exported
        yield
        return
    before, _flags._is_onnx_exporting = _flags._is_onnx_exporting, True
    try:
        yield
    finally:
        _flags._is_onnx_exporting = before


def _run(model: Any, args: object, options: Mapping[str, Any]) -> None:  # noqa: ANN401 - a module of any kind
    """Run the model once, in the mode that the exporter sets. What it prints is in the recording already."""
    positional: list[Any] = list(args) if isinstance(args, list | tuple) else [args]
    keywords = dict(options.get("kwargs") or {})
    if positional and isinstance(positional[-1], dict):
        keywords |= positional.pop()
    before = getattr(model, "training", None)
    mode = options.get("training", torch.onnx.TrainingMode.EVAL)
    switched = before is not None and mode != torch.onnx.TrainingMode.PRESERVE
    with torch.no_grad(), warnings.catch_warnings(action="ignore"), redirect_stdout(io.StringIO()):
        if switched:
            model.train(mode == torch.onnx.TrainingMode.TRAINING)
        with suppress(Exception):  # a failure is in the recording, too
            model(*positional, **keywords)
        if switched:
            model.train(before)


def _only_recorded(*_: object) -> None:
    """A placeholder in the registry for a rule that an export registered."""


_warned: dict[str, dict[Any, Any]] = {}  # by module, as Python does it for the filters "once" and "default"


def _warn(category: str, text: str, module: str, line: int) -> None:
    kind = _class_of_name(category, Warning, UserWarning)
    registry = _warned.setdefault(module, {})
    warnings.warn_explicit(text, kind, module.replace(".", "/"), line, module, registry)


def _class_of_name(name: str, base: type, default: type) -> Any:  # noqa: ANN401 - a class below `base`
    """The class of a name such as "torch.jit._trace.TracerWarning"; a new one if it no longer exists."""
    module, _, attribute = name.rpartition(".")
    with suppress(ImportError, AttributeError):
        kind = getattr(importlib.import_module(module), attribute)
        if issubclass(kind, base):
            return kind
    return type(attribute, (default,), {})


def _replayed_error(chain: Sequence[Mapping[str, str]], stage: str) -> Exception:
    errors = []
    for link in chain:
        kind, text = _class_of_name(link["class"], Exception, RuntimeError), link["text"]
        # A subclass with the recorded text: each class has other arguments, and makes its text of them.
        attributes = {"__str__": lambda _, text=text: text, "__module__": kind.__module__}
        replayed: Any = type(kind.__name__, (kind,), attributes)
        error: Exception = replayed.__new__(replayed, text)
        errors.append(error)
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    errors[0].recorded_stage = stage  # type: ignore[attr-defined]  # read by exporters.export
    return errors[0]


def _file_with_weights(file: Mapping[str, Any], model: object, content: Callable[[str], bytes]) -> bytes:
    """A recorded file with the weights of the model at hand.

    `weights` gives the source of an initializer: the "state" of the model, the same "transposed", or a
    "stored" tensor. Those that it does not name are in the graph.
    """
    proto = onnx.load_model_from_string(content(file["graph"]))
    state = calls.state(model)
    for initializer in proto.graph.initializer:
        source, key = file["weights"].get(initializer.name, (None, None))
        if source == "stored":
            initializer.raw_data = content(key)
        elif source is not None:
            initializer.raw_data = weight_bytes(state[key], transposed=source == "transposed")
    data: bytes = proto.SerializeToString()
    return data


def weight_bytes(tensor: torch.Tensor, *, transposed: bool = False) -> bytes:
    """Return a tensor's numbers as an ONNX file holds them."""
    tensor = tensor.detach().cpu()
    tensor = (tensor.t() if transposed else tensor).contiguous()
    data: bytes = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    return data
