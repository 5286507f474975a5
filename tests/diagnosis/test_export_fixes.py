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
from tests.diagnosis.message_fix import check
from tests.diagnosis.test_fixes import CASES

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
    "while-loop-metadata": lambda fixed: loop(
        (lambda n, y: (n + 1, y * 2)) if fixed else lambda n, y: (n + 1, y[:1] * 2)
    ),
    "branches-disagree": lambda fixed: branches(
        (lambda x: (x + 2,)) if fixed else lambda x: ((x + 2).int(),)
    ),
    "ranges-conflict": lambda fixed: capture(
        lambda x: x if x.shape[0] < 6 else x + 1, free={0: Dim("n", max=5 if fixed else 9)}
    ),
    "example-of-one": lambda fixed: capture(torch.relu, X if fixed else X[:1], free={0: DYNAMIC}),
    "dim-became-static": lambda fixed: capture(lambda x: x @ W, free={0 if fixed else 1: DYNAMIC}),
    "axes-tied": lambda fixed: capture(
        torch.add, X, W[:2], dynamic_shapes=(({0: Dim("a")}, {0: Dim("a" if fixed else "b")}),)
    ),
    "dynamic-shapes-structure": lambda fixed: capture(
        torch.relu, dynamic_shapes=(({0: AUTO},) if fixed else ({0: AUTO}, {0: AUTO}),)
    ),
    "dynamic-shapes-of-a-number": lambda fixed: capture(
        torch.mul, X, 3, dynamic_shapes=(({0: AUTO}, None if fixed else {0: AUTO}),)
    ),
    "dim-arithmetic": lambda fixed: capture(torch.relu, free={0: AUTO}) if fixed else Dim("a") + Dim("b"),
    "guard-failed": lambda fixed: (
        capture(torch.relu, free={0: AUTO}) if fixed else capture(torch.relu)
    ).module()(W),
    "runtime-assertion": lambda fixed: capture(lambda n: torch.zeros(n.item()), torch.tensor(3)).module()(
        torch.tensor(2 if fixed else -1)
    ),
    "attribute-of-tensors": lambda fixed: torch.export.export(Stores(fixed), (X,)),
    "leaf-deepcopy": lambda fixed: copy.deepcopy(
        Calls(
            torch.relu,
            kept=(torch.ones(2, requires_grad=True) * 2).detach()
            if fixed
            else torch.ones(2, requires_grad=True) * 2,
        )
    ),
    "tensor-of-a-capture-was-kept": lambda fixed: (
        [capture(lambda x: x * 2 + x) for _ in range(2)]
        if fixed
        else (
            KEPT.clear(),
            [capture(lambda x: (KEPT or KEPT.append(x * 2) or KEPT)[0] + x) for _ in range(2)],
        )
    ),
    "error-while-running-a-call": lambda fixed: capture(
        (lambda x: torch.cat([x, x])) if fixed else lambda x: torch.cat([x, x[0]]), strict=True
    ),
    "input-structure": lambda fixed: (
        capture(torch.relu).module()(X) if fixed else capture(torch.relu).module()(X, X)
    ),
    "two-devices": lambda fixed: capture(
        (lambda x: x + torch.ones(4, device=x.device))
        if fixed
        else lambda x: x + torch.ones(4, device="meta")
    ),
    "takes-an-object": lambda fixed: capture(lambda pair: pair.first, (Registered if fixed else Pair)(X, X)),
    "no-fake": lambda fixed: operator("shaped", True) if fixed else operator("unshaped", False),
    "python-not-followed": lambda fixed: capture(lambda x: x * len(list(Path().iterdir())), strict=not fixed),
    "data-dependent-operator": lambda fixed: fake(
        (lambda: torch.topk(torch.ones(3), 2)[1]) if fixed else lambda: torch.nonzero(torch.ones(3))
    ),
    "number-for-a-float": lambda fixed: (
        capture(lambda x, f: torch.nn.functional.interpolate(x[None], size=f.shape[0]), X, torch.ones(8))
        if fixed
        else capture(
            lambda x, f: torch.nn.functional.interpolate(x[None], scale_factor=f.item()), X, torch.tensor(2.0)
        )
    ),
    "promise-broken": lambda fixed: torch._check(len(X) > (0 if fixed else 99)),
    "inference-tensor": lambda fixed: torch.nn.Linear(4, 4)(
        (torch.no_grad if fixed else torch.inference_mode)()(torch.ones)(2, 4)
    ),
    "no-backend-kernel": lambda fixed: torch.sort(X if fixed else X.to_sparse()),
    "unknown-custom-operator-in-torch": lambda fixed: (
        (operator("there", True), torch.ops.onnxlabtest.there(X))
        if fixed
        else torch.ops.onnxlabtest.absent(X)
    ),
    "exported-program-called": lambda fixed: (capture(torch.relu).module() if fixed else capture(torch.relu))(
        X
    ),
    "linear-in-pytorch": lambda fixed: torch.nn.Linear(4 if fixed else 3, 2)(X),
    "half-on-a-cpu": lambda fixed: torch.cdist(X, X) if fixed else torch.cdist(X.half(), X.half()),
    "unregistered-parameter": lambda fixed: (
        torch.export.export(torch.nn.PReLU(4), (X,)) if fixed else capture(lambda x: x * GRADIENT)
    ).module(),
    "state-dict-does-not-fit": lambda fixed: torch.nn.Linear(3 if fixed else 4, 2).load_state_dict(
        torch.nn.Linear(3, 2).state_dict()
    ),
    "overflow-in-numpy": lambda fixed: (
        np.full(2, 60000, np.float32) * np.float32(2)
        if fixed
        else np.full(2, 60000, np.float16) * np.float16(2)
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
    "dynamic-shapes-without-dynamo": lambda fixed: (
        old(torch.relu, input_names=["x"], dynamic_axes={"x": {0: "n"}})
        if fixed
        else old(torch.relu, dynamic_shapes=(({0: AUTO},),))
    ),
    "dict-of-a-script": lambda fixed: old((lambda x: Named()(x)["y"]) if fixed else SCRIPT(Named())),
    "gqa-in-torchscript": lambda fixed: attended(2) if fixed else attended(1, enable_gqa=True),
    "adaptive-pool": lambda fixed: pooled(1 if fixed else 3),
    "scatter-mean": lambda fixed: scattered(reduce="sum" if fixed else "mean"),
    "narrow-range": lambda fixed: fake_quantised(-128 if fixed else -127),
    "rule-without-this-argument": lambda fixed: (write if fixed else old)(torch.bitwise_not, X.int()),
    "stft-complex": lambda fixed: spectrum(return_complex=not fixed),
    "dict-output-of-a-trace": lambda fixed: trace((lambda x: (x + 1,)) if fixed else lambda x: {"y": x + 1}),
    "borrowed-tensor": lambda fixed: trace(HEAD if fixed else lambda x: x @ HEAD.weight.T),
    "trace-array": lambda fixed: trace(
        (lambda x: x + torch.sin(x)) if fixed else lambda x: x + torch.from_numpy(np.sin(x.numpy()))
    ),
    "trace-list": lambda fixed: trace(
        (lambda x: x * x[0].sum()) if fixed else lambda x: x * sum(x[0].tolist())
    ),
    "trace-loop": lambda fixed: trace((lambda x: x.sum(0)) if fixed else lambda x: sum(row for row in x)),
    "trace-length": lambda fixed: trace((lambda x: x * x.shape[0]) if fixed else lambda x: x * len(x)),
    "trace-lengths": lambda fixed: (
        trace(packed, W[None, :2].expand(2, 2, 4), torch.tensor([2, 1]))
        if fixed
        else trace(packed, W[None, :2].expand(2, 2, 4))
    ),
    "trace-assertion": lambda fixed: trace(
        (lambda x: x * x.sum()) if fixed else lambda x: x * complex(x.sum()).real
    ),
    "constant-folding-of-the-exporter": lambda fixed: (write if fixed else old)(Slices()),
    "trace-differs": lambda fixed: trace(NOISE.train(mode=not fixed)),
    "upsample-before-opset-11": lambda fixed: old(
        torch.nn.Upsample(scale_factor=2), X[None, None], opset_version=11 if fixed else 10
    ),
    "lstm-batch-warning": lambda fixed: (write if fixed else old)(LSTM, X[None]),
    "opset-beyond-torchscript": lambda fixed: old(torch.relu, opset_version=20 if fixed else 22),
    "opset-of-another-torch": lambda fixed: old(torch.relu) if fixed else old(torch.relu, opset_version=99),
    "module-made-in-forward": lambda fixed: ((late := Late())(X), old(late)) if fixed else old(Late()),
    "left-to-aten": lambda fixed: load(
        write(torch.logaddexp, X, X)
        if fixed
        else old(torch.logaddexp, X, X, operator_export_type=FALLTHROUGH)
    ),
    "shape-of-a-custom-operator": lambda fixed: custom(fixed),
    "legacy-exporter": lambda fixed: (write if fixed else old)(torch.relu),
    "training-mode": lambda fixed: write(Calls(torch.relu).eval() if fixed else Calls(torch.relu)),
    "import-in-a-script": lambda fixed: (capture if fixed else SCRIPT)(imports),
    "script-compiles-a-part": lambda fixed: (trace if fixed else SCRIPT)(rest),
    "unconvertible-list": lambda fixed: (
        old(torch.relu) if fixed else torch.onnx.utils.unconvertible_ops(Calls(torch.logaddexp), (X, X))
    ),
    "index-with-many-nodes": lambda fixed: old(
        (lambda x: x.index_select(1, torch.tensor([1, 2])))
        if fixed
        else lambda x: x[torch.tensor([0, 1]), torch.tensor([1, 2])]
    ),
    "repeated-indices": lambda fixed: (write if fixed else old)(
        lambda x: x.index_add(0, torch.tensor([0, 1]), x)
    ),
    "export-to-a-buffer": lambda fixed: write(torch.relu) if fixed else write(torch.relu, to=io.BytesIO()),
    "export-arguments": lambda fixed: old(torch.relu) if fixed else old(torch.relu, example_outputs=X),
    "unused-argument-of-export": lambda fixed: (
        dynamic_axes({"image": {0: "n"}}, input_names=["image"])
        if fixed
        else dynamic_axes({"image": {0: "n"}})
    ),
    "no-names-for-dynamic-axes": lambda fixed: dynamic_axes(
        {"x": {0: "n"} if fixed else [0]}, input_names=["x"]
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
    "optimiser-of-the-exporter": lambda fixed: halves(optimize=not fixed),
    "complex-numbers": lambda fixed: old(turned_by_hand if fixed else turned, COMPLEX),
    "no-translation": lambda fixed: write(
        (lambda x: torch.eye(4) + x + x @ x / 2) if fixed else lambda x: torch.linalg.matrix_exp(x), W
    ),
    "more-names-than-outputs": lambda fixed: old(torch.relu, output_names=["y"] if fixed else ["y", "z"]),
    "input-names-count": lambda fixed: old(torch.relu, input_names=["x"] if fixed else ["x", "mask"]),
    "quantised-module": lambda fixed: (
        torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 2)), (X,))
        if fixed
        else torch.export.export(quantised(torch.nn.Sequential(torch.nn.Linear(4, 2))), (X,))
    ),
    "weight-not-applied": lambda fixed: write(torch.relu).apply_weights(
        {} if fixed else {"count": torch.ones(1)}
    ),
    "onnx-program-too-old": lambda fixed: (
        write(torch.relu) if fixed else torch.onnx.dynamo_export(Calls(torch.relu), X)
    ),
    "dynamic-axes-with-dynamo": lambda fixed: (
        write(torch.nn.ReLU(), input_names=["x"], dynamic_shapes=({0: "n"},))
        if fixed
        else write(torch.nn.ReLU(), input_names=["x"], dynamic_axes={"x": {0: "n"}})
    ),
    "name-shared-by-axes": lambda fixed: write(
        torch.add, X, W[:2], dynamic_shapes=(({0: "a"}, {0: AUTO if fixed else "b"}),)
    ),
}

TABLE = CAPTURE | TORCHSCRIPT | TRANSLATION


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", TABLE)
def test_a_fix_ends_its_message(kind, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    check(kind, TABLE[kind], capfd)


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
"""Kinds whose fix no test runs, by the reason."""

ELSEWHERE = {"provider", "web", "mobile", "tools", "install"}
"""Stages of other machines and packages."""


def test_each_kind_is_run_or_says_why_not():
    run = {*CASES, *TABLE}
    reasons = {name for names in NOT_RUN.values() for name in names.split()}
    general = {kind.name for kind in answers() if kind.certainty == "kind" or kind.stage in ELSEWHERE}
    assert reasons & (run | general) == set()
    assert run | reasons | general == {kind.name for kind in answers()}
