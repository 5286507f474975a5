"""Patients whose file is right, and larger than it need be."""

import torch
import torch.nn.functional as F  # noqa: N812 (PyTorch's own convention)
from torch import Tensor, nn

from onnxlab.exporters.export import Exporter
from onnxlab.patients.patient import Patient


class TiedWeights(nn.Module):
    """An embedding, and an output layer with the same weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(1000, 64))

    def forward(self, ids: Tensor) -> Tensor:
        return F.linear(F.embedding(ids, self.weight), self.weight)


class SharedWeights(TiedWeights):
    """The output layer reads the weight as it is stored."""

    def forward(self, ids: Tensor) -> Tensor:
        return torch.einsum("bth,vh->btv", F.embedding(ids, self.weight), self.weight)


class RepeatedGain(nn.Module):
    """A gain for each channel, repeated to the size of the picture."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gain = nn.Parameter(torch.randn(1, 64, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain.repeat(1, 1, 56, 56)


class BroadcastGain(RepeatedGain):
    """The product repeats it."""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain


PATIENTS = (
    Patient(
        name="tied-weights",
        symptom="A language model's file is twice as large as its weights.",
        stage="optimise",
        exporter=Exporter.TORCHSCRIPT,
        ill=TiedWeights,
        repaired=SharedWeights,
        inputs=lambda: [(torch.randint(1000, shape),) for shape in ((2, 5), (1, 1), (3, 17))],
        dynamic=({0: "batch", 1: "length"},),
        most_bytes=270_000,
        hints=(
            "List the initializers with their shapes. How many are as large as the weight?",
            "No two are equal, but one is the other's transpose: the exporter folds Transpose(weight).",
            "An einsum reads the weight as it is stored; or store the transpose once, and embed by columns.",
        ),
        threads="optimum#1326, optimum#2241",
        lesson="13_ship_it",
        atol=1e-3,  # sums of 64 products, in another order
    ),
    Patient(
        name="large-constant",
        symptom="A layer with 256 bytes of weights makes a file of 800,000.",
        stage="optimise",
        exporter=Exporter.TORCH_EXPORT,
        ill=RepeatedGain,
        repaired=BroadcastGain,
        inputs=lambda: [(torch.randn(n, 64, 56, 56),) for n in (2, 1, 3)],
        dynamic=({0: "batch"},),
        most_bytes=10_000,
        hints=(
            "List the initializers by size. After which line of forward is the largest named?",
            "What depends on weights only is computed at the export, up to a limit of size.",
            "Broadcasting repeats without storing: x * self.gain.",
        ),
        threads="onnxscript#2025",
        lesson="12_modern_exporter",
    ),
)
