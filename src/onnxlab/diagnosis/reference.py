"""Symptoms of a file beside the PyTorch module that it should compute, at several sizes."""

import copy
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from onnxlab.diagnosis.symptom import Symptom, listing
from onnxlab.errors import OnnxLabError
from onnxlab.message import Message
from onnxlab.model.graph import Value, declared
from onnxlab.model.load import load
from onnxlab.plain_text import plain
from onnxlab.runtime.divergence import first_divergence, inner_values, program_values
from onnxlab.runtime.parity import Counterexample, smallest_counterexample
from onnxlab.runtime.refusals import named_reason

_ATOL = 1e-4


class NoReference(OnnxLabError):
    """There is no such factory, or it does not return a module and its inputs."""


def reference(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Return the module and the example inputs that a factory returns.

    Args:
        name: "package.module:factory" or "path/to/file.py:factory". Modules beside it
            can be imported; none of them hides a library.

    Raises:
        NoReference: If there is no such factory, or it returns something else.
    """
    then = (
        "Give --against net.py:factory or package.module:factory; factory() returns (module, inputs), inputs "
        "a tuple of tensors."
    )
    place, colon, attribute = name.rpartition(":")
    if not (colon and attribute.isidentifier()):
        place, attribute = name, "factory"
    try:
        made = getattr(_python_file(Path(place)) if _is_path(place) else _module(place), attribute)()
        network, inputs = made
    except (Exception, SystemExit) as error:  # the code of the factory is the caller's
        raise NoReference(
            "{name} is no factory of a module and its inputs.",
            plain(named_reason(error)),
            then,
            name=plain(name, 120),
        ) from error
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    if not (isinstance(network, torch.nn.Module) and all(isinstance(i, torch.Tensor) for i in inputs)):
        raise NoReference(
            "{name} returned {name2} and {count} inputs.",
            "A torch.nn.Module and tensors were expected.",
            then,
            name=plain(name, 120),
            name2=plain(type(network).__name__, 80),
            count=len(inputs),
        )
    return network.eval(), inputs


def _is_path(place: str) -> bool:
    return place.endswith(".py") or "/" in place or os.sep in place


def _module(name: str) -> ModuleType:
    _reach(Path.cwd())
    return importlib.import_module(name)


def _python_file(path: Path) -> ModuleType:
    _reach(path.absolute().parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # where a dataclass in the file looks for it
    spec.loader.exec_module(module)
    return module


class _Beside:
    """Finds the modules in a folder that nothing else has, and none by a name of the standard library's.

    On Linux nothing else has `winreg`, which `mimetypes` tries to import.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or name in sys.stdlib_module_names:
            return None
        return PathFinder.find_spec(name, [self._folder])


def _reach(folder: Path) -> None:
    """Let files of a folder be imported, but for those that have the name of something installed."""
    sys.meta_path.append(_Beside(str(folder)))


def against(path: Path, name: str) -> Iterator[Symptom]:
    """Compare a file with the module of a factory: for the example, and at sizes around it.

    Where nothing differs, a note says at which sizes they agree.

    Args:
        path: The file.
        name: As for `reference`.

    Raises:
        NoReference: If there is no such factory.
    """
    network, example = reference(name)
    inputs = declared(load(path).graph.input)
    if len(inputs) != len(example):
        what: str = Message(
            "The file has {n} inputs, and the factory returned {m} tensors.", n=len(inputs), m=len(example)
        )
        why = "An argument became a constant of the file, or disappeared because nothing reads it."
        yield Symptom("wrong", what, why, "Compare the names of the file's inputs with forward.", "arguments")
        return
    compared: list[dict[str, int]] = []
    refusal = ""
    for number, sizes in enumerate(_sizes(inputs, example)):
        resized = (_resized(tensor, value, sizes) for tensor, value in zip(example, inputs, strict=True))
        tensors = tuple(resized) if number else example
        shown = (
            listing([f"{plain(axis, 40)} = {size}" for axis, size in sizes.items()], 6)
            or "the example's sizes"
        )
        try:
            with torch.no_grad():
                network(*copy.deepcopy(tensors))
        except Exception as error:  # a size that PyTorch refuses says nothing about the file
            refusal = plain(named_reason(error), 200)
            continue
        fault = smallest_counterexample(network, path, [tensors], _ATOL, 1e-4)
        if fault is not None:
            yield _symptom(network, path, tensors, fault, shown)
            return
        compared.append(sizes)
    if compared:
        yield _agreement(compared)
    else:
        what = "Nothing was compared: PyTorch refused the example and every other size."
        then = "Call the module with the inputs that the factory returns, and repair the factory."
        yield Symptom("risk", what, Message("PyTorch says: {refusal}", refusal=refusal), then, "right sizes")


def _agreement(compared: list[dict[str, int]]) -> Symptom:
    axes = {axis: sorted({sizes[axis] for sizes in compared}) for axis in compared[0]}
    tried = "; ".join(f"{plain(axis, 40)} = {', '.join(map(str, sizes))}" for axis, sizes in axes.items())
    what = "The file agrees with PyTorch at the sizes of the example."
    if tried:
        what = Message("The file agrees with PyTorch at {tried}.", tried=tried)
    why = "Random inputs were compared; differences up to 1e-4 were allowed."
    return Symptom("note", what, why, "Compare inputs and sizes of your own as well.", "right sizes")


def _symptom(
    network: torch.nn.Module, path: Path, tensors: tuple[torch.Tensor, ...], fault: Counterexample, shown: str
) -> Symptom:
    if fault.torch is None:
        what = Message(
            "With {shown} PyTorch runs, and the file does not agree: {reason}.",
            shown=shown,
            reason=plain(fault.reason, 200),
        )
        then = "Find the size that was frozen, and export with that axis dynamic."
        return Symptom("wrong", what, "A size that the module accepts is lost in the file.", then, "sizes")
    what = Message("With {shown} the file is wrong: {reason}.", shown=shown, reason=plain(fault.reason, 160))
    return Symptom("wrong", what, *_inner_values(network, path, tensors), "right sizes")


def _inner_values(network: torch.nn.Module, path: Path, tensors: tuple[torch.Tensor, ...]) -> tuple[str, str]:
    """Return what is known of the values inside the file, and what to do with it."""
    try:
        values = program_values(torch.export.export(network, tensors), *tensors)
        if not values.keys() & set(inner_values(path)):
            return (
                "No value inside the file has the name that it has in PyTorch: only outputs were compared.",
                "Export with dynamo=True, which keeps the names, or compare each part of forward by itself.",
            )
        first = first_divergence(path, values, *tensors, atol=_ATOL)
    except Exception as error:  # a module that cannot be captured, or a file that cannot be cut
        reason = plain(named_reason(error), 160)
        return (
            f"The values inside were not compared: {reason}",
            "Compare each part of forward by itself, the first one first.",
        )
    if first is None:
        return (
            "The values inside that have one name in both agree.",
            "Look at the end of forward: at what comes after the last of them.",
        )
    return (
        Message("The first inner value that differs is {first}.", first=plain(first, 120)),
        "Look at that node and at the line of forward that it comes from.",
    )


def _sizes(inputs: tuple[Value, ...], example: tuple[torch.Tensor, ...]) -> Iterator[dict[str, int]]:
    """Yield the example's sizes, then sizes around them, one axis at a time, and all axes at once."""
    base: dict[str, int] = {}
    for value, tensor in zip(inputs, example, strict=True):
        for axis, size in zip(value.dims or (), tensor.shape, strict=False):
            if isinstance(axis, str):
                base.setdefault(axis, size)
    yield base
    for axis, size in base.items():
        for new in (size + 1, 2 * size, 2 * size + 1, max(1, size - 1), 1):
            yield {**base, axis: new}
    yield {axis: size + 1 for axis, size in base.items()}


def _resized(tensor: torch.Tensor, value: Value, sizes: Mapping[str, int]) -> torch.Tensor:
    """Return a tensor of other sizes; whole numbers are drawn from the example's own."""
    dims: tuple[Any, ...] = value.dims or tuple(tensor.shape)
    shape = [
        sizes.get(axis, size) if isinstance(axis, str) else size
        for axis, size in zip(dims, tensor.shape, strict=True)
    ]
    random = torch.Generator().manual_seed(0)
    if tensor.is_floating_point():
        return torch.randn(shape, generator=random, dtype=torch.float32).to(tensor.dtype)
    if tensor.numel() == 0:
        return tensor.new_zeros(shape)
    chosen = torch.randint(tensor.numel(), shape, generator=random)
    return tensor.reshape(-1)[chosen]
