"""One door to both exporters: the model as bytes, and warnings and failures as data.

Notebooks show the plain `torch.onnx.export`; this is for tables, labs and tests.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import onnx
import torch

from onnxlab.errors import ExportFailed, UnknownRecord
from onnxlab.exporters.silence import Notice, silenced
from onnxlab.exporters.stages import Failure, Stage, failure
from onnxlab.model.load import load, strip_origins
from onnxlab.runtime.session import feeds, open_session

__all__ = [
    "Export",
    "Exporter",
    "Failure",
    "Notice",
    "Stage",
    "export",
    "exported_bytes",
    "without_tqdm_thread",
]

_LARGEST_FILE = 2**31 - 1  # bytes in one protobuf message


def exported_bytes(
    model: torch.nn.Module | torch.export.ExportedProgram,
    args: tuple[Any, ...],
    *,
    dynamo: bool,
    options: dict[str, Any],
) -> bytes:
    """Export a model and return its one file, weights included, without the paths of source files.

    Args:
        model: What `torch.onnx.export` takes.
        args: The example inputs.
        dynamo: Which exporter: torch.export's, or TorchScript's.
        options: Further arguments of `torch.onnx.export`.

    Raises:
        ExportFailed: If the model is too large for one file.
        ValueError: If an option would abort the process inside torch.
        Exception: Whatever `torch.onnx.export` raises.
    """
    if not dynamo:
        _refuse_negative_axes(options.get("dynamic_axes") or {})
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as name, tempfile.TemporaryDirectory() as artifacts:
        file = Path(name) / "model.onnx"
        options = {"artifacts_dir": artifacts, **options, "dynamo": dynamo, "external_data": False}
        torch.onnx.export(model, args, str(file), **options)
        # Both exporters put the weights of a very large model beside the file, whatever they were asked.
        size = sum(entry.stat().st_size for entry in Path(name).iterdir())
        if size > _LARGEST_FILE:
            msg = f"The model has {size / 1e9:.1f} GB; one ONNX file holds {_LARGEST_FILE / 1e9:.1f} GB."
            raise ExportFailed(msg, then="Call torch.onnx.export with external_data=True instead.")
        proto = load(file)
    strip_origins(proto)
    data: bytes = proto.SerializeToString()
    return data


def _refuse_negative_axes(dynamic_axes: Mapping[str, Iterable[int]]) -> None:
    for name, axes in dynamic_axes.items():
        if any(axis < 0 for axis in axes):
            msg = f"A negative axis of {name!r} in dynamic_axes would abort the process inside torch."
            raise ValueError(msg)


@contextlib.contextmanager
def without_tqdm_thread() -> Iterator[None]:
    """Keep tqdm from starting its thread with the first bar: for a process that forks after an export.

    torch.export draws its progress by tqdm where that is installed, and a process with two threads cannot be
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


Exportable: TypeAlias = torch.nn.Module | torch.export.ExportedProgram
Arguments: TypeAlias = torch.Tensor | tuple[Any, ...]


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
    """What came of an export.

    Attributes:
        exporter: The exporter that was used.
        model: The file's bytes; also present when the model was written but then found to be wrong.
        notices: What was warned about.
        failure: Why and where it failed, or None.
        seconds: How long `torch.onnx.export` took.
    """

    exporter: Exporter
    model: bytes | None = field(repr=False)
    notices: tuple[Notice, ...]
    failure: Failure | None
    seconds: float = field(compare=False)

    @property
    def ok(self) -> bool:
        """Whether there is a model and every step tried with it succeeded."""
        return self.failure is None

    @property
    def proto(self) -> onnx.ModelProto:
        """The model.

        Raises:
            ExportFailed: If no model was written.
        """
        if self.model is None:
            assert self.failure is not None
            msg = f"The {self.exporter} exporter wrote no model: it failed at stage {self.failure.stage}."
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

    Nothing is printed. The model comes as one file, weights included, without the paths of the source files
    that the exporters write into it. The module stays in the mode it was in.

    Args:
        model: What `torch.onnx.export` takes.
        args: The example inputs.
        exporter: Which exporter to use.
        run: Whether to load the model into ONNX Runtime and run it with the example inputs.
        **options: Further arguments of `torch.onnx.export`.

    Returns:
        The model, or the failure.

    Raises:
        TypeError: If an option is given that this function decides: `f`, `dynamo`, `external_data`.
        UnknownRecord: If the TorchScript exporter is gone and this call was not recorded.

    Example:
        >>> relu = export(torch.nn.ReLU(), torch.ones(2), Exporter.TORCHSCRIPT, input_names=["x"])
        >>> relu.ok, relu.proto.graph.input[0].name
        (True, 'x')
        >>> failure = export(torch.nn.ReLU(), torch.ones(2), Exporter.TORCHSCRIPT, opset_version=99).failure
        >>> failure.stage.value, failure.message
        ('translate', 'Unsupported onnx_opset_version: 99')
    """
    if taken := {"f", "dynamo", "external_data"} & options.keys():
        msg = f"export() decides {', '.join(sorted(taken))} itself"
        raise TypeError(msg)
    if isinstance(model, torch.export.ExportedProgram):
        exporter = Exporter.TORCH_EXPORT  # torch takes no other way, whatever is asked for
    args = (args,) if isinstance(args, torch.Tensor) else args
    examples: Sequence[object] = (args, options.get("kwargs"))
    if isinstance(model, torch.export.ExportedProgram) and not args:
        examples = model.example_inputs or ()  # it has been exported with some
    modes = _modes(model)
    written: bytes | None = None
    problem: Failure | None = None
    with silenced() as heard:
        started = time.perf_counter()
        try:
            written = exported_bytes(model, args, dynamo=exporter.dynamo, options=options)
        except UnknownRecord:  # says nothing about the model
            raise
        except Exception as error:
            problem = failure(error, Stage.SERIALISE if isinstance(error, ExportFailed) else None)
        finally:
            seconds = time.perf_counter() - started
            for module, training in modes:
                module.training = training
        if written is not None:
            problem = _try_out(written, examples, run=run)
    return Export(exporter, written, heard.notices, problem, seconds)


def _modes(model: object) -> list[tuple[torch.nn.Module, bool]]:
    if not isinstance(model, torch.nn.Module):
        return []
    # torch.jit.freeze takes the mode away: what is frozen has none to go back to.
    return [(module, module.training) for module in model.modules() if hasattr(module, "training")]


def _try_out(model: bytes, examples: Sequence[object], *, run: bool) -> Failure | None:
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
