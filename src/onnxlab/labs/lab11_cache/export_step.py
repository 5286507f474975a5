"""Exercise export-step: export a step with the names and axes of the cache that a runner expects."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import torch

from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.judging import evidence, require_input_read, require_valid
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab11_cache.decoder import Step, draw_weights, step_model
from onnxlab.labs.lab11_cache.reading import ADVICE, Reading, readings, require_names, require_read
from onnxlab.model.distance import Array
from onnxlab.model.graph import dims, value

__all__ = ["EXERCISE"]

_ORDER_OF_NAMES = (
    "A list of pairs becomes one input for each tensor, pair after pair; the outputs come in the order of "
    "`return`. Which tensor does each name stand for?"
)
_ADVICE = {
    **ADVICE,
    "one": _ORDER_OF_NAMES,
    "several": _ORDER_OF_NAMES,
    "cache": _ORDER_OF_NAMES,
    "stop": "At which sizes did you export? A size of 1 can be kept as a constant: look at the labels of the "
    "outputs.",
}


def _step(random: np.random.Generator) -> Step:
    """Draw a step of two or three layers with two or three heads."""
    return draw_weights(random, Step(int(random.integers(2, 4)), int(random.integers(2, 4))))


def _pairs(step: Step, kind: str) -> list[str]:
    return [f"{kind}.{i}.{part}" for i in range(len(step.layers)) for part in ("key", "value")]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Let the learner export the step into a file."""
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as folder:
        file = Path(folder) / "step.onnx"
        with trying("the step", step=_step(work.questions()), file="step.onnx"):
            answers["export_step"](_step(random), str(file))
            if not file.is_file():
                msg = "export_step(step, file) wrote no file."
                raise Wrong(msg, "`torch.onnx.export` takes the name of the file after the example.")
            work.write_model("step", onnx.load(file))


@contextmanager
def _file(work: Work) -> Iterator[tuple[onnx.ModelProto, Step]]:
    """Yield a valid file with the runner's names, and its step; attach the case to what is raised."""
    step = _step(work.questions())
    with trying("the step", step=step):
        model = work.model("step")
        inputs, outputs = ["ids", *_pairs(step, "past")], ["logits", *_pairs(step, "present")]
        look_at = "Which names does the runner put together? It has a pair for each layer, counted from 0."
        require_names(model, inputs, outputs, "The file", look_at)
        require_valid(model)
        for name in inputs:
            try:
                require_input_read(model, name)
            except Wrong as wrong:
                # torch.export reads a tensor that is passed several times from one input only.
                wrong.look_at = (
                    "One tensor in several places of the example is one input: make a tensor for each."
                )
                raise
        yield model, step


def judge_names(work: Work, random: np.random.Generator) -> None:
    """Require a valid file with the names that the runner asks for."""
    with _file(work):
        pass


def judge_axes(work: Work, random: np.random.Generator) -> None:
    """Require dynamic axes where the runner's sizes vary, and fixed ones where it reads the size."""
    with _file(work) as (model, step):
        for name in _pairs(step, "past"):
            _require_shape(model, name, [None, step.heads, None, step.size])
        _require_shape(model, "ids", [None, None])
        kind = value(model, "ids").dtype
        if kind != "int64":
            msg = f"The input ids takes {kind}; the runner gives int64."
            raise Wrong(msg, "The type is that of the example.", evidence=evidence(model))


def _require_shape(model: onnx.ModelProto, name: str, axes: list[int | None]) -> None:
    """Require a dynamic axis for each None, and otherwise the size."""
    shape = dims(model, name) or ()
    shown_shape = f"[{', '.join(map(str, shape))}]"
    shown = evidence(model)
    if len(shape) != len(axes):
        msg = f"{name} has the shape {shown_shape}; {len(axes)} axes were expected."
        raise Wrong(msg, "Compare with the runner's arrays.", evidence=shown)
    for axis, (size, label) in enumerate(zip(axes, shape, strict=True)):
        if size is None and isinstance(label, int):
            msg = f"Axis {axis} of {name} is fixed: its shape is {shown_shape}. The runner gives other sizes."
            raise Wrong(msg, "Look at the argument that names the dynamic axes.", evidence=shown)
        if size is not None and label != size:
            difference = Difference(f"axis {axis} of {name}", str(size), str(label))
            msg = (
                f"Axis {axis} of {name} is {label!r}; the runner needs {size} there, to make an empty cache."
            )
            look_at = "Only what changes from run to run has to be dynamic."
            raise Wrong(msg, look_at, difference=difference, evidence=shown)


def judge_reading(work: Work, random: np.random.Generator) -> None:
    """Require that the file returns for pieces what the step returns for the whole text."""
    with _file(work) as (model, step):
        caches = dict(zip(_pairs(step, "past"), _pairs(step, "present"), strict=True))
        for reading in readings(random):
            with trying(reading.where.lower(), step=step, ids=reading.ids):
                require_read(
                    model, reading, _expected_outputs(step, reading), caches, _ADVICE, where="The file"
                )


def _expected_outputs(step: Step, reading: Reading) -> dict[str, Array]:
    """Return the logits, keys and values of a whole text, read at once after an empty cache."""
    empty = torch.zeros(len(reading.ids), step.heads, 0, step.size)
    with torch.no_grad():
        logits, keys, values = step(torch.from_numpy(reading.ids), [(empty, empty) for _ in step.layers])
    pairs = [tensor.numpy() for pair in zip(keys, values, strict=True) for tensor in pair]
    return {"logits": logits.numpy(), **dict(zip(_pairs(step, "present"), pairs, strict=True))}


def _step_model(work: Work) -> bytes:
    step = _step(work.questions())
    return step_model(step, _pairs(step, "past"), _pairs(step, "present"))


EXERCISE = Exercise(
    order=2,
    id="export-step",
    title="Export a step with the names and axes that a runner drives",
    points=4,
    answers=("export_step",),
    produce=produce,
    torch_export=True,
    parts=(
        Part("a valid file with the runner's names", judge_names),
        Part("free and fixed axes as the runner needs them", judge_axes),
        Part("driven by its names, it reads every text right", judge_reading),
    ),
    hints=(
        "The example is `(ids, past)`, with a list of pairs for `past`. Names are given to its tensors "
        "in order. Look at the order in which `forward` takes them, and at that in which it returns them.",
        "Inputs: `ids`, then for each layer key and value. Outputs: `logits`, then the keys of all layers, "
        "then the values of all layers. Dynamic are axes 0 and 1 of `ids`, 0 and 2 of a cache.",
        "`past = [tuple(torch.zeros(2, step.heads, 4, step.size) for _ in 'kv') for _ in step.layers]`, "
        "`input_names=['ids'] + [f'past.{i}.{part}' for i in range(n) for part in ('key', 'value')]`, "
        "`output_names=['logits'] + [f'present.{i}.{part}' for part in ('key', 'value') for i in range(n)]`, "
        "and `dynamic_axes` with `dynamo=False`, by the names of the inputs.",
    ),
    expected=_step_model,
)
