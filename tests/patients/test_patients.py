"""Every patient is ill with the installed versions, as its card says, and its repair is right."""

from pathlib import Path

import pytest
import torch
from torch.nn.functional import adaptive_avg_pool2d

from onnxlab.diagnosis.messages import explain
from onnxlab.language import speaking, speech, tr
from onnxlab.notebook.clinic import NoSuchStage, clinic, patient
from onnxlab.patients.large import RepeatedGain, TiedWeights
from onnxlab.patients.patient import STAGES, outcome
from onnxlab.patients.silent import MatrixPool, UnreadMask
from onnxlab.patients.ward import NoSuchPatient, find_patient, patients

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("remembered_translations")]

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

SEEN = {
    "scatter-mean": "torch 3, runtime 6",
    "pool-divisor": "torch",
    "index-put": "torch 3, runtime 1",
    "view-in-place": "torch 0, runtime -",
    "log-add-exp": "torch -199.687, runtime -inf",
    "log-sigmoid": "torch -20, runtime -inf",
    "floor-division": "torch -1, runtime 0",
    "nan-and-max": "torch nan, runtime 2",
    "adaptive-pool": "torch gives shape (1, 3, 4, 4), the runtime (1, 3, 8, 6)",
    "kept-table": "Attempting to broadcast an axis",
    "returns-a-dataclass": "capture: RuntimeError: Found <class",
    "cdist": "No ONNX function found for",
    "chunk-of-a-dynamic-axis": "'NoneType' object has no attribute 'ndim'",
    "borrowed-method": "capture: RuntimeError: Cannot insert a Tensor that requires grad",
    "grouped-heads": "not implemented if enable_gqa is True",
    "adaptive-pool-refused": "output size that are not factor of input size",
    "where-of-masks": "load: NotImplemented: Could not find an implementation for Where(16)",
    "cumsum-of-a-mask": "load: InvalidGraph: Type Error: Type 'tensor(bool)'",
    "mask-and-column": "Fail: Reshape node",
    "autocast-inside": "load: NotImplemented: Could not find an implementation for Gemm(13)",
    "frozen-attention": "Fail: Reshape node",
    "running-mean": "input 2, of shape (3,): output 0 at",
    "unread-mask": "output 0 at [",
    "scripted-dict": "translate: UnsupportedOperatorError: Exporting the operator 'prim::DictConstruct'",
    "passed-input": "'samples' has been used as output names multiple times",
    "tied-weights": "file: 512,",
    "large-constant": "file: 80",
    "narrow-range": "ONNX allows only (0, 127), (0, 255) and (-128, 127)",
}
"""What is seen with torch 2.13: a test that fails with a newer one says which patients are well again."""


@pytest.mark.parametrize("name", patients())
def test_a_patient_is_ill_and_its_repair_is_right(name):
    one = find_patient(name)
    ill, repaired = outcome(one), outcome(one, one.repaired())
    assert not ill.right
    assert SEEN.get(name, "nothing written of it yet") in ill.text
    assert {answer.patient for answer in explain(ill.text)} <= {name, ""}  # a kind leads to its own patient
    assert repaired.right, repaired.text


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_the_repaired_pool_keeps_the_type(dtype):
    x = torch.randn(1, 3, 9, 14).to(dtype)
    torch.testing.assert_close(MatrixPool(4)(x), adaptive_avg_pool2d(x, (4, 4)), atol=2e-3, rtol=0)


def test_every_patient_has_a_chapter_and_three_hints():
    for one in patients().values():
        assert (NOTEBOOKS / f"{one.lesson}.ipynb").exists()
        assert one.stage in STAGES
        assert len(set(one.hints)) == 3


def test_an_unknown_patient_is_refused():
    with pytest.raises(NoSuchPatient, match="scatter-mean"):
        find_patient("gout")


def test_a_card_judges_stage_and_repair():
    card = patient("floor-division")
    assert "one too large" in repr(card)
    assert [card.hint() for _ in range(4)] == [*find_patient("floor-division").hints, card.hint()]

    class Floor(torch.nn.Module):
        def forward(self, x):
            return torch.div(x, 4, rounding_mode="floor")

    class Truncated(torch.nn.Module):
        def forward(self, x):
            return torch.div(x, 4, rounding_mode="trunc")

    assert [row[1] for row in card.check("translate", Floor()).rows] == ["right", "right"]
    stage, repair = (row[1] for row in card.check("load", Truncated()).rows)
    assert stage.startswith("wrong")
    assert "torch -1, runtime 0" in repair
    with pytest.raises(ValueError, match="capture, translate"):
        card.check("kitchen", Floor())
    assert len(clinic().rows) == len(patients())
    with speaking(speech("zh")):  # what a cell compares is English, what it shows is not
        verdict = card.check("translate", Floor())
        assert [row[1] for row in verdict.rows] == ["right", "right"]
        assert "\u6b63\u786e" in repr(verdict)
        assert "<td>\u4fee\u590d</td>" in verdict._repr_html_()
        with pytest.raises(NoSuchStage) as refused:
            card.check("kitchen", Floor())
        assert tr(str(refused.value)).startswith("'kitchen' \u4e0d\u662f")
        assert {"\u75c5\u4f8b", "\u75c7\u72b6"} <= set(repr(clinic()).split())


class Forgetful(torch.nn.Module):
    """Returns the state that came in."""

    def forward(self, x, mean):
        return 0.5 * mean + x, mean.clone()


class Transposed(TiedWeights):
    """The transpose is written into the module; the exporter folds it all the same."""

    def forward(self, ids):
        return self.weight[ids] @ self.weight.t()


class Expanded(RepeatedGain):
    """Expanded, not repeated; the optimiser computes it all the same."""

    def forward(self, x):
        return x * self.gain.expand(1, 64, 56, 56).contiguous()


class Counted(UnreadMask):
    """The mask is read, and counts."""

    def forward(self, ids, mask, kind):
        return super().forward(ids, mask, kind) + mask[..., None]


@pytest.mark.parametrize(
    ("name", "attempt", "says"),
    [
        ("running-mean", Forgetful(), "output 1 at"),
        ("tied-weights", Transposed(), "270,000 are enough"),
        ("large-constant", Expanded(), "10,000 are enough"),
        ("unread-mask", Counted(), "output 0 at"),
    ],
)
def test_a_wrong_repair_is_found(name, attempt, says):
    judged = outcome(find_patient(name), attempt)
    assert not judged.right
    assert says in judged.text
