"""What is sent to a Dask worker. The scheduler opens it as well, so nothing heavy is imported here."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onnxlab.grading.levels import Level, Limits
from onnxlab.grading.private_judges import NONE, PrivateJudges

if TYPE_CHECKING:
    from onnxlab.grading.supervisor import Marked

__all__ = ["Job", "Problem", "grade_there"]


@dataclass(frozen=True)
class Job:
    """What a worker gets. Dask writes arguments to its logs, so the secrets are not shown."""

    lab: str
    level: Level | None
    limits: Limits
    versions: dict[str, str]
    cells: bytes = field(repr=False)
    seed: int = field(repr=False)
    judges: PrivateJudges = field(default=NONE, repr=False)


@dataclass(frozen=True)
class Problem:
    """Why a worker could not grade."""

    worker: str
    reason: str


def grade_there(job: Job) -> "Marked | Problem":
    """Grade a submission, on a Dask worker."""
    from distributed import get_worker

    worker = get_worker().address
    try:
        from onnxlab.grading.cluster_worker import grade_here

        found = grade_here(job)
    except Exception as error:  # a damaged installation: its address is needed, to ask another one
        found = f"{type(error).__name__}: {error}"[:500]
    return Problem(worker, f"{worker}: {found}") if isinstance(found, str) else found
