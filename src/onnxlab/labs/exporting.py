"""What an exercise does with a learner's module or rule before anything is judged: export it."""

from collections.abc import Callable
from typing import Any

import torch

from onnxlab.facts.export import Export, Exporter, Stage, export
from onnxlab.facts.symbolics import symbolic
from onnxlab.labs.blame import first_line, own_error, own_line, raised_by_stub
from onnxlab.labs.outcome import Wrong
from onnxlab.labs.work import Work

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
    result = export(module, inputs, exporter, run=False, **options)
    failure = result.failure
    if failure is not None and failure.stage not in _JUDGED_LATER:
        if failure.exception is not None and own_line(failure.exception):
            raise failure.exception
        message = (
            failure.causes[-1] if failure.causes else f"{failure.error}: {failure.message}".split("\n")[0]
        )
        text = f"The {exporter} exporter failed at stage {failure.stage}: {message[:240]}"
        raise Wrong(text) from failure.exception
    if result.model is not None:
        work.write_model(name, result.model)
    return result


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
    with symbolic(operator, rule, opset):
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
    options = {"custom_translation_table": table, **options}
    return exported(work, name, module, inputs, Exporter.TORCH_EXPORT, **options)


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
    got = "None" if value is None else f"{type(value).__name__} ({str(value)[:60]})"
    msg = f"{what} returned {got}; {article} {names} was expected."
    raise Wrong(msg, "Does every path through your function return something?" if value is None else "")
