"""What is right in lower-for, part by part."""

import numpy as np
import onnx
from onnx import inliner, version_converter

from onnxlab.kit.judging import evidence, opsets, require_same_interface, require_well_formed
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by, require_as_before
from onnxlab.kit.work import Work
from onnxlab.labs.lab09_ship_it.lower_for import ASKS, FUNCTION, Lowering
from onnxlab.model.distance import Array
from onnxlab.runtime.parity import run

_FIRST_WITH_FUNCTIONS = 8  # the IR version that introduced local functions


def _require_structure(model: onnx.ModelProto, question: Lowering) -> None:
    """Require a valid model within the limits, with the same inputs and outputs."""
    main = onnx.ModelProto(opset_import=model.opset_import)
    for what, limit, got in (
        ("IR version", question.newest_ir, model.ir_version),
        ("opset", question.newest_opset, max(opsets(main), default=None)),
        ("opset of a function", question.newest_opset, max(opsets(model), default=None)),
    ):
        if got is None or got > limit:
            difference = Difference(f"a runtime that knows {what} {limit}", f"at most {limit}", str(got))
            msg = f"{question.where}: the {what} of the result is {got}, and {limit} is the newest allowed."
            advice = {
                "IR version": "The converter never lowers the IR version: that number is yours to set.",
                "opset of a function": FUNCTION,
            }
            raise Wrong(
                msg,
                advice.get(what, question.look_at),
                difference=difference,
                evidence=evidence(model),
            )
    if model.functions and model.ir_version < _FIRST_WITH_FUNCTIONS:
        msg = f"{question.where}: the result says IR version {model.ir_version} and has functions."
        look_at = f"IR version {_FIRST_WITH_FUNCTIONS} brought functions; `onnx.inliner` does without."
        raise Wrong(msg, look_at, evidence=evidence(model))
    require_same_interface(model, question.model, question.where)
    require_well_formed(model, question.where, question.look_at)


def _require_numbers(model: onnx.ModelProto, question: Lowering, random: np.random.Generator) -> None:
    """Require the original model's numbers, also for other batch sizes than that of x."""
    shapes = [(rows, *question.x.shape[1:]) for rows in (1, 2, int(random.integers(3, 9)))]
    require_as_before(model, question, (random.normal(size=shape).astype(np.float32) for shape in shapes))


def _judge_refused(work: Work, random: np.random.Generator) -> None:
    """Require a ValueError or a right model where the converter fails or changes the numbers."""
    for number, question, got in _REWRITING.not_refused(work):
        with question.as_case():
            if got == "nothing":
                lowered = work.model(f"lowered_{number}")
                _require_structure(lowered, question)
                _require_numbers(lowered, question, random)
                continue
            difference = Difference(
                f"opset {max(opsets(question.model))}, for a runtime up to {question.newest_opset}",
                "ValueError, or a model with the same numbers",
                got[:80],
            )
            msg = f"{question.where}: this has to end with a ValueError."
            raise Wrong(msg, question.look_at, difference=difference)


def lower_for(model: onnx.ModelProto, newest_ir: int, newest_opset: int, x: Array) -> onnx.ModelProto:
    """Return a right answer; `author sync` writes it into the notebook of solutions."""
    (before,) = run(model, x)
    try:
        model = inliner.inline_local_functions(model)
        opset = next(entry.version for entry in model.opset_import if entry.domain == "")
        if opset > newest_opset:
            model = version_converter.convert_version(model, newest_opset)
        model.ir_version = min(model.ir_version, newest_ir)
        onnx.checker.check_model(model, full_check=True)
        (after,) = run(model, x)
    except Exception as error:
        raise ValueError(f"cannot be lowered: {error}") from error
    if not np.allclose(before, after, atol=1e-5):
        raise ValueError("the converter changes the numbers")
    return model


_REWRITING = Rewritten(ASKS, _require_structure, made_by(lower_for))
JUDGES = _REWRITING.judges(_require_numbers, refusals=_judge_refused)
