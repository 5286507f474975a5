"""Recordings: the course's snippets in torch 1.7.1 to 1.12.1, its models in eight programs and old runtimes.

Each version of torch was run with the onnx and onnxruntime of its day (the fact `versions` names them). The
exporter of those years is the one called TorchScript today. The recordings ship with the package.

Graphs, returned by `recorded_graph`:

- `model_2_plain`, `_trace`, `_script` (also `_3_`, `_70_`): a convolution repeated 2, 3 or 70 times,
  exported as a plain, a traced and a scripted module. Torch 1.7.1 could not export the scripted one. With
  70, plain and traced are 70 Conv in every version and kept for 1.8.1 only.
- `loop_nint_plain_int`, `_plain_tensor`, `_script_int`, `_script_tensor`: the trip count is an argument.
- `if_trace`, `if_script`: a branch on the data.
- `model_static`, `model_dynamic_0`, `model_dynamic_23` (axes as lists), `model_dynamic_0_dict`: dynamic
  axes.
- `no_names`, `noparams`, `kiai`: no names given, `export_params=False`, `keep_initializers_as_inputs=True`.
- `num_int`, `num_float`, `num_tensor`: a number as the second input. `a`: the model in which `.item()`
  becomes a constant.
- `isin`, `isin_tr`: `is_in_onnx_export`, and the same traced before the export.
- `asinh_custom`: a custom Asinh. `bic11`, `bicsi`, `newinterp`: bicubic with a constant, `.item()`, input
  scale.
- `rshift_int32_o9`, `lshift_uint8_o11`, ...: a bit shift, its type and its opset.
- `silu_9`, `silu_11`, `silu_None`: SiLU at an opset (None: the default).
- `conv_bn`, `bn_conv`: folding of BatchNorm in eval mode; `_tr` in training mode, `_nf` without constant
  folding, `_pe` with TrainingMode.PRESERVE in eval mode.
- `mp9`, `mp11`: max pooling with indices.

Facts, returned by `recorded_fact`, have one of these forms:

- An export (`ch_loop_n2_script_with_example_outputs`, `ch_static`, `if_script`, `item`, `asinh_o9`,
  `silu_o11`, `conv_bn_training_PRESERVE_train`, ...): `ok`, `warnings`, and either `graph` (`ir`, `opsets`,
  `inputs`, `outputs`, `nodes`, `n_init`, `init`) or `error` (the class and the first lines).
- `nine_cells`: "Input[i] on model_... .onnx" to "succeed (shape)" or "error class: text".
- `shifts`: "rshift int32 opset9" to the nodes, torch's result and the runtime's.
- `cmp`: largest absolute differences between torch and the runtime, by graph or comparison.
- `opset_range`: opset to the opsets of the model, or the error. `default_opset` and `stable_opsets`: from
  the exporter's source (null if that version had them elsewhere).
- `versions`, `export_signature`, `symbolic_files`, `bicubic_lines`, `asinh_in_symbolic_files`: the
  installation.
- `item_consts`, `is_in_onnx_export_eff`, `maxpool_idx_o11_vals`, ...: measured values. `extra`: single
  errors.

`back_ends` has `measured` (year and month), `versions` (of torch and of every program) and `models`: by name,
what the model `shows` and its `results`. A result has a `verdict`, "right", "wrong" or "refused", and what
the program `says`: its message, or the numbers that are wrong; from ncnn also the `layers` of its converter.
`python -m measurements.back_ends` measures it again.

`recorded_runtime` returns what seven releases of ONNX Runtime did with files of today's exporters;
tools/record_runtimes.py measures it again.
"""

import difflib
import json
from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import onnx

from onnxlab.errors import UnknownRecord
from onnxlab.message import Message
from onnxlab.model.load import load

VERSIONS = ("1.7.1", "1.8.1", "1.9.1", "1.10.2", "1.11.0", "1.12.1")
"""The recorded torch versions, oldest first."""

RUNTIMES = ("1.15.1", "1.17.3", "1.18.1", "1.20.1", "1.22.1", "1.23.2", "1.26.0")
"""The recorded releases of ONNX Runtime, oldest first."""

_RECORDED = files("onnxlab").joinpath("assets", "recorded")


def names(version: str) -> list[str]:
    """Return the names of the graphs recorded for a torch version.

    Raises:
        UnknownRecord: If that version was not recorded.

    Example:
        >>> [name for name in names("1.8.1") if name.startswith("model_2")]
        ['model_2_plain', 'model_2_script', 'model_2_trace']
    """
    files = (entry.name for entry in _folder(version).iterdir())
    return sorted(name.removesuffix(".onnx") for name in files if name.endswith(".onnx"))


def recorded_graph(version: str, name: str) -> onnx.ModelProto:
    """Return a model, one of `names(version)`, that one of `VERSIONS` wrote: see the top of this module.

    Raises:
        UnknownRecord: If there is no such version or graph.

    Example:
        >>> [node.op_type for node in recorded_graph("1.8.1", "model_2_script").graph.node]
        ['Constant', 'Constant', 'Loop']
    """
    recorded = names(version)
    if name not in recorded:
        raise _missing("graph", name, version, recorded)
    return load((_folder(version) / f"{name}.onnx").read_bytes())


def keys(version: str) -> list[str]:
    """Return the keys of the facts recorded for a torch version.

    Raises:
        UnknownRecord: If that version was not recorded.

    Example:
        >>> "nine_cells" in keys("1.8.1")
        True
    """
    return list(_facts(version))


def recorded_fact(version: str, key: str) -> Any:  # noqa: ANN401 - JSON of any shape
    """Return a fact that was measured with a torch version, one of `VERSIONS`, as plain data.

    The key is one of `keys(version)`, described at the top of this module.

    Raises:
        UnknownRecord: If there is no such version or fact.

    Example:
        >>> recorded_fact("1.8.1", "nine_cells")["Input[0] on model_static.onnx"]
        'succeed (1, 3, 8, 8)'
        >>> recorded_fact("1.8.1", "nine_cell")
        Traceback (most recent call last):
        ...
        onnxlab.errors.UnknownRecord: There is no recorded fact 'nine_cell' of torch 1.8.1.
        Near it: nine_cells...
        ...
    """
    facts = _facts(version)
    if key not in facts:
        raise _missing("fact", key, version, facts)
    return deepcopy(facts[key])  # the caller may change it


def back_ends() -> dict[str, Any]:
    """Return the results of eight programs with the course's models, as plain data.

    A result is "right" if every output agrees with torch to 0.001, absolute and relative.

    Example:
        >>> record = back_ends()
        >>> results = record["models"]["attention_1"]["results"]
        >>> [program for program, result in results.items() if result["verdict"] == "right"]
        ['ONNX Runtime', 'onnx.reference', 'OpenVINO', 'OpenCV']
    """
    record: dict[str, Any] = _read("back_ends.json")
    return record


def recorded_runtime(release: str) -> dict[str, Any]:
    """Return what a release of ONNX Runtime, one of `RUNTIMES`, did with files of newer and newer versions.

    Returns:
        `newest_ir` and `newest_opset`: the newest that it loads. `ir_message` and `opset_message`: how it
        refuses the next one. `files`: a file's name to "right", "wrong" or the error. `with_numpy_2`, for
        releases before 1.19: "pip refuses", or the error of the import.

    Raises:
        UnknownRecord: If that release was not recorded.

    Example:
        >>> recorded_runtime("1.17.3")["newest_ir"], recorded_runtime("1.17.3")["newest_opset"]
        (9, 20)
    """
    if release not in RUNTIMES:
        raise UnknownRecord(
            "Nothing was recorded with ONNX Runtime {release}.",
            then="The recorded releases are {runtimes}.",
            release=release,
            runtimes=", ".join(RUNTIMES),
        )
    facts: dict[str, Any] = _read("runtimes.json")[release]
    return facts


@cache
def _facts(version: str) -> dict[str, Any]:
    facts: dict[str, Any] = _read(_folder(version).name, "facts.json")
    return facts


def _folder(version: str) -> Traversable:
    if version not in VERSIONS:
        raise UnknownRecord(
            "Nothing was recorded with torch {version}.",
            then="The recorded versions are {versions}.",
            version=version,
            versions=", ".join(VERSIONS),
        )
    return _RECORDED / version


def _read(*path: str) -> Any:  # noqa: ANN401 - JSON of any shape
    return json.loads(_RECORDED.joinpath(*path).read_text(encoding="utf-8"))


def _missing(kind: str, name: str, version: str, recorded: Iterable[str]) -> UnknownRecord:
    near = difflib.get_close_matches(name, recorded, n=3, cutoff=0.5)
    return UnknownRecord(
        "There is no recorded {kind} {name!r} of torch {version}.",
        Message("Near it: {near}.", near=", ".join(near)) if near else "",
        'history.{listing}("{version}") lists what there is.',
        kind=kind,
        name=name,
        version=version,
        listing="names" if kind == "graph" else "keys",
    )
