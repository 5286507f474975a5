"""What `onnxlab why` advises, tried: each case raises its message in today's wording, and then does not.

A case is one small program that is run twice, without the advice and with it.
"""

import copy
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
import torch
from onnx import TensorProto, checker, compose, helper, numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnxconverter_common import float16
from onnxconverter_common.auto_mixed_precision import auto_convert_mixed_precision
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantType,
    quant_utils,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config
from onnxruntime.quantization.shape_inference import quant_pre_process

from tests.diagnosis.message_fix import check

pytestmark = pytest.mark.filterwarnings("ignore")

F, D, I64, I32, BOOL = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.BOOL,
)
X = np.ones((2, 3), np.float32)
CASES: dict[str, Callable[[bool], object]] = {}


def case(kind: str) -> Callable[[Callable[[bool], object]], Callable[[bool], object]]:
    """Register a program for a kind of message; its argument tells whether the advice is followed."""

    def register(program: Callable[[bool], object]) -> Callable[[bool], object]:
        CASES[kind] = program
        return program

    return register


def node(operator: str, inputs: str, outputs: str = "y", **attributes: object) -> onnx.NodeProto:
    """Make a node from names with spaces between them."""
    return helper.make_node(operator, inputs.split(), outputs.split(), name=operator.lower(), **attributes)


def model(*nodes, x=(F, ["a", "b"]), y=(F, None), opset=17, ir=8, domains=(), more=(), **weights):
    """Make a model from x (and more inputs) to y."""
    graph = helper.make_graph(
        nodes,
        "g",
        [inp("x", *x), *more],
        [inp("y", *y)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir)


def inp(name: str, *kind: object) -> onnx.ValueInfoProto:
    """Make one more input."""
    return helper.make_tensor_value_info(name, *kind)


def session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Load a model without ONNX Runtime's log."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def run(proto: onnx.ModelProto, **feeds: object) -> list[np.ndarray]:
    """Run a model."""
    return session(proto).run(None, feeds)


RELU = model(node("Relu", "x"), y=(F, ["a", "b"]))
TABLE = model(node("Gather", "w x"), x=(I64, ["n"]), w=np.zeros((5, 2), np.float32))


@case("iobinding-without-output")
def _(fixed):
    loaded = session(RELU)
    binding = loaded.io_binding()
    binding.bind_cpu_input("x", X)
    if fixed:
        binding.bind_output("y")
    loaded.run_with_iobinding(binding)


# --- sessions


@case("session-options-type")
def _(fixed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL if fixed else 99  # type: ignore[assignment]
    )


# --- the file


@case("file-is-not-onnx")
def _(fixed):
    Path("model.onnx").write_bytes(RELU.SerializeToString() if fixed else b"<!DOCTYPE html><html></html>")
    onnxruntime.InferenceSession("model.onnx")


def save_apart() -> None:
    """Save a model and its weights in two files."""
    proto = model(node("MatMul", "x w"), w=np.ones((3, 64), np.float32))
    Path("w.data").unlink(missing_ok=True)
    onnx.save(proto, "apart.onnx", save_as_external_data=True, location="w.data", size_threshold=0)


@case("weights-file-is-missing")
def _(fixed):
    save_apart()
    if not fixed:
        Path("w.data").rename("weights.data")
    onnxruntime.InferenceSession("apart.onnx")


@case("weights-from-bytes")
def _(fixed):
    save_apart()
    data, folder = Path("apart.onnx").read_bytes(), Path.cwd()
    options = onnxruntime.SessionOptions()
    if fixed:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(folder))
    Path("elsewhere").mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir("elsewhere")
        onnxruntime.InferenceSession(data, options)


@case("external-file-exists")
def _(fixed):
    save_apart()
    if fixed:
        Path("w.data").unlink()
    proto = model(node("MatMul", "x w"), w=np.ones((3, 64), np.float32))
    onnx.save(proto, "again.onnx", save_as_external_data=True, location="w.data", size_threshold=0)


@case("kernel-of-an-old-opset")
def _(fixed):
    add = node("Add", "x x", broadcast=1)
    proto = model(add, x=(F, [2, 3]), y=(F, [2, 3]), opset=5, ir=3)
    session(version_converter.convert_version(proto, 13) if fixed else proto)


@case("operator-not-registered")
def _(fixed):
    proto = model(helper.make_node("Twice", ["x"], ["y"], domain="mine"), domains=["mine"])
    if fixed:
        imports = [helper.make_opsetid("", 17)]
        proto.functions.append(
            helper.make_function("mine", "Twice", ["x"], ["y"], [node("Add", "x x")], imports)
        )
    session(proto)


@case("opset-import-is-missing")
def _(fixed):
    proto = copy.deepcopy(RELU)
    if not fixed:
        del proto.opset_import[:]
    checker.check_model(proto)


@case("field-is-missing")
def _(fixed):
    proto = copy.deepcopy(RELU)
    if not fixed:
        proto.graph.input[0].ClearField("type")
    checker.check_model(proto)


@case("shape-inference-differs")
def _(fixed):
    proto = model(node("Relu", "x", "h"), node("Abs", "h"), x=(F, [2, 3]))
    proto.graph.value_info.append(inp("h", F, [2, 4]))
    if fixed:
        del proto.graph.value_info[:]
    onnx.shape_inference.infer_shapes(proto, strict_mode=True)


@case("merge-names")
def _(fixed):
    first, second = RELU, copy.deepcopy(RELU)
    edges = [("y", "x")]
    if fixed:
        first, second = compose.add_prefix(first, "a_"), compose.add_prefix(second, "b_")
        edges = [("a_y", "b_x")]
    compose.merge_models(first, second, io_map=edges)


@case("merge-ir-version")
def _(fixed):
    first, second = compose.add_prefix(RELU, "a_"), compose.add_prefix(RELU, "b_")
    second.ir_version = 8 if fixed else 9
    compose.merge_models(first, second, io_map=[("a_y", "b_x")])


@case("reference-evaluator-unknown")
def _(fixed):
    class Twice(OpRun):
        op_domain = "mine"

        def _run(self, x):
            return (x + x,)

    proto = model(helper.make_node("Twice", ["x"], ["y"], domain="mine"), domains=["mine"])
    ReferenceEvaluator(proto, new_ops=[Twice] if fixed else None).run(None, {"x": X})


@case("recurrent-state-size")
def _(fixed):
    state = inp("h", F, [1, "n", 4])
    weights = {"w": np.ones((1, 16, 3), np.float32), "r": np.ones((1, 16, 4), np.float32)}
    lstm = helper.make_node("LSTM", ["x", "w", "r", "", "", "h"], ["y"], name="lstm", hidden_size=4)
    proto = model(lstm, x=(F, ["t", "b", 3]), more=[state], **weights)
    x = np.ones((5, 2, 3), np.float32)
    run(proto, x=x, h=np.zeros((1, x.shape[1] if fixed else 1, 4), np.float32))


# --- float16 and the quantiser


def linear() -> str:
    """Save a model with one MatMul."""
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    onnx.save(model(node("MatMul", "x w"), x=(F, [1, 64]), y=(F, [1, 64]), w=weight), "linear.onnx")
    return "linear.onnx"


class Reader(CalibrationDataReader):
    """Calibration data in a list."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.items = iter([{"x": array} for array in arrays])

    def get_next(self):
        return next(self.items, None)


ROW = np.ones((1, 64), np.float32)


@case("quantised-to-16-bits")
def _(fixed):
    quantize_dynamic(linear(), "int.onnx", weight_type=QuantType.QInt8 if fixed else QuantType.QInt16)
    session(onnx.load("int.onnx"))


def loud(proto: onnx.ModelProto, **options: object) -> onnxruntime.InferenceSession:
    """Load a model with ONNX Runtime's warnings."""
    given = onnxruntime.SessionOptions()
    given.log_severity_level = 2
    for name, value in options.items():
        setattr(given, name, value)
    return onnxruntime.InferenceSession(proto.SerializeToString(), given, providers=["CPUExecutionProvider"])


def declared(sizes: list[object]) -> onnx.ModelProto:
    """Make a Relu whose output is declared with sizes."""
    return model(node("Relu", "x"), x=(F, [2, "n"]), y=(F, sizes))


def weighty(*inputs: onnx.ValueInfoProto, **weights: object) -> onnx.ModelProto:
    """Make x + w with w as a weight, and perhaps as an input."""
    return model(node("Add", "x w"), more=inputs, w=np.ones(3, np.float32), **weights)


def resized(*sizes: int) -> onnx.ModelProto:
    """Make a Resize by scales."""
    resize = helper.make_node("Resize", ["x", "", "s"], ["y"], name="resize")
    return model(resize, x=(F, ["a", "b"]), more=[inp("s", F, ["n"])])


def recurrent(hidden: int, *, lengths: bool = False) -> onnx.ModelProto:
    """Make an LSTM of hidden size 4 whose recurrent weights are for another one."""
    weights = {"w": np.ones((1, 16, 3), np.float32), "r": np.ones((1, 16, hidden), np.float32)}
    names = ["x", "w", "r", "", "n"] if lengths else ["x", "w", "r"]
    lstm = helper.make_node("LSTM", names, ["y"], name="lstm", hidden_size=4)
    return model(lstm, x=(F, ["t", "b", "c"]), more=[inp("n", I32, ["b"])] if lengths else [], **weights)


def quantised_conv(zero_point: bool) -> onnx.ModelProto:
    """Make a QLinearMatMul with one zero point, or one of a wrong number."""
    names = "x xs xz w ws wz ys yz"
    u8 = np.uint8
    wz = np.zeros((), u8) if zero_point else np.zeros(2, u8)
    one = np.float32(1)
    ws = one if zero_point else np.ones(2, np.float32)
    values = {"xs": one, "xz": u8(0), "w": np.ones((3, 3), u8), "ws": ws, "wz": wz, "ys": one, "yz": u8(0)}
    return model(
        node("QLinearMatMul", names), x=(TensorProto.UINT8, ["a", "b"]), y=(TensorProto.UINT8, None), **values
    )


def quantise(path: str, **options: object) -> None:
    """Quantise a file statically."""
    quantize_static(path, "int.onnx", Reader(ROW, ROW), **options)


def saved(proto: onnx.ModelProto, name: str = "saved.onnx") -> str:
    """Save a model."""
    onnx.save(proto, name)
    return name


def wrong_size(right: bool) -> str:
    """Save a model whose weights file is cut off."""
    save_apart()
    if not right:
        Path("w.data").write_bytes(b"\0" * 12)
    return "apart.onnx"


class NoReader(CalibrationDataReader):
    """A reader without get_next."""


MS = "com.microsoft"
FUSIBLE = model(
    node("Conv", "x w", "h"),
    node("Relu", "h"),
    x=(F, [1, 1, 4, 4]),
    y=(F, [1, 1, 2, 2]),
    w=np.ones((1, 1, 3, 3), np.float32),
)


def microsoft(operator: str, inputs: str, sizes: list[object], weights: dict[str, object], **attributes):
    """Make a model of one node of com.microsoft."""
    one = helper.make_node(operator, inputs.split(), ["y"], domain=MS, **attributes)
    return model(one, x=(F, sizes), domains=[MS], **weights)


def optimised() -> onnx.ModelProto:
    """Return a model as the runtime fuses it."""
    loud(
        FUSIBLE,
        optimized_model_filepath="fast.onnx",
        graph_optimization_level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    )
    return onnx.load("fast.onnx")


def outside(location: str) -> str:
    """Save a model in a folder, with its weights at a location seen from there."""
    save_apart()
    proto = onnx.load("apart.onnx", load_external_data=False)
    next(e for e in proto.graph.initializer[0].external_data if e.key == "location").value = location
    Path("sub").mkdir(exist_ok=True)
    Path("sub/w.data").write_bytes(Path("w.data").read_bytes())
    return saved(proto, "sub/apart.onnx")


def function(opset: int) -> onnx.ModelProto:
    """Make a model whose function is written at an opset."""
    proto = model(helper.make_node("Twice", ["x"], ["y"], domain="mine"), domains=["mine"], y=(F, ["a", "b"]))
    imports = [helper.make_opsetid("", opset)]
    proto.functions.append(
        helper.make_function("mine", "Twice", ["x"], ["y"], [node("Squeeze", "x")], imports)
    )
    return proto


def choice(*perm: int) -> onnx.ModelProto:
    """Make an If with a transposition."""
    branch = helper.make_graph([node("Transpose", "x", "s", perm=perm)], "b", [], [inp("s", F, None)])
    return model(node("If", "t", then_branch=branch, else_branch=branch), t=np.array(True))


def reused(name: str) -> tuple[onnxruntime.InferenceSession, dict[str, np.ndarray]]:
    """Make a model with a buffer that two inputs share if their axes have one name."""
    nodes = [
        node("Abs", "x", "h"),
        node("ReduceMax", "h", "r", keepdims=0),
        node("Neg", "z", "g"),
        node("Mul", "r g", "k"),
        node("Relu", "k"),
    ]
    proto = model(*nodes, x=(F, ["a", 3]), more=[inp("z", F, [name, 3])])
    return loud(proto), {"x": X, "z": np.ones((5, 3), np.float32)}


def scanned(name: str, axis: int) -> onnx.ModelProto:
    """Make a Loop that joins what it carries and stacks one of its values."""
    body = helper.make_graph(
        [node("Identity", "c", "d"), node("Concat", "h h", "o", axis=axis), node("Relu", name, "q")],
        "b",
        [inp("i", I64, []), inp("c", BOOL, []), inp("h", F, None)],
        [inp("d", BOOL, []), inp("o", F, None), inp("q", F, None)],
    )
    return model(node("Loop", "n t x", "l y", body=body), n=np.array(2), t=np.array(True))


def custom() -> str:
    """Save a model with a custom operator."""
    twice = helper.make_node("Twice", ["x"], ["h"], domain="mine")
    return saved(model(twice, node("MatMul", "h w"), domains=["mine"], w=np.ones((3, 3), np.float32)))


def overridden(kind: QuantType) -> None:
    """Ask for the types of two nodes that read one value."""
    proto = model(node("Relu", "x", "h"), node("Abs", "x"), x=(F, [1, 64]), y=(F, [1, 64]))
    overrides = {"h": [{"quant_type": QuantType.QUInt16}], "y": [{"quant_type": kind}]}
    get_qnn_qdq_config(saved(proto), Reader(ROW), init_overrides=overrides, add_qtype_converts=True)


def remove(replaced: bool) -> None:
    """Remove a node by onnx_ir."""
    graph = onnx_ir.from_proto(model(node("Relu", "x", "h"), node("Abs", "h"))).graph
    first = graph[0]
    if replaced:
        first.outputs[0].replace_all_uses_with(first.inputs[0])
    graph.remove(first, safe=True)


def sequences() -> onnx.ModelProto:
    """Make a model that reads a sequence."""
    proto = model(node("SequenceAt", "x i"), i=np.array(0))
    proto.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", F, None))
    return proto


def pooled() -> onnx.ModelProto:
    """Make a convolution of 3 by 3."""
    return model(node("Conv", "x w"), x=(F, ["n", 1, "h", "w"]), w=np.ones((1, 1, 3, 3), np.float32))


def rotary(columns: int) -> onnx.ModelProto:
    """Make a rotary embedding of heads of size 4."""
    table = np.ones((8, columns), np.float32)
    weights = {"p": np.arange(2)[None], "c": table, "s": table}
    return microsoft("RotaryEmbedding", "x p c s", ["b", "h", "t", 4], weights)


def attention(size: int) -> onnx.ModelProto:
    """Make an attention with a bias of a size."""
    weights = {"b": np.ones(size, np.float32)}
    return microsoft("MultiHeadAttention", "x x x b", ["b", "t", 4], weights, num_heads=2)


def four_bits(block: int) -> onnx.ModelProto:
    """Make a product with weights in blocks."""
    weights = {"w": np.zeros((4, 1, block // 2), np.uint8), "s": np.ones(4, np.float32)}
    sizes = {"K": block, "N": 4, "bits": 4, "block_size": block}
    return microsoft("MatMulNBits", "x w s", ["a", block], weights, **sizes)


HALF = {"x": (TensorProto.FLOAT16, ["a", 3]), "y": (TensorProto.FLOAT16, None)}
ROTATED, TOKENS = np.ones((1, 1, 2, 4), np.float32), np.ones((1, 2, 4), np.float32)


# --- exports


@dataclass
class Pair:
    """Two outputs."""

    first: torch.Tensor
    second: torch.Tensor


class Calls(torch.nn.Module):
    """Calls a function."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def export(module: object, *args: torch.Tensor, dynamo: bool = True, **options: object) -> None:
    """Export without the exporter's reports."""
    torch.onnx.export(module, args or (torch.randn(2, 4),), "m.onnx", dynamo=dynamo, verbose=False, **options)


@case("too-many-arguments")
def _(fixed):
    x = torch.randn(2, 4)
    torch.export.export(Calls(torch.relu), (x,) if fixed else (x, x))


@case("script-module")
def _(fixed):
    module = torch.nn.ReLU()
    export(module if fixed else torch.jit.script(module))


@case("operator-newer-than-the-opset")
def _(fixed):
    def attend(x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    export(Calls(attend), torch.randn(1, 2, 3, 4), dynamo=False, opset_version=14 if fixed else 11)


@case("lstm-projection")
def _(fixed):
    class Projected(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.linear = torch.nn.LSTM(3, 4), torch.nn.Linear(4, 2, bias=False)

        def forward(self, x):
            return self.linear(self.lstm(x)[0])

    lstm = Projected() if fixed else torch.nn.LSTM(3, 4, proj_size=2)
    export(lstm, torch.randn(5, 1, 3), dynamo=False)


@case("weights-only")
def _(fixed):
    module = torch.nn.Linear(2, 2)
    torch.save(module.state_dict() if fixed else module, "m.pt")
    torch.load("m.pt")


@case("trace-boolean")
def _(fixed):
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(
            lambda x: torch.where(x.sum() > 0, x, -x) if fixed else (x if x.sum() > 0 else -x), torch.ones(2)
        )


@case("trace-number")
def _(fixed):
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(lambda x: x * (x.sum() if fixed else float(x.sum())), torch.ones(2))


@case("trace-new-tensor")
def _(fixed):
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(lambda x: x + (x.new_ones(2) if fixed else torch.tensor([1.0, 1.0])), torch.ones(2))


@case("provider-not-in-this-build")
def _(fixed):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = onnxruntime.get_available_providers()
        wanted = [
            name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in known or not fixed
        ]
        onnxruntime.InferenceSession(RELU.SerializeToString(), providers=wanted)


GRADIENT = torch.ones(1, requires_grad=True)
CASES |= {  # what one call shows
    "double-for-float": lambda fixed: run(
        RELU, x=np.ones((2, 3)).astype(np.float32) if fixed else np.ones((2, 3))
    ),
    "float-for-float16": lambda fixed: run(
        float16.convert_float_to_float16(copy.deepcopy(RELU), keep_io_types=fixed), x=X
    ),
    "rank-of-a-feed": lambda fixed: run(RELU, x=X[0][None] if fixed else X[0]),
    "size-of-a-feed": lambda fixed: run(model(node("Relu", "x"), x=(F, ["a" if fixed else 1, 3])), x=X),
    "input-is-none": lambda fixed: run(RELU, x=X if fixed else None),
    "run-without-a-dict": lambda fixed: session(RELU).run(*((None, {"x": X}) if fixed else ({"x": X},))),
    "not-a-session-source": lambda fixed: onnxruntime.InferenceSession(
        RELU.SerializeToString() if fixed else RELU
    ),
    "session-pickled": lambda fixed: pickle.dumps(RELU.SerializeToString() if fixed else session(RELU)),
    "ir-version": lambda fixed: session(model(node("Relu", "x"), ir=8 if fixed else 99)),
    "opset-too-new": lambda fixed: session(model(node("Relu", "x"), opset=18 if fixed else 99, ir=10)),
    "operator-of-another-opset": lambda fixed: session(
        model(node("Gelu", "x"), opset=20 if fixed else 17, ir=9)
    ),
    "shape-of-int32": lambda fixed: session(
        model(node("Reshape", "x s"), s=np.array([-1], np.int64 if fixed else np.int32))
    ),
    "types-disagree": lambda fixed: session(
        model(node("Add", "x w"), w=np.ones(3, np.float32 if fixed else np.int64))
    ),
    "output-type-declared": lambda fixed: session(model(node("Relu", "x"), y=(F if fixed else D, None))),
    "name-twice": lambda fixed: session(
        model(node("Relu", "x", "h" if fixed else "y"), node("Abs", "h" if fixed else "x"))
    ),
    "value-nobody-makes": lambda fixed: session(model(node("Relu", "x" if fixed else "lost"))),
    "scales-per-channel-below-opset-13": lambda fixed: session(
        model(
            node("DequantizeLinear", "q s z", axis=0),
            opset=13 if fixed else 12,
            q=np.zeros((2, 2), np.int8),
            s=np.ones(2, np.float32),
            z=np.zeros(2, np.int8),
        )
    ),
    "value-without-a-type": lambda fixed: session(
        model(node("Relu", "x"), x=(F if fixed else TensorProto.UNDEFINED, ["n"]))
    ),
    "count-of-inputs": lambda fixed: session(model(node("Add", "x x" if fixed else "x"))),
    "graph-shapes-merge": lambda fixed: session(
        model(node("Concat", "x w", axis=1), x=(F, [1, 3]), w=np.ones((1 if fixed else 2, 4), np.float32))
    ),
    "number-of-values": lambda fixed: helper.make_tensor("w", F, [3] if fixed else [2, 2], [1.0, 2.0, 3.0]),
    "topk-too-large": lambda fixed: run(
        model(node("TopK", "x k", "y i"), k=np.array([2 if fixed else 9])), x=X
    ),
    "reshape-size": lambda fixed: run(
        model(node("Reshape", "x s"), s=np.array([-1 if fixed else 1, 3])), x=X
    ),
    "calibration-is-empty": lambda fixed: quantize_static(
        linear(), "int.onnx", Reader(*([ROW] if fixed else []))
    ),
    "scale-is-not-finite": lambda fixed: quantize_static(
        linear(), "int.onnx", Reader(ROW if fixed else ROW * np.nan)
    ),
    "if-on-values": lambda fixed: export(
        Calls(lambda x: torch.where(x.sum() > 0, x, -x) if fixed else (x if x.sum() > 0 else -x))
    ),
    "branches-alias": lambda fixed: export(
        Calls(lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.clone() if fixed else x, (x,)))
    ),
    "returns-an-object": lambda fixed: export(Calls(lambda x: (x, x + 1) if fixed else Pair(x, x + 1))),
    "not-a-module": lambda fixed: torch.export.export(
        Calls(torch.relu) if fixed else torch.relu, (torch.randn(2, 4),)
    ),
    "dynamic-shapes-keys": lambda fixed: export(
        Calls(torch.relu), dynamic_shapes={"x" if fixed else "input": {0: torch.export.Dim.AUTO}}
    ),
    "no-symbolic": lambda fixed: export(Calls(lambda x: torch.logaddexp(x, x)), dynamo=fixed),
    "jit-inputs": lambda fixed: export(
        Calls(lambda x: (x, x + 1) if fixed else Pair(x, x + 1)), dynamo=False
    ),
    "options-are-no-dict": lambda fixed: onnxruntime.InferenceSession(
        RELU.SerializeToString(),
        onnxruntime.SessionOptions() if fixed else {"intra_op_num_threads": 1},
        providers=["CPUExecutionProvider"],
    ),
    "type-not-allowed": lambda fixed: session(
        model(
            *([node("Cast", "x", "c", to=F)] if fixed else []),
            node("Relu", "c" if fixed else "x"),
            x=(BOOL, ["a"]),
            y=(F if fixed else BOOL, None),
        )
    ),
    "attribute-unknown": lambda fixed: checker.check_model(
        model(node("LeakyRelu" if fixed else "Relu", "x", alpha=0.1), y=(F, ["a", "b"]))
    ),
    "inconsistent-type": lambda fixed: onnx.shape_inference.infer_shapes(
        model(node("Add", "x w"), w=np.ones(3, np.float32 if fixed else np.int64)),
        check_type=True,
        strict_mode=True,
    ),
    "unsupported-type": lambda fixed: onnx.shape_inference.infer_shapes(
        model(
            *([node("Cast", "x", "c", to=F)] if fixed else []),
            node("Floor", "c" if fixed else "x"),
            x=(I64, ["a"]),
            y=(F if fixed else I64, None),
        ),
        check_type=True,
        strict_mode=True,
    ),
    "split-size": lambda fixed: run(
        model(node("Split", "x s", "y z", axis=1), s=np.array([2, 1 if fixed else 4])), x=X
    ),
    "squeeze-size": lambda fixed: run(
        model(node("Squeeze", "x s"), x=(F, ["a", "b", "c"]), s=np.array([1 if fixed else 0])),
        x=np.ones((2, 1, 3), np.float32),
    ),
    "concat-size": lambda fixed: run(
        model(node("Concat", "x z", axis=1), more=[inp("z", F, ["c", "d"])]),
        x=X,
        z=X if fixed else X[:1],
    ),
    "matmul-size": lambda fixed: run(
        model(node("MatMul", "x z"), more=[inp("z", F, ["c", "d"])]),
        x=X,
        z=X.T if fixed else X,
    ),
    "where-size": lambda fixed: run(
        model(node("Where", "m x x"), more=[inp("m", BOOL, ["c"])]),
        x=X,
        m=np.ones(X.shape[1] if fixed else 9, bool),
    ),
    "expand-size": lambda fixed: run(
        model(node("Expand", "x s"), more=[inp("s", I64, [2])]),
        x=X,
        s=np.array(X.shape if fixed else [5, 5]),
    ),
    "slice-values": lambda fixed: run(
        model(
            node("Slice", "x b e a s"),
            more=[inp("s", I64, [1])],
            b=np.array([0]),
            e=np.array([2]),
            a=np.array([0]),
        ),
        x=X,
        s=np.array([1 if fixed else 0]),
    ),
    "out-of-memory": lambda fixed: run(
        model(node("Expand", "x s"), x=(F, [1]), more=[inp("s", I64, [2])]),
        x=np.ones(1, np.float32),
        s=np.array([2, 3] if fixed else [2**40, 2]),
    ),
    "resize-in-float16": lambda fixed: session(
        float16.convert_float_to_float16(
            model(
                helper.make_node("Resize", ["x", "", "s"], ["y"], name="resize"),
                x=(F, [1, 1, 4, 4]),
                y=(F, [1, 1, 8, 8]),
                s=np.array([1, 1, 2, 2], np.float32),
            ),
            op_block_list=["Resize"] if fixed else [],
        )
    ),
    "cast-of-a-float16-converter": lambda fixed: session(
        float16.convert_float_to_float16(
            model(
                *[node("Shape", "x", "s"), node("Cast", "s", "f", to=F), node("Mul", "f w")],
                x=(F, [2, 2]),
                y=(F, [2]),
                w=np.array([2, 3], np.float32),
            ),
            op_block_list=[*float16.DEFAULT_OP_BLOCK_LIST, "Cast"] if fixed else None,
        )
    ),
    "array-to-tensor": lambda fixed: (
        helper.tensor_dtype_to_np_dtype(1) if fixed else onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[1]
    ),
    "attribute-without-a-type": lambda fixed: (
        helper.make_attribute("axes", [], attr_type=onnx.AttributeProto.INTS)
        if fixed
        else helper.make_attribute("axes", [])
    ),
    "no-such-field": lambda fixed: (
        copy.deepcopy(RELU).graph.node.extend([RELU.graph.node[0]])
        if fixed
        else setattr(copy.deepcopy(RELU).graph, "node", [RELU.graph.node[0]])
    ),
    "binding-of-another-session": lambda fixed: (
        (one := session(RELU)).get_inputs() and one.io_binding()
        if fixed
        else session(RELU).run_with_iobinding(session(RELU).io_binding())
    ),
    "provider-options": lambda fixed: onnxruntime.InferenceSession(
        RELU.SerializeToString(), providers=[("CPUExecutionProvider", {} if fixed else 1)]
    ),
    "providers-set-twice": lambda fixed: onnxruntime.InferenceSession(
        RELU.SerializeToString(),
        providers=["CPUExecutionProvider"] if fixed else ["CPUExecutionProvider"] * 2,
    ),
    "config-entry": lambda fixed: onnxruntime.SessionOptions().add_session_config_entry(
        "session.disable_prepacking" if fixed else "k" * 9000, "1"
    ),
    "float16-truncates": lambda fixed: float16.convert_float_to_float16(
        weighty() if fixed else weighty(v=np.full(3, 1e9, np.float32))
    ),
    "types-of-float16-mixed": lambda fixed: session(
        model(node("Cast", "w", "v", to=F), node("Add", "x v"), w=np.ones(3, np.float16))
        if fixed
        else model(node("Add", "x w"), w=np.ones(3, np.float16))
    ),
    "shapes-merged": lambda fixed: loud(declared([2, "n" if fixed else 5])).run(None, {"x": X}),
    "initializer-is-input": lambda fixed: loud(weighty() if fixed else weighty(inp("w", F, [3]))),
    "unused-initializer": lambda fixed: loud(weighty() if fixed else weighty(v=np.ones(3, np.float32))),
    "optimised-for-this-machine": lambda fixed: (
        loud(
            RELU,
            optimized_model_filepath="fast.onnx",
            graph_optimization_level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
        )
        if fixed
        else loud(RELU, optimized_model_filepath="fast.onnx")
    ),
    "weights-of-another-size": lambda fixed: onnxruntime.InferenceSession(wrong_size(fixed)),
    "ir-version-of-the-checker": lambda fixed: checker.check_model(
        model(node("Relu", "x"), y=(F, ["a", "b"]), ir=8) if fixed else model(node("Relu", "x"), ir=99)
    ),
    "no-kernel": lambda fixed: session(
        model(node("Conv", "x w"), x=(F, [1, 1, 3, 3]), w=np.ones((1, 1, 1, 1), np.float32))
        if fixed
        else model(node("Conv", "x w"), x=(D, [1, 1, 3, 3]), y=(D, None), w=np.ones((1, 1, 1, 1)))
    ),
    "contrib-operator-unknown": lambda fixed: session(
        RELU
        if fixed
        else model(helper.make_node("Newer", ["x"], ["y"], domain="com.microsoft"), domains=["com.microsoft"])
    ),
    "bfloat16-without-operator": lambda fixed: session(
        model(node("Round", "x"))
        if fixed
        else model(node("Round", "x"), x=(TensorProto.BFLOAT16, ["a"]), y=(TensorProto.BFLOAT16, None))
    ),
    "float16-not-allowed": lambda fixed: session(
        model(node("Range", "x x x"), x=(F, []))
        if fixed
        else model(node("Range", "x x x"), x=(TensorProto.FLOAT16, []), y=(TensorProto.FLOAT16, None))
    ),
    "initializer-of-another-type": lambda fixed: session(
        model(node("Add", "x w"), more=[inp("w", F, [3])], w=np.ones(3, np.float32 if fixed else np.float16))
    ),
    "graph-has-a-cycle": lambda fixed: session(
        model(node("Add", "x x", "y"))
        if fixed
        else model(node("Add", "x h", "y"), helper.make_node("Relu", ["y"], ["h"], name="r"))
    ),
    "weights-are-no-inputs": lambda fixed: checker.check_model(
        model(node("Add", "x w"), y=(F, ["a", "b"]), ir=4 if fixed else 3, w=np.ones(3, np.float32))
    ),
    "shapes-of-a-node-contradict": lambda fixed: session(
        model(node("MatMul", "x w"), x=(F, [2, 4 if fixed else 3]), w=np.ones((4, 4), np.float32))
    ),
    "attribute-is-missing": lambda fixed: checker.check_model(
        model(node("Cast", "x", to=F) if fixed else node("Cast", "x"), y=(F, ["a", "b"]))
    ),
    "graph-has-no-name": lambda fixed: (
        checker.check_model(RELU) if fixed else checker.check_graph(onnx.GraphProto(node=RELU.graph.node))
    ),
    "opset-of-the-quantiser": lambda fixed: quantize_dynamic(
        saved(model(node("MatMul", "x w"), opset=17 if fixed else 9, w=np.ones((3, 3), np.float32))),
        "int.onnx",
    ),
    "quantise-preprocess": lambda fixed: (
        (quant_pre_process(linear(), "ready.onnx"), quantise("ready.onnx")) if fixed else quantise(linear())
    ),
    "calibration-reader": lambda fixed: Reader(ROW) if fixed else NoReader(),
    "quantiser-of-another-version": lambda fixed: (
        quantize_static(linear(), "int.onnx", Reader(ROW))
        if fixed
        else quantize_static(linear(), "int.onnx", Reader(ROW), optimize_model=True)
    ),
    "no-adapter": lambda fixed: (
        version_converter.convert_version(model(node("Relu", "x"), opset=16), 14)
        if fixed
        else version_converter.convert_version(model(node("Identity", "x"), opset=16), 13)
    ),
    "opset-not-an-opset": lambda fixed: version_converter.convert_version(RELU, 18 if fixed else 99),
    "one-hot-or-sequence-index": lambda fixed: run(
        model(node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s i"), more=[inp("i", I64, [])]),
        x=X,
        i=np.array(1 if fixed else 5),
    ),
    "lstm-with-projection-run": lambda fixed: run(
        recurrent(4 if fixed else 2), x=np.ones((5, 2, 3), np.float32)
    ),
    "sequence-lengths": lambda fixed: run(
        recurrent(4, lengths=True),
        x=np.ones((5, 2, 3), np.float32),
        n=np.array([5 if fixed else 9, 1], np.int32),
    ),
    "pad-values": lambda fixed: run(
        model(node("Pad", "x p", mode="reflect"), p=np.array([0, 1, 0, 1] if fixed else [0, 9, 0, 9])), x=X
    ),
    "resize-values": lambda fixed: run(resized(), x=X, s=(np.ones if fixed else np.zeros)(2, np.float32)),
    "transpose-rank": lambda fixed: run(
        model(node("Transpose", "x", perm=[0, 2, 1]), x=(F, None)), x=X[None] if fixed else X
    ),
    "einsum-values": lambda fixed: run(
        model(node("Einsum", "x z", equation="ij,ij->i"), more=[inp("z", F, ["c", "d"])]),
        x=X,
        z=X if fixed else X[:, :2],
    ),
    "scatter-values": lambda fixed: run(
        model(node("ScatterND", "x i u"), i=np.array([[0]]), more=[inp("u", F, ["c", "d"])]),
        x=X,
        u=X[:1] if fixed else X,
    ),
    "normalisation-size": lambda fixed: run(
        model(node("LayerNormalization", "x w"), w=np.ones(3 if fixed else 5, np.float32)), x=X
    ),
    "range-or-number": lambda fixed: run(
        model(node("Range", "b x d"), x=(F, []), more=[inp("d", F, [])], b=np.float32(0)),
        x=np.array(3, np.float32),
        d=np.array(1 if fixed else 0, np.float32),
    ),
    "zero-point-of-a-node": lambda fixed: run(quantised_conv(fixed), x=np.ones((2, 3), np.uint8)),
    "already-float16": lambda fixed: float16.convert_float_to_float16(
        weighty() if fixed else float16.convert_float_to_float16(weighty())
    ),
    "mixed-precision-search": lambda fixed: auto_convert_mixed_precision(
        weighty(), {"x": X if fixed else X * np.nan}, rtol=0.1, keep_io_types=True
    ),
    "sequence-for-a-tensor": lambda fixed: run(sequences(), x=[X] if fixed else X),
    "not-folded": lambda fixed: loud(
        model(node("Mul", "x h"), **HALF, h=np.ones(3, np.float16))
        if fixed
        else model(node("Erf", "w", "h"), node("Mul", "x h"), **HALF, w=np.ones(3, np.float16))
    ),
    "sizes-under-one-name": lambda fixed: ((one := reused("b")) if fixed else (one := reused("a")))[0].run(
        None, one[1]
    ),
    "weights-outside-the-folder": lambda fixed: onnxruntime.InferenceSession(
        outside("w.data" if fixed else "../w.data")
    ),
    "function-of-another-opset": lambda fixed: checker.check_model(function(17 if fixed else 11)),
    "branch-does-not-fit": lambda fixed: session(choice(1, 0)) if fixed else session(choice(0, 5)),
    "type-of-a-node": lambda fixed: session(model(node("Transpose", "x", perm=[1, 0] if fixed else [0, 5]))),
    "node-of-another-runtime": lambda fixed: ReferenceEvaluator(FUSIBLE if fixed else optimised()),
    "no-older-form": lambda fixed: version_converter.convert_version(
        model(node("Erf" if fixed else "Gelu", "x"), opset=20, ir=9), 19
    ),
    "image-smaller-than-the-kernel": lambda fixed: run(
        pooled(), x=np.ones((1, 1, 3, 3) if fixed else (1, 1, 2, 2), np.float32)
    ),
    "rotary-table": lambda fixed: run(rotary(2 if fixed else 3), x=ROTATED),
    "many-bits-file": lambda fixed: session(four_bits(16 if fixed else 8)),
    "attention-size": lambda fixed: run(attention(12 if fixed else 5), x=TOKENS),
    "loop-values": lambda fixed: run(scanned("x" if fixed else "o", 0), x=X),
    "symbolic-shapes-incomplete": lambda fixed: (
        quant_pre_process(custom(), "r.onnx", skip_symbolic_shape=True, skip_optimization=True)
        if fixed
        else quant_pre_process(custom(), "ready.onnx")
    ),
    "type-requests-differ": lambda fixed: overridden(QuantType.QUInt16 if fixed else QuantType.QInt16),
    "quantise-type-not-known": lambda fixed: (
        quantize_static(linear(), "int.onnx", Reader(ROW))
        if fixed
        else quantize_static(linear(), "int.onnx", Reader(ROW), calibrate_method=7)
    ),
    "no-standard-domain": lambda fixed: quant_utils.get_opset_version(
        RELU if fixed else onnx.ModelProto(graph=RELU.graph)
    ),
    "not-close": lambda fixed: np.testing.assert_allclose(np.ones(2), (np.ones if fixed else np.zeros)(2)),
    "value-still-used": lambda fixed: remove(fixed),
    "missing-schema-warning": lambda fixed: (
        [onnx.defs.register_schema(onnx.defs.OpSchema("Same", f"mine{n}", 1)) for n in range(2)]
        if fixed
        else [onnx.defs.register_schema(onnx.defs.OpSchema("Same", "", 1)) for _ in range(2)]
    ),
    "example-outside-the-range": lambda fixed: export(
        Calls(torch.relu),
        torch.randn(4 if fixed else 2, 4),
        dynamic_shapes=({0: torch.export.Dim("rows", min=4, max=8)},),
    ),
    "axis-or-size-unknown": lambda fixed: export(
        Calls(lambda x: x.unfold(1, 2, 1)),
        dynamo=False,
        opset_version=17,
        input_names=["x"],
        **{} if fixed else {"dynamic_axes": {"x": {1: "n"}}},
    ),
    "sort-out-parameter": lambda fixed: export(
        Calls(lambda x: torch.sort(x, **{} if fixed else {"stable": True})[0]), dynamo=False
    ),
    "half-and-float": lambda fixed: (torch.nn.Linear(4, 4).half() if fixed else torch.nn.Linear(4, 4))(
        torch.randn(1, 4).half()
    ),
    "type-of-a-feed": lambda fixed: run(TABLE, x=np.array([1], np.int64 if fixed else np.int32)),
    "texts-for-numbers": lambda fixed: run(RELU, x=X if fixed else X.astype(str).astype(object)),
    "not-an-array": lambda fixed: run(RELU, x=X if fixed else torch.ones(2, 3)),
    "numpy-of-a-gradient": lambda fixed: (GRADIENT.detach() if fixed else GRADIENT).numpy(),
    "input-is-missing": lambda fixed: run(RELU, **{"x" if fixed else "input": X}),
    "input-name-unknown": lambda fixed: run(RELU, x=X, **({} if fixed else {"mask": X})),
    "output-name-unknown": lambda fixed: session(RELU).run(["y" if fixed else "logits"], {"x": X}),
    "file-is-not-there": lambda fixed: onnxruntime.InferenceSession(
        saved(RELU) if fixed else "models/model.onnx"
    ),
    "nodes-not-sorted": lambda fixed: checker.check_model(
        model(*[node("Abs", "x", "h"), node("Relu", "h")][:: 1 if fixed else -1], y=(F, ["a", "b"]))
    ),
    "index-beyond-the-table": lambda fixed: run(TABLE, x=np.array([4 if fixed else 5])),
    "channels-of-a-convolution": lambda fixed: run(
        model(node("Conv", "x w"), x=(F, ["n", "c", "h", "w"]), w=np.ones((2, 3, 3, 3), np.float32)),
        x=np.ones((1, 3, 8, 8) if fixed else (1, 8, 8, 3), np.float32),
    ),
    "broadcast-size": lambda fixed: run(
        model(node("Add", "x z"), more=[inp("z", F, ["c", "d"])]),
        x=X,
        z=np.ones((1, 3 if fixed else 9), np.float32),
    ),
    "sizes-in-pytorch": lambda fixed: torch.ones(2, 3) + torch.ones(3 if fixed else 9),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_a_fix_ends_its_message(kind, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    check(kind, CASES[kind], capfd)
