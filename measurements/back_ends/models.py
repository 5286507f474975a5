"""The files that every back end gets, with the numbers that torch computes for the same inputs."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own usual name
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop

from onnxlab import quiet_exporters, super_resolution, symbolics

COARSE = """
<ir_version: 10, opset_import: ["": 20, "plugin": 1]>
net (float[4] x) => (float[4] y) {
    mean = ReduceMean <keepdims = 0> (x)
    i = Floor (mean)
    j = plugin.coarse_func (i, x)
    one = Constant <value_float = 1.0> ()
    y = Add (j, one)
}
<domain: "plugin", opset_import: ["": 20]>
coarse_func (i, x) => (j) {
    zero = Constant <value_float = 0.0> ()
    is_zero = Equal (i, zero)
    j = If (is_zero) <
        then_branch = funcB () => (a) { a = Sin (x) },
        else_branch = funcC () => (b) { b = Cos (x) }
    >
}"""
SOFT_CLIP = """
<ir_version: 10, opset_import: ["": 20, "course": 1]>
net (float[3,4] x) => (float[3,4] y) { y = course.SoftClip <limit = 2.0> (x) }
<domain: "course", opset_import: ["": 20]>
SoftClip <limit> (x) => (y) {
    l = Constant <value_float: float = @limit> ()
    d = Div (x, l)
    t = Tanh (d)
    y = Mul (t, l)
}"""
RAW_INDICES = """
<ir_version: 10, opset_import: ["": 20]>
net (float[1, 2, 3, 3] x) => (float[1, 2, 2, 2] y, int64[1, 2, 2, 2] index) {
    y, index = MaxPool <kernel_shape = [2, 2], strides = [1, 1]> (x)
}"""
RAW_INDICES_STRIDE_2 = """
<ir_version: 10, opset_import: ["": 20]>
net (float[1, 2, 4, 4] x) => (float[1, 2, 2, 2] y, int64[1, 2, 2, 2] index) {
    y, index = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
}"""
SWISH = (
    '<ir_version: 10, opset_import: ["": 24]> net (float[1,3,4,4] x) => (float[1,3,4,4] y) { y = Swish (x) }'
)
DEFORM = """
<ir_version: 10, opset_import: ["": 19]>
net (float[1,3,9,8] x, float[4,3,3,3] w, float[1,18,7,6] o) => (float[1,4,7,6] y) {
    y = DeformConv (x, w, o)
}"""
UNSORTED = """
<ir_version: 10, opset_import: ["": 20]>
net (float[2] a, float[2] x, float[2] b) => (float[2] y) { c = Mul (a, x)
 y = Add (c, b) }"""

Inputs = Sequence[Tensor | int]


class Files:
    """A folder of models; `titles` names each of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.titles = folder, dict[str, str]()

    def export(
        self,
        name: str,
        title: str,
        model: Any,
        *runs: Inputs,
        dynamo: bool,
        truth: Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        """Export a model with its first inputs; each of its inputs is then run."""
        path = self.folder / f"{name}.onnx"
        torch.onnx.export(
            model, tuple(runs[0]), path, dynamo=dynamo, external_data=False, verbose=False, **options
        )
        with torch.no_grad():
            answers = [(truth or model)(*inputs) for inputs in runs]
        results = [answer if isinstance(answer, tuple) else (answer,) for answer in answers]
        names = [value.name for value in onnx.load(path).graph.input]
        feeds = [dict(zip(names, map(_array, inputs), strict=False)) for inputs in runs]
        self._expect(name, title, feeds, [[_array(tensor) for tensor in result] for result in results])

    def write(
        self,
        name: str,
        title: str,
        model: onnx.ModelProto,
        feeds: list[dict[str, Any]],
        expected: list[list[Any]],
    ) -> None:
        """Save a model that no exporter writes, with its expected outputs."""
        onnx.save(model, self.folder / f"{name}.onnx")
        self._expect(name, title, feeds, expected)

    def same(
        self, name: str, title: str, other: str, feeds: list[dict[str, Any]], expected: list[list[Any]]
    ) -> None:
        """Run a model that is there already with other inputs."""
        model = onnx.load(self.folder / f"{other}.onnx")
        self.write(name, title, model, feeds, expected)

    def _expect(self, name: str, title: str, feeds: list[dict[str, Any]], expected: list[list[Any]]) -> None:
        arrays = {f"in{i}::{key}": value for i, feed in enumerate(feeds) for key, value in feed.items()}
        arrays |= {
            f"out{i}::{j}": value for i, values in enumerate(expected) for j, value in enumerate(values)
        }
        np.savez(self.folder / f"{name}.npz", **arrays)
        self.titles[name] = title


def write_models(folder: Path) -> dict[str, str]:
    """Write every model and its numbers into a folder.

    Returns:
        What each model is, by its name.
    """
    quiet_exporters()
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    files = Files(folder)
    for write in (_images, _control_flow, _resize, pooling, _operators, _attention, _shifts, by_hand):
        write(files)
    return files.titles


def _array(value: Tensor | int) -> Any:
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)


class _Repeat(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = self.conv(x)
        return x


class _While(torch.nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        start = torch.zeros((), dtype=torch.int64)
        result: tuple[Tensor, Tensor] = while_loop(  # type: ignore[no-untyped-call]  # torch has no types here
            lambda i, x: i < n, lambda i, x: (i + 1, torch.sin(x)), (start, x)
        )
        return result[1]


class _Branch(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        i = torch.floor(x.mean())
        if i == 0:  # noqa: SIM108 - the course's own lines
            j = torch.sin(x)
        else:
            j = torch.cos(x)
        return j + 1


class _Condition(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        chosen: Tensor = torch.cond(torch.floor(x.mean()) == 0, torch.sin, torch.cos, (x,))
        return chosen + 1


class _Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def _images(files: Files) -> None:
    conv_conv = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3), torch.nn.Conv2d(3, 3, 3)).eval()
    files.export("conv_conv", "Conv, Conv", conv_conv, (torch.rand(1, 3, 10, 10),), dynamo=False)
    network, picture = super_resolution.load_trained().eval(), torch.rand(1, 1, 20, 30)
    for opset, written in ((10, "Reshape, Transpose"), (17, "DepthToSpace")):
        title = f"super resolution, opset {opset} ({written})"
        files.export(
            f"super_resolution_{opset}", title, network, (picture,), dynamo=False, opset_version=opset
        )
    axes: dict[str, Any] = {"dynamic_shapes": ({0: "batch", 2: "height", 3: "width"},)}
    two = (torch.rand(2, 1, 20, 30),)
    files.export("batch_of_2", "super resolution, a batch of 2", network, two, dynamo=True, **axes)


def _control_flow(files: Files) -> None:
    repeat, x = _Repeat().eval(), torch.rand(1, 3, 10, 10)
    runs = [(x, 2), (x, 0), (x, 5)]
    files.export(
        "loop_script", "Loop, from a script", torch.jit.script(repeat), *runs, dynamo=False, truth=repeat
    )
    counts = [(torch.rand(4), torch.tensor(n)) for n in (2, 5)]
    files.export("loop_while", "Loop, from `while_loop`", _While(), *counts, dynamo=True)
    both = [(torch.full((4,), 0.5),), (torch.full((4,), 1.5),)]
    files.export(
        "if_script", "If, from a script", torch.jit.script(_Branch()), *both, dynamo=False, truth=_Branch()
    )
    files.export("if_cond", "If, from `torch.cond`", _Condition(), *both, dynamo=True)


class _FreeScale(torch.autograd.Function):
    @staticmethod
    def symbolic(g: Any, x: Any, scales: Any) -> Any:
        nothing = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
        return g.op(
            "Resize", x, nothing, scales, mode_s="cubic", cubic_coeff_a_f=-0.75, nearest_mode_s="floor",
            coordinate_transformation_mode_s="half_pixel",
        )  # fmt: skip

    @staticmethod
    def forward(ctx: object, x: Tensor, scales: Tensor) -> Tensor:
        return _bicubic(x, scales)


def _bicubic(x: Tensor, scales: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=scales.tolist()[-2:], mode="bicubic")


def _resize(files: Files) -> None:
    x = torch.rand(1, 3, 16, 20)
    triple = _Call(lambda x: F.interpolate(x, scale_factor=3.0, mode="bicubic"))
    files.export("bicubic", "bicubic, 3 times", triple, (x,), dynamo=True)
    free = _Call(_FreeScale.apply)
    runs = [(x, torch.tensor([1, 1, h, w])) for h, w in ((3.0, 3.0), (1.5, 2.0), (0.5, 0.5))]
    options: dict[str, Any] = {"input_names": ["x", "scales"], "opset_version": 11, "truth": _bicubic}
    options["dynamic_axes"] = {"x": {2: "h", 3: "w"}}
    files.export("scales_input", "bicubic, scales as an input", free, *runs, dynamo=False, **options)
    small, scales = torch.rand(1, 3, 5, 5), torch.tensor([1, 1, 4.2, 4.2])
    answer = [[_bicubic(small, scales).numpy()]]
    feeds = [{"x": small.numpy(), "scales": scales.numpy()}]
    files.same("scale_4_2", "5 pixels, scale 4.2 as an input (torch: 20)", "scales_input", feeds, answer)
    size = _Call(lambda x, size: F.interpolate(x, (size[0].item(), size[1].item()), mode="bicubic"))
    sizes = [(x, torch.tensor(pair)) for pair in ([12, 9], [7, 20])]
    files.export("size_input", "bicubic, the size as an input", size, *sizes, dynamo=True)


def pooling(files: Files) -> None:
    """Write MaxPool's indices and MaxUnpool."""
    raw = (("indices_raw", 1, 3, RAW_INDICES), ("indices_raw_2", 2, 4, RAW_INDICES_STRIDE_2))
    for name, stride, size, text in raw:
        x = torch.arange(1.0, 1.0 + size**2).reshape(1, 1, size, size).repeat(1, 2, 1, 1)
        values, index = F.max_pool2d(x, 2, stride, return_indices=True)  # counted in each channel
        counted = [values.numpy(), (index + torch.tensor([0, size**2]).reshape(1, 2, 1, 1)).numpy()]
        title = f"MaxPool, stride {stride}, indices by the standard"
        files.write(name, title, onnx.parser.parse_model(text), [{"x": x.numpy()}], [counted])
    batch = (torch.rand(2, 3, 6, 6),)
    exports = (
        ("indices_L", 1, "TorchScript"),
        ("indices_D", 1, "torch.export"),
        ("indices_D_2", 2, "torch.export"),
    )
    for name, stride, exporter in exports:
        title = f"MaxPool, stride {stride}, indices as {exporter} exports them"
        pool = torch.nn.MaxPool2d(2, stride, return_indices=True).eval()
        files.export(name, title, pool, batch, dynamo=exporter == "torch.export")
    unpool = _Call(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), kernel_size=[2, 2]))
    photo = (torch.rand(1, 3, 8, 8),)
    bare = _Call(lambda x: torch._C._nn.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), [8, 8]))
    with symbolics.symbolic("aten::max_unpool2d", _whole_tensor, opset=11):
        files.export("unpool_L", "MaxUnpool, with the repaired rule", bare, photo, dynamo=False)
    files.export("unpool_D", "MaxUnpool, as ScatterND", unpool, photo, dynamo=True)


def _whole_tensor(g: Any, values: Any, index: Any, size: Any) -> Any:
    n, c, h, w = values.type().sizes()
    begins = torch.arange(n * c).reshape(n, c, 1, 1) * (2 * h * 2 * w)
    index = g.op("Add", index, g.op("Constant", value_t=begins))
    return g.op("MaxUnpool", values, index, kernel_shape_i=[2, 2], strides_i=[2, 2])


def _operators(files: Files) -> None:
    edges = torch.tensor([0.0, 1.0, -1e4])
    files.export("asinh", "Asinh, at -10000 too", _Call(torch.asinh), (edges,), dynamo=True)
    layers = (torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.SiLU())
    model = torch.nn.Sequential(*layers).eval()
    files.export("conv_bn_silu", "Conv, BatchNorm, SiLU", model, (torch.rand(1, 3, 16, 16),), dynamo=True)
    x = torch.randn(1, 3, 4, 4)
    swish, answer = onnx.parser.parse_model(SWISH), [[F.silu(x).numpy()]]
    files.write("swish", "Swish (opset 24)", swish, [{"x": x.numpy()}], answer)


def _attention(files: Files) -> None:
    qkv = tuple(torch.randn(1, 4, 5, 8) for _ in range(3))
    layer = _Call(F.scaled_dot_product_attention)
    for nodes, dynamo, opset in ((17, False, 20), (8, True, 20)):
        name = f"attention_{nodes}"
        files.export(name, f"attention, {nodes} nodes", layer, qkv, dynamo=dynamo, opset_version=opset)
    title = "attention, 1 node (opset 23)"
    files.export("attention_1", title, layer, qkv, dynamo=True, opset_version=23)


def _shifts(files: Files) -> None:
    numbers = torch.tensor([-5, 7, -1, -8], dtype=torch.int32)
    half = _Call(lambda x: torch.bitwise_right_shift(x, 1))
    for exporter, dynamo in (("TorchScript", False), ("torch.export", True)):
        title = f"int32 -5 >> 1 from {exporter} (torch: -3)"
        files.export("shift_right_D" if dynamo else "shift_right_L", title, half, (numbers,), dynamo=dynamo)
    small = torch.tensor([5, 100, 200, 3], dtype=torch.uint8)
    double = _Call(lambda x: x << 1)
    files.export("shift_left", "uint8 200 << 1 (torch: 144)", double, (small,), dynamo=False)


def by_hand(files: Files) -> None:
    """Write what no exporter does."""
    x = np.linspace(-6, 6, 12, dtype=np.float32).reshape(3, 4)
    clip = onnx.parser.parse_model(SOFT_CLIP)
    arguments: tuple[Any, Any] = ([{"x": x}], [[2 * np.tanh(x / 2)]])
    files.write("function", "a function with a body", clip, *arguments)
    inlined = onnx.inliner.inline_local_functions(clip)
    files.write("function_inlined", "the same, body unfolded", inlined, *arguments)
    low, high = np.full(4, 0.5, np.float32), np.full(4, 1.5, np.float32)
    arguments = ([{"x": low}, {"x": high}], [[np.sin(low) + 1], [np.cos(high) + 1]])
    coarse = onnx.parser.parse_model(COARSE)
    files.write("function_if", "a function with an If", coarse, *arguments)
    inlined = onnx.inliner.inline_local_functions(coarse)
    files.write("function_if_inlined", "the same, If unfolded", inlined, *arguments)
    unsorted = onnx.parser.parse_model(UNSORTED)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in unsorted.graph.node]
    del unsorted.graph.node[:]
    unsorted.graph.node.extend(reversed(nodes))
    feed = {name: np.full(2, number, np.float32) for name, number in (("a", 2), ("x", 3), ("b", 1))}
    files.write("unsorted", "nodes not sorted", unsorted, [feed], [[np.full(2, 7, np.float32)]])
    deform = onnx.parser.parse_model(DEFORM)
    random = np.random.default_rng(0)
    shapes = {"x": (1, 3, 9, 8), "w": (4, 3, 3, 3), "o": (1, 18, 7, 6)}
    feed = {name: random.random(shape).astype(np.float32) - 0.5 for name, shape in shapes.items()}
    # torchvision is no dependency: ONNX Runtime's numbers, which chapter 08 compares with torch.
    session = ort.InferenceSession(deform.SerializeToString(), providers=["CPUExecutionProvider"])
    files.write("deform_conv", "DeformConv (opset 19)", deform, [feed], [list(session.run(None, feed))])
