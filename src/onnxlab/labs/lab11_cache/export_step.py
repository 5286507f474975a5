"""Exercise export-step: an export with the names and axes of the cache that a runner expects.

What is asked, and what is drawn for it:

- a step with any number of layers: one, and eleven, whose names stand in another order as texts;
- any number of heads, never as many as layers;
- the file is written where `file` says: both steps into one file, in a drawn order;
- inputs and outputs have the runner's names, and there are no others; an input is read;
- of the inputs, heads and size are numbers, all other axes are dynamic; ids are int64, caches float32;
- the outputs are those of the step: texts as for cached-decoder, driven by the names alone;
- the step stays as it is.
"""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import onnx
import torch

from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.judging import beside, evidence, require_input_read, require_valid
from onnxlab.labs.kit.outcome import Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab11_cache.decoder import Step, changed_part, draw_weights, step_model
from onnxlab.labs.lab11_cache.reading import (
    ADVICE,
    Reading,
    readings,
    require_names,
    require_read,
    require_shape,
)
from onnxlab.model.distance import Array
from onnxlab.model.graph import value
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session

__all__ = ["JUDGES", "produce"]

_ORDER_OF_NAMES = (
    "A list of pairs becomes one input for each tensor, pair after pair; the outputs come in the order of "
    "`return`. Which tensor does each name stand for?"
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
    "stop": "At which sizes did you export? A size of 1 can be kept as a constant: look at the labels of the "
    "outputs.",
}


def _steps(random: np.random.Generator) -> list[Step]:
    """Draw a step of one layer and one of eleven, in any order."""
    heads = random.integers((2, 2), (5, 4)).tolist()
    steps = [draw_weights(random, Step(layers, count)) for layers, count in zip((1, 11), heads, strict=True)]
    return [steps[number] for number in random.permutation(2)]


def _pairs(step: Step, kind: str) -> list[str]:
    return [f"{kind}.{i}.{part}" for i in range(len(step.layers)) for part in ("key", "value")]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Let the learner export the steps, one after the other into one file."""
    steps, originals = _steps(random), _steps(work.questions())
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as folder:
        file = Path(folder) / f"step{random.integers(100)}.onnx"
        for number, (step, original) in enumerate(zip(steps, originals, strict=True)):
            with trying(_where(original), step=original, file=file.name):
                answers["export_step"](step, str(file))
                if not file.is_file():
                    msg = "export_step(step, file) wrote no file."
                    raise Wrong(msg, "`torch.onnx.export` takes the name of the file after the example.")
                try:
                    model = onnx.load(file)
                except Exception as error:  # protobuf's errors, and missing external data
                    msg = f"The file that export_step wrote is not an ONNX model: {short_reason(error)}"
                    raise Wrong(msg, "`onnx.load(file)` has to read it.") from None
                work.write_model(f"step_{number}", model)
                if name := changed_part(step, original):
                    msg = f"The step is another one afterwards: its {name} has changed."
                    raise Wrong(msg, "An export leaves the module as it is.")


def _where(step: Step) -> str:
    count = len(step.layers)
    return f"a step with {count} layer{'s' if count > 1 else ''} and {step.heads} heads"


def _files(work: Work) -> Iterator[tuple[onnx.ModelProto, Step, AbstractContextManager[None]]]:
    """Yield each valid file with the runner's names, its step, and the case to judge it in."""
    for number, step in enumerate(_steps(work.questions())):
        with _case(step):
            model = work.model(f"step_{number}")
            inputs, outputs = ["ids", *_pairs(step, "past")], ["logits", *_pairs(step, "present")]
            look_at = (
                "Which names does the runner put together? It has a pair for each layer, counted from 0."
            )
            require_names(model, inputs, outputs, "The file", look_at)
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
    with trying(_where(step), step=step), beside(lambda: _step_model(step)):
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
                    msg = f"The input {name} takes {got}; the runner gives {expected}."
                    raise Wrong(msg, "The type is that of the example.", evidence=evidence(model))


def judge_reading(work: Work, random: np.random.Generator) -> None:
    """Require that the file returns for pieces what the step returns for the whole text."""
    for model, step, case in _files(work):
        caches = dict(zip(_pairs(step, "past"), _pairs(step, "present"), strict=True))
        with case:
            session = open_session(model)
            for reading in readings(random):
                with trying(f"{_where(step)}: {reading.where.lower()}", step=step, ids=reading.ids):
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
