"""The recipes of the chapters, and how each is called on a file of an ordinary model."""

import ast
import contextlib
import functools
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import nbformat
import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch._dynamo.exc import UserError
from torch.utils import _pytree as pytree

from onnxlab import check_export
from onnxlab.exporters.silence import silenced
from tests.ordinary import expectations
from tests.ordinary.bench import EXPORTERS
from tests.ordinary.exported import Exported

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
TAG = "recipe"


class NotForSuch(Exception):
    """A recipe takes something that this model does not have, by its signature; the text says what."""


@functools.cache
def recipe(chapter: str) -> SimpleNamespace:
    """Return what the tagged cells define, pasted below the chapter's first cell, which imports."""
    [path] = NOTEBOOKS.glob(f"{chapter}_*.ipynb")
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    names: dict[str, Any] = {}
    imports = [
        node for node in ast.parse(cells[0].source).body if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    exec(compile(ast.Module(imports, []), path.name, "exec"), names)
    for cell in cells:
        if TAG in cell.metadata.get("tags", ()):
            exec(compile(cell.source, path.name, "exec"), names)
    return SimpleNamespace(**names)


def tagged(path: Path) -> list[str]:
    """Return the functions that the recipe cells of a notebook define."""
    cells = nbformat.read(path, as_version=4).cells
    sources = [cell.source for cell in cells if TAG in cell.metadata.get("tags", ())]
    nodes = [node for source in sources for node in ast.parse(source).body]
    return [node.name for node in nodes if isinstance(node, ast.FunctionDef)]


CALLS: dict[str, Callable[[Exported], Any]] = {}
"""What calls each recipe: by the chapter's number and the function's name."""


def calls(name: str) -> Callable[[Callable[[Exported], Any]], Callable[[Exported], Any]]:
    def register(call: Callable[[Exported], Any]) -> Callable[[Exported], Any]:
        CALLS[name] = call
        return call

    return register


def outcome(name: str, model: Exported) -> str:
    """Return "right", or the sentence with which a recipe refuses a model or calls its file wrong.

    Raises:
        Exception: An exception of the recipe's own, which names nothing that the model's owner knows.
    """
    try:
        with silenced(), contextlib.redirect_stdout(io.StringIO()):
            result = CALLS[name](model)
    except REFUSALS as error:
        return str(error)
    return "right" if result is None or result is True else str(result)


REFUSALS = (
    ValueError,
    AssertionError,  # by Comparison.raise_if_wrong
    NotForSuch,
    UserError,
    onnx.checker.ValidationError,
    ort.capi.onnxruntime_pybind11_state.Fail,
    ort.capi.onnxruntime_pybind11_state.NotImplemented,
    ort.capi.onnxruntime_pybind11_state.InvalidArgument,
)
"""What a recipe may raise: an explanation of its own, or the words of torch.export about a
module, or those of onnx and ONNX Runtime about a file."""


def judged(comparison: Any) -> Any:
    return comparison.right or comparison.problem


def arrays(model: Exported) -> list[dict[str, np.ndarray]]:
    """The inputs as arrays."""
    if any(leaf.dtype == torch.bfloat16 for leaf in tensors(model)):
        raise NotForSuch("takes arrays, and NumPy has no bfloat16")
    return model.feeds()


def tensors(model: Exported) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves((model.ordinary.args, model.ordinary.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def results(path: Path, feeds: list[dict[str, Any]]) -> list[list[Any]]:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


def half_of_the_largest(path: Path, feeds: list[dict[str, Any]]) -> float:
    """The error that is allowed in eight bits: random weights lose more than trained ones."""
    floats = [value for values in results(path, feeds) for value in values if value.dtype.kind == "f"]
    return max((float(np.abs(value[np.isfinite(value)]).max(initial=0)) / 2 for value in floats), default=0)


@calls("01 check_export")
def _(model: Exported) -> Any:
    ordinary = model.ordinary
    return judged(
        check_export(
            ordinary.module, ordinary.args, model.path, kwargs=ordinary.kwargs, others=ordinary.others
        )
    )


@calls("02 compare_paths")
def _(model: Exported) -> Any:
    ordinary, call = model.ordinary, recipe("02").compare_paths
    if ordinary.kwargs is None:
        verdicts = call(ordinary.module, model.path, dict(enumerate(cases(model))))
    else:
        pairs = [(ordinary.args, ordinary.kwargs), *ordinary.others]
        verdicts = {
            number: call(ordinary.module, model.path, {"": args}, kwargs=kwargs)[""]
            for number, (args, kwargs) in enumerate(pairs)
        }
    return next((verdict for verdict in verdicts.values() if verdict != "right"), True)


@calls("03 export_checked")
def _(model: Exported) -> Any:
    ordinary = model.ordinary
    given = {"kwargs": ordinary.kwargs, **ordinary.options, "dynamic_shapes": ordinary.shapes}
    with remembered_export(model):
        call = recipe("03").export_checked
        call(ordinary.module, ordinary.args, model.folder / "model.onnx", ordinary.others, **given)


@calls("04 accepted")
def _(model: Exported) -> Any:
    answers = [answer for _, answer in recipe("04").accepted(model.path, *arrays(model))]
    return next((answer for answer in answers if not answer.startswith("accepted")), True)


@calls("04b check_sizes")
def _(model: Exported) -> Any:
    ordinary, captured = model.ordinary, None
    named = ordinary.kwargs is not None
    first = (ordinary.args, ordinary.kwargs) if named else ordinary.args
    if model.exporter == "torch.export" and expectations.tried(
        "08 export_checked", model.name, model.exporter
    ):
        with contextlib.suppress(UserError):  # torch.export alone unrolls a GRU: no free length
            captured = torch.export.export(
                ordinary.module, ordinary.args, ordinary.kwargs, dynamic_shapes=captured_shapes(model)
            )
    call = recipe("04b").check_sizes
    given = {"kwargs": {}} if named else {}
    rows = call(ordinary.module, model.path, captured, first, *ordinary.others, **given)
    answers = [row[part] for row in rows for part in ("capture", "file")]
    return next((answer for answer in answers if answer not in ("right", "no guard failed")), True)


@calls("05 export_with_rules")
def _(model: Exported) -> Any:
    ordinary = model.ordinary
    changes_nothing = {type(ordinary.module): type(ordinary.module).forward}
    options = ordinary.export_options(dynamo=EXPORTERS[model.exporter])
    given = {"kwargs": ordinary.kwargs, "others": ordinary.others, **options}
    with remembered_export(model):
        call = recipe("05").export_with_rules
        target = model.folder / "model.onnx"
        _, comparison = call(ordinary.module, changes_nothing, ordinary.args, target, **given)
    return judged(comparison)


@calls("06 trace_breakers")
def _(model: Exported) -> Any:
    ordinary = model.ordinary
    lines = recipe("06").trace_breakers(ordinary.module, ordinary.args, ordinary.kwargs)
    return not lines or "; ".join(lines.values())


@calls("07 missing_links")
def _(model: Exported) -> Any:
    missing = recipe("07").missing_links(model.ordinary.module, model.ordinary.args)
    return not any(missing.values()) or str(missing)


@calls("08 export_checked")
def _(model: Exported) -> Any:
    recipe("08").export_checked(model.ordinary.module, cases(model), dynamic_shapes=model.ordinary.shapes)


def in_runtime(path: Path, feed: dict[str, Any]) -> list[Any]:
    return results(path, [feed])[0]


@calls("10 try_target")
def _(model: Exported) -> Any:
    arrays(model)
    given = {"kwargs": model.ordinary.kwargs, "others": model.ordinary.others}
    call = recipe("10").try_target
    return judged(call(model.ordinary.module, model.ordinary.args, model.path, in_runtime, **given))


@calls("10b what_runs")
def _(model: Exported) -> Any:
    in_file, running, where = recipe("10b").what_runs(model.path)
    return in_file.total() > 0 < running.total() and set(where) <= {"CPUExecutionProvider"}


@calls("10c where_wrong")
def _(model: Exported) -> Any:
    ordinary, call = model.ordinary, recipe("10c").where_wrong
    return call(ordinary.module, ordinary.args, model.path, kwargs=ordinary.kwargs)


@calls("11 edit_file")
def _(model: Exported) -> Any:
    feeds = arrays(model)
    expected = results(model.original, feeds)
    recipe("11").edit_file(model.path, model.folder / "edited.onnx", lambda proto: None, feeds, expected)


@contextlib.contextmanager
def remembered_export(model: Exported) -> Iterator[None]:
    """Let torch.onnx.export copy the file that it made of this model before, which takes no time."""
    real, ordinary = torch.onnx.export, model.ordinary
    usual = pytree.tree_structure((ordinary.passed, ordinary.kwargs))

    def export(module: Any, args: Any = (), file: Any = None, **options: Any) -> Any:
        if pytree.tree_structure((args, options.get("kwargs"))) != usual:
            return real(module, args, file, **options)
        for source in sorted(model.path.parent.glob(f"{model.path.name}*")):
            file.with_name(source.name.replace(model.path.name, file.name)).write_bytes(source.read_bytes())
        return None

    with patch.object(torch.onnx, "export", export if ordinary.is_plain else real):
        yield


def cases(model: Exported) -> list[tuple[Any, ...]]:
    if model.ordinary.kwargs is not None:
        raise NotForSuch("takes tuples of arguments, no keywords")
    return [model.ordinary.args, *model.ordinary.others]


def captured_shapes(model: Exported) -> Any:
    """`dynamic_shapes` for torch.export, which takes no names."""
    return pytree.tree_map_only(str, lambda _: torch.export.Dim.DYNAMIC, model.ordinary.shapes)


@calls("12 first_failure")
def _(model: Exported) -> Any:
    ordinary = model.ordinary
    given = {"kwargs": ordinary.kwargs, "others": ordinary.others, "dynamic_shapes": ordinary.shapes}
    with remembered_export(model):
        call = recipe("12").first_failure
        step, reason = call(
            ordinary.module, ordinary.args, model.folder / "model.onnx", verbose=False, **given
        )
    return step == "right" or f"{step}: {reason}"


@calls("13 ship")
def _(model: Exported) -> Any:
    cases = {}
    feeds = arrays(model)
    names = [value.name for value in ort.InferenceSession(model.original).get_outputs()]
    for number, (feed, outputs) in enumerate(zip(feeds, results(model.original, feeds), strict=True)):
        values = feed | dict(zip(names, outputs, strict=True))
        cases |= {f"{number}/{name}": value for name, value in values.items()}
    np.savez(model.folder / "cases.npz", **cases)
    shipping = recipe("13")
    limited = shipping.within_limits(model.path, newest_ir=10, newest_opset=20)
    rehearsal = functools.partial(shipping.rehearse, examples=model.folder / "cases.npz")
    shipping.ship(limited, model.folder / "shipped.onnx", rehearsal, version="1")
    rehearsal(model.folder / "shipped.onnx")


@calls("15 quantise")
def _(model: Exported) -> Any:
    feeds, quantising, target = arrays(model), recipe("15"), model.folder / "small.onnx"
    quantising.quantise(model.path, target, feeds)
    quantising.prove(model.original, target, feeds, half_of_the_largest(model.original, feeds))


@calls("15b quantise_matmuls")
def _(model: Exported) -> Any:
    feeds = arrays(model)
    recipe("15b").quantise_matmuls(
        model.path, model.folder / "small.onnx", feeds, half_of_the_largest(model.original, feeds)
    )


@calls("15c store_in_4_bits")
def _(model: Exported) -> Any:
    feeds, storing = arrays(model), recipe("15c")
    storing.store_in_4_bits(storing.prepare(onnx.load(model.path)), model.folder / "small.onnx", feeds, 0.3)


@calls("16 float16_faults")
def _(model: Exported) -> Any:
    feeds, halving = arrays(model), recipe("16")
    half = model.folder / "half.onnx"
    halving.halve(model.path, half)
    faults = halving.float16_faults(model.original, half, feeds[0], tolerance=2e-2)
    return not any(faults.values()) or "; ".join(
        f"{fault}: {names}" for fault, names in faults.items() if names
    )


@calls("17 check_cache")
def _(model: Exported) -> Any:
    checked = recipe("17").check_cache
    if not model.name.startswith(("decoder", "rotary")):
        return checked(model.path, np.zeros((1, 2), np.int64), np.zeros((1, 2, 1)), [1, 1])
    torch.manual_seed(1)
    ids, empty = torch.randint(0, 40, (2, 9)), torch.zeros(2, 2, 0, 8)
    named = "dictionary" in model.name
    with torch.no_grad():
        whole = model.ordinary.module(ids, {"key": empty, "value": empty} if named else [empty, empty])
    inputs, outputs = ([v.name for v in values()] for values in _ends(model.path))
    caches = [name for name in inputs if name.startswith("past")]
    present = dict(zip(caches, outputs[1:], strict=True)).__getitem__
    given = {"tokens": inputs[0], "output": outputs[0], "present": present}
    return checked(
        model.path, ids.numpy(), (whole["logits"] if named else whole[0]).numpy(), [4, 1, 1, 3], **given
    )


def _ends(path: Path) -> tuple[Any, Any]:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.get_inputs, session.get_outputs


@calls("17b check_padding")
def _(model: Exported) -> Any:
    session, padding = ort.InferenceSession(model.path, providers=["CPUExecutionProvider"]), recipe("17b")
    names, output = [value.name for value in session.get_inputs()], session.get_outputs()[0].name

    given = (
        {"names": names[:3], "output": output}
        if model.name.startswith(("encoder", "left_padded", "bert"))
        else {}
    )

    def run(*arrays: np.ndarray) -> np.ndarray:
        return padding.run_empty(session, *arrays, **given)

    padding.check_padding(run, [[1, 2, 3, 4], [5], [6, 7]])


@calls("18 check_sequences")
def _(model: Exported) -> Any:
    ordinary = model.ordinary
    return judged(recipe("18").check_sequences(ordinary.module.eval(), ordinary.draw, model.path))


@calls("19 check_counts")
def _(model: Exported) -> Any:
    comparison, _ = recipe("19").check_counts(model.ordinary.module, cases(model), model.path)
    return judged(comparison)


JUDGES = {
    "01 check_export": "gru_list_of_outputs",
    "02 compare_paths": "gru_list_of_outputs",
    "03 export_checked": "gru_list_of_outputs",
    "04b check_sizes": "gru_list_of_outputs",
    "05 export_with_rules": "gru_list_of_outputs",
    "10 try_target": "gru_list_of_outputs",
    "10c where_wrong": "gru_list_of_outputs",
    "11 edit_file": "gru_list_of_outputs",
    "12 first_failure": "gru_list_of_outputs",
    "13 ship": "gru_list_of_outputs",
    "15 quantise": "decoder_cache_list",
    "16 float16_faults": "decoder_cache_list",
    "17 check_cache": "decoder_cache_list",
    "17b check_padding": "left_padded_decoder",
    "18 check_sequences": "gru_list_of_outputs",
    "19 check_counts": "gru_list_of_outputs",
}
"""The recipes that judge a file, and a model of several outputs on which they must find what is wrong."""

NOT_TRIED = {
    "09 free_resize": "makes an operator for a forward of one's own",
    "14 compare": "measures a time",
    "14 load_test": "measures a time",
}
"""Recipes that say nothing of a model."""
