"""Chapters 15 to 16: eight bits, four bits, half precision."""

import itertools
import logging

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from torch import nn

from tools.refute.claims import Attempts, claim
from tools.refute.exports import (
    DEFAULT,
    TORCHSCRIPT,
    exported,
    operators,
    parsed,
    raised,
    ran,
    referred,
    tried,
)

NETWORKS = {
    "Conv": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)), torch.rand(4, 3, 8, 8)),
    "Linear": (nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)), torch.rand(4, 16)),
    "MatMul": (
        nn.Sequential(nn.Linear(16, 32, bias=False), nn.Tanh(), nn.Linear(32, 8, bias=False)),
        torch.rand(4, 3, 16),
    ),
    "Depthwise": (
        nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.ReLU(), nn.Conv2d(4, 2, 1)),
        torch.rand(4, 4, 8, 8),
    ),
}


class Reader(CalibrationDataReader):
    """Hands out the same inputs a few times."""

    def __init__(self, name: str, x: torch.Tensor) -> None:
        """Keep the inputs."""
        self.left = [{name: x.numpy()} for _ in range(3)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next inputs."""
        return self.left.pop() if self.left else None


def calibrated(label: str, **options: object) -> onnx.ModelProto:
    """Export a network and quantise it statically."""
    module, x = NETWORKS[label]
    file = exported(module, (x,), TORCHSCRIPT)
    onnx.save(file, "float.onnx")
    quantize_static("float.onnx", "int8.onnx", Reader(file.graph.input[0].name, x), **options)
    return onnx.load("int8.onnx")


@claim(
    "15_quantise",
    "8. Does `per_channel` save a huge channel?",
    "Per channel is about **weights**; an activation has one scale for all its channels.",
)
def scales_of_activations_in_other_networks() -> Attempts:
    for label, form in itertools.product(NETWORKS, (QuantFormat.QDQ, QuantFormat.QOperator)):
        file = calibrated(label, per_channel=True, quant_format=form)
        weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in file.graph.initializer}
        for node in file.graph.node:
            if node.op_type == "QuantizeLinear" and node.input[0] not in weights:
                yield f"{label}, {form}: {node.output[0]}", weights[node.input[1]].size == 1


@claim(
    "15_quantise",
    "7. What does a misspelt name do?",
    "`trial(calibration, op_types_to_quantize=[])` gives a file with 6 QuantizeLinear, like no list at all.",
)
def an_empty_list_in_other_networks() -> Attempts:
    for label in NETWORKS:
        empty, without = calibrated(label, op_types_to_quantize=[]), calibrated(label)
        yield label, operators(empty) == operators(without) and "QuantizeLinear" in operators(empty)


@claim(
    "15_quantise",
    "10. What if BatchNorm is still there?",
    "ONNX Runtime advises `quant_pre_process` at every call for a file that has not been through it (our "
    "second cell hides that).",
    fell="ONNX Runtime advises `quant_pre_process` at every call (our second cell hides that).",
    why="no advice for a file that has been through it",
)
def the_advice_after_it_was_followed() -> Attempts:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    ear = Ear()
    logging.getLogger().addHandler(ear)
    try:
        for label in ("Conv", "Linear"):
            for prepared in (False, True):
                module, x = NETWORKS[label]
                file = exported(module, (x,), TORCHSCRIPT)
                onnx.save(file, "float.onnx")
                if prepared:
                    quant_pre_process("float.onnx", "float.onnx")
                heard.clear()
                quantize_static("float.onnx", "int8.onnx", Reader(file.graph.input[0].name, x))
                advised = any("pre-processing" in text for text in heard)
                yield (
                    f"{label}, {'after' if prepared else 'without'} quant_pre_process: advised {advised}",
                    advised != prepared,
                )
    finally:
        logging.getLogger().removeHandler(ear)


@claim(
    "15_quantise",
    "4. What does the runtime make of Q and DQ?",
    "Below EXTENDED the session rounds, and still multiplies floats.",
)
def levels_and_other_networks() -> Attempts:
    from tools.refute.backends import optimized

    for label in ("Conv", "Linear", "MatMul"):
        file = calibrated(label)
        for level in ("BASIC", "EXTENDED"):
            names = set(operators(optimized(file, level)))
            own = {"QLinearConv", "QLinearMatMul", "QGemm", "MatMulIntegerToFloat", "QLinearAdd"} & names
            yield f"{label}, {level}: {sorted(names)}", bool(own) == (level == "EXTENDED")


@claim(
    "15_quantise",
    "3. Is the file right on an older processor?",
    "With 7 bits it is at most 255 · 63 · 2 = 32130.",
)
def weights_of_reduced_range() -> Attempts:
    for label, kind in itertools.product(NETWORKS, (QuantType.QInt8,)):
        file = calibrated(label, reduce_range=True, weight_type=kind, per_channel=True)
        for tensor in file.graph.initializer:
            values = numpy_helper.to_array(tensor)
            if tensor.name.endswith("_quantized") and values.dtype == np.int8:
                yield (
                    f"{label}, {kind}: {values.min()} to {values.max()}",
                    max(-values.astype(int).min(), values.max()) <= 64,
                )


@claim(
    "15b_quantise_a_transformer",
    "5. What becomes of torchao's 8-bit weights?",
    "The exporter computes constants in advance, here the cast to float32, if they have at most 8192 elements.",
)
def constants_around_the_limit() -> Attempts:
    for label, function in {
        "cast": lambda w: w.to(torch.float32),
        "negation": lambda w: -w.to(torch.float32),
    }.items():
        for count in (8191, 8192, 8193, 20000):
            module = Stored(torch.randint(-9, 9, (count,), dtype=torch.int8), function)
            names = operators(exported(module, (torch.rand(count),)))
            yield f"{label} of {count}: {names}", ("Cast" in names) == (count > 8192)


class Stored(nn.Module):
    """Adds what a function makes of a stored tensor."""

    def __init__(self, stored: torch.Tensor, function: object) -> None:
        """Keep both."""
        super().__init__()
        self.register_buffer("stored", stored)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add it."""
        return x + self.function(self.stored)


@claim(
    "15c_four_bits",
    "3. Which block size makes the smallest file?",
    "So no block longer than the inputs; 32 or 64 are usual, and 8, 24 or 512 are refused.",
)
def block_sizes_that_are_refused() -> Attempts:
    module = nn.Linear(512, 16, bias=False)
    file = exported(module, (torch.rand(1, 2, 512),), TORCHSCRIPT)
    for block in (8, 16, 24, 32, 48, 64, 128, 256, 512):

        def quantise(block: int = block) -> None:
            quantiser = MatMulNBitsQuantizer(
                onnx.ModelProto.FromString(file.SerializeToString()), block_size=block
            )
            quantiser.process()
            ort.InferenceSession(quantiser.model.model.SerializeToString())

        refused = bool(raised(quantise))
        yield f"block {block}: refused {refused}", refused == (block in {8, 24, 48, 512})


@claim(
    "15c_four_bits",
    "7. What stays in float32 without a word?",
    "The tool changes a `MatMul` whose *second* input is a weight *in the file*, and nothing else, "
    "unless you name `Gather` as well (section 5).",
    fell="The tool changes a `MatMul` whose *second* input is a weight *in the file*, and nothing else.",
    why="`op_types_to_quantize` with `Gather`: the chapter's own section 5",
)
def what_the_tool_changes() -> Attempts:
    text = """g (int64[2] i, float[2,64] x) => (float[2,64] a, float[2,64] b, float[2,64] c, float[2,64] d)
    <float[64,64] w, float[64,64] table> { a = MatMul(x, w)  b = Gemm(x, w)  c = Gather(table, i)
    t = Transpose(w)  d = MatMul(x, t) }"""
    model = parsed(text, 21)
    del model.graph.initializer[:]
    for name in ("w", "table"):
        model.graph.initializer.append(
            numpy_helper.from_array(np.random.rand(64, 64).astype(np.float32), name)
        )
    for kinds, expected in (
        (None, {"MatMulNBits"}),
        (("MatMul",), {"MatMulNBits"}),
        (("MatMul", "Gather"), {"MatMulNBits", "GatherBlockQuantized"}),
    ):
        quantiser = MatMulNBitsQuantizer(
            onnx.ModelProto.FromString(model.SerializeToString()), block_size=32, op_types_to_quantize=kinds
        )
        quantiser.process()
        new = [name for name in operators(quantiser.model.model) if name not in operators(model)]
        yield f"{kinds}: {new}", set(new) == expected and len(new) == len(expected)


@claim(
    "16_half_precision",
    "2. Who notices that this file overflows?",
    "On an x86 processor ONNX Runtime has no float16 **kernels**, the functions that compute a node, for these "
    "operators: it computes them in float32.",
)
def values_beyond_float16_in_the_middle() -> Attempts:
    for operator, text in {
        "Mul": "a = Mul(x, x)  y = Sqrt(a)",
        "MatMul": "a = MatMul(x, x)  y = Sqrt(a)",
        "ReduceSum": "a = Mul(x, x)  b = ReduceSum(a)  y = Sqrt(b)",
        "Add": "a = Add(x, x)  b = Mul(a, a)  y = Sqrt(b)",
        "Exp": "a = Exp(x)  y = Log(a)",
    }.items():
        size = 300 if operator != "Exp" else 20
        x = np.full((2, 2), size, np.float16)
        model = parsed(f"g (float16[2,2] x) => (float16[m,n] y) {{ {text} }}")
        by_runtime, by_reference = ran(model, x)[0], referred(model, x)[0]
        yield (
            f"{operator}: runtime {by_runtime.ravel()[0]}",
            bool(np.isfinite(by_runtime).all()) and not np.isfinite(by_reference).all(),
        )


@claim(
    "16_half_precision",
    "8. Who notices that types do not agree?",
    "torch.export traces with tensors that have a shape and no data, and for a Linear these do not compare types.",
)
def layers_with_two_types() -> Attempts:
    for label, first, second, x in (
        ("Linear", nn.Linear(3, 3), nn.Linear(3, 3), torch.rand(2, 3)),
        ("Linear without a bias", nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False), torch.rand(2, 3)),
        ("Linear of 3-D inputs", nn.Linear(3, 3), nn.Linear(3, 3), torch.rand(2, 2, 3)),
    ):
        made = tried(nn.Sequential(first.half(), second.float()), (x.half(),), DEFAULT)
        yield (
            f"{label}: written, and not loaded",
            made.model is not None and bool(raised(ran, made.proto, x.half().numpy())),
        )
        yield (
            f"{label}: TorchScript refuses",
            tried(nn.Sequential(first, second), (x.half(),), TORCHSCRIPT).model is None,
        )


@claim(
    "15_quantise",
    "8. Does `per_channel` save a huge channel?",
    "Leaving out one Conv does nothing: a tensor is rounded as long as **either** neighbour asks for it.",
)
def leaving_out_one_of_two_neighbours() -> Attempts:
    for label in ("Conv", "MatMul", "Linear"):
        module, x = NETWORKS[label]
        onnx.save(file := exported(module, (x,), TORCHSCRIPT), "float.onnx")
        names = [node.name for node in file.graph.node if node.op_type in {"Conv", "MatMul", "Gemm"}]
        between = next(n.output[0] for n in file.graph.node if n.op_type in {"Relu", "Tanh"})
        for out, expected in ((names[:1], True), (names[1:], None), (names, False)):
            quantize_static(
                "float.onnx",
                "int8.onnx",
                Reader(file.graph.input[0].name, x),
                nodes_to_exclude=out,
                op_types_to_quantize=["Conv", "MatMul", "Gemm"],
            )
            rounded = any(
                n.op_type == "QuantizeLinear" and n.input[0] == between
                for n in onnx.load("int8.onnx").graph.node
            )
            if expected is not None:
                yield f"{label}, without {len(out)} of {len(names)}: rounded {rounded}", rounded == expected
