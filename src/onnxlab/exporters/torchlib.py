"""torchlib, the translations of the newer exporter: collected once for each opset, not in every export."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

__all__ = ["remembered_torchlib"]

_COLLECTED: dict[int, Any] = {}  # by opset


@contextlib.contextmanager
def remembered_torchlib() -> Iterator[None]:
    """Have all exports in the block, and in later ones, use the translations that the first one collected.

    The exporter parses the source of some 500 functions to collect them, which is half of a small model's
    export. What one export adds to them (`custom_translation_table`) the next does not see. An exporter that
    collects them in another way than that of torch 2.13 is left as it is.
    """
    try:
        from torch.onnx._internal.exporter._constants import TORCHLIB_OPSET
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        own = vars(ONNXRegistry)["from_torchlib"]
        collect = ONNXRegistry.from_torchlib
    except (ImportError, AttributeError, KeyError):
        yield
        return

    def from_torchlib(opset_version: int = TORCHLIB_OPSET) -> ONNXRegistry:
        if opset_version not in _COLLECTED:
            _COLLECTED[opset_version] = collect(opset_version)
        fresh: ONNXRegistry = copy.copy(_COLLECTED[opset_version])
        fresh.functions = {target: list(known) for target, known in fresh.functions.items()}
        return fresh

    setattr(ONNXRegistry, "from_torchlib", staticmethod(from_torchlib))  # noqa: B010 - mypy refuses to assign
    try:
        yield
    finally:
        setattr(ONNXRegistry, "from_torchlib", own)  # noqa: B010
