"""What is right in each exercise of lab 13, part by part."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import export
from onnxlab.kit.exercise import Judge, Judges
from onnxlab.kit.exporting import axis_options
from onnxlab.kit.judging import (
    expected_model,
    require_dynamic,
    require_exported,
    require_numbers,
    require_valid,
    shown_whole,
)
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.labs.lab13_clinic.examination import EXPORTERS, Examination
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.comparison import compare_outputs
from onnxlab.runtime.parity import smallest_counterexample
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session

STAGES = ("capture", "translate", "optimise", "load", "run")
_TOLERANCE = 1e-4  # of the ill file: rounding is no fault


@dataclass(frozen=True)
class Verdict:
    """What is right for a patient.

    Attributes:
        examination: The patient.
        stage: Where its fault is.
        clue: Where to look if another stage was named.
        right_model: A right file of the repaired module, in ONNX's text form.
        look_at: Where to look if the repair is wrong.
        show: Where to look if a learner's inputs show no fault.
        atol: How far apart equal values may be,
        rtol: and as a share of the value; by default the same.
    """

    examination: Examination
    stage: str
    clue: str
    right_model: str
    look_at: str
    show: str = ""
    atol: float = 1e-5
    rtol: float = 1e-5

    @property
    def judges(self) -> Judges:
        """A judge for each part of the exercise."""
        parts = (
            self._judge_stage,
            self._judge_inputs,
            self._judge_torch,
            self._judge_graph,
            self._judge_numbers,
        )
        return Judges(tuple(map(self._of_ill_module, parts)), lambda work: expected_model(self.right_model))

    def _of_ill_module(self, part: Judge) -> Judge:
        """Return a judge whose failures belong to the ill module, which a learner can run again."""

        def judge(work: Work, random: np.random.Generator) -> None:
            inputs = self.examination.example(work.questions())
            with trying("the ill module", module=self.examination.ill(), inputs=inputs):
                part(work, random)

        return judge

    def _judge_stage(self, work: Work, random: np.random.Generator) -> None:
        stage = work.json("stage", str)
        if stage not in STAGES:
            raise Wrong(
                "{stage!r} is not a stage.",
                "The stages are {stages}.",
                stage=stage[:40],
                stages=", ".join(STAGES),
            )
        if stage != self.stage:
            raise Wrong("The fault does not arise at stage {stage!r}.", self.clue, stage=stage)

    def _judge_inputs(self, work: Work, random: np.random.Generator) -> None:
        example = self.examination.example(random)
        inputs = []
        for name, given in zip(self.examination.axes, example, strict=True):
            array = work.array(name)
            if (array.dtype, array.ndim) != (given.numpy().dtype, given.ndim):
                got, wanted = map(_described, (array, given.numpy()))
                msg = Message(
                    "Input {name} is {got}; the file declares {wanted}.", name=name, got=got, wanted=wanted
                )
                raise Wrong(msg, "How was the module exported?")
            inputs.append(torch.from_numpy(array))
        ill = self.examination.ill()
        try:
            ill(*inputs)
        except Exception as error:  # torch raises many kinds
            msg = Message("PyTorch does not accept these inputs: {reason}", reason=short_reason(error))
            raise Wrong(msg, "The fault is one of the file only: the module runs in PyTorch.") from None
        try:
            open_session(self._ill_file)
        except Exception:  # the runtime raises many kinds; a file that does not load is the fault itself
            return
        if smallest_counterexample(ill, self._ill_file, [tuple(inputs)], _TOLERANCE, _TOLERANCE) is None:
            raise Wrong("PyTorch and the ill module's file agree for these inputs.", self.show)

    @cached_property
    def _ill_file(self) -> onnx.ModelProto:
        """The ill module's file, which does not depend on the numbers of the example."""
        exporter, example = self.examination.exporter, self.examination.example(np.random.default_rng(0))
        options = axis_options(exporter, self.examination.axes)
        return export(self.examination.ill(), example, exporter, run=False, **options).proto

    def _judge_torch(self, work: Work, random: np.random.Generator) -> None:
        questions = work.questions()
        self.examination.example(questions)  # it is drawn before
        drawn = enumerate(self.examination.inputs(questions))
        for number, inputs in sorted(drawn, key=lambda pair: pair[1][0].numel()):  # small ones can be read
            expected, got = self.examination.ill()(*inputs), work.array(f"torch_{number}")
            if got.dtype == expected.numpy().dtype:
                compared = compare_outputs(expected, got, rtol=self.rtol, atol=self.atol)
                problem = compared.outputs[0].problem
            else:  # perhaps one that torch does not have
                problem = f"{got.dtype} instead of {expected.numpy().dtype}"
            if problem:
                given = dict(zip(self.examination.axes, inputs, strict=True))
                arrays = {name: tensor.numpy() for name, tensor in given.items()}
                shapes = ", ".join(
                    f"{name} {shown_whole(array) or f'{array.dtype}{list(array.shape)}'}"
                    for name, array in arrays.items()
                )
                with trying("the repaired module in PyTorch", **given):
                    raise Wrong(
                        "In PyTorch, the repaired module does not return what {ill} returns, for {shapes}: "
                        "{problem}.",
                        self.look_at,
                        ill=type(self.examination.ill()).__name__,
                        shapes=shapes,
                        problem=problem,
                    )

    def _judge_graph(self, work: Work, random: np.random.Generator) -> None:
        for model in self._repairs(work):
            require_valid(model)
            require_dynamic(model, self.examination.axes)

    def _judge_numbers(self, work: Work, random: np.random.Generator) -> None:
        inputs, ill = self.examination.inputs(random), self.examination.ill()
        for model in self._repairs(work):
            require_numbers(ill, model, inputs, self.atol, self.rtol, look_at=self.look_at)

    def _repairs(self, work: Work) -> Iterator[onnx.ModelProto]:
        """Yield the repaired module's file of each exporter."""
        for exporter in EXPORTERS:
            yield require_exported(work, exporter.name.lower())


def _described(array: Array) -> str:
    """Return an array's type and number of axes."""
    if array.ndim == 1:
        return Message("{dtype} with one axis", dtype=array.dtype.name)
    return Message("{dtype} with {count} axes", dtype=array.dtype.name, count=array.ndim)
