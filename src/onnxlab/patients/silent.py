"""Patients whose file is made and loaded without an error, and computes something else."""

import math

import torch
import torch.nn.functional as F  # noqa: N812 (PyTorch's own convention)
from torch import Tensor, nn

from onnxlab.exporters.export import Exporter
from onnxlab.patients.patient import Inputs, Patient


class ScatterMean(nn.Module):
    """The mean of the messages that arrive at each node."""

    def forward(self, nodes: Tensor, target: Tensor, messages: Tensor) -> Tensor:
        return nodes.scatter_reduce(0, target, messages, reduce="mean", include_self=False)


class CountedMean(nn.Module):
    """Sum and count apart."""

    def forward(self, nodes: Tensor, target: Tensor, messages: Tensor) -> Tensor:
        total = torch.zeros_like(nodes).scatter_add(0, target, messages)
        count = torch.zeros_like(nodes).scatter_add(0, target, torch.ones_like(messages))
        return torch.where(count > 0, total / count.clamp(min=1), nodes)


def _messages() -> list[Inputs]:
    target = torch.tensor([0, 0, 0, 3, 3])
    other = torch.tensor([1, 1, 2, 0, 4])
    values = torch.tensor([1.0, 2.0, 6.0, 4.0, 8.0])
    return [(torch.zeros(5), target, values), (torch.ones(5), other, values.flip(0))]


class DividedPool(nn.Module):
    """A sum over windows, as an average with divisor 1."""

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, 2, padding=1, divisor_override=1)


class ScaledPool(nn.Module):
    """The average over all nine, times nine."""

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=True) * 9


class Counter(nn.Module):
    """Counts how often each index occurs."""

    def forward(self, table: Tensor, index: Tensor, values: Tensor) -> Tensor:
        return table.index_put((index,), values, accumulate=True)


class ScatterCounter(nn.Module):
    """The same by an operator that ONNX has."""

    def forward(self, table: Tensor, index: Tensor, values: Tensor) -> Tensor:
        return table.scatter_add(0, index, values)


class Gate(nn.Module):
    """Half of the channels pass a ReLU, changed in place through a view."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        first, _ = y.chunk(2, dim=1)
        first.relu_()
        return y


class PlainGate(nn.Module):
    """No view is changed."""

    def forward(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=1)
        return torch.cat([first.relu(), second], dim=1)


class LogAddExp(nn.Module):
    """log(exp(a) + exp(b))."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.logaddexp(a, b)


class StableLogAddExp(nn.Module):
    """The larger one is taken out of the exponentials; between equal ones, -inf among them, no difference."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        apart = torch.maximum(a, b) + torch.log1p(torch.exp(-(a - b).abs()))
        return torch.where(a == b, a + math.log(2), apart)


class LogSigmoid(nn.Module):
    """log(sigmoid(x))."""

    def forward(self, x: Tensor) -> Tensor:
        return F.logsigmoid(x)


class StableLogSigmoid(nn.Module):
    """By the softplus of the other sign."""

    def forward(self, x: Tensor) -> Tensor:
        return -F.softplus(-x)


class FloorDivision(nn.Module):
    """x // 4."""

    def forward(self, x: Tensor) -> Tensor:
        return x // 4


class NamedFloorDivision(nn.Module):
    """The rounding is said."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.div(x, 4, rounding_mode="floor")


class LargestOfRow(nn.Module):
    """The largest value of each row; NaN where there is one."""

    def forward(self, x: Tensor) -> Tensor:
        return x.amax(1)


class LargestOrNan(nn.Module):
    """NaN is asked for."""

    def forward(self, x: Tensor) -> Tensor:
        finite = torch.nan_to_num(x, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        return torch.where(x.isnan().any(1), torch.nan, finite.amax(1))


class AdaptivePool(nn.Module):
    """Four by four windows, whatever the size."""

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, (4, 4))


class MatrixPool(nn.Module):
    """The windows as two matrices of weights, made from the sizes."""

    def __init__(self, out: int) -> None:
        super().__init__()
        self.out = out

    def weights(self, size: int, dtype: torch.dtype) -> Tensor:
        """Return a row for each window: 1 / its length inside it, 0 elsewhere."""
        window, place = torch.arange(self.out)[:, None], torch.arange(size)[None]
        first, last = window * size // self.out, ((window + 1) * size + self.out - 1) // self.out
        inside = ((place >= first) & (place < last)).to(dtype)
        return inside / inside.sum(1, keepdim=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.weights(x.shape[2], x.dtype) @ x @ self.weights(x.shape[3], x.dtype).T


def _pictures() -> list[Inputs]:
    return [(torch.randn(shape),) for shape in ((2, 3, 8, 8), (1, 3, 16, 12), (1, 3, 9, 9))]


class KeptTable(nn.Module):
    """Adds positions from a table that grows when it is too short, and is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.table = positions(6)  # as if the model had been used at length 6 before

    def forward(self, x: Tensor) -> Tensor:
        if self.table.shape[0] < x.shape[1]:
            self.table = positions(x.shape[1])
        return x + self.table[: x.shape[1]]


class FreshTable(nn.Module):
    """Makes the positions each time."""

    def forward(self, x: Tensor) -> Tensor:
        return x + positions(x.shape[1])


def positions(length: int) -> Tensor:
    """Return a row of four numbers for each position."""
    return torch.sin(torch.arange(length)[:, None] / torch.tensor([1.0, 2.0, 4.0, 8.0]))


class RunningMean(nn.Module):
    """A running mean, kept from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.mean: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.5 * self.mean + x
        return self.mean


class CarriedMean(nn.Module):
    """The state comes in and goes out."""

    def forward(self, x: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
        mean = 0.5 * mean + x
        return mean, mean.clone()


class UnreadMask(nn.Module):
    """An embedding; the mask is there for callers that have one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(9, 4)

    def forward(self, ids: Tensor, mask: Tensor, kind: Tensor) -> Tensor:
        return self.embed(ids) + kind[..., None]


class KeptMask(UnreadMask):
    """The mask is read, and changes nothing."""

    def forward(self, ids: Tensor, mask: Tensor, kind: Tensor) -> Tensor:
        return super().forward(ids, mask, kind) + 0 * mask[..., None]


def _masked() -> list[Inputs]:
    shapes = ((2, 3), (2, 1), (3, 7))
    return [(torch.randint(9, shape), torch.ones(shape), torch.zeros(shape)) for shape in shapes]


def _row_lengths() -> list[Inputs]:
    return [(torch.randn(2, length, 4),) for length in (6, 3, 9)]


PATIENTS = (
    Patient(
        name="scatter-mean",
        symptom="A graph network's mean over messages: where several arrive, only the last one counts.",
        stage="translate",
        exporter=Exporter.TORCH_EXPORT,
        ill=ScatterMean,
        repaired=CountedMean,
        inputs=_messages,
        hints=(
            "Give each node one message, and the file is right. Which attribute of the node decides "
            "about more?",
            "ScatterElements knows add, mul, min, max and none. Which one did the rule choose for a mean?",
            "Two scatter_add: the sum, and the count; then divide where the count is not 0.",
        ),
        threads="chemprop#1335, pytorch#147617",
        lesson="07_operator_support",
    ),
    Patient(
        name="pool-divisor",
        symptom="A pooling layer's outputs are nine times too small, everywhere.",
        stage="translate",
        exporter=Exporter.TORCH_EXPORT,
        ill=DividedPool,
        repaired=ScaledPool,
        inputs=lambda: [(torch.randn(1, 2, size, size),) for size in (7, 7)],
        hints=(
            "Divide PyTorch's output by the file's: the ratio is constant. Which argument could it be?",
            "AveragePool has no attribute for another divisor; both rules leave the argument out.",
            "Average over all nine values (count_include_pad=True), and multiply.",
        ),
        threads="pytorch#105349",
        lesson="07_operator_support",
    ),
    Patient(
        name="index-put",
        symptom="Counting by index_put(accumulate=True): an index that occurs three times is counted once.",
        stage="translate",
        exporter=Exporter.TORCHSCRIPT,
        ill=Counter,
        repaired=ScatterCounter,
        inputs=lambda: [
            (torch.zeros(4), torch.tensor([1, 1, 3, 1]), torch.ones(4)),
            (torch.ones(4), torch.tensor([2, 2, 2, 2]), torch.ones(4)),
        ],
        hints=(
            "With distinct indices the file is right. What does ScatterND do with two writes to one place?",
            "Its `reduction` is none unless it is said; the TorchScript exporter does not say it.",
            "scatter_add along axis 0 does the same, and its rule writes reduction=add.",
        ),
        threads="pytorch#111159, pytorch#61034",
        lesson="07_operator_support",
    ),
    Patient(
        name="view-in-place",
        symptom="A gate that should clip half of the channels does nothing: the output equals the input.",
        stage="capture",
        exporter=Exporter.TORCHSCRIPT,
        ill=Gate,
        repaired=PlainGate,
        inputs=lambda: [(torch.randn(2, 6),), (torch.randn(2, 6),)],
        hints=(
            "Look at the graph: how many nodes are there?",
            "The tensor that relu_() changes is a view of another; is that one changed in the graph?",
            "Do not change a view: make both halves, and concatenate them.",
        ),
        threads="pytorch#80271",
        lesson="06_trace_breakers",
    ),
    Patient(
        name="log-add-exp",
        symptom="A speech model's scores become -inf far below 0, and are right for random inputs.",
        stage="translate",
        exporter=Exporter.TORCH_EXPORT,
        ill=LogAddExp,
        repaired=StableLogAddExp,
        inputs=lambda: [
            (torch.randn(4), torch.randn(4)),
            (
                torch.tensor([-200.0, -torch.inf, -torch.inf, 0.0]),
                torch.tensor([-201.0, -torch.inf, -3.0, -500.0]),
            ),
        ],
        hints=(
            "Try inputs of -50, -80, -120, -inf. Where does it break, and what is exp of that number?",
            "The rule writes the definition: Log(Exp(a) + Exp(b)). PyTorch computes it otherwise.",
            "max(a, b) + log1p(exp(-|a - b|)); where a == b, a + log(2): two -inf differ by NaN.",
        ),
        threads="icefall#1158",
        lesson="07_operator_support",
    ),
    Patient(
        name="log-sigmoid",
        symptom="A loss is -inf in the file for confident negatives; PyTorch says -20.",
        stage="translate",
        exporter=Exporter.TORCH_EXPORT,
        ill=LogSigmoid,
        repaired=StableLogSigmoid,
        inputs=lambda: [(torch.randn(4),), (torch.tensor([-20.0, -90.0, 20.0, 90.0]),)],
        hints=(
            "Make the value between the two nodes an output, at -20.",
            "The runtime's Sigmoid is exactly 0 there, and its logarithm is -inf.",
            "log(sigmoid(x)) is -softplus(-x).",
        ),
        threads="pytorch#14830",
        lesson="07_operator_support",
    ),
    Patient(
        name="floor-division",
        symptom="Offsets of windows are one too large, for negative coordinates only.",
        stage="translate",
        exporter=Exporter.TORCHSCRIPT,
        ill=FloorDivision,
        repaired=NamedFloorDivision,
        inputs=lambda: [(torch.arange(8),), (torch.arange(-9, -1),)],
        hints=(
            "Which way does Python round -9 // 4? Which way does ONNX's Div?",
            "Div truncates whole numbers towards zero; the rule does not correct it.",
            "torch.div(x, 4, rounding_mode='floor') is translated rightly.",
        ),
        threads="pytorch#78442, pytorch#44692",
        lesson="07_operator_support",
    ),
    Patient(
        name="nan-and-max",
        symptom="A monitor looks for NaN in the outputs, and stays silent although a weight is NaN.",
        stage="run",
        exporter=Exporter.TORCH_EXPORT,
        ill=LargestOfRow,
        repaired=LargestOrNan,
        inputs=lambda: [
            (torch.randn(3, 3),),
            (torch.tensor([[torch.nan, 1.0, 2.0], [1.0, torch.nan, 2.0], [1.0, 2.0, torch.nan]]),),
        ],
        hints=(
            "Run the same file in onnx.reference. Who differs: the file, or the runtime?",
            "The kernel of ReduceMax keeps a NaN only if it comes first.",
            "Ask for NaN by isnan().any(), and take the maximum of the rest.",
        ),
        threads="onnxruntime#10514",
        lesson="10_backends_differ",
    ),
    Patient(
        name="adaptive-pool",
        symptom="A classifier with an adaptive pool is right at the size of the export, and wrong at others.",
        stage="capture",
        exporter=Exporter.TORCH_EXPORT,
        ill=AdaptivePool,
        repaired=lambda: MatrixPool(4),
        inputs=_pictures,
        dynamic=({0: "batch", 2: "height", 3: "width"},),
        hints=(
            "Read the label of the output: a pool to 4 x 4 must say 4.",
            "At 8 x 8 the windows are all 2 x 2, so an ordinary pool was written.",
            "Make the windows from the sizes: two matrices of weights, and two products.",
        ),
        threads="pytorch#74034, pytorch#39323",
        lesson="04b_right_at_every_size",
    ),
    Patient(
        name="kept-table",
        symptom="A model fails at lengths above 6 if it was used before the export, not in a fresh kernel.",
        stage="capture",
        exporter=Exporter.TORCH_EXPORT,
        ill=KeptTable,
        repaired=FreshTable,
        inputs=_row_lengths,
        dynamic=({1: "length"},),
        hints=(
            "What is `model.table.shape` before the export, and what does the `if` say then?",
            "The table is a constant of the file, as long as it was at that moment.",
            "Make the table from the input's length in every call.",
        ),
        threads="sparseml#1826, fairseq#2468",
        lesson="04b_right_at_every_size",
    ),
    Patient(
        name="running-mean",
        symptom="A filter is right for the first sample and forgets it: each call begins anew.",
        stage="capture",
        exporter=Exporter.TORCH_EXPORT,
        ill=RunningMean,
        repaired=CarriedMean,
        inputs=lambda: [(torch.randn(3),) for _ in range(5)],
        carries_buffers=True,
        hints=(
            "Call the module and the session twice with the same input. Which one answers the same twice?",
            "A file has no variables: the buffer became a constant, with its value at the export.",
            "forward(x, mean) returns the output and the new mean; the caller feeds it into the next call.",
        ),
        threads="pytorch#60828, pytorch#114406",
        lesson="17_decoder_with_cache",
    ),
    Patient(
        name="unread-mask",
        symptom="By position, the outputs change with a mask that forward does not read; by name, the "
        "runtime says 'Invalid input name: mask'.",
        stage="optimise",
        exporter=Exporter.TORCHSCRIPT,
        ill=UnreadMask,
        repaired=KeptMask,
        inputs=_masked,
        dynamic=({0: "batch", 1: "length"},) * 3,
        hints=(
            "Which inputs does session.get_inputs() list?",
            "This exporter keeps only what a node reads: the third array goes into no input, the mask "
            "into the place of kind.",
            "Let the graph read it: + 0 * mask[..., None]; or export with dynamo=True, which keeps it.",
        ),
        threads="onnx#6093, pytorch#104949",
        lesson="03_export_arguments",
    ),
)
