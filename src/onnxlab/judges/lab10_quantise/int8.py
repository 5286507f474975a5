"""A network quantised to 8 bits, with the same numbers on every processor."""

import tempfile
import warnings
from collections.abc import Iterable
from copy import deepcopy
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


class _Batches(CalibrationDataReader):  # type: ignore[misc]  # ships no types
    def __init__(self, batches: Iterable[dict[str, Array]]) -> None:
        self._batches = iter(batches)

    def get_next(self) -> dict[str, Array] | None:
        return next(self._batches, None)


def run_in_int8(
    model: onnx.ModelProto, batches: Iterable[dict[str, Array]], feeds: dict[str, Array]
) -> list[Array]:
    """Quantise a network by `quantize_static`, and run it.

    Weights are unsigned and the graph is not optimised: values are rounded to 8 bits and computed in float32.
    ONNX Runtime's fused kernels for signed weights give other numbers on processors with VNNI than without.

    Args:
        model: The network, in float32.
        batches: The calibration data.
        feeds: The inputs of the run.
    """
    network = deepcopy(model)  # quantize_static removes the weights from the model that it gets
    reads = {name for node in network.graph.node for name in node.input}
    weights = [tensor for tensor in network.graph.initializer if tensor.name in reads]
    del network.graph.initializer[:]
    network.graph.initializer.extend(weights)  # the runtime logs a warning for each that nothing reads
    # Without this mark, the log recommends preprocessing.
    onnx.helper.set_model_props(network, {"onnx.quant.pre_process": "onnxruntime.quant"})
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):  # about nan
        target = Path(folder) / "int8.onnx"
        unsigned = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8}
        quantize_static(network, target, _Batches(batches), per_channel=True, **unsigned)
        quantised = onnx.load(target)
    return list(open_session(quantised, optimize=False).run(None, feeds))


def relative_error(expected: Array, got: Array) -> float:
    """Return the root mean square of the error by that of the expected numbers: 0.02 for 2 %."""
    error = np.square(got.astype(np.float64) - expected).mean()
    return float(np.sqrt(error / np.square(expected.astype(np.float64)).mean()))
