"""What a network computes in 8 bits, the same on every processor."""

import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import (  # type: ignore[import-untyped]  # ships no types
    CalibrationDataReader,
    QuantType,
    quantize_static,
)

from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

__all__ = ["apart", "in_int8"]


class _Batches(CalibrationDataReader):  # type: ignore[misc]  # ships no types
    def __init__(self, batches: Iterable[dict[str, Array]]) -> None:
        self._left = iter(batches)

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


def in_int8(model: onnx.ModelProto, batch: dict[str, Array], feeds: dict[str, Array]) -> list[Array]:
    """Quantise a network as ONNX Runtime does, and run it.

    Unsigned weights and no optimisation: rounded to 8 bits, and computed in float32. So processors with and
    without VNNI, on which the fused kernels for signed weights differ, give the same.

    Args:
        model: The network, in float32.
        batch: What its activations' ranges are measured with.
        feeds: What it is run with.
    """
    given = onnx.ModelProto()  # a copy: quantize_static leaves the one it gets without weights
    given.CopyFrom(model)
    read = {name for node in given.graph.node for name in node.input}
    weights = [each for each in given.graph.initializer if each.name in read]
    del given.graph.initializer[:]
    given.graph.initializer.extend(weights)  # of each that nothing reads, the runtime's log would tell
    onnx.helper.set_model_props(
        given, {"onnx.quant.pre_process": "onnxruntime.quant"}
    )  # else the log recommends it
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):  # of nan, if any
        target = Path(folder) / "int8.onnx"
        unsigned = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8}
        quantize_static(given, target, _Batches([batch]), per_channel=True, **unsigned)
        quantised = onnx.load(target)
    return list(open_session(quantised, optimize=False).run(None, feeds))


def apart(right: Array, got: Array) -> float:
    """Return how large the error is, as a share of the numbers: root mean squares, 0.02 for 2 %."""
    error = np.square(got.astype(np.float64) - right).mean()
    return float(np.sqrt(error / np.square(right.astype(np.float64)).mean()))
