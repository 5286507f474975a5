"""What the exercises of lab 15 share: modules are asked for, run in PyTorch, and exported by both exporters.

Three modules are asked for one after the other and then run in turn, so that a state kept in a class, or in a
module, shows. The TorchScript example has one sequence, and the other one several: what an example fixes is
another size in each file. Both exports run in inference mode, the fix of chapter 18 for frozen lengths.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported_or_stopped, require_type, require_untouched
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.message import Message

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Module:
    """A module that is asked for.

    Attributes:
        where: A description of it.
        arguments: What the answer's class is called with, by name.
        reference: A module that is right in PyTorch; the TorchScript exporter writes a right file of it.
        inputs: Draws sets of inputs, of all kinds.
        example: Draws inputs of a batch size and a number of time steps.
    """

    where: str
    arguments: Mapping[str, Any]
    reference: torch.nn.Module
    inputs: Callable[[np.random.Generator], list[Inputs]]
    example: Callable[[np.random.Generator, int, int], Inputs]


@dataclass(frozen=True)
class Requested:
    """What an exercise asks its class for.

    Attributes:
        answer: The class.
        axes: The inputs of the model and their dynamic axes.
        outputs: The outputs.
        draw: Draws the modules that are asked for.
        examples: The batch size and the number of time steps of each exporter's example.
    """

    answer: str
    axes: Mapping[str, Mapping[int, str]]
    outputs: Sequence[str]
    draw: Callable[[np.random.Generator], Sequence[Module]]
    examples: Mapping[Exporter, tuple[int, int]]

    def produce(self, answers: Answers, work: Work, random: np.random.Generator) -> None:
        """Run the learner's modules in PyTorch; export the first one with each exporter."""
        asked, modules = self.draw(random), []
        arguments = [copy.deepcopy([*module.arguments.values()]) for module in asked]
        for module, given in zip(asked, arguments, strict=True):
            with trying(module.where, **module.arguments):
                modules.append(answers[self.answer](*given))
                require_type(modules[-1], torch.nn.Module, f"{self.answer}()")
                modules[-1].eval()
        for number, i, inputs in self.questions(random, asked):
            feeds = dict(zip(self.axes, inputs, strict=True))
            with trying(asked[number].where, **asked[number].arguments, **feeds), torch.no_grad():
                copies = tuple(tensor.clone() for tensor in inputs)
                result = modules[number](*copies)
                require_untouched(copies, inputs)
                outputs = result if isinstance(result, tuple | list) else (result,)
                if len(outputs) != len(self.outputs):
                    msg = Message(
                        "Values that forward() returned: {count}; expected: {outputs}.",
                        count=len(outputs),
                        outputs=", ".join(self.outputs),
                    )
                    raise Wrong(msg, "The next piece needs all that was read before.")
                for name, tensor in zip(self.outputs, outputs, strict=True):
                    work.write_array(f"torch_{number}_{i}_{name}", tensor)
        for module, given in zip(asked, arguments, strict=True):
            with trying(module.where, **module.arguments):
                require_untouched(given, module.arguments.values())
        for exporter, (batch, time) in self.examples.items():
            example = asked[0].example(random, batch, time)
            options = axis_options(exporter, self.axes)
            with torch.inference_mode():
                exported_or_stopped(
                    work,
                    exporter.name.lower(),
                    modules[0],
                    example,
                    exporter,
                    output_names=list(self.outputs),
                    **options,
                )

    def questions(
        self, random: np.random.Generator, asked: Sequence[Module]
    ) -> Iterator[tuple[int, int, Inputs]]:
        """Yield the number of a module, that of a set of inputs, and the inputs: the modules in turn."""
        drawn = [module.inputs(random) for module in asked]
        for i in range(max(map(len, drawn))):
            for number, sets in enumerate(drawn):
                if i < len(sets):
                    yield number, i, sets[i]
