"""What `onnxlab why` advises about PyTorch and its exporters, tried: with the fault, and with what helps."""

import copy
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.export import Dim

from onnxlab.diagnosis.messages import answers
from tests.diagnosis.fixes import check
from tests.diagnosis.test_cures import CASES, PAIRS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("remembered_translations")]  # some hundred exports

AUTO, DYNAMIC = Dim.AUTO, Dim.DYNAMIC
X, W = torch.ones(2, 4), torch.ones(4, 4)
FALLTHROUGH = torch.onnx.OperatorExportTypes.ONNX_FALLTHROUGH


class Calls(torch.nn.Module):
    """Calls a function."""

    def __init__(self, function, **held):
        super().__init__()
        self.function = function
        for name, value in held.items():
            setattr(self, name, value)

    def forward(self, *inputs):
        return self.function(*inputs)


class Stores(torch.nn.Module):
    """Keeps a tensor of forward's, as an attribute or as a buffer."""

    def __init__(self, is_buffer):
        super().__init__()
        if is_buffer:
            self.register_buffer("last", torch.zeros(2, 4))

    def forward(self, x):
        self.last = x + 1
        return self.last


class Late(torch.nn.Module):
    """Makes a layer when the first input comes."""

    def forward(self, x):
        if not hasattr(self, "layer"):
            self.layer = torch.nn.Linear(x.shape[-1], 2)
        return self.layer(x)


@dataclass
class Pair:
    """Two tensors."""

    first: torch.Tensor
    second: torch.Tensor


class Registered(Pair):
    """Two tensors, known to torch.export."""


torch.export.register_dataclass(dataclass(Registered), serialized_type_name="onnxlab.tests.Registered")


def capture(function, *inputs, free=None, **options):
    """Capture a function; `free` gives the dims of its one input."""
    if free is not None:
        options["dynamic_shapes"] = ((free,),)
    return torch.export.export(Calls(function), inputs or (X,), **options)


def write(function, *inputs, to="m.onnx", **options):
    """Export a function or a module by the default exporter."""
    module = function if isinstance(function, torch.nn.Module) else Calls(function)
    return torch.onnx.export(module, inputs or (X,), to, **{"dynamo": True, "verbose": False, **options})


def old(function, *inputs, **options):
    """Export a function or a module by the TorchScript exporter."""
    return write(function, *inputs, **{"dynamo": False, "opset_version": 17, **options})


def load(_program):
    """Load the file that was exported."""
    return onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])


def trace(function, *inputs, **options):
    """Trace a function."""
    return torch.jit.trace(function, inputs or (X,), **options)


def loop(body):
    """Capture a while_loop of three iterations."""
    whole = torch._higher_order_ops.while_loop
    return capture(lambda x: whole(lambda n, y: n < 3, body, (torch.tensor(0), x)))


def branches(other):
    """Capture a torch.cond whose other branch is given."""
    return capture(lambda x: torch.cond(x.sum() > 0, lambda x: (x + 1,), other, (x,)))


def operator(name, has_fake):
    """Define a custom operator and capture it."""
    twice = torch.library.custom_op(
        f"onnxlabtest::{name}", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    if has_fake:
        twice.register_fake(torch.empty_like)
    return capture(lambda x: twice(x))


def fake(function):
    """Call a function with tensors that have a shape and no values."""
    with FakeTensorMode():
        return function()


class Slices(torch.nn.Module):
    """Slices a weight with a step."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 8))

    def forward(self, x):
        return x + self.weight[:2, ::2]


def packed(x, lengths=(2, 1)):
    """Pack sequences."""
    return torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True).data


class Python(torch.autograd.Function):
    """A function of Python's for the TorchScript exporter."""

    @staticmethod
    def forward(_, x):
        return x.clone()


KEPT = []
GRADIENT = torch.ones(4, requires_grad=True)
CAPTURE = {
    "while-loop-metadata": (
        lambda: loop(lambda n, y: (n + 1, y[:1] * 2)),
        lambda: loop(lambda n, y: (n + 1, y * 2)),
    ),
    "branches-disagree": (lambda: branches(lambda x: ((x + 2).int(),)), lambda: branches(lambda x: (x + 2,))),
    "ranges-conflict": (
        lambda: capture(lambda x: x if x.shape[0] < 6 else x + 1, free={0: Dim("n", max=9)}),
        lambda: capture(lambda x: x if x.shape[0] < 6 else x + 1, free={0: Dim("n", max=5)}),
    ),
    "example-of-one": (
        lambda: capture(torch.relu, X[:1], free={0: DYNAMIC}),
        lambda: capture(torch.relu, X, free={0: DYNAMIC}),
    ),
    "dim-became-static": (
        lambda: capture(lambda x: x @ W, free={1: DYNAMIC}),
        lambda: capture(lambda x: x @ W, free={0: DYNAMIC}),
    ),
    "axes-tied": (
        lambda: capture(torch.add, X, W[:2], dynamic_shapes=(({0: Dim("a")}, {0: Dim("b")}),)),
        lambda: capture(torch.add, X, W[:2], dynamic_shapes=(({0: Dim("a")}, {0: Dim("a")}),)),
    ),
    "dynamic-shapes-structure": (
        lambda: capture(torch.relu, dynamic_shapes=(({0: AUTO}, {0: AUTO}),)),
        lambda: capture(torch.relu, dynamic_shapes=(({0: AUTO},),)),
    ),
    "dynamic-shapes-of-a-number": (
        lambda: capture(torch.mul, X, 3, dynamic_shapes=(({0: AUTO}, {0: AUTO}),)),
        lambda: capture(torch.mul, X, 3, dynamic_shapes=(({0: AUTO}, None),)),
    ),
    "dim-arithmetic": (lambda: Dim("a") + Dim("b"), lambda: capture(torch.relu, free={0: AUTO})),
    "guard-failed": (
        lambda: capture(torch.relu).module()(W),
        lambda: capture(torch.relu, free={0: AUTO}).module()(W),
    ),
    "runtime-assertion": (
        lambda: capture(lambda n: torch.zeros(n.item()), torch.tensor(3)).module()(torch.tensor(-1)),
        lambda: capture(lambda n: torch.zeros(n.item()), torch.tensor(3)).module()(torch.tensor(2)),
    ),
    "attribute-of-tensors": (
        lambda: torch.export.export(Stores(False), (X,)),
        lambda: torch.export.export(Stores(True), (X,)),
    ),
    "leaf-deepcopy": (
        lambda: copy.deepcopy(Calls(torch.relu, kept=torch.ones(2, requires_grad=True) * 2)),
        lambda: copy.deepcopy(Calls(torch.relu, kept=(torch.ones(2, requires_grad=True) * 2).detach())),
    ),
    "tensor-of-a-capture-was-kept": (
        lambda: (
            KEPT.clear(),
            [capture(lambda x: (KEPT or KEPT.append(x * 2) or KEPT)[0] + x) for _ in range(2)],
        ),
        lambda: [capture(lambda x: x * 2 + x) for _ in range(2)],
    ),
    "error-while-running-a-call": (
        lambda: capture(lambda x: torch.cat([x, x[0]]), strict=True),
        lambda: capture(lambda x: torch.cat([x, x]), strict=True),
    ),
    "input-structure": (
        lambda: capture(torch.relu).module()(X, X),
        lambda: capture(torch.relu).module()(X),
    ),
    "two-devices": (
        lambda: capture(lambda x: x + torch.ones(4, device="meta")),
        lambda: capture(lambda x: x + torch.ones(4, device=x.device)),
    ),
    "takes-an-object": (
        lambda: capture(lambda pair: pair.first, Pair(X, X)),
        lambda: capture(lambda pair: pair.first, Registered(X, X)),
    ),
    "no-fake": (lambda: operator("unshaped", False), lambda: operator("shaped", True)),
    "python-not-followed": (
        lambda: capture(lambda x: x * len(list(Path().iterdir())), strict=True),
        lambda: capture(lambda x: x * len(list(Path().iterdir())), strict=False),
    ),
    "data-dependent-operator": (
        lambda: fake(lambda: torch.nonzero(torch.ones(3))),
        lambda: fake(lambda: torch.topk(torch.ones(3), 2)[1]),
    ),
    "number-for-a-float": (
        lambda: capture(
            lambda x, f: torch.nn.functional.interpolate(x[None], scale_factor=f.item()), X, torch.tensor(2.0)
        ),
        lambda: capture(
            lambda x, f: torch.nn.functional.interpolate(x[None], size=f.shape[0]), X, torch.ones(8)
        ),
    ),
    "promise-broken": (lambda: torch._check(len(X) > 99), lambda: torch._check(len(X) > 0)),
    "inference-tensor": (
        lambda: torch.nn.Linear(4, 4)(torch.inference_mode()(torch.ones)(2, 4)),
        lambda: torch.nn.Linear(4, 4)(torch.no_grad()(torch.ones)(2, 4)),
    ),
    "no-backend-kernel": (
        lambda: torch.sort(X.to_sparse()),
        lambda: torch.sort(X.to_sparse().to_dense()),
    ),
    "unknown-custom-operator-in-torch": (
        lambda: torch.ops.onnxlabtest.absent(X),
        lambda: (operator("there", True), torch.ops.onnxlabtest.there(X)),
    ),
    "exported-program-called": (lambda: capture(torch.relu)(X), lambda: capture(torch.relu).module()(X)),
    "linear-in-pytorch": (lambda: torch.nn.Linear(3, 2)(X), lambda: torch.nn.Linear(4, 2)(X)),
    "half-on-a-cpu": (lambda: torch.cdist(X.half(), X.half()), lambda: torch.cdist(X, X)),
    "unregistered-parameter": (
        lambda: capture(lambda x: x * GRADIENT).module(),
        lambda: torch.export.export(torch.nn.PReLU(4), (X,)).module(),
    ),
    "state-dict-does-not-fit": (
        lambda: torch.nn.Linear(4, 2).load_state_dict(torch.nn.Linear(3, 2).state_dict()),
        lambda: torch.nn.Linear(3, 2).load_state_dict(torch.nn.Linear(3, 2).state_dict()),
    ),
    "overflow-in-numpy": (
        lambda: np.full(2, 60000, np.float16) * np.float16(2),
        lambda: np.full(2, 60000, np.float32) * np.float32(2),
    ),
}

SCRIPT = torch.jit.script


class Named(torch.nn.Module):
    """Returns a dict, or its tensor."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + 1}


def rest(x, *more):
    """Take any number of arguments."""
    return x + len(more)


def imports(x):
    """Import inside."""
    import math

    return x * math.pi


def pooled(size):
    """Export an adaptive pool."""
    return old(torch.nn.AdaptiveAvgPool2d(size), torch.ones(1, 1, 7, 7))


def fake_quantised(low):
    """Export a fake quantisation of a range."""
    return old(lambda x: torch.fake_quantize_per_tensor_affine(x.clamp(-1, 1), 0.1, 0, low, 127))


def attended(repeats, **options):
    """Export an attention of grouped heads."""
    attend = torch.nn.functional.scaled_dot_product_attention
    q, k = torch.ones(1, 4, 2, 4), torch.ones(1, 2, 2, 4).repeat_interleave(repeats, 1)
    return old(lambda q, k: attend(q, k, k, **options), q, k)


def scattered(**options):
    """Export a scatter_reduce."""
    index = torch.zeros(2, 4, dtype=torch.int64)
    return old(lambda x, index: x.scatter_reduce(0, index, x, **options), X, index)


def spectrum(**options):
    """Export a short-time Fourier transform."""
    return old(lambda x: torch.stft(x, 4, window=torch.ones(4), **options), torch.ones(1, 16))


def dynamic_axes(axes, **options):
    """Export with dynamic axes of the TorchScript exporter."""
    return old(torch.relu, dynamic_axes=axes, **options)


def custom(typed):
    """Export a custom operator whose rule declares its type, or not."""

    class Rule(Python):
        @staticmethod
        def symbolic(g, x):
            y = g.op("mine::Twice", x)
            return y.setType(x.type()) if typed else y

    return old(lambda x: Rule.apply(x) + 1, custom_opsets={"mine": 1})


LSTM = torch.nn.LSTM(4, 4)
HEAD = torch.nn.Linear(4, 2, bias=False)
NOISE = torch.nn.Dropout(0.5)
TORCHSCRIPT = {
    "dynamic-shapes-without-dynamo": (
        lambda: old(torch.relu, dynamic_shapes=(({0: AUTO},),)),
        lambda: old(torch.relu, input_names=["x"], dynamic_axes={"x": {0: "n"}}),
    ),
    "dict-of-a-script": (lambda: old(SCRIPT(Named())), lambda: old(lambda x: Named()(x)["y"])),
    "gqa-in-torchscript": (lambda: attended(1, enable_gqa=True), lambda: attended(2)),
    "adaptive-pool": (lambda: pooled(3), lambda: pooled(1)),
    "scatter-mean": (lambda: scattered(reduce="mean"), lambda: scattered(reduce="sum")),
    "narrow-range": (lambda: fake_quantised(-127), lambda: fake_quantised(-128)),
    "rule-without-this-argument": (
        lambda: old(torch.bitwise_not, X.int()),
        lambda: write(torch.bitwise_not, X.int()),
    ),
    "stft-complex": (lambda: spectrum(return_complex=True), lambda: spectrum(return_complex=False)),
    "dict-output-of-a-trace": (lambda: trace(lambda x: {"y": x + 1}), lambda: trace(lambda x: (x + 1,))),
    "borrowed-tensor": (
        lambda: trace(lambda x: x @ HEAD.weight.T),
        lambda: trace(HEAD),
    ),
    "trace-array": (
        lambda: trace(lambda x: x + torch.from_numpy(np.sin(x.numpy()))),
        lambda: trace(lambda x: x + torch.sin(x)),
    ),
    "trace-list": (lambda: trace(lambda x: x * sum(x[0].tolist())), lambda: trace(lambda x: x * x[0].sum())),
    "trace-loop": (lambda: trace(lambda x: sum(row for row in x)), lambda: trace(lambda x: x.sum(0))),
    "trace-length": (lambda: trace(lambda x: x * len(x)), lambda: trace(lambda x: x * x.shape[0])),
    "trace-lengths": (
        lambda: trace(packed, W[None, :2].expand(2, 2, 4)),
        lambda: trace(packed, W[None, :2].expand(2, 2, 4), torch.tensor([2, 1])),
    ),
    "trace-assertion": (
        lambda: trace(lambda x: x * complex(x.sum()).real),
        lambda: trace(lambda x: x * x.sum()),
    ),
    "constant-folding-of-the-exporter": (lambda: old(Slices()), lambda: write(Slices())),
    "trace-differs": (lambda: trace(NOISE.train()), lambda: trace(torch.nn.Dropout(0.5).eval())),
    "upsample-before-opset-11": (
        lambda: old(torch.nn.Upsample(scale_factor=2), X[None, None], opset_version=10),
        lambda: old(torch.nn.Upsample(scale_factor=2), X[None, None], opset_version=11),
    ),
    "lstm-batch-warning": (lambda: old(LSTM, X[None]), lambda: write(LSTM, X[None])),
    "opset-beyond-torchscript": (
        lambda: old(torch.relu, opset_version=22),
        lambda: old(torch.relu, opset_version=20),
    ),
    "opset-of-another-torch": (lambda: old(torch.relu, opset_version=99), lambda: old(torch.relu)),
    "module-made-in-forward": (lambda: old(Late()), lambda: ((late := Late())(X), old(late))),
    "left-to-aten": (
        lambda: load(old(torch.logaddexp, X, X, operator_export_type=FALLTHROUGH)),
        lambda: load(write(torch.logaddexp, X, X)),
    ),
    "shape-of-a-custom-operator": (lambda: custom(False), lambda: custom(True)),
    "legacy-exporter": (lambda: old(torch.relu), lambda: write(torch.relu)),
    "training-mode": (lambda: write(Calls(torch.relu)), lambda: write(Calls(torch.relu).eval())),
    "import-in-a-script": (lambda: SCRIPT(imports), lambda: capture(imports)),
    "script-compiles-a-part": (
        lambda: SCRIPT(rest),
        lambda: trace(rest),
    ),
    "unconvertible-list": (
        lambda: torch.onnx.utils.unconvertible_ops(Calls(torch.logaddexp), (X, X)),
        lambda: old(torch.relu),
    ),
    "index-with-many-nodes": (
        lambda: old(lambda x: x[torch.tensor([0, 1]), torch.tensor([1, 2])]),
        lambda: old(lambda x: x.index_select(1, torch.tensor([1, 2]))),
    ),
    "repeated-indices": (
        lambda: old(lambda x: x.index_add(0, torch.tensor([0, 1]), x)),
        lambda: write(lambda x: x.index_add(0, torch.tensor([0, 1]), x)),
    ),
    "export-to-a-buffer": (lambda: write(torch.relu, to=io.BytesIO()), lambda: write(torch.relu)),
    "export-arguments": (lambda: old(torch.relu, example_outputs=X), lambda: old(torch.relu)),
    "unused-argument-of-export": (
        lambda: dynamic_axes({"image": {0: "n"}}),
        lambda: dynamic_axes({"image": {0: "n"}}, input_names=["image"]),
    ),
    "no-names-for-dynamic-axes": (
        lambda: dynamic_axes({"x": [0]}, input_names=["x"]),
        lambda: dynamic_axes({"x": {0: "n"}}, input_names=["x"]),
    ),
}


def quantised(module):
    """Return a module quantised in PyTorch's eager mode."""
    return torch.ao.quantization.quantize_dynamic(module, {torch.nn.Linear})


def turned(x):
    """Multiply pairs as complex numbers."""
    return torch.view_as_real(torch.view_as_complex(x) * torch.polar(torch.ones(2), torch.ones(2)))


def turned_by_hand(x):
    """Multiply pairs by cos and sin."""
    a, b = x.unbind(-1)
    return torch.stack([a * np.cos(1) - b * np.sin(1), a * np.sin(1) + b * np.cos(1)], -1)


def halves(**options):
    """Export halves of an axis whose size is free."""
    return write(lambda x: torch.cat(x.chunk(2, 1)), dynamic_shapes=(({1: DYNAMIC},),), **options)


COMPLEX = torch.ones(2, 2)
TRANSLATION = {
    "optimiser-of-the-exporter": (halves, lambda: halves(optimize=False)),
    "complex-numbers": (lambda: old(turned, COMPLEX), lambda: old(turned_by_hand, COMPLEX)),
    "no-translation": (
        lambda: write(lambda x: torch.linalg.matrix_exp(x), W),
        lambda: write(lambda x: torch.eye(4) + x + x @ x / 2, W),
    ),
    "more-names-than-outputs": (
        lambda: old(torch.relu, output_names=["y", "z"]),
        lambda: old(torch.relu, output_names=["y"]),
    ),
    "input-names-count": (
        lambda: old(torch.relu, input_names=["x", "mask"]),
        lambda: old(torch.relu, input_names=["x"]),
    ),
    "quantised-module": (
        lambda: torch.export.export(quantised(torch.nn.Sequential(torch.nn.Linear(4, 2))), (X,)),
        lambda: torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 2)), (X,)),
    ),
    "weight-not-applied": (
        lambda: write(torch.relu).apply_weights({"count": torch.ones(1)}),
        lambda: write(torch.relu).apply_weights({}),
    ),
    "onnx-program-too-old": (
        lambda: torch.onnx.dynamo_export(Calls(torch.relu), X),
        lambda: write(torch.relu),
    ),
    "dynamic-axes-with-dynamo": (
        lambda: write(torch.nn.ReLU(), input_names=["x"], dynamic_axes={"x": {0: "n"}}),
        lambda: write(torch.nn.ReLU(), input_names=["x"], dynamic_shapes=({0: "n"},)),
    ),
    "name-shared-by-axes": (
        lambda: write(torch.add, X, W[:2], dynamic_shapes=(({0: "a"}, {0: "b"}),)),
        lambda: write(torch.add, X, W[:2], dynamic_shapes=(({0: "a"}, {0: AUTO}),)),
    ),
}

TABLE = CAPTURE | TORCHSCRIPT | TRANSLATION


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", TABLE)
def test_a_cure_ends_its_message(kind, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    check(kind, *TABLE[kind], capfd)


NOT_RUN = {
    "needs a GPU, another system or another installation": """numpy-of-a-gpu-tensor checkpoint-of-a-gpu
        memory-pattern-off providers-are-required thread-affinity gpu-discovery user-without-a-name
        locked-or-forbidden-file environment-is-gone sympy-is-missing two-gigabytes""",
    "the installed versions no longer say it here": """relational-without-a-value input-is-changed
        guard-local-name external-data-in-memory convinteger-of-int8 qlinear-concat python-operator
        list-operators-of-a-script trace-in-place signature-of-a-script squeeze-is-left-out no-schema
        nested-tensors names-given-twice file-fails-the-checker opset-not-reached change-in-place-removed""",
    "run by test_messages.py": "no-decomposition",
    "a small program did not raise it": """iobinding-wrong-array damaged-node trained-batch-norm
        adapter-cannot weight-type-unknown range-unknown bias-too-large tokenizer-text
        verification-differs symbolic-size-refused optimiser-of-the-runtime weight-without-data""",
    # Tried: text and a transposed array bound; calls, weights and indices too short; BatchNormalization with
    # five outputs, Dropout in training; a broadcasting Add of opset 6 and Upsample of 8 in the next opset; a
    # custom operator before MatMul; a constant branch; 1e-12 as weight of Gemm; the byte 0xff for Tokenizer;
    # Dropout exported in training with verify=True; a BatchNorm and a buffer changed in place, traced and
    # scripted; a MatMul with fc.weight, which nobody makes.
}
"""Kinds whose cure no test runs, by the reason."""

ELSEWHERE = {"provider", "web", "mobile", "tools", "install"}
"""Stages of other machines and packages."""


def test_each_kind_is_run_or_says_why_not():
    run = {*CASES, *PAIRS, *TABLE}
    reasons = {name for names in NOT_RUN.values() for name in names.split()}
    general = {kind.name for kind in answers() if kind.certainty == "kind" or kind.stage in ELSEWHERE}
    assert reasons & (run | general) == set()
    assert run | reasons | general == {kind.name for kind in answers()}
