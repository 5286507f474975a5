"""Exporting a learner's module, or with a learner's rule; and the line of the learner's code that failed."""

import functools
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType, FunctionType, TracebackType
from typing import Any

import numpy as np
import onnx
import torch

from onnxlab.errors import chain
from onnxlab.exporters.export import Exporter, Stage, export
from onnxlab.exporters.symbolics import symbolic
from onnxlab.kit.exercise import Judge
from onnxlab.kit.outcome import RETURN, Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.message import Message, with_templates
from onnxlab.runtime.comparison import compare_outputs
from onnxlab.runtime.refusals import named_reason

# These failures of a written model are left to the judges: they can show a counterexample.
_JUDGED_LATER = (Stage.CHECK, Stage.LOAD, Stage.RUN)


def axis_options(exporter: Exporter, axes: Mapping[str, Mapping[int, str]]) -> dict[str, Any]:
    """Return the options of an export that name its inputs and their dynamic axes.

    Example:
        >>> axis_options(Exporter.TORCH_EXPORT, {"x": {0: "batch"}})
        {'input_names': ['x'], 'dynamic_shapes': ({0: 'batch'},)}
    """
    if exporter is Exporter.TORCHSCRIPT:
        return {"input_names": list(axes), "dynamic_axes": dict(axes)}
    return {"input_names": list(axes), "dynamic_shapes": tuple(axes.values())}


def of_both_exporters(
    *judges: Callable[[Exporter, Work, np.random.Generator], None],
) -> tuple[Judge, ...]:
    """Return judges that ask the same of each exporter's model."""
    return tuple(functools.partial(judge, exporter) for exporter in Exporter for judge in judges)


def exported(
    work: Work,
    name: str,
    module: torch.nn.Module,
    inputs: torch.Tensor | tuple[Any, ...],
    exporter: Exporter,
    **options: Any,  # noqa: ANN401 - handed to torch as they are
) -> None:
    """Export a module and write the model into the folder under a name, even if ONNX Runtime cannot load it.

    Raises:
        Exception: What a learner's own code raised during the export.
        Wrong: If the exporter failed by itself.
    """
    with _export_case(name, module, inputs, exporter, options.get("opset_version")):
        result = export(module, inputs, exporter, run=False, **options)
        failure = result.failure
        if failure is not None and failure.stage not in _JUDGED_LATER:
            if failure.exception is not None and own_line(failure.exception):
                raise failure.exception
            reason = first_line(chain(failure.exception)[-1]) if failure.exception else failure.message
            text = Message(
                "The {exporter} exporter failed at stage {failure.stage}: {reason}",
                exporter=exporter,
                failure=failure,
                reason=reason,
            )
            raise Wrong(text, RETURN if "NoneType" in reason else "") from failure.exception
    if result.model is not None:
        work.write_model(name, result.model)


def _export_case(
    name: str, module: torch.nn.Module, inputs: object, exporter: Exporter, opset: int | None
) -> AbstractContextManager[None]:
    if opset:
        where = Message(
            "the {exporter} export of {name} at opset {opset}",
            exporter=exporter,
            name=name.replace("_", " "),
            opset=opset,
        )
    else:
        where = Message("the {exporter} export of {name}", exporter=exporter, name=name.replace("_", " "))
    return trying(where, module=module, inputs=inputs)


def exported_or_stopped(
    work: Work,
    name: str,
    module: torch.nn.Module,
    inputs: torch.Tensor | tuple[Any, ...],
    exporter: Exporter,
    **options: Any,  # noqa: ANN401 - handed to torch as they are
) -> None:
    """Export a module, or write the reason of the failure for `judging.require_exported`.

    For exercises with several exports: a failure of one must not hide what is wrong with the others.
    """
    try:
        exported(work, name, module, inputs, exporter, **options)
    except Exception as error:
        if raised_by_stub(error):
            raise
        if isinstance(error, Wrong):
            reason, where = error.message, own_line(error.__cause__) if error.__cause__ else ""
        else:
            reason = Message(
                "The {exporter} exporter stopped: {why}", exporter=exporter, why=first_line(own_error(error))
            )
            where = own_line(error)
        work.write_json(name, with_templates([reason, where]))


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
) -> None:
    """Export with the TorchScript exporter while a symbolic function is registered, as `exported` does.

    The rule, for an operator such as "aten::asinh", holds from the opset at which the model is exported.
    """
    case = _export_case(name, module, inputs, Exporter.TORCHSCRIPT, opset)
    with case, _checked_return(rule) as checked, symbolic(operator, checked, opset):
        exported(work, name, module, inputs, Exporter.TORCHSCRIPT, opset_version=opset, **options)


def exported_with_translation(
    work: Work,
    name: str,
    overload: Any,  # noqa: ANN401 - torch's own type
    translation: Callable[..., Any],
    module: torch.nn.Module,
    inputs: torch.Tensor | tuple[Any, ...],
    **options: Any,  # noqa: ANN401 - handed to torch as they are
) -> None:
    """Export with the torch.export exporter and a translation, as `exported` does.

    The translation is for one overload, such as `torch.ops.aten.asinh.default`.
    """
    case = _export_case(name, module, inputs, Exporter.TORCH_EXPORT, options.get("opset_version"))
    with case, _checked_return(translation) as checked:
        options["custom_translation_table"] = {overload: checked}
        exported(work, name, module, inputs, Exporter.TORCH_EXPORT, **options)


@contextmanager
def _checked_return(rule: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Raise `Wrong` if a rule returns None: the exporters' errors name neither the rule nor the reason."""
    if not isinstance(rule, FunctionType):  # an onnxscript function, which the exporter has to recognise
        yield rule
        return
    returned_none = False

    @functools.wraps(rule)
    def checked(*inputs: object, **attributes: object) -> object:
        nonlocal returned_none
        result = rule(*inputs, **attributes)
        returned_none = returned_none or result is None
        return result

    try:
        yield checked
    except Exception:
        if not returned_none:
            raise
    if returned_none:
        msg = Message(
            "{name} returned None; the value that it makes in the graph was expected.", name=rule.__name__
        )
        raise Wrong(msg, RETURN)


def require_type(value: object, kind: type | tuple[type, ...], what: str) -> None:
    """Refuse what an answer returned if it is of another type; `what` names the answer's call.

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
    names = " or ".join(cls.__name__ for cls in kinds)
    article = "an" if names[:1].lower() in "aeiou" else "a"
    got = (
        Message("None") if value is None else f"{type(value).__name__} ({' '.join(str(value).split())[:60]})"
    )
    raise Wrong(
        "{subject} returned {got}; {article} {names} was expected.",
        RETURN if value is None else "",
        subject=what,
        got=got,
        article=article,
        names=names,
    )


def require_model(value: object, what: str) -> onnx.ModelProto:
    """Return a model that an answer made; refuse what is none, or is empty; `what` names the answer's call.

    Raises:
        Wrong: With what is missing.

    Example:
        >>> try:
        ...     require_model(onnx.ModelProto(), "lower_for()")
        ... except Wrong as wrong:
        ...     print(wrong.message)
        lower_for() returned an empty ModelProto.
    """
    require_type(value, onnx.ModelProto, what)
    assert isinstance(value, onnx.ModelProto)
    if not value.ByteSize():
        msg = Message("{subject} returned an empty ModelProto.", subject=what)
        raise Wrong(msg, "Is the model that you made the one that you return?")
    for field, name in (("graph", "graph"), ("ir_version", "IR version")):
        if not value.HasField(field):
            msg = Message("{subject} returned a ModelProto without {name}.", subject=what, name=name)
            raise Wrong(
                msg, "`onnx.helper.make_model(graph, ir_version=..., opset_imports=...)` makes one with both."
            )
    return value


def require_untouched(given: Iterable[object], before: Iterable[object]) -> None:
    """Refuse an answer that wrote to its arguments; models of ONNX may be changed."""
    for argument, original in zip(given, before, strict=True):
        if not isinstance(original, onnx.ModelProto) and not _same(argument, original):
            raise Wrong(
                "An argument was changed by the call.",
                "It belongs to the caller. Which operation of yours writes to its argument, as `mul_` does?",
            )


def _same(argument: Any, original: Any) -> bool:  # noqa: ANN401 - of any type
    """Compare two arguments by value, in every tensor and every array; nan is nan."""
    if isinstance(original, torch.nn.Module):
        return _same(dict(argument.state_dict()), dict(original.state_dict()))
    if isinstance(original, dict):
        same_keys = argument.keys() == original.keys()
        return same_keys and all(_same(argument[key], original[key]) for key in original)
    if isinstance(original, list):
        return len(argument) == len(original) and all(map(_same, argument, original))
    if isinstance(original, torch.Tensor | np.ndarray):
        same_shape = argument.shape == original.shape
        return same_shape and bool(compare_outputs(original, argument, rtol=0, atol=0))
    return bool(argument == original)


def require_unchanged(given: torch.nn.Module, fresh: torch.nn.Module, inputs: Iterable[torch.Tensor]) -> None:
    """Refuse an answer that changed the module it was given, or its outputs."""
    look_at = "It belongs to the caller. Which line of yours writes to it or its weights?"
    with trying("the model", model=fresh), torch.no_grad():
        if (type(given), given.training, *vars(given)) != (type(fresh), fresh.training, *vars(fresh)):
            msg = "The model that was passed in has changed: its class, mode or attributes differ."
            raise Wrong(msg, look_at)
        for x in inputs:
            outputs = [value if isinstance(value, tuple) else (value,) for value in (given(x), fresh(x))]
            if not all(map(torch.equal, *outputs)):
                msg = "The model that was passed in has changed: its outputs differ from before."
                raise Wrong(msg, look_at)


_OURS = str(Path(__file__).parents[1])
_STANDARD = str(Path(os.__file__).parent)
_LINE = 120  # characters of a line of code, or of a message, that are shown

_Namespace = dict[str, object]
_namespaces: ContextVar[tuple[_Namespace, ...]] = ContextVar("namespaces of the learner's code", default=())


@contextmanager
def learners_code(answers: Iterable[object]) -> Iterator[None]:
    """Declare which code is the learner's in a block: the modules of these answers.

    The path of a file does not tell: packages can be in a virtual environment, a user's site or a folder of
    their own. A frame is the learner's if it has the global names of an answer (in a notebook, those of all
    its cells), or of the program that runs.

    Example:
        >>> def answer(x):
        ...     return x.shpe
        >>> with learners_code([answer]):
        ...     try:
        ...         answer(1)
        ...     except AttributeError as error:
        ...         print(own_line(error))
        line 2: return x.shpe
    """
    namespaces = (vars(sys.modules["__main__"]), *filter(None, map(_namespace, answers)))
    token = _namespaces.set(namespaces)
    try:
        yield
    finally:
        _namespaces.reset(token)


def _namespace(answer: object) -> _Namespace | None:
    """Return the global names of an answer's code, unless it is a library's."""
    try:
        while isinstance(answer, functools.partial):
            answer = answer.func
        kind = answer if isinstance(answer, type) else type(answer)
        parts = [answer, *(part for base in kind.__mro__ for part in vars(base).values())]
        return next(filter(None, map(_globals, parts)), None)
    except Exception:  # an object of a learner's class can raise anything here
        return None


def _globals(function: object) -> _Namespace | None:
    innermost = inspect.unwrap(function) if callable(function) else function
    file = getattr(getattr(innermost, "__code__", None), "co_filename", _OURS)
    library = file.startswith((_OURS, _STANDARD)) or {"site-packages", "dist-packages"} & {*Path(file).parts}
    return None if library else getattr(innermost, "__globals__", None)


def own_line(error: BaseException) -> str:
    """Return the innermost line of the learner's code in the traceback of an error, or an empty string.

    Exporters wrap what a symbolic function raises; the causes of the error are searched as well.
    """
    return _located(error)[1]


def own_error(error: BaseException) -> BaseException:
    """Return the cause of an error that the learner's code raised, or the error itself."""
    return _located(error)[0]


def _located(error: BaseException) -> tuple[BaseException, str]:
    """Return the exception that the learner's code raised, and the line."""
    for exception in reversed(chain(error)):
        frames = [(frame, line) for frame, line in _frames(exception.__traceback__) if is_learners(frame)]
        if frames:
            frame, number = frames[-1]
            text = linecache.getline(frame.f_code.co_filename, number, frame.f_globals).strip()
            return exception, Message("line {number}: {code}", number=number, code=text[:_LINE])
    if isinstance(error, SyntaxError) and error.text:
        return error, Message("line {number}: {code}", number=error.lineno, code=error.text.strip()[:_LINE])
    return error, ""


def raised_by_stub(error: BaseException) -> bool:
    """Whether an untouched exercise raised an error: `raise NotImplementedError` in the learner's code."""
    for exception in chain(error):
        if isinstance(exception, NotImplementedError):
            frames = [frame for frame, _ in _frames(exception.__traceback__)]
            if frames and is_learners(frames[-1]):
                return True
    return False


def first_line(error: BaseException) -> str:
    r"""Return an error's class and the sentence of its text that says what is wrong.

    >>> first_line(ValueError("one\ntwo"))
    'ValueError: one'
    """
    return named_reason(error, 2 * _LINE)


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def is_learners(frame: FrameType) -> bool:
    """Whether a frame runs the learner's code, as `learners_code` declares it."""
    # Dataclasses and named tuples compile methods from text, with the global names of whoever asks for them.
    if frame.f_code.co_filename == "<string>":
        return False
    return any(frame.f_globals is names for names in _namespaces.get())
