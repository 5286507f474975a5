"""Chapters 12 to 14: captures, what a file tells, versions, second files, sessions."""

import itertools
import os
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime as ort
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.onnx._internal.exporter import _registration

from tools.refute.backends import optimized
from tools.refute.claims import Attempts, claim
from tools.refute.exports import BOTH, DEFAULT, Call, close, exported, operators, parsed, raised, ran, tried

CALLS = {
    "linear": (nn.Linear(4, 4), torch.rand(2, 4)),
    "conv2d": (nn.Conv2d(3, 4, 3), torch.rand(1, 3, 6, 6)),
    "layer_norm": (nn.LayerNorm(4), torch.rand(2, 4)),
    "group_norm": (nn.GroupNorm(2, 4), torch.rand(2, 4, 3)),
    "instance_norm": (nn.InstanceNorm1d(4), torch.rand(2, 4, 3)),
    "gelu": (nn.GELU(), torch.rand(2, 4)),
    "silu": (nn.SiLU(), torch.rand(2, 4)),
    "hardswish": (nn.Hardswish(), torch.rand(2, 4)),
    "softplus": (nn.Softplus(), torch.rand(2, 4)),
    "elu": (nn.ELU(), torch.rand(2, 4)),
    "embedding": (nn.Embedding(5, 3), torch.tensor([1, 2])),
    "attention": (
        Call(lambda x: nn.functional.scaled_dot_product_attention(x, x, x)),
        torch.rand(1, 2, 3, 4),
    ),
    "interpolate": (nn.Upsample(scale_factor=2.0, mode="bilinear"), torch.rand(1, 1, 4, 4)),
    "max_pool": (nn.MaxPool2d(2), torch.rand(1, 1, 4, 4)),
    "avg_pool": (nn.AvgPool2d(2), torch.rand(1, 1, 4, 4)),
    "adaptive_avg_pool": (nn.AdaptiveAvgPool2d(1), torch.rand(1, 1, 4, 4)),
    "pixel_shuffle": (nn.PixelShuffle(2), torch.rand(1, 4, 2, 2)),
    "einsum": (Call(lambda x: torch.einsum("ij,kj->ik", x, x)), torch.rand(2, 3)),
    "flatten": (nn.Flatten(), torch.rand(2, 3, 4)),
    "unflatten": (Call(lambda x: x.unflatten(-1, (2, 2))), torch.rand(2, 4)),
    "stack": (Call(lambda x: torch.stack([x, x])), torch.rand(2, 4)),
    "chunk": (Call(lambda x: x.chunk(2, -1)[0]), torch.rand(2, 4)),
    "tile": (Call(lambda x: x.tile(2)), torch.rand(2, 4)),
    "logsumexp": (Call(lambda x: x.logsumexp(-1)), torch.rand(2, 4)),
    "pad": (Call(lambda x: nn.functional.pad(x, (1, 1))), torch.rand(2, 4)),
    "softmax": (nn.Softmax(-1), torch.rand(2, 4)),
    "cross_entropy": (Call(lambda x: nn.functional.cross_entropy(x, torch.tensor([0, 1]))), torch.rand(2, 4)),
    "matmul": (Call(lambda x: x @ x), torch.rand(4, 4)),
    "narrow": (Call(lambda x: x.narrow(0, 0, 1)), torch.rand(4, 4)),
    "type_as": (Call(lambda x: x.long().type_as(x)), torch.rand(4, 4)),
    "square": (Call(lambda x: x.square()), torch.rand(4, 4)),
    "clip": (Call(lambda x: torch.clip(x, 0, 1)), torch.rand(4, 4)),
    "index_add": (Call(lambda x: x.index_add(0, torch.tensor([0]), x[:1])), torch.rand(4, 4)),
}


@claim(
    "12_modern_exporter",
    "3. What is taken apart?",
    "The exporter keeps most operators for which its library has a rule (not `flatten` or `chunk`, which "
    "return views): here `linear` becomes one `Gemm`, a matrix product with a bias.",
    fell="The exporter keeps every operator for which its library has a rule: here `linear` becomes one "
    "`Gemm`, a matrix product with a bias.",
    why="flatten, unflatten, chunk and narrow have rules and are taken apart",
)
def operators_with_a_rule_that_are_taken_apart() -> Attempts:
    rules = _registration.ONNXRegistry.from_torchlib()
    for label, (module, x) in CALLS.items():
        captured = torch.export.export(module.eval(), (x,))
        program = torch.onnx.export(captured, dynamo=True, verbose=False, optimize=False)
        assert program is not None
        left = {node.target for node in program.exported_program.graph.nodes if node.op == "call_function"}
        before = {node.target for node in captured.graph.nodes if node.op == "call_function"}
        apart = [target for target in before - left if rules.get_decomps(target)]
        views = {
            "flatten",
            "unflatten",
            "chunk",
            "narrow",
            "cross_entropy",
            "index_add",
        }  # the last two by a copied constant
        yield f"{label}: taken apart, although it has a rule: {apart}", bool(apart) == (label in views)


@claim(
    "12_modern_exporter",
    "2. Which capture stops at code that it cannot follow?",
    "Nothing can follow an `if` whose condition has no value.",
)
def conditions_without_a_value() -> Attempts:
    for label, function in {
        "sum": lambda x: x * 2 if x.sum() > 0 else x - 1,
        "any": lambda x: x * 2 if (x > 0).any() else x - 1,
        "while": lambda x: x * 2 if bool(x[0] > 1) else x,
    }.items():
        for strict in (False, True):
            yield (
                f"{label}, strict={strict}",
                bool(raised(torch.export.export, Call(function), (torch.rand(3),), strict=strict)),
            )


@claim(
    "12_modern_exporter",
    "1. What does a capture run?",
    "Nothing is computed, so a capture needs no memory for results.",
)
def a_result_larger_than_memory() -> Attempts:
    huge = Call(lambda x: (x.reshape(-1, 1) @ x.reshape(1, -1)).sum())
    x = torch.empty(2_000_000)
    captured = torch.export.export(huge, (x,))
    yield "a product of 16 TB", len(captured.graph.nodes) > 3
    module = nn.Linear(200_000, 200_000, device="meta")
    captured = torch.export.export(module, (torch.empty(1, 200_000, device="meta"),))
    yield "weights of 160 GB on meta", len(captured.graph.nodes) > 3


@claim(
    "13_ship_it",
    "3. For an older runtime: what does `opset_version=17` give?",
    "Here 18 is low enough for the device, but the IR version is 10: the torch.export exporter always writes that one.",
)
def ir_versions_of_other_files() -> Attempts:
    for opset in (17, 18, 20, 21, 23, 24, 25, 26):
        for label, module in {
            "Linear": nn.Linear(3, 3),
            "float8": Call(lambda x: x.to(torch.float8_e4m3fn).float()),
        }.items():
            made = tried(module, (torch.rand(2, 3),), DEFAULT, opset_version=opset)
            yield f"{label}, asked for {opset}: IR {made.proto.ir_version}", made.proto.ir_version == 10


@claim(
    "13_ship_it",
    "5. Do two files know that they belong together?",
    "The converter never lowers the IR version; that stays with you.",
)
def conversions_of_other_ir_versions() -> Attempts:
    for ir, opset, target in itertools.product((7, 8, 10, 13), (13, 18, 21), (9, 12, 15, 20)):
        model = parsed("g (float[2] x) => (float[2] y) { a = Sin(x)  y = Concat<axis = 0>(a) }", opset, ir)
        try:
            got = onnx.version_converter.convert_version(model, target)
        except RuntimeError:  # it has no adapter
            continue
        yield f"IR {ir}, {opset} to {target}: IR {got.ir_version}", got.ir_version == ir


@claim(
    "13_ship_it",
    "5. Do two files know that they belong together?",
    "By default the torch.export exporter writes tensors of more than 256 bytes into a second file, `net.onnx.data`.",
)
def weights_around_the_limit() -> Attempts:
    for count in (1, 63, 64, 65, 100):
        torch.onnx.export(Weighted(torch.rand(count)), (torch.rand(count),), "net.onnx", verbose=False)
        data = Path("net.onnx.data")
        outside = data.stat().st_size if data.exists() else 0
        yield f"{4 * count} bytes: {outside} of them outside", (outside > 0) == (4 * count > 256)
        data.unlink(missing_ok=True)


class Weighted(nn.Module):
    """Adds a weight."""

    def __init__(self, weight: torch.Tensor) -> None:
        """Keep the weight."""
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add it."""
        return x + self.weight


def in_a_second_file(location: str) -> onnx.ModelProto:
    """A model whose weight stands in a file of that path."""
    model = parsed("g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Add(x, w) }")
    tensor = model.graph.initializer[0]
    tensor.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    tensor.data_location = TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    for key, value in {"location": location, "offset": "0", "length": "8"}.items():
        tensor.external_data.add(key=key, value=value)
    return model


@claim(
    "13_ship_it",
    "6. A file from somebody else",
    "Paths that leave the folder, and absolute paths, are refused.",
)
def paths_out_of_the_folder() -> Attempts:
    inner = Path("inner").resolve()
    (inner / "deep").mkdir(parents=True)
    secret = Path("secret.bin").resolve()
    for place in (secret, inner / "own.bin", inner / "deep" / "own.bin"):
        place.write_bytes(np.ones(2, np.float32).tobytes())
    (inner / "link.bin").symlink_to(secret)
    (inner / "linked").symlink_to(secret.parent)
    for location in (
        "../secret.bin",
        "deep/../../secret.bin",
        "./../secret.bin",
        str(secret),
        "link.bin",
        "linked/secret.bin",
        "own.bin",
        "deep/own.bin",
    ):
        onnx.save(in_a_second_file(location), inner / "m.onnx")
        fine = location in {"own.bin", "deep/own.bin"}
        told = location if location != str(secret) else "an absolute path"
        yield f"{told}, onnx", bool(raised(onnx.load, str(inner / "m.onnx"))) != fine
        yield f"{told}, ONNX Runtime", bool(raised(ort.InferenceSession, str(inner / "m.onnx"))) != fine


@claim(
    "13_ship_it",
    "6. A file from somebody else",
    "A session tells names, types and shapes: the order of colours and the range of the values are in no "
    "file, unless somebody wrote them into its metadata.",
    fell="What a session says of inputs and outputs is all that the file knows: the order of colours and the "
    "range of the values are not in it.",
    why="a session hands out the file's metadata, which can name colours and range",
)
def what_else_a_file_can_say() -> Attempts:
    model = parsed("g (float[1,3,4,4] image) => (float[1,3,4,4] y) { y = Relu(image) }")
    helper.set_model_props(
        model, {"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "NominalRange_0_255"}
    )
    session = ort.InferenceSession(model.SerializeToString())
    known = session.get_modelmeta().custom_metadata_map
    yield f"metadata: {known}", known.get("Image.BitmapPixelFormat") == "Bgr8"
    arg = session.get_inputs()[0]
    yield "an input", [name for name in dir(arg) if not name.startswith("_")] == ["name", "shape", "type"]


@claim(
    "13_ship_it",
    "1. Which runtime loads this file?",
    "The IR version is tested first, so lowering only one of the two changes the message and nothing else.",
)
def too_new_in_one_of_two_numbers() -> Attempts:
    for ir, opset in itertools.product((10, 99), (20, 99)):
        model = parsed("g (float[2] x) => (float[2] y) { y = Relu(x) }")
        model.ir_version, model.opset_import[0].version = ir, opset
        error = raised(ort.InferenceSession, model.SerializeToString())
        told = "IR version" in error
        yield (
            f"IR {ir}, opset {opset}: {error[:90]}",
            bool(error) == (99 in (ir, opset)) and told == (ir == 99),
        )


@claim(
    "13_ship_it",
    "1. Which runtime loads this file?",
    "`onnx.helper.make_model` writes the newest versions that the `onnx` package knows, and the runtime does not know "
    "them yet: always pass `opset_imports=` and `ir_version=`.",
)
def a_model_made_without_versions() -> Attempts:
    graph = parsed("g (float[2] x) => (float[2] y) { y = Relu(x) }").graph
    model = helper.make_model(graph)
    yield f"IR {model.ir_version}", model.ir_version == onnx.IR_VERSION
    yield (
        f"opset {model.opset_import[0].version}",
        model.opset_import[0].version == onnx.defs.onnx_opset_version(),
    )
    yield "refused", bool(raised(ort.InferenceSession, model.SerializeToString()))


@claim(
    "14_is_it_fast",
    "7. What do the four levels change?",
    "A session can save the graph that it runs.",
)
def saved_graphs_run_alike() -> Attempts:
    x = torch.rand(1, 3, 8, 8)
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
    ).eval()
    for exporter, level in itertools.product(BOTH, ("BASIC", "EXTENDED", "ALL")):
        saved = optimized(exported(module, (x,), exporter), level)
        yield f"{exporter}, {level}: {operators(saved)}", close(ran(saved, x)[0], module(x).detach())


@claim(
    "14_is_it_fast",
    "5. Four callers: one session or four?",
    "The default looks at the machine, not at what the process may use, so in a container it starts too many "
    "([#29510](https://github.com/microsoft/onnxruntime/issues/29510)).",
)
def workers_of_a_process_on_one_core() -> Attempts:
    import subprocess
    import sys

    code = (
        "import os, sys\nos.sched_setaffinity(0, {0} if sys.argv[1] == 'one' else range(os.cpu_count()))\n"
        "import psutil, onnx, onnxruntime as ort\n"
        "m = onnx.parser.parse_model('<ir_version: 10, opset_import: [\"\": 20]> g (float[2] x) => (float[2] y) { y = Relu(x) }')\n"
        "before = psutil.Process().num_threads()\ns = ort.InferenceSession(m.SerializeToString())\n"
        "print(psutil.Process().num_threads() - before)"
    )
    counts = {}
    for cores in ("all", "one"):
        done = subprocess.run([sys.executable, "-c", code, cores], capture_output=True, text=True, check=True)
        counts[cores] = int(done.stdout)
    if (os.cpu_count() or 1) > 1:
        yield f"workers on all cores and on one: {counts}", counts["one"] == counts["all"]
    else:
        yield "one core: nothing to compare", True


@claim(
    "13_ship_it",
    "2. What does a torch.export file tell about its author?",
    "Deleting `model.metadata_props`, the obvious try, removes nothing.",
)
def notes_of_other_files() -> Attempts:
    for label, (module, x) in [*CALLS.items()][:6]:
        torch.onnx.export(module.eval(), (x,), "net.onnx", external_data=False, verbose=False)
        file = onnx.load("net.onnx")
        size = file.ByteSize()
        del file.metadata_props[:]
        yield f"{label}: {size - file.ByteSize()} bytes", size == file.ByteSize()
        yield f"{label}: notes at nodes", any(node.metadata_props for node in file.graph.node)
