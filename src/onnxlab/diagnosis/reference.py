"""Symptoms of a file beside the PyTorch module that it should compute, at several sizes.

Run as a program by `against`, it reports what runs, and what was found.
"""

import copy
import importlib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from onnxlab.diagnosis.against import Compared, NoReference
from onnxlab.diagnosis.symptom import Symptom, listing
from onnxlab.errors import InputMismatch, ModelNotReadable
from onnxlab.message import Message, from_json
from onnxlab.model.graph import weight_array
from onnxlab.model.load import load_alone
from onnxlab.plain_text import plain, pluralise
from onnxlab.runtime.apart import open_by_path, say
from onnxlab.runtime.comparison import ComparedOutput, as_tensor, compare_outputs
from onnxlab.runtime.divergence import first_divergence, inner_values, program_values
from onnxlab.runtime.export_check import check_export, feed
from onnxlab.runtime.refusals import named_reason
from onnxlab.runtime.values import ModelInputs, read_values, with_shapes

_ATOL = 1e-4
_EXAMPLE = Message("the example")
_TRAINING = Symptom(
    "note",
    "The factory's module is in training mode, in which its outputs differ; it was compared in eval mode.",
    "Beside a module in training mode a correct file looks wrong: Dropout and BatchNorm behave differently.",
    "Call model.eval() before the export and before every comparison.",
    "training",
)
_NOT_INSIDE = "The values inside were not compared: the time was up.", "Give more time with --seconds."


def reference(name: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """Return the module and the example inputs that a factory returns; a dict holds them by parameter.

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
        if isinstance(inputs, Mapping):
            bound = inspect.signature(network.forward).bind(**inputs)
            bound.apply_defaults()
            inputs = bound.args
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
            "{name} returned {name2} and {inputs}.",
            "A torch.nn.Module and its arguments were expected.",
            then,
            name=plain(name, 120),
            name2=plain(type(network).__name__, 80),
            inputs=pluralise(len(inputs), "input"),
        )
    return network, inputs


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


def compare_with(
    path: Path, name: str, given: Path | None = None, cause: Symptom | None = None
) -> Iterator[Compared]:
    """Compare a file with the module of a factory: for the example as it is, then at sizes around it.

    Args:
        path: The file.
        name: As for `reference`.
        given: Further inputs, as for `read_values`.
        cause: What was found in the file that may be the cause.

    Yields:
        The comparison; that of a wrong file first without the values inside, which can take long.

    Raises:
        NoReference: If there is no such factory.
    """
    network, example = reference(name)
    given_in_training = network.training
    network.eval()
    given_as, example = example, _as_arrays(example)
    has_lists = example is not given_as

    def begins(_: torch.nn.Module, values: Any) -> Any:  # noqa: ANN401 - the arguments of any module
        say("running", inputs="")
        return _as_lists(values) if has_lists else values

    def ended(_: torch.nn.Module, values: Any, outputs: Any) -> Any:  # noqa: ANN401 - as above
        say("running", inputs=_shapes(values))
        return _as_arrays(outputs)

    hooks = []
    if not isinstance(network, torch.jit.ScriptModule):  # it takes none
        hooks = [network.register_forward_pre_hook(begins), network.register_forward_hook(ended)]
    try:
        session = open_by_path(path)
    except Exception:  # the runtime raises plain Exception subclasses and RuntimeError
        session = open_by_path(path, level="DISABLE_ALL")
    inputs = ModelInputs(with_shapes(load_alone(path)))
    try:
        fed = feed(session, network, example, {})
    except InputMismatch as error:
        why = "An argument became a constant of the file, or disappeared because nothing reads it."
        then = "Compare the names of the file's inputs with forward."
        yield Compared((Symptom("wrong", error.what, why, then, "arguments"),))
        return
    base: dict[str, int] = {}
    for value in inputs.values:
        for axis, size in zip(value.dims or (), np.shape(fed[value.name]), strict=False):
            if isinstance(axis, str):
                base.setdefault(axis, size)
    cases: list[tuple[str, dict[str, Any]]] = [
        (Message("the inputs given ({n})", n=n), {key: as_tensor(array) for key, array in batch.items()})
        for n, batch in enumerate(read_values(given) if given else [], 1)
    ]
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
    for hook in hooks:
        hook.remove()
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
        yield Compared((Symptom("risk", what, why, then, "right sizes"),))
        return
    at = [base, *({axis: one[axis] for axis in base} for one in sizes if _shown(one) in tried)]
    done = Message("Compared with PyTorch at {tried}.", tried=_axes(at) or _EXAMPLE)
    wrong = next((what for what in tried if rows[what].problem), None)
    if wrong is None:
        differs = given_in_training and _training_differs(network, given_as)
        yield Compared((_agreement(at), *([_TRAINING] if differs else [])), done, left_out)
        return
    values, stale = dict(cases).get(wrong, dict(fed)), _other_weight(network, path)
    for inner in (lambda: _NOT_INSIDE, lambda: _inner_values(network, path, _call(example, fed, values))):
        yield Compared((_symptom(wrong, rows[wrong], cause, stale, inner),), done, left_out)
        if stale:
            return


def _training_differs(network: torch.nn.Module, example: tuple[Any, ...]) -> bool:
    """Whether a module in eval mode returns something else for the example in training mode."""
    try:
        with torch.no_grad():
            leaves = [
                pytree.tree_leaves(mode(*copy.deepcopy(example)))
                for mode in (network, copy.deepcopy(network).train())
            ]
        return any(not np.array_equal(a, b) for a, b in zip(*leaves, strict=True))
    except Exception:  # a module that cannot be copied, or trains on more than one element
        return False


def _shapes(values: Any) -> str:  # noqa: ANN401 - as above
    leaves = pytree.tree_leaves(_as_arrays(values))
    return listing([[*leaf.shape] for leaf in leaves if hasattr(leaf, "shape")], 6) or "no shape"


def _as_arrays(values: Any) -> Any:  # noqa: ANN401 - as above
    """Return values with each list of texts as an array, as the runtime has them; else the values."""

    def is_texts(value: object) -> bool:
        return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)

    if not any(map(is_texts, pytree.tree_leaves(values, is_leaf=is_texts))):
        return values
    return pytree.tree_map(
        lambda leaf: np.array(leaf, object) if is_texts(leaf) else leaf, values, is_leaf=is_texts
    )


def _as_lists(values: Any) -> Any:  # noqa: ANN401 - as above
    """Return values with each array of texts as a list, as a module of PyTorch has it."""
    return pytree.tree_map_only(np.ndarray, lambda a: a.tolist() if a.dtype == object else a, values)


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
    shown: str,
    row: ComparedOutput,
    cause: Symptom | None,
    stale: tuple[str, str] | None,
    inner: Callable[[], tuple[str, str]],
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
    if cause:
        why = Message("It may be this: {cause}", cause=cause.what)
        return Symptom("wrong", what, why, cause.then, cause.lesson)
    if np.isnan(row.difference) and not row.where:  # types, or shapes
        then = "Look for a window, a repeat or a shape that was computed from the example's size."
        return Symptom("wrong", what, "Its type or shape is another than PyTorch's.", then, "window")
    return Symptom("wrong", what, *(stale or inner()), "numbers" if example else "right sizes")


def _other_weight(network: torch.nn.Module, path: Path) -> tuple[str, str] | None:
    """Return that a weight of the file has other values than the module's of that name, and what to do."""
    own = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    for tensor in load_alone(path).graph.initializer:
        if (weight := own.get(tensor.name)) is None or tuple(tensor.dims) != tuple(weight.shape):
            continue
        with suppress(ModelNotReadable, TypeError):  # a type that PyTorch does not have
            held = weight_array(tensor, path.parent).astype(np.float64)
            if not compare_outputs(weight.double(), held, rtol=1e-2, atol=1e-4):
                return (
                    Message(
                        "The file's weight {name} differs from the module's.", name=plain(tensor.name, 80)
                    ),
                    "Export again, or load that export's weights in the factory: a new module draws others.",
                )
    return None


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
            Message("The values inside were not compared: {reason}", reason=reason),
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
    resized: dict[str, Any] = {}
    for value in inputs.values:
        tensor = fed[value.name] if _is_text(fed[value.name]) else torch.as_tensor(fed[value.name]).detach()
        dims = value.dims or tuple(tensor.shape)
        shape = [
            sizes.get(a, n) if isinstance(a, str) else n for a, n in zip(dims, tensor.shape, strict=True)
        ]
        array, known = drawn.get(value.name), inputs.known(value.name)
        if _is_text(tensor):
            resized[value.name] = np.resize(tensor, shape) if array is None else array
            continue
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


def _is_text(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "OSU"


def _lengths(
    repeated: torch.Tensor, example: torch.Tensor, base: Mapping[str, int], sizes: Mapping[str, int]
) -> torch.Tensor:
    """Keep whole numbers that fall, as the lengths of packed sequences: falling, and as long as an axis."""
    longest = int(example.max())
    if longest < 1 or (example[:-1] < example[1:]).any():
        return repeated
    long = next((sizes[axis] for axis, size in base.items() if size == longest and axis in sizes), longest)
    return (repeated.sort(descending=True).values * long // longest).clamp(min=1)


def main(path: str, name: str, given: str, cause: dict[str, Any] | None, imports: Sequence[str]) -> None:
    """Report the comparison; for the arguments see `compare_with`.

    `imports` are entries of the path of the process that asks: a factory may lie there.
    """
    say("start")
    sys.path += [entry for entry in imports if entry not in sys.path]
    known = Symptom(**cause) if cause else None
    try:
        for compared in compare_with(Path(path), name, Path(given) if given else None, known):
            say("compared", **asdict(compared))
    except NoReference as error:
        say("no reference", lines=[error.what, error.why, error.then])


if __name__ == "__main__":
    main(**json.loads(sys.argv[1], object_hook=from_json))
