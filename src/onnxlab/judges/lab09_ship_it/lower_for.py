"""What is right in lower-for, part by part."""

import numpy as np
import onnx
from onnx import inliner, version_converter

from onnxlab.kit.judging import evidence, opsets, require_same_interface, require_well_formed
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewritten, made_by, require_as_before
from onnxlab.kit.work import Work
from onnxlab.labs.lab09_ship_it.lower_for import ASKS, FUNCTION, Lowering
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.comparison import compare_outputs
from onnxlab.runtime.parity import run

_FIRST_WITH_FUNCTIONS = 8  # the IR version that introduced local functions


def _require_structure(model: onnx.ModelProto, question: Lowering) -> None:
    """Require a valid model within the limits, with the same inputs and outputs."""
    main = onnx.ModelProto(opset_import=model.opset_import)
    for what, limit, got in (
        (Message("IR version"), question.newest_ir, model.ir_version),
        ("opset", question.newest_opset, max(opsets(main), default=None)),
        ("opset of a function", question.newest_opset, max(opsets(model), default=None)),
    ):
        if got is None or got > limit:
            difference = Difference(
                Message("a runtime that knows {subject} {limit}", subject=what, limit=limit),
                Message("at most {limit}", limit=limit),
                str(got),
            )
            msg = Message(
                "{question.where}: the {subject} of the result is {got}, and {limit} is the newest allowed.",
                question=question,
                subject=what,
                got=got,
                limit=limit,
            )
            advice = {
                "IR version": "The converter never lowers the IR version: that number is yours to set.",
                "opset of a function": FUNCTION,
            }
            raise Wrong(
                msg, advice.get(what, question.look_at), difference=difference, evidence=evidence(model)
            )
    if model.functions and model.ir_version < _FIRST_WITH_FUNCTIONS:
        msg = Message(
            "{question.where}: the result says IR version {model.ir_version} and has functions.",
            question=question,
            model=model,
        )
        look_at = Message(
            "IR version {first_with_functions} brought functions; `onnx.inliner` does without.",
            first_with_functions=_FIRST_WITH_FUNCTIONS,
        )
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
                Message(
                    "opset {ax_opsets_question_model}, for a runtime up to {question.newest_opset}",
                    ax_opsets_question_model=max(opsets(question.model)),
                    question=question,
                ),
                Message("ValueError, or a model with the same numbers"),
                got[:80],
            )
            msg = Message("{question.where}: this has to end with a ValueError.", question=question)
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
    if not compare_outputs(before, after):
        raise ValueError("the converter changes the numbers")
    return model


_REWRITING = Rewritten(ASKS, _require_structure, made_by(lower_for))
JUDGES = _REWRITING.judges(_require_numbers, refusals=_judge_refused)
