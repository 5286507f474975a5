"""The clinic in a notebook: a patient's card, and a verdict on a repair."""

import torch

from onnxlab.errors import OnnxLabError
from onnxlab.exporters.export import Export
from onnxlab.language import tr
from onnxlab.message import Message
from onnxlab.patients.patient import STAGES, Inputs, outcome
from onnxlab.patients.ward import find_patient, patients
from onnxlab.tables import Table


class NoSuchStage(OnnxLabError, ValueError):
    """An export has no stage of that name."""


def clinic() -> Table:
    """Return the table of all patients: name, exporter, symptom."""
    rows = tuple((f"`{one.name}`", one.exporter.value, one.symptom) for one in patients().values())
    columns = ("patient", "exporter", "symptom")
    return Table(columns, rows)


def patient(name: str) -> "Card":
    """Return a patient: its symptom, its module and inputs, hints, and the judge of a repair.

    Raises:
        NoSuchPatient: If there is none of that name.
    """
    return Card(name)


class Card:
    """A patient's card.

    Attributes:
        module: The ill module.
        inputs: The example of its export, then other inputs that must be right, too.
    """

    def __init__(self, name: str) -> None:
        self._patient = find_patient(name)
        self._hints = 0
        self.module: torch.nn.Module = self._patient.ill()
        self.inputs: list[Inputs] = self._patient.inputs()

    def __repr__(self) -> str:
        head = f"{self._patient.name} ({self._patient.exporter.value})"
        reported = tr("Reported in {threads}.", threads=self._patient.threads)
        return "\n".join([head, tr(self._patient.symptom), reported])

    def export(self, module: torch.nn.Module | None = None) -> Export:
        """Export the module, or a repair, as it was exported when it fell ill."""
        return self._patient.exported(module)

    def hint(self) -> str:
        """Return the next of three hints."""
        self._hints = min(self._hints + 1, len(self._patient.hints))
        return tr(self._patient.hints[self._hints - 1])

    def check(self, stage: str, repair: torch.nn.Module) -> Table:
        """Judge an answer.

        Args:
            stage: Where the fault is: capture, translate, optimise, load or run.
            repair: A module that exports, and computes what the ill one should.

        Returns:
            Two rows: the stage, and what became of the repair.

        Raises:
            NoSuchStage: If there is no such stage.
        """
        if stage not in STAGES:
            raise NoSuchStage(
                "{stage!r} is no stage of an export.",
                "",
                "The stages are {stages}.",
                stage=stage,
                stages=", ".join(STAGES),
            )
        wrong = Message("wrong: look at what the failure names, or at the first value that differs")
        mended = outcome(self._patient, repair)
        rows = (
            ("stage", "right" if stage == self._patient.stage else wrong),
            ("repair", "right" if mended.right else Message("wrong: {problem}", problem=mended.text)),
        )
        caption = Message("Explained in chapter {lesson}.", lesson=self._patient.lesson)
        columns = ("answer", "verdict")
        return Table(columns, rows, caption)
