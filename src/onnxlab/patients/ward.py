"""The register of the patients."""

from functools import cache

from onnxlab.errors import OnnxLabError
from onnxlab.patients import large, loud, silent
from onnxlab.patients.patient import Patient


class NoSuchPatient(OnnxLabError):
    """The clinic has no patient of that name."""


@cache
def patients() -> dict[str, Patient]:
    """Return all patients by name."""
    return {patient.name: patient for patient in (*silent.PATIENTS, *loud.PATIENTS, *large.PATIENTS)}


def find_patient(name: str) -> Patient:
    """Return a patient.

    Raises:
        NoSuchPatient: If there is none of that name.
    """
    if name not in patients():
        raise NoSuchPatient(
            "There is no patient {name!r}.", "They are {patients}.", name=name, patients=", ".join(patients())
        )
    return patients()[name]
