"""Whether an exported file does what its PyTorch module does."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import torch
from torch.utils import _pytree as pytree

from onnxlab.errors import InputMismatch
from onnxlab.message import Message
from onnxlab.runtime.comparison import ComparedOutput, Comparison, as_tensor, compare_outputs, named_leaves
from onnxlab.runtime.refusals import named_reason

Module = Callable[..., Any]
Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


def check_export(
    module: Module,
    args: object,
    path: str | PathLike[str] | bytes | None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    others: Sequence[object] = (),
    rtol: float | None = None,
    atol: float | None = None,
    providers: Sequence[Any] | None = None,
    session: ort.InferenceSession | None = None,
) -> Comparison:
    """Compare an exported file with its PyTorch module, at the example and at other inputs.

    The module is called in eval mode, without gradients and on copies of the inputs; its mode and its buffers
    are put back. It is called twice at the example: a module that disagrees with itself, because it is random
    or keeps a state, cannot be compared. The arguments are given to the file's inputs by name where the names
    are those of the parameters, and otherwise in order. Outputs are compared as by `compare_outputs`. Nothing
    is raised for a file that is wrong, cannot be loaded or refuses an input: the result says so.

    `torch.onnx.testing.assert_onnx_program` and `torch.onnx.verification` compare a file with the captured
    program, and so do not see what the capture got wrong. ONNX's backend tests compare with stored outputs.

    Args:
        module: The module, or a function.
        args: The arguments of the example; a single one needs no tuple. A dict in last place is an argument,
            not keyword arguments.
        path: The file. It is opened by path, so that the weights beside it are read.
        kwargs: The keyword arguments of the example.
        others: Other inputs: of other sizes, of other values. Each is a tuple of arguments; if `kwargs` is
            given (it may be empty), it can be a pair `(args, kwargs)`.
        rtol: See `compare_outputs`.
        atol: See `compare_outputs`.
        providers: Execution providers; by default the CPU's. One that is asked for and not there is an error.
        session: A session to use in place of one for `path`, for instance with options or for a model in
            memory.

    Returns:
        The comparison: `bool(...)` and `.right` say whether all is right, `print` shows a table, `.problem`
        is the first thing that is wrong, and `.raise_if_wrong()` raises it.

    Example:
        >>> from onnxlab.history import recorded_graph
        >>> from onnxlab.runtime.session import open_session
        >>> silu = open_session(recorded_graph("1.8.1", "silu_9"))
        >>> check_export(torch.nn.SiLU(), torch.ones(3), None, session=silu)
        inputs               output  largest difference
        -------------------  ------  ------------------  -----
        example: input (3,)  2       0                   right
        >>> check_export(torch.nn.Sigmoid(), torch.zeros(3), None, session=silu).problem
        'example: input (3,): 2: 3 of 3 elements, most at [0]: 0 instead of 0.5'
    """
    try:
        session = session or ort.InferenceSession(path, providers=providers or ["CPUExecutionProvider"])
    except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
        return Comparison((ComparedOutput("the file", problem=f"cannot be loaded: {named_reason(error)}"),))
    registered = session.get_providers()
    asked = [provider if isinstance(provider, str) else provider[0] for provider in providers or ()]
    if missing := ", ".join(name for name in asked if name not in registered):
        problem = f"asked for {missing}, got {', '.join(registered)}"
        return Comparison((ComparedOutput("providers", problem=problem),))
    cases = [_case((args, kwargs or {})), *(_case(other, pair=kwargs is not None) for other in others)]
    rows: list[ComparedOutput] = []
    notes: list[str] = []
    for number, (arguments, keywords) in enumerate(cases):
        case = f"others[{number - 1}]" if number else "example"
        tried = f"{case}: {_described(_parameters(module, arguments, keywords))}"
        who = "PyTorch"
        try:
            expected = _expected(module, arguments, keywords, notes, twice=not number)
            who = "the file"
            actual = run_session(session, feed(session, module, arguments, keywords))
        except Exception as error:  # PyTorch's, the runtime's, or of arguments that fit no input
            rows.append(ComparedOutput(who, problem=named_reason(error), inputs=tried))
        else:
            compared = compare_outputs(expected, actual, rtol=rtol, atol=atol)
            rows += [replace(row, inputs=tried) for row in compared.outputs]
    return Comparison(tuple(rows), tuple(dict.fromkeys(notes)))


def _case(given: object, *, pair: bool = True) -> Arguments:
    """Return positional and keyword arguments; `given` may be a pair of them only if `pair` says so."""
    args: object = given
    kwargs: Mapping[str, Any] = {}
    if pair and isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], Mapping):
        args, kwargs = given
    return args if isinstance(args, tuple) else (args,), kwargs


def _described(parameters: Iterable[tuple[str, Any]]) -> str:
    texts = [
        f"{name} {tuple(value.shape)}" if hasattr(value, "shape") else f"{name}={value!r}"
        for name, value in parameters
    ]
    return textwrap.shorten(", ".join(texts), 100, placeholder=" ...")


def _parameters(
    module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, defaults: bool = False
) -> list[tuple[str, Any]]:
    """Name every leaf of the arguments after its parameter, in the order of the signature."""
    try:
        signature = inspect.signature(getattr(module, "forward", module))
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):  # the arguments do not fit, or a function in C has no signature
        return named_leaves((args, kwargs))
    if defaults:
        bound.apply_defaults()
    arguments = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= arguments.pop(parameter.name, {})
    return named_leaves(arguments)


def _expected(
    module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], notes: list[str], *, twice: bool
) -> Any:  # noqa: ANN401 - whatever the module returns
    """Call the module as it is shipped: in eval mode, without gradients; leave it as it was."""

    def call(*, evaluating: bool = True) -> Any:  # noqa: ANN401 - as above
        copied, keywords = pytree.tree_map_only(torch.Tensor, _copy, (args, dict(kwargs)))
        with _restored(module, notes, evaluating=evaluating), torch.no_grad():
            return pytree.tree_map_only(torch.Tensor, _copy, module(*copied, **keywords))

    expected = call()
    if twice and not compare_outputs(expected, call()):
        raise ValueError("two calls with the same input differ: the module is random or keeps a state")
    if twice and any(part.training for part in _parts(module)):
        try:
            with torch.random.fork_rng(devices=[]):
                same = bool(compare_outputs(expected, call(evaluating=False)))
        except Exception:  # a BatchNorm refuses a batch of 1 in training mode
            same = False
        if not same:
            notes.append(
                Message("the module is in training mode, where it gives other outputs; compared in eval mode")
            )
    return expected


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor: forward may change its input in place; an output may be a view of it or of a buffer."""
    return tensor.detach().clone()


def _parts(module: Module) -> list[torch.nn.Module]:
    return list(module.modules()) if isinstance(module, torch.nn.Module) else []


@contextmanager
def _restored(module: Module, notes: list[str], *, evaluating: bool) -> Iterator[None]:
    """Give every part its mode and its buffers back; note the buffers that changed."""
    parts = _parts(module)
    training = [part for part in parts if part.training]
    buffers = [
        (part, name, value, value.clone())
        for part in parts
        for name, value in part.named_buffers(recurse=False)
    ]
    # The flag itself: the module of an exported program refuses eval().
    for part in training:
        part.training = not evaluating
    try:
        yield
    finally:
        for part in training:
            part.training = True
        for part, name, value, copied in buffers:
            if not torch.equal(getattr(part, name), copied):
                if evaluating:
                    notes.append(
                        Message("a call changes the buffer {name}; a file keeps no state", name=name)
                    )
                value.copy_(copied)
                setattr(part, name, value)


def feed(
    session: ort.InferenceSession, module: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Assign the arguments of a call to the inputs of the file that was exported from it.

    By name, if the names are those of the parameters. The TorchScript exporter writes the number of an
    argument into a name that nobody chose, `onnx::Mul_0`; it counts the default values and drops None.
    Otherwise in order.

    Raises:
        InputMismatch: The arguments cannot be assigned.
    """
    inputs = [value.name for value in session.get_inputs()]
    parameters = _parameters(module, args, kwargs, defaults=True)
    tensors = [(name, value) for name, value in parameters if hasattr(value, "shape")]
    if not kwargs and sorted(inputs) == sorted(name for name, _ in tensors):
        return dict(
            zip(inputs, (value for _, value in tensors), strict=True)
        )  # names can lie: the order does not
    named = {name: value for number, (key, value) in enumerate(parameters) for name in (key, f"::{number}")}
    keys = [re.sub(r"^\w+::\w+_(\d+)$", r"::\1", name).removesuffix("_orig") for name in inputs]
    if all(key in named for key in keys):
        return {name: named[key] for name, key in zip(inputs, keys, strict=True)}
    in_call = [value for _, value in named_leaves((args, dict(kwargs))) if hasattr(value, "shape")]
    for values in (in_call, [value for _, value in parameters]):
        if len(values) == len(inputs):
            return dict(zip(inputs, values, strict=True))
    raise InputMismatch(
        "The file's inputs ({names}) do not fit the arguments ({other_names}).",
        "An export drops what is not used, and names that were not chosen.",
        "Export with `input_names`, the names of the parameters.",
        names=", ".join(inputs),
        other_names=", ".join(name for name, _ in parameters),
    )


def run_session(session: ort.InferenceSession, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Run a session and return its outputs by name; bfloat16, which NumPy does not have, as torch tensors."""
    tensors = {name: as_tensor(value) for name, value in inputs.items()}
    copies = {
        name: value.clone(memory_format=torch.contiguous_format)
        if isinstance(value, torch.Tensor)
        else value  # texts: a copy already
        for name, value in tensors.items()
    }
    outputs = [value.name for value in session.get_outputs()]
    if not any("bfloat16" in value.type for value in (*session.get_inputs(), *session.get_outputs())):
        results = session.run(None, {name: np.asarray(value) for name, value in copies.items()})
        return dict(zip(outputs, results, strict=True))
    given = {
        name: ort.OrtValue.from_dlpack(value)
        if value.dtype == torch.bfloat16
        else ort.OrtValue.ortvalue_from_numpy(value.numpy())
        for name, value in copies.items()
    }
    values = session.run_with_ort_values(None, given)
    results = [
        torch.utils.dlpack.from_dlpack(value._get_c_value())
        if "bfloat16" in value.data_type()
        else value.numpy()
        for value in values
    ]
    return dict(zip(outputs, results, strict=True))
