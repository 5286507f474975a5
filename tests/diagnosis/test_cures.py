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

from tests.diagnosis.fixes import check

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
        [helper.make_tensor_value_info("x", *x), *more],
        [helper.make_tensor_value_info("y", *y)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir)


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


# --- the call of session.run


@case("type-of-a-feed")
def _(cured):
    ids = np.array([1], np.int32)
    run(TABLE, x=ids.astype(np.int64) if cured else ids)


@case("texts-for-numbers")
def _(cured):
    x = np.array([["1", "2"]], object)
    run(RELU, x=x.astype(np.float32) if cured else x)


@case("not-an-array")
def _(cured):
    x = torch.ones(2, 3)
    run(RELU, x=x.numpy() if cured else x)


@case("numpy-of-a-gradient")
def _(cured):
    x = torch.ones(2, 3, requires_grad=True)
    run(RELU, x=(x.detach() if cured else x).numpy())


@case("input-is-missing")
def _(cured):
    loaded = session(RELU)
    loaded.run(None, {loaded.get_inputs()[0].name if cured else "input": X})


@case("input-name-unknown")
def _(cured):
    loaded = session(RELU)
    feeds = {"x": X, "mask": X}
    known = {one.name for one in loaded.get_inputs()}
    loaded.run(None, {name: value for name, value in feeds.items() if name in known or not cured})


@case("output-name-unknown")
def _(cured):
    loaded = session(RELU)
    loaded.run([one.name for one in loaded.get_outputs()] if cured else ["logits"], {"x": X})


@case("iobinding-without-output")
def _(cured):
    loaded = session(RELU)
    binding = loaded.io_binding()
    binding.bind_cpu_input("x", X)
    if cured:
        binding.bind_output("y")
    loaded.run_with_iobinding(binding)


# --- sessions


@case("session-options-type")
def _(cured):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL if cured else 99  # type: ignore[assignment]
    )


@case("options-are-no-dict")
def _(cured):
    options = onnxruntime.SessionOptions() if cured else {"intra_op_num_threads": 1}
    onnxruntime.InferenceSession(RELU.SerializeToString(), options, providers=["CPUExecutionProvider"])


# --- the file


@case("file-is-not-there")
def _(cured):
    onnx.save(RELU, "model.onnx")
    onnxruntime.InferenceSession(str(Path("model.onnx").resolve()) if cured else "models/model.onnx")


@case("file-is-not-onnx")
def _(cured):
    Path("model.onnx").write_bytes(RELU.SerializeToString() if cured else b"<!DOCTYPE html><html></html>")
    onnxruntime.InferenceSession("model.onnx")


def save_apart() -> None:
    """Save a model and its weights in two files."""
    proto = model(node("MatMul", "x w"), w=np.ones((3, 64), np.float32))
    Path("w.data").unlink(missing_ok=True)
    onnx.save(proto, "apart.onnx", save_as_external_data=True, location="w.data", size_threshold=0)


@case("weights-file-is-missing")
def _(cured):
    save_apart()
    if not cured:
        Path("w.data").rename("weights.data")
    onnxruntime.InferenceSession("apart.onnx")


@case("weights-from-bytes")
def _(cured):
    save_apart()
    data, folder = Path("apart.onnx").read_bytes(), Path.cwd()
    options = onnxruntime.SessionOptions()
    if cured:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(folder))
    Path("elsewhere").mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir("elsewhere")
        onnxruntime.InferenceSession(data, options)


@case("external-file-exists")
def _(cured):
    save_apart()
    if cured:
        Path("w.data").unlink()
    proto = model(node("MatMul", "x w"), w=np.ones((3, 64), np.float32))
    onnx.save(proto, "again.onnx", save_as_external_data=True, location="w.data", size_threshold=0)


@case("kernel-of-an-old-opset")
def _(cured):
    add = node("Add", "x x", broadcast=1)
    proto = model(add, x=(F, [2, 3]), y=(F, [2, 3]), opset=5, ir=3)
    session(version_converter.convert_version(proto, 13) if cured else proto)


@case("operator-not-registered")
def _(cured):
    proto = model(helper.make_node("Twice", ["x"], ["y"], domain="mine"), domains=["mine"])
    if cured:
        imports = [helper.make_opsetid("", 17)]
        proto.functions.append(
            helper.make_function("mine", "Twice", ["x"], ["y"], [node("Add", "x x")], imports)
        )
    session(proto)


@case("type-not-allowed")
def _(cured):
    cast = [node("Cast", "x", "c", to=F)] if cured else []
    session(
        model(*cast, node("Relu", "c" if cured else "x"), x=(BOOL, ["a"]), y=(F if cured else BOOL, None))
    )


@case("nodes-not-sorted")
def _(cured):
    nodes = [node("Relu", "h"), node("Abs", "x", "h")]
    checker.check_model(model(*(nodes[::-1] if cured else nodes), y=(F, ["a", "b"])))


@case("attribute-unknown")
def _(cured):
    operator = "LeakyRelu" if cured else "Relu"
    checker.check_model(model(node(operator, "x", alpha=0.1), y=(F, ["a", "b"])))


@case("opset-import-is-missing")
def _(cured):
    proto = copy.deepcopy(RELU)
    if not cured:
        del proto.opset_import[:]
    checker.check_model(proto)


@case("field-is-missing")
def _(cured):
    proto = copy.deepcopy(RELU)
    if not cured:
        proto.graph.input[0].ClearField("type")
    checker.check_model(proto)


@case("inconsistent-type")
def _(cured):
    proto = model(node("Add", "x w"), w=np.ones(3, np.float32 if cured else np.int64))
    onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)


@case("unsupported-type")
def _(cured):
    cast = [node("Cast", "x", "c", to=F)] if cured else []
    proto = model(*cast, node("Floor", "c" if cured else "x"), x=(I64, ["a"]), y=(F if cured else I64, None))
    onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)


@case("shape-inference-differs")
def _(cured):
    proto = model(node("Relu", "x", "h"), node("Abs", "h"), x=(F, [2, 3]))
    proto.graph.value_info.append(helper.make_tensor_value_info("h", F, [2, 4]))
    if cured:
        del proto.graph.value_info[:]
    onnx.shape_inference.infer_shapes(proto, strict_mode=True)


@case("merge-names")
def _(cured):
    first, second = RELU, copy.deepcopy(RELU)
    edges = [("y", "x")]
    if cured:
        first, second = compose.add_prefix(first, "a_"), compose.add_prefix(second, "b_")
        edges = [("a_y", "b_x")]
    compose.merge_models(first, second, io_map=edges)


@case("merge-ir-version")
def _(cured):
    first, second = compose.add_prefix(RELU, "a_"), compose.add_prefix(RELU, "b_")
    second.ir_version = 8 if cured else 9
    compose.merge_models(first, second, io_map=[("a_y", "b_x")])


@case("reference-evaluator-unknown")
def _(cured):
    class Twice(OpRun):
        op_domain = "mine"

        def _run(self, x):
            return (x + x,)

    proto = model(helper.make_node("Twice", ["x"], ["y"], domain="mine"), domains=["mine"])
    ReferenceEvaluator(proto, new_ops=[Twice] if cured else None).run(None, {"x": X})


# --- nodes that run


@case("index-beyond-the-table")
def _(cured):
    ids = np.array([5])
    run(TABLE, x=ids[ids < 5] if cured else ids)


@case("channels-of-a-convolution")
def _(cured):
    image = np.ones((1, 8, 8, 3), np.float32)
    proto = model(node("Conv", "x w"), x=(F, ["n", "c", "h", "w"]), w=np.ones((2, 3, 3, 3), np.float32))
    run(proto, x=image.transpose(0, 3, 1, 2) if cured else image)


@case("split-size")
def _(cured):
    sizes = model(node("Split", "x s", "y z", axis=1), s=np.array([2, 1 if cured else 4]))
    run(sizes, x=X)


@case("squeeze-size")
def _(cured):
    proto = model(node("Squeeze", "x s"), x=(F, ["a", "b", "c"]), s=np.array([1 if cured else 0]))
    run(proto, x=np.ones((2, 1, 3), np.float32))


@case("concat-size")
def _(cured):
    other = helper.make_tensor_value_info("z", F, ["c", "d"])
    run(model(node("Concat", "x z", axis=1), more=[other]), x=X, z=X if cured else X[:1])


@case("matmul-size")
def _(cured):
    other = helper.make_tensor_value_info("z", F, ["c", "d"])
    run(model(node("MatMul", "x z"), more=[other]), x=X, z=X.T if cured else X)


@case("broadcast-size")
def _(cured):
    other = helper.make_tensor_value_info("z", F, ["c", "d"])
    table = np.ones((1, 9), np.float32)
    run(model(node("Add", "x z"), more=[other]), x=X, z=table[:, : X.shape[1]] if cured else table)


@case("where-size")
def _(cured):
    mask = helper.make_tensor_value_info("m", BOOL, ["c"])
    proto = model(node("Where", "m x x"), more=[mask])
    run(proto, x=X, m=np.ones(X.shape[1] if cured else 9, bool))


@case("expand-size")
def _(cured):
    shape = helper.make_tensor_value_info("s", I64, [2])
    run(model(node("Expand", "x s"), more=[shape]), x=X, s=np.array(X.shape if cured else [5, 5]))


@case("slice-values")
def _(cured):
    step = helper.make_tensor_value_info("s", I64, [1])
    proto = model(node("Slice", "x b e a s"), more=[step], b=np.array([0]), e=np.array([2]), a=np.array([0]))
    run(proto, x=X, s=np.array([1 if cured else 0]))


@case("out-of-memory")
def _(cured):
    shape = helper.make_tensor_value_info("s", I64, [2])
    proto = model(node("Expand", "x s"), x=(F, [1]), more=[shape])
    run(proto, x=np.ones(1, np.float32), s=np.array([2, 3] if cured else [2**40, 2]))


@case("recurrent-state-size")
def _(cured):
    state = helper.make_tensor_value_info("h", F, [1, "n", 4])
    weights = {"w": np.ones((1, 16, 3), np.float32), "r": np.ones((1, 16, 4), np.float32)}
    lstm = helper.make_node("LSTM", ["x", "w", "r", "", "", "h"], ["y"], name="lstm", hidden_size=4)
    proto = model(lstm, x=(F, ["t", "b", 3]), more=[state], **weights)
    x = np.ones((5, 2, 3), np.float32)
    run(proto, x=x, h=np.zeros((1, x.shape[1] if cured else 1, 4), np.float32))


# --- float16 and the quantiser


@case("resize-in-float16")
def _(cured):
    scales = np.array([1, 1, 2, 2], np.float32)
    resize = helper.make_node("Resize", ["x", "", "s"], ["y"], name="resize")
    proto = model(resize, x=(F, [1, 1, 4, 4]), y=(F, [1, 1, 8, 8]), s=scales)
    session(float16.convert_float_to_float16(proto, op_block_list=["Resize"] if cured else []))


@case("cast-of-a-float16-converter")
def _(cured):
    nodes = [node("Shape", "x", "s"), node("Cast", "s", "f", to=F), node("Mul", "f w")]
    proto = model(*nodes, x=(F, [2, 2]), y=(F, [2]), w=np.array([2, 3], np.float32))
    blocked = [*float16.DEFAULT_OP_BLOCK_LIST, "Cast"] if cured else None
    session(float16.convert_float_to_float16(proto, op_block_list=blocked))


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
def _(cured):
    quantize_dynamic(linear(), "int.onnx", weight_type=QuantType.QInt8 if cured else QuantType.QInt16)
    session(onnx.load("int.onnx"))


def loud(proto: onnx.ModelProto, **options: object) -> onnxruntime.InferenceSession:
    """Load a model with ONNX Runtime's warnings."""
    given = onnxruntime.SessionOptions()
    given.log_severity_level = 2
    for name, value in options.items():
        setattr(given, name, value)
    return onnxruntime.InferenceSession(proto.SerializeToString(), given, providers=["CPUExecutionProvider"])


def inp(name: str, *kind: object) -> onnx.ValueInfoProto:
    """Make one more input."""
    return helper.make_tensor_value_info(name, *kind)


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


PAIRS = {
    "array-to-tensor": (
        lambda: onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[1],
        lambda: helper.tensor_dtype_to_np_dtype(1),
    ),
    "attribute-without-a-type": (
        lambda: helper.make_attribute("axes", []),
        lambda: helper.make_attribute("axes", [], attr_type=onnx.AttributeProto.INTS),
    ),
    "no-such-field": (
        lambda: setattr(copy.deepcopy(RELU).graph, "node", [RELU.graph.node[0]]),
        lambda: copy.deepcopy(RELU).graph.node.extend([RELU.graph.node[0]]),
    ),
    "binding-of-another-session": (
        lambda: session(RELU).run_with_iobinding(session(RELU).io_binding()),
        lambda: (one := session(RELU)).get_inputs() and one.io_binding(),
    ),
    "provider-options": (
        lambda: onnxruntime.InferenceSession(
            RELU.SerializeToString(), providers=[("CPUExecutionProvider", 1)]
        ),
        lambda: onnxruntime.InferenceSession(
            RELU.SerializeToString(), providers=[("CPUExecutionProvider", {})]
        ),
    ),
    "providers-set-twice": (
        lambda: onnxruntime.InferenceSession(
            RELU.SerializeToString(), providers=["CPUExecutionProvider"] * 2
        ),
        lambda: onnxruntime.InferenceSession(RELU.SerializeToString(), providers=["CPUExecutionProvider"]),
    ),
    "config-entry": (
        lambda: onnxruntime.SessionOptions().add_session_config_entry("k" * 9000, "1"),
        lambda: onnxruntime.SessionOptions().add_session_config_entry("session.disable_prepacking", "1"),
    ),
    "float16-truncates": (
        lambda: float16.convert_float_to_float16(weighty(v=np.full(3, 1e9, np.float32))),
        lambda: float16.convert_float_to_float16(weighty()),
    ),
    "types-of-float16-mixed": (
        lambda: session(model(node("Add", "x w"), w=np.ones(3, np.float16))),
        lambda: session(model(node("Cast", "w", "v", to=F), node("Add", "x v"), w=np.ones(3, np.float16))),
    ),
    "shapes-merged": (
        lambda: loud(declared([2, 5])).run(None, {"x": X}),
        lambda: loud(declared([2, "n"])).run(None, {"x": X}),
    ),
    "initializer-is-input": (lambda: loud(weighty(inp("w", F, [3]))), lambda: loud(weighty())),
    "unused-initializer": (lambda: loud(weighty(v=np.ones(3, np.float32))), lambda: loud(weighty())),
    "optimised-for-this-machine": (
        lambda: loud(RELU, optimized_model_filepath="fast.onnx"),
        lambda: loud(
            RELU,
            optimized_model_filepath="fast.onnx",
            graph_optimization_level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
        ),
    ),
    "weights-of-another-size": (
        lambda: onnxruntime.InferenceSession(wrong_size(False)),
        lambda: onnxruntime.InferenceSession(wrong_size(True)),
    ),
    "ir-version-of-the-checker": (
        lambda: checker.check_model(model(node("Relu", "x"), ir=99)),
        lambda: checker.check_model(model(node("Relu", "x"), y=(F, ["a", "b"]), ir=8)),
    ),
    "no-kernel": (
        lambda: session(
            model(node("Conv", "x w"), x=(D, [1, 1, 3, 3]), y=(D, None), w=np.ones((1, 1, 1, 1)))
        ),
        lambda: session(model(node("Conv", "x w"), x=(F, [1, 1, 3, 3]), w=np.ones((1, 1, 1, 1), np.float32))),
    ),
    "contrib-operator-unknown": (
        lambda: session(
            model(helper.make_node("Newer", ["x"], ["y"], domain="com.microsoft"), domains=["com.microsoft"])
        ),
        lambda: session(RELU),
    ),
    "bfloat16-without-operator": (
        lambda: session(
            model(node("Round", "x"), x=(TensorProto.BFLOAT16, ["a"]), y=(TensorProto.BFLOAT16, None))
        ),
        lambda: session(model(node("Round", "x"))),
    ),
    "float16-not-allowed": (
        lambda: session(
            model(node("Range", "x x x"), x=(TensorProto.FLOAT16, []), y=(TensorProto.FLOAT16, None))
        ),
        lambda: session(model(node("Range", "x x x"), x=(F, []))),
    ),
    "initializer-of-another-type": (
        lambda: session(model(node("Add", "x w"), more=[inp("w", F, [3])], w=np.ones(3, np.float16))),
        lambda: session(model(node("Add", "x w"), more=[inp("w", F, [3])], w=np.ones(3, np.float32))),
    ),
    "graph-has-a-cycle": (
        lambda: session(model(node("Add", "x h", "y"), helper.make_node("Relu", ["y"], ["h"], name="r"))),
        lambda: session(model(node("Add", "x x", "y"))),
    ),
    "weights-are-no-inputs": (
        lambda: checker.check_model(
            model(node("Add", "x w"), y=(F, ["a", "b"]), ir=3, w=np.ones(3, np.float32))
        ),
        lambda: checker.check_model(
            model(node("Add", "x w"), y=(F, ["a", "b"]), ir=4, w=np.ones(3, np.float32))
        ),
    ),
    "shapes-of-a-node-contradict": (
        lambda: session(model(node("MatMul", "x w"), x=(F, [2, 3]), w=np.ones((4, 4), np.float32))),
        lambda: session(model(node("MatMul", "x w"), x=(F, [2, 4]), w=np.ones((4, 4), np.float32))),
    ),
    "attribute-is-missing": (
        lambda: checker.check_model(model(node("Cast", "x"), y=(F, ["a", "b"]))),
        lambda: checker.check_model(model(node("Cast", "x", to=F), y=(F, ["a", "b"]))),
    ),
    "graph-has-no-name": (
        lambda: checker.check_graph(onnx.GraphProto(node=RELU.graph.node)),
        lambda: checker.check_model(RELU),
    ),
    "opset-of-the-quantiser": (
        lambda: quantize_dynamic(
            saved(model(node("MatMul", "x w"), opset=9, w=np.ones((3, 3), np.float32))), "int.onnx"
        ),
        lambda: quantize_dynamic(
            saved(model(node("MatMul", "x w"), opset=17, w=np.ones((3, 3), np.float32))), "int.onnx"
        ),
    ),
    "quantise-preprocess": (
        lambda: quantise(linear()),
        lambda: (quant_pre_process(linear(), "ready.onnx"), quantise("ready.onnx")),
    ),
    "calibration-reader": (lambda: NoReader(), lambda: Reader(ROW)),
    "quantiser-of-another-version": (
        lambda: quantize_static(linear(), "int.onnx", Reader(ROW), optimize_model=True),
        lambda: quantize_static(linear(), "int.onnx", Reader(ROW)),
    ),
    "no-adapter": (
        lambda: version_converter.convert_version(model(node("Identity", "x"), opset=16), 13),
        lambda: version_converter.convert_version(model(node("Relu", "x"), opset=16), 14),
    ),
    "opset-not-an-opset": (
        lambda: version_converter.convert_version(RELU, 99),
        lambda: version_converter.convert_version(RELU, 18),
    ),
    "one-hot-or-sequence-index": (
        lambda: run(
            model(node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s i"), more=[inp("i", I64, [])]),
            x=X,
            i=np.array(5),
        ),
        lambda: run(
            model(node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s i"), more=[inp("i", I64, [])]),
            x=X,
            i=np.array(1),
        ),
    ),
    "lstm-with-projection-run": (
        lambda: run(recurrent(2), x=np.ones((5, 2, 3), np.float32)),
        lambda: run(recurrent(4), x=np.ones((5, 2, 3), np.float32)),
    ),
    "sequence-lengths": (
        lambda: run(
            recurrent(4, lengths=True), x=np.ones((5, 2, 3), np.float32), n=np.array([9, 1], np.int32)
        ),
        lambda: run(
            recurrent(4, lengths=True), x=np.ones((5, 2, 3), np.float32), n=np.array([5, 1], np.int32)
        ),
    ),
    "pad-values": (
        lambda: run(model(node("Pad", "x p", mode="reflect"), p=np.array([0, 9, 0, 9])), x=X),
        lambda: run(model(node("Pad", "x p", mode="reflect"), p=np.array([0, 1, 0, 1])), x=X),
    ),
    "resize-values": (
        lambda: run(resized(), x=X, s=np.zeros(2, np.float32)),
        lambda: run(resized(), x=X, s=np.ones(2, np.float32)),
    ),
    "transpose-rank": (
        lambda: run(model(node("Transpose", "x", perm=[0, 2, 1]), x=(F, None)), x=X),
        lambda: run(model(node("Transpose", "x", perm=[0, 2, 1]), x=(F, None)), x=X[None]),
    ),
    "einsum-values": (
        lambda: run(
            model(node("Einsum", "x z", equation="ij,ij->i"), more=[inp("z", F, ["c", "d"])]), x=X, z=X[:, :2]
        ),
        lambda: run(
            model(node("Einsum", "x z", equation="ij,ij->i"), more=[inp("z", F, ["c", "d"])]), x=X, z=X
        ),
    ),
    "scatter-values": (
        lambda: run(
            model(node("ScatterND", "x i u"), i=np.array([[0]]), more=[inp("u", F, ["c", "d"])]), x=X, u=X
        ),
        lambda: run(
            model(node("ScatterND", "x i u"), i=np.array([[0]]), more=[inp("u", F, ["c", "d"])]), x=X, u=X[:1]
        ),
    ),
    "normalisation-size": (
        lambda: run(model(node("LayerNormalization", "x w"), w=np.ones(5, np.float32)), x=X),
        lambda: run(model(node("LayerNormalization", "x w"), w=np.ones(3, np.float32)), x=X),
    ),
    "range-or-number": (
        lambda: run(
            model(node("Range", "b x d"), x=(F, []), more=[inp("d", F, [])], b=np.float32(0)),
            x=np.array(3, np.float32),
            d=np.array(0, np.float32),
        ),
        lambda: run(
            model(node("Range", "b x d"), x=(F, []), more=[inp("d", F, [])], b=np.float32(0)),
            x=np.array(3, np.float32),
            d=np.array(1, np.float32),
        ),
    ),
    "zero-point-of-a-node": (
        lambda: run(quantised_conv(False), x=np.ones((2, 3), np.uint8)),
        lambda: run(quantised_conv(True), x=np.ones((2, 3), np.uint8)),
    ),
    "already-float16": (
        lambda: float16.convert_float_to_float16(float16.convert_float_to_float16(weighty())),
        lambda: float16.convert_float_to_float16(weighty()),
    ),
    "mixed-precision-search": (
        lambda: auto_convert_mixed_precision(weighty(), {"x": X * np.nan}, rtol=0.1, keep_io_types=True),
        lambda: auto_convert_mixed_precision(weighty(), {"x": X}, rtol=0.1, keep_io_types=True),
    ),
    "sequence-for-a-tensor": (lambda: run(sequences(), x=X), lambda: run(sequences(), x=[X])),
    "not-folded": (
        lambda: loud(model(node("Erf", "w", "h"), node("Mul", "x h"), **HALF, w=np.ones(3, np.float16))),
        lambda: loud(model(node("Mul", "x h"), **HALF, h=np.ones(3, np.float16))),
    ),
    "sizes-under-one-name": (
        lambda: (one := reused("a"))[0].run(None, one[1]),
        lambda: (one := reused("b"))[0].run(None, one[1]),
    ),
    "weights-outside-the-folder": (
        lambda: onnxruntime.InferenceSession(outside("../w.data")),
        lambda: onnxruntime.InferenceSession(outside("w.data")),
    ),
    "function-of-another-opset": (
        lambda: checker.check_model(function(11)),
        lambda: checker.check_model(function(17)),
    ),
    "branch-does-not-fit": (lambda: session(choice(0, 5)), lambda: session(choice(1, 0))),
    "type-of-a-node": (
        lambda: session(model(node("Transpose", "x", perm=[0, 5]))),
        lambda: session(model(node("Transpose", "x", perm=[1, 0]))),
    ),
    "node-of-another-runtime": (lambda: ReferenceEvaluator(optimised()), lambda: ReferenceEvaluator(FUSIBLE)),
    "no-older-form": (
        lambda: version_converter.convert_version(model(node("Gelu", "x"), opset=20, ir=9), 19),
        lambda: version_converter.convert_version(model(node("Erf", "x"), opset=20, ir=9), 19),
    ),
    "image-smaller-than-the-kernel": (
        lambda: run(pooled(), x=np.ones((1, 1, 2, 2), np.float32)),
        lambda: run(pooled(), x=np.ones((1, 1, 3, 3), np.float32)),
    ),
    "rotary-table": (lambda: run(rotary(3), x=ROTATED), lambda: run(rotary(2), x=ROTATED)),
    "many-bits-file": (lambda: session(four_bits(8)), lambda: session(four_bits(16))),
    "attention-size": (lambda: run(attention(5), x=TOKENS), lambda: run(attention(12), x=TOKENS)),
    "loop-values": (lambda: run(scanned("o", 0), x=X), lambda: run(scanned("x", 0), x=X)),
    "symbolic-shapes-incomplete": (
        lambda: quant_pre_process(custom(), "ready.onnx"),
        lambda: quant_pre_process(custom(), "r.onnx", skip_symbolic_shape=True, skip_optimization=True),
    ),
    "type-requests-differ": (lambda: overridden(QuantType.QInt16), lambda: overridden(QuantType.QUInt16)),
    "quantise-type-not-known": (
        lambda: quantize_static(linear(), "int.onnx", Reader(ROW), calibrate_method=7),
        lambda: quantize_static(linear(), "int.onnx", Reader(ROW)),
    ),
    "no-standard-domain": (
        lambda: quant_utils.get_opset_version(onnx.ModelProto(graph=RELU.graph)),
        lambda: quant_utils.get_opset_version(RELU),
    ),
    "not-close": (
        lambda: np.testing.assert_allclose(np.ones(2), np.zeros(2)),
        lambda: np.testing.assert_allclose(np.ones(2), np.ones(2)),
    ),
    "value-still-used": (lambda: remove(False), lambda: remove(True)),
    "missing-schema-warning": (
        lambda: [onnx.defs.register_schema(onnx.defs.OpSchema("Same", "", 1)) for _ in range(2)],
        lambda: [onnx.defs.register_schema(onnx.defs.OpSchema("Same", f"mine{n}", 1)) for n in range(2)],
    ),
}


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
def _(cured):
    x = torch.randn(2, 4)
    torch.export.export(Calls(torch.relu), (x,) if cured else (x, x))


@case("example-outside-the-range")
def _(cured):
    rows = torch.export.Dim("rows", min=4, max=8)
    export(Calls(torch.relu), torch.randn(4 if cured else 2, 4), dynamic_shapes=({0: rows},))


@case("script-module")
def _(cured):
    module = torch.nn.ReLU()
    export(module if cured else torch.jit.script(module))


@case("operator-newer-than-the-opset")
def _(cured):
    def attend(x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)

    export(Calls(attend), torch.randn(1, 2, 3, 4), dynamo=False, opset_version=14 if cured else 11)


@case("axis-or-size-unknown")
def _(cured):
    axes = {} if cured else {"dynamic_axes": {"x": {1: "n"}}}
    export(Calls(lambda x: x.unfold(1, 2, 1)), dynamo=False, opset_version=17, input_names=["x"], **axes)


@case("lstm-projection")
def _(cured):
    class Projected(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.linear = torch.nn.LSTM(3, 4), torch.nn.Linear(4, 2, bias=False)

        def forward(self, x):
            return self.linear(self.lstm(x)[0])

    lstm = Projected() if cured else torch.nn.LSTM(3, 4, proj_size=2)
    export(lstm, torch.randn(5, 1, 3), dynamo=False)


@case("sort-out-parameter")
def _(cured):
    options = {} if cured else {"stable": True}
    export(Calls(lambda x: torch.sort(x, **options)[0]), dynamo=False)


@case("half-and-float")
def _(cured):
    x = torch.randn(1, 4).half()
    (torch.nn.Linear(4, 4).half() if cured else torch.nn.Linear(4, 4))(x)


@case("sizes-in-pytorch")
def _(cured):
    x, table = torch.ones(2, 3), torch.ones(9)
    x + (table[: x.shape[1]] if cured else table)


@case("weights-only")
def _(cured):
    module = torch.nn.Linear(2, 2)
    torch.save(module.state_dict() if cured else module, "m.pt")
    torch.load("m.pt")


@case("trace-boolean")
def _(cured):
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(
            lambda x: torch.where(x.sum() > 0, x, -x) if cured else (x if x.sum() > 0 else -x), torch.ones(2)
        )


@case("trace-number")
def _(cured):
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(lambda x: x * (x.sum() if cured else float(x.sum())), torch.ones(2))


@case("trace-new-tensor")
def _(cured):
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        torch.jit.trace(lambda x: x + (x.new_ones(2) if cured else torch.tensor([1.0, 1.0])), torch.ones(2))


@case("provider-not-in-this-build")
def _(cured):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = onnxruntime.get_available_providers()
        wanted = [
            name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in known or not cured
        ]
        onnxruntime.InferenceSession(RELU.SerializeToString(), providers=wanted)


CASES |= {  # what one call shows
    "double-for-float": lambda cured: run(
        RELU, x=np.ones((2, 3)).astype(np.float32) if cured else np.ones((2, 3))
    ),
    "float-for-float16": lambda cured: run(
        float16.convert_float_to_float16(copy.deepcopy(RELU), keep_io_types=cured), x=X
    ),
    "rank-of-a-feed": lambda cured: run(RELU, x=X[0][None] if cured else X[0]),
    "size-of-a-feed": lambda cured: run(model(node("Relu", "x"), x=(F, ["a" if cured else 1, 3])), x=X),
    "input-is-none": lambda cured: run(RELU, x=X if cured else None),
    "run-without-a-dict": lambda cured: session(RELU).run(*((None, {"x": X}) if cured else ({"x": X},))),
    "not-a-session-source": lambda cured: onnxruntime.InferenceSession(
        RELU.SerializeToString() if cured else RELU
    ),
    "session-pickled": lambda cured: pickle.dumps(RELU.SerializeToString() if cured else session(RELU)),
    "ir-version": lambda cured: session(model(node("Relu", "x"), ir=8 if cured else 99)),
    "opset-too-new": lambda cured: session(model(node("Relu", "x"), opset=18 if cured else 99, ir=10)),
    "operator-of-another-opset": lambda cured: session(
        model(node("Gelu", "x"), opset=20 if cured else 17, ir=9)
    ),
    "shape-of-int32": lambda cured: session(
        model(node("Reshape", "x s"), s=np.array([-1], np.int64 if cured else np.int32))
    ),
    "types-disagree": lambda cured: session(
        model(node("Add", "x w"), w=np.ones(3, np.float32 if cured else np.int64))
    ),
    "output-type-declared": lambda cured: session(model(node("Relu", "x"), y=(F if cured else D, None))),
    "name-twice": lambda cured: session(
        model(node("Relu", "x", "h" if cured else "y"), node("Abs", "h" if cured else "x"))
    ),
    "value-nobody-makes": lambda cured: session(model(node("Relu", "x" if cured else "lost"))),
    "scales-per-channel-below-opset-13": lambda cured: session(
        model(
            node("DequantizeLinear", "q s z", axis=0),
            opset=13 if cured else 12,
            q=np.zeros((2, 2), np.int8),
            s=np.ones(2, np.float32),
            z=np.zeros(2, np.int8),
        )
    ),
    "value-without-a-type": lambda cured: session(
        model(node("Relu", "x"), x=(F if cured else TensorProto.UNDEFINED, ["n"]))
    ),
    "count-of-inputs": lambda cured: session(model(node("Add", "x x" if cured else "x"))),
    "graph-shapes-merge": lambda cured: session(
        model(node("Concat", "x w", axis=1), x=(F, [1, 3]), w=np.ones((1 if cured else 2, 4), np.float32))
    ),
    "number-of-values": lambda cured: helper.make_tensor("w", F, [3] if cured else [2, 2], [1.0, 2.0, 3.0]),
    "topk-too-large": lambda cured: run(
        model(node("TopK", "x k", "y i"), k=np.array([2 if cured else 9])), x=X
    ),
    "reshape-size": lambda cured: run(
        model(node("Reshape", "x s"), s=np.array([-1 if cured else 1, 3])), x=X
    ),
    "calibration-is-empty": lambda cured: quantize_static(
        linear(), "int.onnx", Reader(*([ROW] if cured else []))
    ),
    "scale-is-not-finite": lambda cured: quantize_static(
        linear(), "int.onnx", Reader(ROW if cured else ROW * np.nan)
    ),
    "if-on-values": lambda cured: export(
        Calls(lambda x: torch.where(x.sum() > 0, x, -x) if cured else (x if x.sum() > 0 else -x))
    ),
    "branches-alias": lambda cured: export(
        Calls(lambda x: torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.clone() if cured else x, (x,)))
    ),
    "returns-an-object": lambda cured: export(Calls(lambda x: (x, x + 1) if cured else Pair(x, x + 1))),
    "not-a-module": lambda cured: torch.export.export(
        Calls(torch.relu) if cured else torch.relu, (torch.randn(2, 4),)
    ),
    "dynamic-shapes-keys": lambda cured: export(
        Calls(torch.relu), dynamic_shapes={"x" if cured else "input": {0: torch.export.Dim.AUTO}}
    ),
    "no-symbolic": lambda cured: export(Calls(lambda x: torch.logaddexp(x, x)), dynamo=cured),
    "jit-inputs": lambda cured: export(
        Calls(lambda x: (x, x + 1) if cured else Pair(x, x + 1)), dynamo=False
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_a_cure_ends_its_message(kind, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    check(kind, lambda: CASES[kind](False), lambda: CASES[kind](True), capfd)


@pytest.mark.parametrize("kind", PAIRS)
def test_a_cure_of_a_pair_ends_its_message(kind, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    check(kind, *PAIRS[kind], capfd)
