"""Export with either exporter: the model as bytes, warnings and failures as data.

Notebooks show the plain `torch.onnx.export`; this is for tables, labs and tests.
"""

import contextlib
import copy
import inspect
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import onnx
import torch

from onnxlab.errors import ExportFailed, chain
from onnxlab.exporters.silence import Notice, silenced
from onnxlab.message import Message
from onnxlab.model.load import load, strip_origins
from onnxlab.runtime.session import feeds, open_session

_LARGEST_FILE = 2**31 - 1  # bytes in one protobuf message


Exportable: TypeAlias = torch.nn.Module | torch.export.ExportedProgram
Arguments: TypeAlias = torch.Tensor | tuple[Any, ...]


class Stage(StrEnum):
    """The stages of a model on its way from Python to a runtime, in order."""

    CAPTURE = "capture"
    """The exporter reads the arguments and records the graph: tracing, scripting or torch.export."""
    DECOMPOSE = "decompose"
    """torch.export only: large operators are replaced by smaller ones."""
    TRANSLATE = "translate"
    """Each PyTorch operator becomes ONNX operators, and the graph is optimised."""
    SERIALISE = "serialise"
    """The graph becomes bytes."""
    CHECK = "check"
    """`onnx.checker` reads the model."""
    LOAD = "load"
    """ONNX Runtime creates a session."""
    RUN = "run"
    """ONNX Runtime runs the model with the example inputs."""


@dataclass(frozen=True)
class Failure:
    """Why an export failed.

    Attributes:
        stage: The stage that failed.
        error: The class of the exception.
        message: Its text.
        causes: The exceptions that caused it, the nearest first, each as "class: first line".
        exception: The exception itself, with its traceback.
    """

    stage: Stage
    error: str
    message: str
    causes: tuple[str, ...] = ()
    exception: BaseException | None = field(default=None, repr=False, compare=False)


class Exporter(StrEnum):
    """PyTorch's two exporters."""

    TORCHSCRIPT = "TorchScript"
    TORCH_EXPORT = "torch.export"

    @property
    def dynamo(self) -> bool:
        """The value of `torch.onnx.export`'s argument that chooses this exporter."""
        return self is Exporter.TORCH_EXPORT


@dataclass(frozen=True)
class Export:
    """The outcome of an export.

    Attributes:
        exporter: The exporter that was used.
        model: The file's bytes, also where a later stage failed; None if no file was written.
        notices: The warnings.
        failure: The failure, or None.
        seconds: The duration of `torch.onnx.export`.
    """

    exporter: Exporter
    model: bytes | None = field(repr=False)
    notices: tuple[Notice, ...]
    failure: Failure | None
    seconds: float = field(compare=False)

    @property
    def ok(self) -> bool:
        """Whether every stage succeeded that was tried."""
        return self.failure is None

    @property
    def proto(self) -> onnx.ModelProto:
        """The model.

        Raises:
            ExportFailed: If no model was written.
        """
        if self.model is None:
            assert self.failure is not None
            msg = Message(
                "The {exporter} exporter wrote no model: it failed at stage {stage}.",
                exporter=self.exporter,
                stage=self.failure.stage,
            )
            reason = [f"{self.failure.error}: {self.failure.message}", *self.failure.causes][-1]
            raise ExportFailed(msg, reason.partition("\n")[0], "Look at .failure for the whole message.")
        return onnx.load_model_from_string(self.model)


def export(
    model: Exportable,
    args: Arguments,
    exporter: Exporter = Exporter.TORCH_EXPORT,
    *,
    run: bool = True,
    **options: Any,  # noqa: ANN401 - handed to torch as they are
) -> Export:
    """Export a model, check it, load it into ONNX Runtime, and run it; raise nothing when that fails.

    Nothing is printed. The model is one file, weights included, without the paths of source files that the
    exporters write into it. The module keeps its training or evaluation mode.

    Args:
        model: A module or an exported program.
        args: The example inputs.
        exporter: Which exporter to use.
        run: Whether to load the model into ONNX Runtime and run it with the example inputs.
        **options: Further arguments of `torch.onnx.export`.

    Raises:
        TypeError: If an option is passed that this function sets: `f`, `dynamo`, `external_data`.

    Example:
        >>> relu = export(torch.nn.ReLU(), torch.ones(2), Exporter.TORCHSCRIPT, input_names=["x"])
        >>> relu.ok, relu.proto.graph.input[0].name
        (True, 'x')
        >>> failure = export(torch.nn.ReLU(), torch.ones(2), Exporter.TORCHSCRIPT, opset_version=99).failure
        >>> failure.stage.value, failure.message
        ('translate', 'Unsupported onnx_opset_version: 99')
    """
    if refused_options := {"f", "dynamo", "external_data"} & options.keys():
        raise TypeError(f"export() decides {', '.join(sorted(refused_options))} itself")
    if isinstance(model, torch.export.ExportedProgram):
        exporter = Exporter.TORCH_EXPORT  # torch uses no other for it
    args = (args,) if isinstance(args, torch.Tensor) else args
    examples: Sequence[object] = (args, options.get("kwargs"))
    if isinstance(model, torch.export.ExportedProgram) and not args:
        examples = model.example_inputs or ()  # those it was captured with
    modes = _modes(model)
    written: bytes | None = None
    problem: Failure | None = None
    with silenced() as heard:
        started = time.perf_counter()
        try:
            written = _exported_bytes(model, args, dynamo=exporter.dynamo, options=options)
        except Exception as error:
            problem = failure(error, Stage.SERIALISE if isinstance(error, ExportFailed) else None)
        finally:
            seconds = time.perf_counter() - started
            for module, training in modes:
                module.training = training
        if written is not None:
            problem = _check_and_run(written, examples, run=run)
    return Export(exporter, written, heard.notices, problem, seconds)


def _exported_bytes(
    model: Exportable, args: tuple[Any, ...], *, dynamo: bool, options: dict[str, Any]
) -> bytes:
    """Export a model into one file, weights included, without the paths of source files; return its bytes."""
    for name, axes in ({} if dynamo else options.get("dynamic_axes") or {}).items():
        if any(axis < 0 for axis in axes):
            raise ValueError(
                f"A negative axis of {name!r} in dynamic_axes would abort the process inside torch."
            )
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as name, tempfile.TemporaryDirectory() as artifacts:
        file = Path(name) / "model.onnx"
        options = {"artifacts_dir": artifacts, **options, "dynamo": dynamo, "external_data": False}
        torch.onnx.export(model, args, str(file), **options)
        # Both exporters put the weights of a very large model beside the file, whatever the options.
        size = sum(entry.stat().st_size for entry in Path(name).iterdir())
        if size > _LARGEST_FILE:
            raise ExportFailed(
                "The model has {size:.1f} GB; one ONNX file holds {largest_file:.1f} GB.",
                then="Call torch.onnx.export with external_data=True instead.",
                size=size / 1e9,
                largest_file=_LARGEST_FILE / 1e9,
            )
        proto = load(file)
    strip_origins(proto)
    data: bytes = proto.SerializeToString()
    return data


def _modes(model: object) -> list[tuple[torch.nn.Module, bool]]:
    if not isinstance(model, torch.nn.Module):
        return []
    # torch.jit.freeze removes the mode of a module.
    return [(module, module.training) for module in model.modules() if hasattr(module, "training")]


def _check_and_run(model: bytes, examples: Sequence[object], *, run: bool) -> Failure | None:
    stage = Stage.CHECK
    try:
        onnx.checker.check_model(model)
        if run:
            stage = Stage.LOAD
            session = open_session(model)
            stage = Stage.RUN
            session.run(None, feeds(session, examples, spare=True))
    except Exception as error:
        return failure(error, stage)
    return None


# The stage at which an export failed, read from the exception and the frames of the exporter

# Functions of the exporters and their stages; the innermost one in the traceback decides.
_STAGE_OF_FUNCTION = {
    # the TorchScript exporter
    "_pre_trace_quant_model": Stage.CAPTURE,
    "_create_jit_graph": Stage.CAPTURE,
    "_get_example_outputs": Stage.CAPTURE,
    "_model_to_graph": Stage.TRANSLATE,
    "_add_onnxscript_fn": Stage.SERIALISE,
    "_export_file": Stage.SERIALISE,
    # the torch.export exporter
    "_prepare_exported_program_for_export": Stage.DECOMPOSE,
    "_exported_program_to_onnx_program": Stage.TRANSLATE,
    "convert_version": Stage.TRANSLATE,
    "optimize": Stage.TRANSLATE,
    "rename_inputs": Stage.TRANSLATE,
    "rename_outputs": Stage.TRANSLATE,
    "save": Stage.SERIALISE,
}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def failure(error: BaseException, stage: Stage | None = None) -> Failure:
    """Describe an exception as data.

    Args:
        error: What was raised.
        stage: The stage, if the caller knows it; otherwise it is read from the exporter's frames.

    Example:
        >>> failure(ValueError("too large"), Stage.SERIALISE)
        Failure(stage=<Stage.SERIALISE: 'serialise'>, error='ValueError', message='too large', causes=())
    """
    first, *causes = chain(error)
    return Failure(
        stage or _stage(error),
        type(first).__name__,
        _text(first),
        tuple(f"{type(cause).__name__}: {_text(cause).partition(chr(10))[0]}" for cause in causes),
        error,
    )


def _stage(error: BaseException) -> Stage:
    stage = Stage.CAPTURE  # also where arguments or options are refused before the capture
    for exception in chain(error):
        if type(exception).__name__ == "TorchExportError":
            return Stage.CAPTURE
        for function in _exporter_functions(exception.__traceback__):
            stage = _STAGE_OF_FUNCTION.get(function, stage)
    innermost = list(_exporter_functions(error.__traceback__))[-1:]
    if stage is Stage.CAPTURE and isinstance(error, RuntimeError) and innermost == ["_export"]:
        # Raised by C++ code that the TorchScript exporter's main function calls: the writer of the proto. It
        # refuses operators that the translation had no rule for and left as they were.
        return Stage.TRANSLATE if "Couldn't export" in str(error) else Stage.SERIALISE
    return stage


def _exporter_functions(traceback: TracebackType | None) -> Iterator[str]:
    while traceback:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        if module.startswith(("torch.onnx", "onnxscript")):
            yield traceback.tb_frame.f_code.co_name
        traceback = traceback.tb_next


def _text(error: BaseException) -> str:
    return _COLOUR.sub("", str(error)).strip()


# For a process that exports many models, or forks after the first


@contextlib.contextmanager
def without_tqdm_thread() -> Iterator[None]:
    """Keep tqdm from starting its thread with the first bar: for a process that forks after an export.

    torch.export shows its progress with tqdm if that is installed, and a process with two threads cannot be
    forked safely.
    """
    try:
        from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]  # ships no types
    except ImportError:
        yield
        return
    interval, tqdm.monitor_interval = tqdm.monitor_interval, 0
    try:
        yield
    finally:
        tqdm.monitor_interval = interval


_COLLECTED: dict[tuple[int, int], Any] = {}  # by opset and number of operators
_NAMESPACES = ("aten::", "prims::", "quantized_decomposed::", "torchvision::")  # of torchlib's operators


@contextlib.contextmanager
def remembered_torchlib() -> Iterator[None]:
    """Collect torchlib's translations once, and use them for all exports in this block and in later ones.

    The exporter parses the source of some 500 functions to collect them, which is half the time of a small
    model's export. The additions of one export (`custom_translation_table`) do not affect the next. The
    exporter leaves out translations whose operator is missing, so they are collected again after an import
    has brought operators that torchlib translates, as torchao does. An exporter that collects them in
    another way than torch 2.13 is left as it is.
    """
    try:
        from torch.onnx._internal.exporter._constants import TORCHLIB_OPSET
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        collect = ONNXRegistry.from_torchlib
    except (ImportError, AttributeError):
        yield
        return

    def from_torchlib(opset_version: int = TORCHLIB_OPSET) -> ONNXRegistry:
        names = torch._C._dispatch_get_all_op_names()
        key = opset_version, sum(name.startswith(_NAMESPACES) for name in names)
        if key not in _COLLECTED:
            _COLLECTED[key] = collect(opset_version)
        fresh: ONNXRegistry = copy.copy(_COLLECTED[key])
        fresh.functions = {target: list(translations) for target, translations in fresh.functions.items()}
        return fresh

    with _replaced(ONNXRegistry, "from_torchlib", staticmethod(from_torchlib)), _operators_walked_once():
        yield


@contextlib.contextmanager
def _operators_walked_once() -> Iterator[None]:
    """Look up the dispatcher's composite operators once for each walk over them, not for each namespace.

    An export walks over 28 namespaces twice, and every lookup goes through some 700 operators: a quarter of
    the time of a small model's export.
    """
    try:
        from torch._export import utils
        from torch.export import decomp_utils, exported_program

        look_up, walk = utils._materialize_cpp_cia_ops, utils._collect_all_valid_cia_ops
    except (ImportError, AttributeError):
        yield
        return

    def walk_once() -> object:
        look_up()
        with _replaced(utils, "_materialize_cpp_cia_ops", lambda: None):
            return walk()

    name = "_collect_all_valid_cia_ops"
    with _replaced(decomp_utils, name, walk_once), _replaced(exported_program, name, walk_once):
        yield


@contextlib.contextmanager
def _replaced(owner: object, name: str, value: object) -> Iterator[None]:
    own = inspect.getattr_static(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, own)
