"""Symptoms of a file beside the PyTorch module that it should compute, at several sizes."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from onnxlab.diagnosis.symptom import Symptom, listing
from onnxlab.errors import InputMismatch, OnnxLabError
from onnxlab.message import Message
from onnxlab.model.load import load_alone
from onnxlab.plain_text import plain
from onnxlab.runtime.apart import open_by_path
from onnxlab.runtime.comparison import ComparedOutput
from onnxlab.runtime.divergence import first_divergence, inner_values, program_values
from onnxlab.runtime.export_check import check_export, feed
from onnxlab.runtime.refusals import named_reason
from onnxlab.runtime.values import ModelInputs, read_values

_ATOL = 1e-4
_EXAMPLE = Message("the example")
_CAUSES = ("division", "masked", "scatter", "window")
"""What the structure of a file can tell of why it is wrong."""


class NoReference(OnnxLabError):
    """There is no such factory, or it does not return a module and its inputs."""


def reference(name: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """Return the module and the example inputs that a factory returns.

    Args:
        name: "package.module:factory" or "path/to/file.py:factory". Modules beside it
            can be imported; none of them hides a library.

    Raises:
        NoReference: If there is no such factory, or it returns something else.
    """
    then = (
        "Give --against net.py:factory or package.module:factory; factory() returns (module, inputs), inputs "
        "a tuple of arguments."
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
    if not isinstance(network, torch.nn.Module):
        raise NoReference(
            "{name} returned {name2} and {count} inputs.",
            "A torch.nn.Module and its arguments were expected.",
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


@dataclass(frozen=True)
class Compared:
    """The comparison of a file with a module.

    Attributes:
        symptoms: What was found; a note where nothing differs.
        tried: What was compared, in a sentence.
        not_tried: What PyTorch refused, in a sentence.
    """

    symptoms: tuple[Symptom, ...]
    tried: str = ""
    not_tried: str = ""


def against(path: Path, name: str, given: Path | None = None, known: Sequence[Symptom] = ()) -> Compared:
    """Compare a file with the module of a factory: for the example as it is, then at sizes around it.

    Args:
        path: The file.
        name: As for `reference`.
        given: Further inputs, as for `read_values`.
        known: What else was found in the file: it may be the cause.

    Raises:
        NoReference: If there is no such factory.
    """
    network, example = reference(name)
    try:
        session = open_by_path(path)
    except Exception:  # the runtime raises plain Exception subclasses and RuntimeError
        session = open_by_path(path, optimize=False)
    inputs = ModelInputs(load_alone(path))
    try:
        fed = feed(session, network, example, {})
    except InputMismatch as error:
        why = "An argument became a constant of the file, or disappeared because nothing reads it."
        then = "Compare the names of the file's inputs with forward."
        return Compared((Symptom("wrong", error.what, why, then, "arguments"),))
    base: dict[str, int] = {}
    for value in inputs.values:
        for axis, size in zip(value.dims or (), fed[value.name].shape, strict=False):
            if isinstance(axis, str):
                base.setdefault(axis, size)
    calls = {Message("the inputs given"): batch for batch in (read_values(given) if given else [])}
    cases = [(name, {n: torch.from_numpy(a) for n, a in batch.items()}) for name, batch in calls.items()]
    free = {axis: base[axis] for axis in inputs.axes if axis in base}
    follows = inputs.complete(free) == base  # else the example contradicts what was read out of the names
    sizes = [inputs.complete(one) for one in _sizes(free)] if follows else [*_sizes(base)]
    cases += [(_shown(one), _resized(inputs, fed, base, one, repeat=False)) for one in sizes]
    half = any(p.dtype in (torch.float16, torch.bfloat16) for p in network.parameters())
    atol = None if half else _ATOL

    def compare(cases: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, ComparedOutput]:
        """Return the first wrong row of each case, or its last."""
        others = [_call(example, fed, values) for _, values in cases]
        compared = check_export(network, example, None, others=others, session=session, atol=atol)
        shown = {f"others[{number}]": what for number, (what, _) in enumerate(cases)}
        rows: dict[str, ComparedOutput] = {}
        for row in compared.outputs:
            what = shown.get(row.inputs.partition(":")[0], _EXAMPLE)
            if what not in rows or not rows[what].problem:
                rows[what] = row
        return rows

    rows = compare(cases)
    refused = [what for what, row in rows.items() if row.output == "PyTorch"]
    if _EXAMPLE not in refused and (
        again := [(w, s) for w, s in zip(map(_shown, sizes), sizes, strict=True) if w in refused]
    ):
        # Lengths, masks and the like: the example's own values, repeated or cut off.
        rows |= compare([(what, _resized(inputs, fed, base, one, repeat=True)) for what, one in again])
    refused = [what for what, row in rows.items() if row.output == "PyTorch"]
    tried = [what for what in rows if what not in refused]
    left_out = ""
    if refused:
        reason = plain(rows[refused[0]].problem, 200)
        shown = "; ".join(refused[:3]) + ("; ..." if len(refused) > 3 else "")
        left_out = Message("PyTorch refused {sizes}: {reason}", sizes=shown, reason=reason)
    if not tried:
        then = "Call the module with the inputs that the factory returns, and repair the factory."
        what = "Nothing was compared: PyTorch refused the example and every other size."
        why = Message("PyTorch says: {refusal}", refusal=plain(rows[_EXAMPLE].problem, 200))
        return Compared((Symptom("risk", what, why, then, "right sizes"),))
    at = [base, *({axis: one[axis] for axis in base} for one in sizes if _shown(one) in tried)]
    done = Message("Compared with PyTorch at {tried}.", tried=_axes(at) or _EXAMPLE)
    wrong = next((what for what in tried if rows[what].problem), None)
    if wrong is None:
        return Compared((_agreement(at),), done, left_out)
    values = dict(cases).get(wrong, fed)
    symptom = _symptom(
        wrong, rows[wrong], known, lambda: _inner_values(network, path, _call(example, fed, values))
    )
    return Compared((symptom,), done, left_out)


def _shown(sizes: Mapping[str, int]) -> str:
    return listing([f"{plain(axis, 40)} = {size}" for axis, size in sizes.items()], 6)


def _call(example: tuple[Any, ...], fed: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of the example with other values at the places of the file's inputs."""
    places = {id(tensor): values[name] for name, tensor in fed.items()}
    called: tuple[Any, ...] = pytree.tree_map(lambda leaf: places.get(id(leaf), leaf), example)
    return called


def _axes(compared: list[dict[str, int]]) -> str:
    axes = {axis: sorted({sizes[axis] for sizes in compared}) for axis in compared[0]}
    return "; ".join(f"{plain(axis, 40)} = {', '.join(map(str, sizes))}" for axis, sizes in axes.items())


def _agreement(compared: list[dict[str, int]]) -> Symptom:
    what = "The file agrees with PyTorch at the sizes of the example."
    if tried := _axes(compared):
        what = Message("The file agrees with PyTorch at {tried}.", tried=tried)
    why = "The example was compared, then drawn inputs; differences up to 1e-4 were allowed."
    return Symptom(
        "note", what, why, "Compare inputs and sizes of your own as well: --inputs.", "right sizes"
    )


def _symptom(
    shown: str, row: ComparedOutput, known: Sequence[Symptom], inner: Callable[[], tuple[str, str]]
) -> Symptom:
    """Return what is wrong; the lesson follows from what failed: the run, the shape, the example, a size."""
    problem, example = plain(row.problem, 200), shown == _EXAMPLE
    if row.output == "the file":
        what = Message(
            "With {shown} PyTorch runs, and the file does not: {reason}", shown=shown, reason=problem
        )
        if example:
            then = "Run the file with the inputs that it was exported with; the named node refuses them."
            return Symptom("wrong", what, "The file does not run where it was made.", then, "numbers")
        then = "Find the size that was frozen, and export with that axis dynamic."
        return Symptom("wrong", what, "A size that the module accepts is lost in the file.", then, "sizes")
    reason = Message("{output}: {problem}", output=plain(row.output, 60), problem=problem)
    what = Message("With {shown} the file is wrong: {reason}.", shown=shown, reason=reason)
    causes = [symptom for symptom in known if symptom.lesson in _CAUSES]
    if causes:
        return Symptom(
            "wrong",
            what,
            Message("It may be this: {cause}", cause=causes[0].what),
            causes[0].then,
            causes[0].lesson,
        )
    if np.isnan(row.difference) and not row.where:  # types, or shapes
        then = "Look for a window, a repeat or a shape that was computed from the example's size."
        return Symptom("wrong", what, "Its type or shape is another than PyTorch's.", then, "window")
    return Symptom("wrong", what, *inner(), "numbers" if example else "right sizes")


def _inner_values(network: torch.nn.Module, path: Path, tensors: tuple[Any, ...]) -> tuple[str, str]:
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


def _sizes(base: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield sizes around the example's, one axis at a time, and all axes at once."""
    for axis, size in base.items():
        for new in dict.fromkeys((size + 1, 2 * size, 2 * size + 1, max(1, size - 1), 1)):
            if new != size:
                yield {**base, axis: new}
    if len(base) > 1:
        yield {axis: size + 1 for axis, size in base.items()}


def _resized(
    inputs: ModelInputs,
    fed: Mapping[str, Any],
    base: Mapping[str, int],
    sizes: Mapping[str, int],
    *,
    repeat: bool,
) -> dict[str, Any]:
    """Return the example at other sizes: drawn, or its own values repeated or cut off."""
    drawn = {} if repeat or inputs.undrawable else inputs.draw(sizes)
    resized = {}
    for value in inputs.values:
        tensor = torch.as_tensor(fed[value.name]).detach()
        dims = value.dims or tuple(tensor.shape)
        shape = [
            sizes.get(a, n) if isinstance(a, str) else n for a, n in zip(dims, tensor.shape, strict=True)
        ]
        array, known = drawn.get(value.name), inputs.known(value.name)
        if array is not None and [*array.shape] == shape and (known or tensor.is_floating_point()):
            resized[value.name] = torch.from_numpy(np.ascontiguousarray(array)).to(tensor.dtype)
            continue
        for axis, size in enumerate(shape):
            index = torch.arange(size) % max(1, tensor.shape[axis])
            tensor = tensor.index_select(axis, index) if tensor.shape[axis] else tensor.new_zeros(shape)
        if not tensor.is_floating_point() and tensor.ndim == 1 and not known and len(tensor):
            tensor = _lengths(tensor, torch.as_tensor(fed[value.name]), base, sizes)
        resized[value.name] = tensor
    return resized


def _lengths(
    repeated: torch.Tensor, example: torch.Tensor, base: Mapping[str, int], sizes: Mapping[str, int]
) -> torch.Tensor:
    """Keep whole numbers that fall, as the lengths of packed sequences: falling, and as long as an axis."""
    longest = int(example.max())
    if longest < 1 or (example[:-1] < example[1:]).any():
        return repeated
    long = next((sizes[axis] for axis, size in base.items() if size == longest and axis in sizes), longest)
    return (repeated.sort(descending=True).values * long // longest).clamp(min=1)
