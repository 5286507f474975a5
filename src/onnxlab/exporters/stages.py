"""At which stage an export failed, read from the exception and the exporter's own frames."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType

__all__ = ["Failure", "Stage", "failure"]


class Stage(StrEnum):
    """The way of a model from Python to a runtime, in order."""

    CAPTURE = "capture"
    """The exporter reads the arguments and records the graph: tracing, scripting or torch.export."""
    DECOMPOSE = "decompose"
    """torch.export only: large operators are replaced by smaller ones."""
    TRANSLATE = "translate"
    """Each PyTorch operator becomes ONNX operators, and the graph is optimised."""
    SERIALISE = "serialise"
    """The graph becomes bytes."""
    CHECK = "check"
    """`onnx.checker` reads the model."""
    LOAD = "load"
    """ONNX Runtime creates a session."""
    RUN = "run"
    """ONNX Runtime runs the model with the example inputs."""


@dataclass(frozen=True)
class Failure:
    """Why an export failed.

    Attributes:
        stage: Where it happened.
        error: The class of the exception.
        message: Its text.
        causes: The exceptions behind it, from the outermost inwards, each as "class: first line".
        exception: The exception itself, for whoever looks for a line in its traceback.
    """

    stage: Stage
    error: str
    message: str
    causes: tuple[str, ...] = ()
    exception: BaseException | None = field(default=None, repr=False, compare=False)


# Functions of the exporters that tell the stage; the innermost one on the way to the error decides.
_STAGE_OF_FUNCTION = {
    # the TorchScript exporter
    "_pre_trace_quant_model": Stage.CAPTURE,
    "_create_jit_graph": Stage.CAPTURE,
    "_get_example_outputs": Stage.CAPTURE,
    "_model_to_graph": Stage.TRANSLATE,
    "_add_onnxscript_fn": Stage.SERIALISE,
    "_export_file": Stage.SERIALISE,
    # the torch.export exporter
    "_prepare_exported_program_for_export": Stage.DECOMPOSE,
    "_exported_program_to_onnx_program": Stage.TRANSLATE,
    "convert_version": Stage.TRANSLATE,
    "optimize": Stage.TRANSLATE,
    "rename_inputs": Stage.TRANSLATE,
    "rename_outputs": Stage.TRANSLATE,
    "save": Stage.SERIALISE,
}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def failure(error: BaseException, stage: Stage | None = None) -> Failure:
    """Describe an exception as data.

    Args:
        error: What was raised.
        stage: The stage, where the caller knows it; otherwise it is read from the exporter's frames.

    Example:
        >>> failure(ValueError("too large"), Stage.SERIALISE)
        Failure(stage=<Stage.SERIALISE: 'serialise'>, error='ValueError', message='too large', causes=())
    """
    first, *causes = _chain(error)
    return Failure(
        stage or _stage(error),
        type(first).__name__,
        _text(first),
        tuple(f"{type(cause).__name__}: {_text(cause).partition(chr(10))[0]}" for cause in causes),
        error,
    )


def _stage(error: BaseException) -> Stage:
    found = Stage.CAPTURE  # also what is refused before anything is captured: arguments, options
    for exception in _chain(error):
        if type(exception).__name__ == "TorchExportError":
            return Stage.CAPTURE
        if recorded := getattr(exception, "recorded_stage", ""):  # raised from a recording, without frames
            return Stage(recorded)
        for function in _exporter_functions(exception.__traceback__):
            found = _STAGE_OF_FUNCTION.get(function, found)
    if found is Stage.CAPTURE and _raised_by_the_writer(error):
        # It refuses operators for which the translation had no rule and which it passed on as they were.
        return Stage.TRANSLATE if "Couldn't export" in str(error) else Stage.SERIALISE
    return found


def _raised_by_the_writer(error: BaseException) -> bool:
    """Whether C++ code called by the TorchScript exporter's main function raised; it writes the proto."""
    functions = list(_exporter_functions(error.__traceback__))
    return isinstance(error, RuntimeError) and functions[-1:] == ["_export"]


def _exporter_functions(traceback: TracebackType | None) -> Iterator[str]:
    while traceback:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        if module.startswith(("torch.onnx", "onnxscript")):
            yield traceback.tb_frame.f_code.co_name
        traceback = traceback.tb_next


def _chain(error: BaseException) -> list[BaseException]:
    chain = [error]
    while True:
        last = chain[-1]
        behind = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if behind is None or behind in chain:
            return chain
        chain.append(behind)


def _text(error: BaseException) -> str:
    return _COLOUR.sub("", str(error)).strip()
