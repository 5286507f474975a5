"""What an exercise does with a learner's module or rule before anything is judged: export it."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FunctionType
from typing import Any

import torch

from onnxlab.exporters.export import Export, Exporter, Stage, export
from onnxlab.exporters.symbolics import symbolic
from onnxlab.labs.kit.blame import chain, first_line, own_error, own_line, raised_by_stub
from onnxlab.labs.kit.case import trying
from onnxlab.labs.kit.outcome import RETURN, Wrong
from onnxlab.labs.kit.work import Work

__all__ = [
    "exported",
    "exported_or_stopped",
    "exported_with_rule",
    "exported_with_translation",
    "require_type",
]

# Failures of what was written are for the judging part: it names them better, with a counterexample.
_JUDGED_LATER = (Stage.CHECK, Stage.LOAD, Stage.RUN)


def exported(
    work: Work,
    name: str,
    module: torch.nn.Module,
    inputs: torch.Tensor | tuple[Any, ...],
    exporter: Exporter,
    **options: Any,  # noqa: ANN401 - handed to torch as they are
) -> Export:
    """Export a module and keep the model.

    Args:
        work: Where to keep it.
        name: The file's name.
        module: The module.
        inputs: The example inputs.
        exporter: Which exporter.
        **options: Further arguments of `torch.onnx.export`.

    Returns:
        The export, also when the model it wrote does not load.

    Raises:
        Exception: What a learner's own code raised during the export.
        Wrong: If the exporter failed by itself.
    """
    with _tried(name, module, inputs, exporter, options.get("opset_version")):
        result = export(module, inputs, exporter, run=False, **options)
        failure = result.failure
        if failure is not None and failure.stage not in _JUDGED_LATER:
            if failure.exception is not None and own_line(failure.exception):
                raise failure.exception
            reason = first_line(chain(failure.exception)[-1]) if failure.exception else failure.message
            text = f"The {exporter} exporter failed at stage {failure.stage}: {reason}"
            raise Wrong(text, RETURN if "NoneType" in reason else "") from failure.exception
    if result.model is not None:
        work.write_model(name, result.model)
    return result


def _tried(
    name: str, module: torch.nn.Module, inputs: object, exporter: Exporter, opset: int | None
) -> AbstractContextManager[None]:
    where = f"the {exporter} export of {name.replace('_', ' ')}" + (f" at opset {opset}" if opset else "")
    return trying(where, module=module, inputs=inputs)


def exported_or_stopped(
    work: Work,
    name: str,
    module: torch.nn.Module,
    inputs: torch.Tensor | tuple[Any, ...],
    exporter: Exporter,
    **options: Any,  # noqa: ANN401 - handed to torch as they are
) -> None:
    """Export a module, or keep why that did not work for `judging.require_exported`.

    For exercises that ask for several exports: what one of them refuses must not hide what is to be said of
    the others.

    Args:
        work: Where to keep the model, or the reason.
        name: The file's name.
        module: The module.
        inputs: The example inputs.
        exporter: Which exporter.
        **options: Further arguments of `torch.onnx.export`.
    """
    try:
        exported(work, name, module, inputs, exporter, **options)
    except Exception as error:
        if raised_by_stub(error):
            raise
        if isinstance(error, Wrong):
            reason, where = error.message, own_line(error.__cause__) if error.__cause__ else ""
        else:
            reason = f"The {exporter} exporter stopped: {first_line(own_error(error))}"
            where = own_line(error)
        work.write_json(name, [reason, where])


def exported_with_rule(
    work: Work,
    name: str,
    operator: str,
    rule: Callable[..., Any],
    module: torch.nn.Module,
    inputs: torch.Tensor | tuple[Any, ...],
    *,
    opset: int,
    **options: Any,  # noqa: ANN401 - handed to torch as they are
) -> Export:
    """Export with the TorchScript exporter while a symbolic function is registered.

    Args:
        work: Where to keep the model.
        name: The file's name.
        operator: The ATen operator, as "aten::asinh".
        rule: The symbolic function.
        module: The module.
        inputs: The example inputs.
        opset: The opset that the rule is registered for and the model is exported at.
        **options: Further arguments of `torch.onnx.export`.
    """
    tried = _tried(name, module, inputs, Exporter.TORCHSCRIPT, opset)
    with tried, _returning(rule) as watched, symbolic(operator, watched, opset):
        return exported(work, name, module, inputs, Exporter.TORCHSCRIPT, opset_version=opset, **options)


def exported_with_translation(
    work: Work,
    name: str,
    table: dict[Any, Callable[..., Any]],
    module: torch.nn.Module,
    inputs: torch.Tensor | tuple[Any, ...],
    **options: Any,  # noqa: ANN401 - handed to torch as they are
) -> Export:
    """Export with the torch.export exporter and a custom translation table.

    Args:
        work: Where to keep the model.
        name: The file's name.
        table: Translations by overload, as `{torch.ops.aten.asinh.default: asinh}`.
        module: The module.
        inputs: The example inputs.
        **options: Further arguments of `torch.onnx.export`.
    """
    with (
        _tried(name, module, inputs, Exporter.TORCH_EXPORT, options.get("opset_version")),
        ExitStack() as stack,
    ):
        watched = {overload: stack.enter_context(_returning(rule)) for overload, rule in table.items()}
        options = {"custom_translation_table": watched, **options}
        return exported(work, name, module, inputs, Exporter.TORCH_EXPORT, **options)


@contextmanager
def _returning(rule: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Say so if a rule returned None: the exporters' own errors name neither the rule nor the reason."""
    if not isinstance(rule, FunctionType):  # onnxscript's own kind, which the exporter has to recognise
        yield rule
        return
    forgotten = False

    @functools.wraps(rule)
    def watched(*inputs: object, **attributes: object) -> object:
        nonlocal forgotten
        result = rule(*inputs, **attributes)
        forgotten = forgotten or result is None
        return result

    try:
        yield watched
    except Exception:
        if not forgotten:
            raise
    if forgotten:
        msg = f"{rule.__name__} returned None; the value that it makes in the graph was expected."
        raise Wrong(msg, RETURN)


def require_type(value: object, kind: type | tuple[type, ...], what: str) -> None:
    """Refuse an answer of another type.

    Args:
        value: What an answer returned.
        kind: What it should be.
        what: How to name it, as "loop_count_as_input()".

    Raises:
        Wrong: If it is something else.

    Example:
        >>> try:
        ...     require_type(None, torch.nn.Module, "loop_count_as_input()")
        ... except Wrong as wrong:
        ...     print(wrong.message)
        loop_count_as_input() returned None; a Module was expected.
    """
    if isinstance(value, kind):
        return
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = " or ".join(each.__name__ for each in kinds)
    article = "an" if names[:1].lower() in "aeiou" else "a"
    got = "None" if value is None else f"{type(value).__name__} ({' '.join(str(value).split())[:60]})"
    msg = f"{what} returned {got}; {article} {names} was expected."
    raise Wrong(msg, RETURN if value is None else "")
