"""The parts of an ATen operator: what PyTorch decomposes it into before the torch.export exporter translates.

An operator without a rule of its own still exports if PyTorch knows a decomposition and every part has a
rule. The decomposition is run with fake tensors, and the parts are what it calls. Fake tensors have a shape
and an element type but no numbers, so trying arguments that are guessed from the operator's schema costs a
millisecond.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import torch

# torch has no public way to ask which decompositions the exporter uses, or to run one without numbers.
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.onnx._internal.exporter import _decomp
from torch.utils._python_dispatch import TorchDispatchMode

from onnxlab.exporters.silence import silenced

Parts = tuple[str, ...]
Table = Mapping[Any, Callable[..., Any]]

_DEEPEST = 30
# Words in the names of operators that are not run, those of special hardware or layouts and of training:
# guessed arguments can crash the process.
_NOT_RUN = (
    "backward",
    "cudnn",
    "cufft",
    "fbgemm",
    "gradients",
    "mkldnn",
    "nested",
    "pack",
    "quantized",
    "sparse",
)


def decompositions(registered: Set[Any]) -> Table:
    """Return the table of decompositions that the torch.export exporter uses.

    Args:
        registered: The overloads that have a rule, which are left whole.

    Example:
        >>> torch.ops.aten.huber_loss.default in decompositions(set())
        True
    """
    return _decomp.create_onnx_friendly_decomposition_table(set(registered))


def qualified(overload: torch._ops.OpOverload) -> str:
    """Return an overload's name with its namespace.

    Example:
        >>> qualified(torch.ops.aten.add.Tensor)
        'aten::add.Tensor'
    """
    return str(overload.name())  # type: ignore[no-untyped-call]  # torch has no type for it


def is_composite(overload: torch._ops.OpOverload) -> bool:
    """Whether PyTorch implements the operator by calling others, without a kernel of its own.

    Example:
        >>> is_composite(torch.ops.aten.hstack.default), is_composite(torch.ops.aten.asinh.default)
        (True, False)
    """
    return torch._C._dispatch_has_kernel_for_dispatch_key(qualified(overload), "CompositeImplicitAutograd")


def parts_of(
    overloads: list[torch._ops.OpOverload], table: Table, registered: Set[str]
) -> dict[str, Parts | None]:
    """Run the decomposition of each overload that has one.

    Args:
        overloads: The overloads, without a rule of their own.
        table: The decompositions, as `decompositions` gives them.
        registered: The names of the overloads with a rule; they are not decomposed further.

    Returns:
        For every overload that can be decomposed the names of its parts, in the order of their first call;
        None if no guessed arguments were accepted.

    Example:
        >>> square = torch.ops.aten.square.default
        >>> parts_of([square], decompositions(set()), {"aten::pow.Tensor_Scalar"})
        {'aten::square': ('aten::pow.Tensor_Scalar',)}
    """
    parts: dict[str, Parts | None] = {}
    with silenced(), torch.no_grad():  # failed guesses are logged with their tracebacks
        for overload in overloads:
            if overload in table or is_composite(overload):
                parts[qualified(overload)] = _decomposed(overload, table, registered)
    return parts


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Record the operators that are called, after the table's decompositions."""

    def __init__(self, table: Table, registered: Set[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table, self.registered, self.depth = table, registered, 0
        self.parts: dict[str, None] = {}

    def __torch_dispatch__(  # type: ignore[no-untyped-def]
        self, func, types, args=(), kwargs=None
    ):
        name, kwargs = func.name(), kwargs or {}
        if name.startswith("prim::"):  # a question such as "on which device?"
            return func(*args, **kwargs)
        decomposition = self.table.get(func, func.decompose if is_composite(func) else None)
        if decomposition is None or name in self.registered or self.depth > _DEEPEST:
            self.parts[name] = None
            return func(*args, **kwargs)
        self.depth += 1
        try:
            with self:
                return decomposition(*args, **kwargs)
        finally:
            self.depth -= 1


def _decomposed(overload: torch._ops.OpOverload, table: Table, registered: Set[str]) -> Parts | None:
    name = qualified(overload).partition("::")[2]
    if any(word in name for word in _NOT_RUN) or (name.startswith("_") and overload not in table):
        return None
    function = table.get(overload, overload)
    with FakeTensorMode():
        for args, kwargs in guesses(overload._schema):
            recorder = _Recorder(table, registered)
            try:
                with recorder:
                    function(*args, **kwargs)
            except Exception:
                continue
            return tuple(recorder.parts)
    return None


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
_STRINGS = {"reduction": "mean", "mode": "trunc", "rounding_mode": "trunc", "indexing": "ij", "reduce": "sum"}
_LISTS = {"dim": [-1], "dims": [0], "pad": [1, 1], "padding": [0], "stride": [], "normalized_shape": [4]}
_ONE_PER_AXIS = ("kernel_size", "output_size")  # of the axes after batch and channel
_WHOLE_NUMBERS = ("index", "indices")


def guesses(schema: torch.FunctionSchema) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield positional and keyword arguments to try, the likelier ones first.

    Only arguments without a default are filled in. Nothing is yielded for an operator that needs other
    arguments than tensors, numbers, strings and lists of them.

    Args:
        schema: An overload's `_schema`.

    Example:
        >>> args, kwargs = next(guesses(torch.ops.aten.logit.default._schema))
        >>> [tuple(arg.shape) for arg in args], kwargs
        ([(4, 4)], {})
    """
    required = [argument for argument in schema.arguments if not argument.has_default_value()]
    yielded = set()
    for pool in _POOLS:
        try:
            values = [_value(argument, pool, index) for index, argument in enumerate(required)]
        except KeyError:
            return
        description = str([(v.shape, v.dtype) if isinstance(v, torch.Tensor) else v for v in values])
        if description in yielded:
            continue
        yielded.add(description)
        positional = [v for a, v in zip(required, values, strict=True) if not a.kwarg_only]
        yield positional, {a.name: v for a, v in zip(required, values, strict=True) if a.kwarg_only}


def _value(argument: Any, pool: Any, index: int) -> Any:
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
        return _STRINGS.get(argument.name, "mean")
    if kind == "bool":
        return argument.name == "training"  # in training no running statistics are needed
    simple: dict[str, Any] = {"int": 1, "SymInt": 1, "float": 0.5, "number": 2}
    simple |= {"List[float]": [1.0], "List[bool]": [False]}
    return simple[kind]
