"""What the exercises of lab 5 share: modules that shift, inputs for them, and a check of output types."""

from collections.abc import Iterable

import onnx
import torch

from onnxlab.kit.judging import evidence
from onnxlab.kit.outcome import Wrong
from onnxlab.labs.lab05_bitshift.shifts import Pair, Shapes, type_name, width
from onnxlab.message import Message

_NAMES = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}


def all_shifts(values: torch.Tensor, by: Iterable[int] | None = None) -> Pair:
    """Pair each value with each number of bits in `by`; by default with all that the type has.

    Example:
        >>> x, k = all_shifts(torch.tensor([-5, 7], dtype=torch.int8), (0, 7))
        >>> x.tolist(), k.tolist()
        ([-5, 7, -5, 7], [0, 0, 7, 7])
    """
    bits = range(width(values.dtype)) if by is None else by
    k = torch.tensor(list(bits), dtype=values.dtype)
    return values.repeat(len(k)), k.repeat_interleave(len(values))


def broadcast_advice(shapes: Shapes) -> str:
    """Return what to look at if a model is wrong for shapes that are broadcast."""
    x, k = (list(shape) for shape in shapes)
    return Message("Here x has the shape {x} and k {k}: axes are broadcast as in torch.", x=x, k=k)


def require_output_types(model: onnx.ModelProto, *dtypes: torch.dtype) -> None:
    """Require that each output has the type of the number that was shifted."""
    types = [_NAMES.get(output.type.tensor_type.elem_type, "another type") for output in model.graph.output]
    names = [type_name(dtype) for dtype in dtypes]
    if types != names:
        msg = Message(
            "{types} came out where {names} went in.",
            types=" and ".join(types) or "No output",
            names=" and ".join(names),
        )
        raise Wrong(msg, "Which type does the last operator of your function give?", evidence=evidence(model))
