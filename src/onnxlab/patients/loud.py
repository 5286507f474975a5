"""Patients whose export, loading or run ends with an error."""

import dataclasses
import warnings

import torch
import torch.nn.functional as F  # noqa: N812 (PyTorch's own convention)
from torch import Tensor, nn

from onnxlab.exporters.export import Exporter
from onnxlab.patients.patient import Patient
from onnxlab.patients.silent import AdaptivePool, MatrixPool


@dataclasses.dataclass
class Result:
    """What a network returns."""

    logits: Tensor
    hidden: Tensor


class Network(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and hidden values."""
        hidden = torch.relu(self.body(x))
        return self.head(hidden), hidden


class ReturnsDataclass(Network):
    """Returns an object."""

    def forward(self, x: Tensor) -> Result:
        return Result(*self.both(x))


class ReturnsTuple(Network):
    """Returns tensors."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.both(x)


class Distances(nn.Module):
    """The distance of each row of a to each row of b."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.cdist(a, b)


class WrittenDistances(nn.Module):
    """By differences and broadcasting."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return ((a[:, None] - b[None]) ** 2).sum(-1).sqrt()


class Thirds(nn.Module):
    """Works with three parts of an axis."""

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = x.chunk(3, dim=1)
        return a * b + c


class SlicedThirds(nn.Module):
    """The parts as slices."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1] // 3
        return x[:, :n] * x[:, n : 2 * n] + x[:, 2 * n : 3 * n]


class Head(nn.Module):
    """A layer with a method that others borrow."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)

    def score(self, x: Tensor) -> Tensor:
        """Return three scores."""
        return self.linear(x)


class Borrower(nn.Module):
    """Keeps a method of another module, not the module."""

    def __init__(self) -> None:
        super().__init__()
        self.score = Head().score

    def forward(self, x: Tensor) -> Tensor:
        return self.score(x).sigmoid()


class Owner(nn.Module):
    """Keeps the module."""

    def __init__(self) -> None:
        super().__init__()
        self.head = Head()

    def forward(self, x: Tensor) -> Tensor:
        return self.head.score(x).sigmoid()


class GroupedHeads(nn.Module):
    """Eight heads of queries share two of keys."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


class RepeatedHeads(nn.Module):
    """The shared heads are repeated, each one after itself."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        n = q.shape[1] // k.shape[1]
        return F.scaled_dot_product_attention(q, k.repeat_interleave(n, dim=1), v.repeat_interleave(n, dim=1))


class ChoiceOfMasks(nn.Module):
    """Chooses between two boolean tensors."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x > 1, x < -1)


class LogicOfMasks(nn.Module):
    """The same with and, or, not."""

    def forward(self, x: Tensor) -> Tensor:
        positive = x > 0
        return (positive & (x > 1)) | (~positive & (x < -1))


class CountedMask(nn.Module):
    """How many true values there are up to each place."""

    def forward(self, mask: Tensor) -> Tensor:
        return mask.cumsum(1)


class CastMask(nn.Module):
    """The type is changed before the sum."""

    def forward(self, mask: Tensor) -> Tensor:
        return mask.long().cumsum(1)


class MaskAndColumn(nn.Module):
    """Writes the positive values into the first of two columns."""

    def forward(self, r: Tensor) -> Tensor:
        out = torch.zeros(r.shape[0], 2)
        positive = r > 0
        out[positive, 0] = r[positive]
        return out


class StackedColumns(nn.Module):
    """The columns are computed, not written."""

    def forward(self, r: Tensor) -> Tensor:
        return torch.stack([torch.where(r > 0, r, 0.0), torch.zeros_like(r)], 1)


class AutocastInside(nn.Module):
    """Computes in bfloat16, by a context inside forward."""

    def __init__(self, *, cast: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.cast = nn.Linear(4, 3), cast

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.cast):
            return self.linear(x).float()


class FrozenEncoder(nn.Module):
    """A transformer layer of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class WrittenAttention(FrozenEncoder):
    """The same weights; the sizes stay in the graph."""

    def forward(self, x: Tensor) -> Tensor:
        both = F.linear(x, self.attention.in_proj_weight, self.attention.in_proj_bias)
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in both.chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.attention.out_proj(mixed.transpose(1, 2).flatten(2))


class NarrowWeights(nn.Module):
    """Fake quantisation from -127 to 127."""

    scale = 0.05

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(3, 4) * 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, torch.fake_quantize_per_tensor_affine(self.weight, self.scale, 0, -127, 127))


class ClampedWeights(NarrowWeights):
    """What the narrow range cut off is cut off before."""

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.clamp(min=-127 * self.scale)
        return F.linear(x, torch.fake_quantize_per_tensor_affine(weight, self.scale, 0, -128, 127))


class ReturnsDict(nn.Module):
    """Returns logits and probabilities by name."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        logits = self.linear(x)
        return {"logits": logits, "probabilities": logits.softmax(-1)}


class Unpacked(nn.Module):
    """Takes the tensors out of the dict."""

    def __init__(self) -> None:
        super().__init__()
        self.scripted = scripted(ReturnsDict())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        named = self.scripted(x)
        return named["logits"], named["probabilities"]


def scripted(module: nn.Module) -> torch.jit.ScriptModule:
    """Return the module as somebody received it: compiled, without its Python source."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # torch.jit is deprecated
        return torch.jit.script(module.eval())


class Passed(nn.Module):
    """Returns its input, and something computed from it."""

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        return samples, samples.abs()


class Fresh(nn.Module):
    """A tensor of its own."""

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        return samples + 0, samples.abs()


PATIENTS = (
    Patient(
        name="returns-a-dataclass",
        symptom="'Found <class Result> in output, which is not a known type.'",
        stage="capture",
        exporter=Exporter.TORCH_EXPORT,
        ill=ReturnsDataclass,
        repaired=ReturnsTuple,
        inputs=lambda: [(torch.randn(n, 4),) for n in (2, 2)],
        hints=(
            "A graph has a flat list of outputs. Who says how this object becomes one?",
            "Tuples, lists, dicts and named tuples are known; a dataclass is not, until it is registered.",
            "Return the two tensors, or torch.export.register_dataclass(Result).",
        ),
        threads="pytorch#147400, pytorch#96386",
        lesson="12_modern_exporter",
    ),
    Patient(
        name="cdist",
        symptom="'No ONNX function found for aten._cdist_forward', a name that the model does not contain.",
        stage="translate",
        exporter=Exporter.TORCH_EXPORT,
        ill=Distances,
        repaired=WrittenDistances,
        inputs=lambda: [(torch.randn(3, 4), torch.randn(5, 4)), (torch.randn(3, 4), torch.randn(5, 4))],
        hints=(
            "Which function of torch becomes _cdist_forward in the captured program?",
            "PyTorch does not decompose it, and the exporter has no rule for it.",
            "Differences by broadcasting, squared, summed, and their root.",
        ),
        threads="onnxscript#1647, pytorch#144212",
        lesson="08_custom_operators",
    ),
    Patient(
        name="chunk-of-a-dynamic-axis",
        symptom="\"'NoneType' object has no attribute 'ndim'\", and there is no None in the model.",
        stage="optimise",
        exporter=Exporter.TORCH_EXPORT,
        ill=Thirds,
        repaired=SlicedThirds,
        inputs=lambda: [(torch.randn(n, t),) for n, t in ((2, 6), (3, 9), (1, 12))],
        dynamic=({0: "n", 1: "t"},),
        hints=(
            "At which stage does it fail? Does optimize=False change anything?",
            "chunk becomes SplitToSequence with a size that is no constant; the folding asks for its rank.",
            "Slices: n = x.shape[1] // 3; x[:, :n], x[:, n:2*n], x[:, 2*n:3*n].",
        ),
        threads="onnxscript#2543",
        lesson="12_modern_exporter",
    ),
    Patient(
        name="borrowed-method",
        symptom="'Cannot insert a Tensor that requires grad as a constant', followed by pages of numbers.",
        stage="capture",
        exporter=Exporter.TORCHSCRIPT,
        ill=Borrower,
        repaired=Owner,
        inputs=lambda: [(torch.randn(n, 4),) for n in (2, 2)],
        hints=(
            "How many parameters does list(model.parameters()) name?",
            "A bound method carries its module along, and the wrapper does not know it.",
            "Assign the module to self, and call its method.",
        ),
        threads="CED#8, pytorch#91750",
        lesson="02_trace_and_script",
    ),
    Patient(
        name="grouped-heads",
        symptom="'scaled_dot_product_attention not implemented if enable_gqa is True'.",
        stage="translate",
        exporter=Exporter.TORCHSCRIPT,
        ill=GroupedHeads,
        repaired=RepeatedHeads,
        inputs=lambda: [
            (torch.randn(1, 8, 5, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)) for _ in range(2)
        ],
        hints=(
            "Two heads of keys serve eight of queries. Which ones belong to which?",
            "repeat() puts the heads in another order than the attention does: it runs, and is wrong.",
            "k.repeat_interleave(n, dim=1), v likewise, and no flag.",
        ),
        threads="pytorch#162258, pytorch#151762",
        lesson="17_decoder_with_cache",
    ),
    Patient(
        name="adaptive-pool-refused",
        symptom="'operator adaptive_avg_pool2d, output size that are not factor of input size'.",
        stage="translate",
        exporter=Exporter.TORCHSCRIPT,
        ill=AdaptivePool,
        repaired=lambda: MatrixPool(4),
        inputs=lambda: [(torch.randn(1, 3, 9, 10),), (torch.randn(1, 3, 9, 10),)],
        hints=(
            "How long are the four windows over nine places?",
            "AveragePool has one window for all places: it cannot say 3, 3, 3, 3 with overlaps.",
            "Two matrices of weights, and two products.",
        ),
        threads="pytorch#42653, pytorch#120477",
        lesson="07_operator_support",
    ),
    Patient(
        name="where-of-masks",
        symptom="The checker passes, and the runtime finds no implementation for Where(16).",
        stage="load",
        exporter=Exporter.TORCH_EXPORT,
        ill=ChoiceOfMasks,
        repaired=LogicOfMasks,
        inputs=lambda: [(torch.randn(3, 4) * 2,), (torch.randn(3, 4) * 2,)],
        hints=(
            "Which element type do the two sides of this Where have?",
            "The standard allows boolean tensors there; the runtime's CPU has no such kernel.",
            "Logic instead of a choice: (c & a) | (~c & b).",
        ),
        threads="onnxruntime#24127, onnxruntime#9539",
        lesson="07_operator_support",
    ),
    Patient(
        name="cumsum-of-a-mask",
        symptom="The checker passes, and the runtime says that tensor(bool) is invalid for CumSum.",
        stage="translate",
        exporter=Exporter.TORCHSCRIPT,
        ill=CountedMask,
        repaired=CastMask,
        inputs=lambda: [(torch.randn(2, 5) > 0,), (torch.randn(2, 5) > 0,)],
        hints=(
            "Run onnx.checker.check_model with full_check=True. Is the file right?",
            "PyTorch counts true values as 1; ONNX's CumSum accepts numbers only.",
            "Cast first: mask.long().cumsum(1).",
        ),
        threads="onnxruntime#22326, onnxruntime#13681",
        lesson="07_operator_support",
    ),
    Patient(
        name="mask-and-column",
        symptom="The file loads, and a Reshape fails when it runs, even with the example's input.",
        stage="translate",
        exporter=Exporter.TORCHSCRIPT,
        ill=MaskAndColumn,
        repaired=StackedColumns,
        inputs=lambda: [(torch.tensor([1.0, -2.0, 3.0, -4.0]),), (torch.tensor([-1.0, 2.0, 3.0, 4.0]),)],
        hints=(
            "Which line of forward writes into a part of a tensor?",
            "A mask and a number in one index are not joined to one index by this exporter.",
            "Compute the columns by torch.where, and stack them.",
        ),
        threads="pytorch#159295",
        lesson="06_trace_breakers",
    ),
    Patient(
        name="autocast-inside",
        symptom="The runtime finds no implementation for Gemm(13), though all weights are float32.",
        stage="capture",
        exporter=Exporter.TORCH_EXPORT,
        ill=AutocastInside,
        repaired=lambda: AutocastInside(cast=False),
        inputs=lambda: [(torch.randn(2, 4),), (torch.randn(2, 4),)],
        hints=(
            "Which nodes stand before the Gemm?",
            "A context inside forward is followed into the graph; one around the export changes nothing.",
            "Make it switchable (enabled=...), and switch it off for the export.",
        ),
        threads="pytorch#158658, onnxruntime#26311",
        lesson="16_half_precision",
        atol=0.05,  # bfloat16 itself is this coarse
    ),
    Patient(
        name="frozen-attention",
        symptom="A transformer with dynamic axes runs at the length of the export, and fails at others.",
        stage="capture",
        exporter=Exporter.TORCHSCRIPT,
        ill=FrozenEncoder,
        repaired=WrittenAttention,
        inputs=lambda: [(torch.randn(n, t, 8),) for n, t in ((2, 5), (3, 9), (1, 1))],
        dynamic=({0: "batch", 1: "length"},),
        hints=(
            "Read the target of the Reshape that fails: whose numbers are these?",
            "MultiheadAttention asks for its sizes as Python numbers, and a tracer keeps those of "
            "the example.",
            "Write the attention with unflatten and flatten, with the same weights.",
        ),
        threads="pytorch#117209, pytorch#120075",
        lesson="04_dynamic_shapes",
    ),
    Patient(
        name="narrow-range",
        symptom="'ONNX allows only (0, 127), (0, 255) and (-128, 127). Got (-127, 127)'.",
        stage="translate",
        exporter=Exporter.TORCH_EXPORT,
        ill=NarrowWeights,
        repaired=ClampedWeights,
        inputs=lambda: [(torch.randn(n, 4),) for n in (2, 2)],
        hints=(
            "Does -128 instead of -127 give the same outputs? Look where the weights reach the end.",
            "QuantizeLinear saturates at the ends of int8, and has no narrower range.",
            "Clamp the weight at -127 * scale first, then use -128, 127.",
        ),
        threads="nncf#1816, sparseml#1670",
        lesson="15_quantise",
    ),
    Patient(
        name="scripted-dict",
        symptom="A .pt file from somebody else: 'Exporting the operator prim::DictConstruct' not supported.",
        stage="translate",
        exporter=Exporter.TORCHSCRIPT,
        ill=lambda: scripted(ReturnsDict()),
        repaired=lambda: scripted(Unpacked()),
        inputs=lambda: [(torch.randn(n, 4),) for n in (2, 1, 9)],
        dynamic=({0: "batch"},),
        hints=(
            "ONNX has lists of outputs, and no dicts. Where can the dict be taken apart?",
            "A wrapper in Python is traced, and a scripted module inside it is refused.",
            "Script the wrapper, too: it returns named['logits'], named['probabilities'].",
        ),
        threads="pytorch#155091",
        lesson="02_trace_and_script",
    ),
    Patient(
        name="passed-input",
        symptom="'This is an invalid model. Error: Duplicate definition of name (samples).'",
        stage="optimise",
        exporter=Exporter.TORCH_EXPORT,
        ill=Passed,
        repaired=Fresh,
        inputs=lambda: [(torch.randn(n),) for n in (3, 2, 8)],
        dynamic=({0: "n"},),
        options={"input_names": ["samples"]},
        hints=(
            "Which values of the file have this name?",
            "A value has one name, and here one value is input and output.",
            "Return a tensor of its own: samples + 0; or give input_names and output_names.",
        ),
        threads="pytorch#173076",
        lesson="03_export_arguments",
    ),
)
