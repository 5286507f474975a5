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
from pathlib import Path

import numpy as np
import onnx

from onnxlab.kit.exercise import Answers
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.labs.lab11_cache.decoder import Step, changed_part, draw_weights
from onnxlab.message import Message
from onnxlab.runtime.refusals import short_reason


def draw_steps(random: np.random.Generator) -> list[Step]:
    """Draw a step of one layer and one of eleven, in any order."""
    heads = random.integers((2, 2), (5, 4)).tolist()
    steps = [draw_weights(random, Step(layers, count)) for layers, count in zip((1, 11), heads, strict=True)]
    return [steps[number] for number in random.permutation(2)]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Let the learner export the steps, one after the other into one file."""
    steps, originals = draw_steps(random), draw_steps(work.questions())
    with tempfile.TemporaryDirectory(prefix="onnxlab-") as folder:
        file = Path(folder) / f"step{random.integers(100)}.onnx"
        for number, (step, original) in enumerate(zip(steps, originals, strict=True)):
            with trying(step_name(original), step=original, file=file.name):
                answers["export_step"](step, str(file))
                if not file.is_file():
                    msg = "export_step(step, file) wrote no file."
                    raise Wrong(msg, "`torch.onnx.export` takes the name of the file after the example.")
                try:
                    model = onnx.load(file)
                except Exception as error:  # protobuf's errors, and missing external data
                    msg = Message(
                        "The file that export_step wrote is not an ONNX model: {why}", why=short_reason(error)
                    )
                    raise Wrong(msg, "`onnx.load(file)` has to read it.") from None
                work.write_model(f"step_{number}", model)
                if name := changed_part(step, original):
                    msg = Message("The step is another one afterwards: its {name} has changed.", name=name)
                    raise Wrong(msg, "An export leaves the module as it is.")


def step_name(step: Step) -> str:
    """Return a step's name for messages."""
    return Message("a step (layers: {count}, heads: {step.heads})", step=step, count=len(step.layers))
