"""Example arguments for an ATen operator, made from its schema; nothing is computed with them.

A decomposition is a Python or C++ function: which operators it ends in is only known after it has been run.
Fake tensors have a shape and an element type but no numbers, so a few guesses cost a millisecond.
"""

from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["guesses"]

# Shapes and element types of the tensor arguments, in the order in which they are tried. Where an operator
# has several tensors, all but the first are of the second kind.
_POOLS: tuple[tuple[tuple[int, ...], torch.dtype, tuple[int, ...], torch.dtype], ...] = (
    ((4, 4), torch.float32, (4, 4), torch.float32),
    ((2, 3, 4, 4), torch.float32, (2, 3, 4, 4), torch.float32),
    ((2, 3, 4, 4), torch.float32, (3,), torch.float32),
    ((2, 4, 4), torch.float32, (2, 4, 4), torch.float32),
    ((4,), torch.float32, (4,), torch.float32),
    ((4, 4), torch.int64, (4, 4), torch.int64),
    ((4, 4), torch.bool, (4, 4), torch.bool),
    ((4, 4), torch.float32, (4,), torch.int64),
    ((4, 4), torch.float32, (4, 4), torch.int64),
    ((2, 4, 4, 4, 4), torch.float32, (4, 4, 4, 4, 4), torch.float32),
    ((4, 4), torch.float32, (), torch.float32),
)
_WORDS = {"reduction": "mean", "mode": "trunc", "rounding_mode": "trunc", "indexing": "ij", "reduce": "sum"}
_LISTS = {"dim": [-1], "dims": [0], "pad": [1, 1], "padding": [0], "stride": [], "normalized_shape": [4]}
_ONE_PER_AXIS = ("kernel_size", "output_size")  # of the axes after batch and channel
_WHOLE_NUMBERS = ("index", "indices")


def guesses(schema: torch.FunctionSchema) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield positional and keyword arguments to try, the likelier ones first.

    Only arguments without a default are filled in. Nothing is yielded for an operator that needs something
    else than tensors, numbers, words and lists of them.

    Args:
        schema: What an overload's `_schema` says about its arguments.

    Example:
        >>> args, kwargs = next(guesses(torch.ops.aten.logit.default._schema))
        >>> [tuple(arg.shape) for arg in args], kwargs
        ([(4, 4)], {})
    """
    needed = [argument for argument in schema.arguments if not argument.has_default_value()]
    seen = set()
    for pool in _POOLS:
        try:
            values = [_value(argument, pool, index) for index, argument in enumerate(needed)]
        except KeyError:
            return
        described = str([(v.shape, v.dtype) if isinstance(v, torch.Tensor) else v for v in values])
        if described in seen:
            continue
        seen.add(described)
        positional = [v for a, v in zip(needed, values, strict=True) if not a.kwarg_only]
        yield positional, {a.name: v for a, v in zip(needed, values, strict=True) if a.kwarg_only}


def _value(argument: Any, pool: Any, index: int) -> Any:  # noqa: ANN401 - torch has no type for it
    kind = str(argument.type)
    if kind.startswith("Optional["):
        return None
    shape, dtype = pool[:2] if index == 0 else pool[2:]
    if kind == "Tensor":
        return torch.empty(shape, dtype=torch.int64 if argument.name in _WHOLE_NUMBERS else dtype)
    if kind.startswith("List[Tensor") or kind == "List[Optional[Tensor]]":
        return [torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)]
    if argument.name in _ONE_PER_AXIS:
        return [2] * max(1, len(pool[0]) - 2)
    if kind in ("List[int]", "List[SymInt]"):
        return _LISTS.get(argument.name, [4, 4] if "size" in argument.name else [1])
    if kind == "str":
        return _WORDS.get(argument.name, "mean")
    if kind == "bool":
        return argument.name == "training"  # in training no statistics from before are needed
    simple: dict[str, Any] = {"int": 1, "SymInt": 1, "float": 0.5, "number": 2}
    simple |= {"List[float]": [1.0], "List[bool]": [False]}
    return simple[kind]
