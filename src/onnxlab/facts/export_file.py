"""An export as the bytes of one file: large models and dangerous arguments refused, source paths removed."""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from onnxlab.errors import ExportFailed
from onnxlab.facts.loading import load
from onnxlab.facts.origins import strip_origins

__all__ = ["exported_bytes"]

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
