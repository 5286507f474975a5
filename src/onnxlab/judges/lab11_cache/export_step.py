"""What is right in export-step, part by part."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import onnx
import torch

from onnxlab.judges.lab11_cache.decoder import step_model
from onnxlab.judges.lab11_cache.reading import require_read, require_shape
from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import evidence, expecting, require_input_read, require_interface, require_valid
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.labs.lab11_cache.decoder import Step
from onnxlab.labs.lab11_cache.export_step import draw_steps, step_name
from onnxlab.labs.lab11_cache.reading import ADVICE, Reading, readings
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.model.graph import value
from onnxlab.runtime.session import open_session

_ORDER_OF_NAMES = (
    "A list of pairs becomes one input for each tensor, pair after pair; the outputs come in the order of "
    "`return`. Which tensor does each name stand for?"
)
_SIZES = (
    "At which sizes did you export? A size of 1 can be kept as a constant: look at the labels of the outputs."
)
_ADVICE = {
    **ADVICE,
    **dict.fromkeys(
        ("alone", "first"),
        "The cache is empty here. Was the step exported as it is, with its own weights, mask and positions? "
        + _ORDER_OF_NAMES,
    ),
    "one": _ORDER_OF_NAMES,
    "several": _ORDER_OF_NAMES,
    "cache": _ORDER_OF_NAMES,
    "stop": _SIZES,
    "shape": _SIZES,
}


def _pairs(step: Step, kind: str) -> list[str]:
    return [f"{kind}.{i}.{part}" for i in range(len(step.layers)) for part in ("key", "value")]


def _files(work: Work) -> Iterator[tuple[onnx.ModelProto, Step, AbstractContextManager[None]]]:
    """Yield each valid file with the runner's names, its step, and the case to judge it in."""
    for number, step in enumerate(draw_steps(work.questions())):
        with _case(step):
            model = work.model(f"step_{number}")
            inputs, outputs = ["ids", *_pairs(step, "past")], ["logits", *_pairs(step, "present")]
            look_at = (
                "Which names does the runner put together? It has a pair for each layer, counted from 0."
            )
            require_interface(model, inputs, outputs, "The file", look_at, ordered=False)
            require_valid(model)
            read = {name for node in model.graph.node for name in node.input}
            for name in set(inputs) - read:  # whether what is read reaches an output, the numbers tell
                try:
                    require_input_read(model, name)
                except Wrong as wrong:
                    # torch.export reads a tensor that is passed several times from one input only.
                    wrong.look_at = (
                        "One tensor in several places of the example is one input: make a tensor for each."
                    )
                    raise
        yield model, step, _case(step)


@contextmanager
def _case(step: Step) -> Iterator[None]:
    """Attach the step to what is raised, and show a right model of it beside the learner's."""
    with trying(step_name(step), step=step), expecting(lambda: _step_model(step)):
        yield


def judge_names(work: Work, random: np.random.Generator) -> None:
    """Require a valid file with the names that the runner asks for."""
    for _ in _files(work):
        pass


def judge_axes(work: Work, random: np.random.Generator) -> None:
    """Require dynamic axes where the runner's sizes vary, and fixed ones where it reads the size."""
    for model, step, case in _files(work):
        with case:
            shapes: dict[str, list[int | None]] = {
                name: [None, step.heads, None, step.size] for name in _pairs(step, "past")
            }
            shapes["ids"] = [None, None]
            for name, shape in shapes.items():
                require_shape(model, name, shape)
                expected, got = "int64" if name == "ids" else "float32", value(model, name).dtype
                if got != expected:
                    msg = Message(
                        "The input {name} accepts {got}; the runner passes {expected}.",
                        name=name,
                        got=got,
                        expected=expected,
                    )
                    raise Wrong(msg, "The type is that of the example.", evidence=evidence(model))


def judge_reading(work: Work, random: np.random.Generator) -> None:
    """Require that the file returns for pieces what the step returns for the whole text."""
    for model, step, case in _files(work):
        caches = dict(zip(_pairs(step, "past"), _pairs(step, "present"), strict=True))
        with case:
            session = open_session(model)
            for reading in readings(random):
                with trying(
                    Message.compose(": ", [step_name(step), reading.where]), step=step, ids=reading.ids
                ):
                    expected = _expected_outputs(step, reading)
                    require_read(model, reading, expected, caches, _ADVICE, where="The file", session=session)


def _expected_outputs(step: Step, reading: Reading) -> dict[str, Array]:
    """Return the logits, keys and values of a whole text, read at once after an empty cache."""
    empty = torch.zeros(len(reading.ids), step.heads, 0, step.size)
    with torch.no_grad():
        logits, keys, values = step(torch.from_numpy(reading.ids), [(empty, empty) for _ in step.layers])
    pairs = [tensor.numpy() for pair in zip(keys, values, strict=True) for tensor in pair]
    return {"logits": logits.numpy(), **dict(zip(_pairs(step, "present"), pairs, strict=True))}


def _step_model(step: Step) -> bytes:
    return step_model(step, _pairs(step, "past"), _pairs(step, "present"))


JUDGES = Judges((judge_names, judge_axes, judge_reading))
