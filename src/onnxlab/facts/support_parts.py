"""What PyTorch takes an ATen operator apart into before the torch.export exporter translates it.

An operator without a rule of its own still exports if PyTorch knows a decomposition and every part has a
rule. The decomposition is run with fake tensors, and the parts are what it calls.
"""

from collections.abc import Callable, Mapping, Set
from typing import Any

import torch

# torch has no public way to ask which decompositions the exporter uses, or to run one without numbers.
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.onnx._internal.exporter import _decomp
from torch.utils._python_dispatch import TorchDispatchMode

from onnxlab.facts.silence import silenced
from onnxlab.facts.support_examples import guesses

__all__ = ["Parts", "decompositions", "is_composite", "parts_of", "qualified"]

Parts = tuple[str, ...]
Table = Mapping[Any, Callable[..., Any]]

_DEEPEST = 30
# Operators of special hardware or layouts, and of training: guessed arguments can crash the process.
_NOT_TRIED = (
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
        registered: The names of the overloads with a rule; they are not taken apart further.

    Returns:
        For every overload that can be taken apart the names of its parts, in the order of their first call;
        None where no guessed arguments were accepted.

    Example:
        >>> square = torch.ops.aten.square.default
        >>> parts_of([square], decompositions(set()), {"aten::pow.Tensor_Scalar"})
        {'aten::square': ('aten::pow.Tensor_Scalar',)}
    """
    found: dict[str, Parts | None] = {}
    with silenced(), torch.no_grad():  # failed guesses are logged with their tracebacks
        for overload in overloads:
            if overload in table or is_composite(overload):
                found[qualified(overload)] = _tried(overload, table, registered)
    return found


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Note what is called, taking apart what the table knows."""

    def __init__(self, table: Table, registered: Set[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.table, self.registered, self.depth = table, registered, 0
        self.parts: dict[str, None] = {}

    def __torch_dispatch__(  # type: ignore[no-untyped-def]  # noqa: ANN204 (the signature is torch's: untyped)
        self,
        func,  # noqa: ANN001
        types,  # noqa: ANN001
        args=(),  # noqa: ANN001
        kwargs=None,  # noqa: ANN001
    ):
        name, kwargs = func.name(), kwargs or {}
        if name.startswith("prim::"):  # a question such as "on which device?"
            return func(*args, **kwargs)
        whole = name in self.registered or self.depth > _DEEPEST
        run = None if whole else self.table.get(func, func.decompose if is_composite(func) else None)
        if run is None:
            self.parts[name] = None
            return func(*args, **kwargs)
        self.depth += 1
        try:
            with self:
                return run(*args, **kwargs)
        finally:
            self.depth -= 1


def _tried(overload: torch._ops.OpOverload, table: Table, registered: Set[str]) -> Parts | None:
    name = qualified(overload).partition("::")[2]
    if any(word in name for word in _NOT_TRIED) or (name.startswith("_") and overload not in table):
        return None
    run = table.get(overload, overload)
    with FakeTensorMode():
        for args, kwargs in guesses(overload._schema):
            recorder = _Recorder(table, registered)
            try:
                with recorder:
                    run(*args, **kwargs)
            except Exception:
                continue
            return tuple(recorder.parts)
    return None
