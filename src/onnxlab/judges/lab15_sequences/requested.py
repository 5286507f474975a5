"""What is right in each exercise of lab 15, part by part."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter, export
from onnxlab.kit.exercise import Judges
from onnxlab.kit.exporting import axis_options, of_both_exporters
from onnxlab.kit.judging import (
    expecting,
    first_mismatch,
    number_texts,
    require_dynamic,
    require_exported,
    require_interface,
    require_numbers,
    require_valid,
)
from onnxlab.kit.outcome import Difference, Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.labs.lab15_sequences.requested import Inputs, Module, Requested
from onnxlab.message import Message


@dataclass(frozen=True)
class Verdict:
    """What is right for the modules of an exercise.

    Attributes:
        requested: The modules.
        look_at: Where to look, by the output that is wrong; "unpadded" for sequences without padding, "" for
            all others.
        file_of: Makes the module of which a right file is exported, from the one that is right in PyTorch.
        tolerance: How far apart values may be, as a share of the largest one that is expected.
    """

    requested: Requested
    look_at: Mapping[str, str]
    file_of: Callable[[Any], torch.nn.Module] = lambda module: module
    tolerance: float = 2e-5

    @property
    def judges(self) -> Judges:
        """A judge for each part of the exercise."""
        return Judges((self._judge_torch, *of_both_exporters(self._judge_graph, self._judge_numbers)))

    def _judge_torch(self, work: Work, random: np.random.Generator) -> None:
        questions = work.questions()
        asked = self.requested.draw(questions)
        for number, i, inputs in self.requested.questions(questions, asked):
            module, given = asked[number], dict(zip(self.requested.axes, inputs, strict=True))
            shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in given.items())
            with trying(module.where, **module.arguments, **given):
                for name, right in zip(self.requested.outputs, _outputs(module, inputs), strict=True):
                    expected, got = right.numpy(), work.array(f"torch_{number}_{i}_{name}")
                    look_at = self.look_at.get("unpadded" if _unpadded(given) else name, self.look_at[""])
                    if got.shape != expected.shape or got.dtype != expected.dtype:
                        texts = (f"{array.dtype}{list(array.shape)}" for array in (expected, got))
                        msg = Message(
                            "In PyTorch, {module.where}: {name} has another shape or type.",
                            module=module,
                            name=name,
                        )
                        look_at = "Which shape does the statement give it? Is an axis missing, or added?"
                        raise Wrong(msg, look_at, difference=Difference(shapes, *texts))
                    place = first_mismatch(expected, got, self.tolerance)
                    if place is not None:
                        where = Message(
                            "{shapes}; {name} at {place}", shapes=shapes, name=name, place=list(place)
                        )
                        difference = Difference(where, *number_texts(expected[place], got[place]))
                        msg = Message(
                            "In PyTorch, {module.where}: {name} is wrong.", module=module, name=name
                        )
                        raise Wrong(msg, look_at, difference=difference)

    def _judge_graph(self, exporter: Exporter, work: Work, random: np.random.Generator) -> None:
        with self._model(exporter, work) as (_, model):
            where, outputs = Message("The {exporter} export", exporter=exporter), list(self.requested.outputs)
            require_interface(model, list(self.requested.axes), outputs, where)
            require_dynamic(model, self.requested.axes)
            require_valid(model)

    def _judge_numbers(self, exporter: Exporter, work: Work, random: np.random.Generator) -> None:
        batch, time = self.requested.examples[exporter]
        frozen = Message(
            "The example had the batch size {batch} and the length {time}. What of it is left in the graph?",
            batch=batch,
            time=time,
        )
        advice = dict.fromkeys(("numbers", "shape", "stop"), frozen)  # in PyTorch the module is right
        with self._model(exporter, work) as (module, model):
            sets = module.inputs(random)
            largest = max(float(y.abs().max()) for inputs in sets for y in _outputs(module, inputs))
            allowed = self.tolerance * (1 + largest)
            with torch.no_grad():
                require_numbers(module.reference, model, sets, allowed, 0.0, look_at=advice)

    @contextmanager
    def _model(self, exporter: Exporter, work: Work) -> Iterator[tuple[Module, onnx.ModelProto]]:
        """Yield the module that was exported, and its file; attach the case to what is raised."""
        module = self.requested.draw(work.questions())[0]
        name = Message("the {exporter} export of {name}", exporter=exporter, name=module.where)
        with trying(name, **module.arguments), expecting(lambda: self._right_model(module)):
            yield module, require_exported(work, exporter.name.lower())

    def _right_model(self, module: Module) -> bytes:
        options = axis_options(Exporter.TORCHSCRIPT, self.requested.axes)
        example = module.example(np.random.default_rng(0), 2, 5)
        with torch.inference_mode():
            result = export(
                self.file_of(module.reference),
                example,
                Exporter.TORCHSCRIPT,
                run=False,
                output_names=list(self.requested.outputs),
                **options,
            )
        data: bytes = result.proto.SerializeToString()
        return data


def _unpadded(given: Mapping[str, torch.Tensor]) -> bool:
    """Tell whether there are lengths, and every sequence fills its row."""
    return "lengths" in given and bool((given["lengths"] == given["x"].shape[1]).all())


def _outputs(module: Module, inputs: Inputs) -> Inputs:
    """Return the right outputs."""
    with torch.no_grad():
        result = module.reference(*inputs)
    return result if isinstance(result, tuple) else (result,)
