"""Chapters 03 to 06: arguments, sizes, code for the export only, traces."""

import inspect
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
import torch.onnx.testing
from torch import nn
from torch.export import Dim

from onnxlab.exporters.export import export
from tools.refute.claims import Attempts, claim
from tools.refute.exports import (
    BOTH,
    DEFAULT,
    TORCHSCRIPT,
    Call,
    close,
    exported,
    operators,
    raised,
    ran,
    referred,
    tried,
    warned,
)


@claim(
    "03_export_arguments",
    "2. Names: which of them does each exporter use?",
    "With one name for input and output it writes an invalid file, again without a warning; only the "
    "checker and the runtime complain.",
    fell="With one name for input and output it writes an invalid file, again without a warning, and only the "
    "runtime complains.",
    why="onnx.checker refuses the file as well",
)
def one_name_at_both_ends_of_other_networks() -> Attempts:
    for module in (nn.ReLU(), nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Softmax(-1)):
        options = {"input_names": ["io"], "output_names": ["io"]}
        made = tried(module, (torch.rand(2, 3),), DEFAULT, **options)
        yield f"{module}: written, no warning", made.model is not None and not warned(made)
        yield f"{module}: checker", bool(raised(onnx.checker.check_model, made.proto))
        yield f"{module}: runtime", bool(raised(ran, made.proto, torch.rand(2, 3)))


@claim(
    "03_export_arguments",
    "2. Names: which of them does each exporter use?",
    "The torch.export exporter drops names that it does not need, without a warning.",
)
def superfluous_names() -> Attempts:
    for inputs, outputs in ((["a", "b", "c"], ["y"]), (["a"], ["y", "z"]), (["a", "b"], ["y", "z", "w"])):
        made = tried(nn.Linear(3, 3), (torch.rand(2, 3),), DEFAULT, input_names=inputs, output_names=outputs)
        graph = made.proto.graph
        names = ([value.name for value in graph.input], [value.name for value in graph.output])
        yield f"{inputs}, {outputs}: {warned(made)}", not warned(made) and names == (inputs[:1], outputs[:1])


@claim(
    "03_export_arguments",
    "3. Which opset does the file have?",
    "The TorchScript exporter has rules up to opset 20, tries 21 to 23 with a warning, and raises an error above.",
)
def other_networks_at_each_opset() -> Attempts:
    for module in (nn.ReLU(), nn.Linear(3, 3), nn.GELU()):
        for opset in (9, 18, 20, 21, 22, 23, 24, 25, 27):
            made = tried(module, (torch.rand(2, 3),), TORCHSCRIPT, opset_version=opset)
            warned = any("opset" in notice.message.lower() for notice in made.notices)
            told = f"{module}, {opset}: {made.ok}, warned {warned}"
            yield told, made.ok == (opset <= 23) and (opset > 23 or warned == (opset > 20))


@claim(
    "03_export_arguments",
    "3. Which opset does the file have?",
    "From 18 on, nothing has to be converted down.",
)
def opset_18_of_many_operators() -> Attempts:
    functions: dict[str, Callable[..., Any]] = {
        "gelu": lambda x: nn.functional.gelu(x),
        "group_norm": lambda x: nn.functional.group_norm(x, 3),
        "softmax": lambda x: x.softmax(-1),
        "attention": lambda x: nn.functional.scaled_dot_product_attention(x, x, x),
        "grid_sample": lambda x: nn.functional.grid_sample(x, x.permute(0, 2, 3, 1)[..., :2]),
        "interpolate": lambda x: nn.functional.interpolate(x, scale_factor=2.0, mode="bicubic"),
        "isinf": lambda x: x.isinf().float(),
        "affine_grid": lambda x: nn.functional.affine_grid(x[:, 0, :2, :3], [2, 3, 6, 6]),
        "pad": lambda x: nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
        "split": lambda x: x.split(2, -1)[0],
        "rms_norm": lambda x: nn.functional.rms_norm(x, [6]),
        "topk": lambda x: x.topk(2).values,
        "reduce": lambda x: x.amax(-1) + x.sum(-1),
    }
    x = torch.rand(2, 3, 6, 6)
    for label, function in functions.items():
        made = tried(Call(function), (x,), DEFAULT, opset_version=18)
        got = next((entry.version for entry in made.proto.opset_import if not entry.domain), 0)
        right = made.ok and got == 18 and close(ran(made.proto, x)[0], function(x), 1e-4)
        yield f"{label}: opset {got}, {warned(made)}", right


@claim(
    "03_export_arguments",
    "1. A call to start from",
    "Seven arguments of 2021 were removed, and only the first three may be positional today: [the "
    "museum](99_museum.ipynb) has the list.",
)
def parameters_of_export() -> Attempts:
    parameters = inspect.signature(torch.onnx.export).parameters.values()
    positional = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    yield str(positional), positional == ["model", "args", "f"]


@claim(
    "03_export_arguments",
    "6. Does `verify=True` stop a wrong export?",
    "But, like `verify`, it compares the file with the *captured* program, and unless you pass `args=` "
    "at the example: of all inputs, the one that is most likely to be right.",
    fell="But, like `verify`, it compares the file with the *captured* program, and at the example only: of "
    "all inputs, the one that is most likely to be right.",
    why="the same `args=`",
)
def verdict_at_other_inputs() -> Attempts:
    clip = Call(
        lambda x: x.clamp(0, 1) if torch.onnx.is_in_onnx_export() else x
    )  # the capture has the clip, too
    program = torch.onnx.export(clip, (torch.rand(4),), dynamic_shapes=({0: Dim.DYNAMIC},), verbose=False)
    judge = torch.onnx.testing.assert_onnx_program
    yield "the example", not raised(judge, program)
    for inputs in (torch.rand(6), torch.full((8,), 5.0)):
        yield (
            f"args= of {len(inputs)} elements: the captured program",
            not raised(judge, program, args=(inputs,)),
        )
    whole = torch.onnx.export(
        Call(lambda x: x.sum(0) / len(x)), (torch.rand(1, 3),), dynamic_shapes=({0: "n"},), verbose=False
    )
    yield "a frozen size, at the example", not raised(judge, whole)
    yield "a frozen size, by args=", bool(raised(judge, whole, args=(torch.rand(5, 3),)))


@claim(
    "03_export_arguments",
    "7. Which exporter uses which argument?",
    "*Invalid model*: no runtime loads the file until somebody puts the weights back; the TorchScript exporter makes "
    "inputs of them.",
)
def runtimes_and_a_file_without_weights() -> Attempts:
    import cv2
    import openvino

    torch.onnx.export(
        nn.Linear(3, 3),
        (torch.rand(2, 3),),
        "bare.onnx",
        export_params=False,
        external_data=False,
        verbose=False,
    )
    file = onnx.load("bare.onnx")
    yield "ONNX Runtime", bool(raised(ran, file, torch.rand(2, 3)))
    yield "onnx.reference", bool(raised(referred, file, torch.rand(2, 3).numpy()))
    yield "OpenVINO", bool(raised(lambda: openvino.Core().compile_model("bare.onnx", "CPU")))

    def in_opencv() -> None:
        net = cv2.dnn.readNetFromONNX("bare.onnx")
        net.setInput(np.ones((2, 3), np.float32))
        net.forward()

    yield "OpenCV", bool(raised(in_opencv))


@claim(
    "03_export_arguments",
    "5. What is written if `eval()` was forgotten?",
    "The torch.export exporter writes a mixture: BatchNorm as in `eval()`, folded into the convolution, but a "
    "Dropout that is still random.",
)
def other_norms_and_dropouts_in_train_mode() -> Attempts:
    for rank, conv, norm in (
        (1, nn.Conv1d, nn.BatchNorm1d),
        (2, nn.Conv2d, nn.BatchNorm2d),
        (3, nn.Conv3d, nn.BatchNorm3d),
    ):
        module = nn.Sequential(conv(2, 3, 3), norm(3), nn.Dropout(0.5)).train()
        x = torch.rand(2, 2, *[6] * rank)
        file = export(module, (x,), DEFAULT, run=False).proto
        yield (
            f"{rank}-D: {operators(file)}",
            operators(file)[:1] == ["Conv"] and "BatchNormalization" not in operators(file),
        )
        outputs = [ran(file, x)[0] for _ in range(2)]
        yield f"{rank}-D: random", not close(*outputs)


@claim(
    "04_dynamic_shapes",
    "7. How do you mark several inputs?",
    "The range is a promise to PyTorch only.",
)
def sizes_outside_of_a_range() -> Attempts:
    batch = Dim("batch", min=2, max=10)
    for module, example in ((nn.ReLU(), torch.rand(3, 4)), (nn.Conv2d(3, 2, 3), torch.rand(3, 3, 8, 8))):
        file = exported(module, (example,), dynamic_shapes=({0: batch},))
        for size in (0, 1, 11, 200):
            x = torch.rand(size, *example.shape[1:])
            error = raised(ran, file, x)
            yield f"{module}, {size}: {error}", not error and close(ran(file, x)[0], module(x).detach())


@claim(
    "04_dynamic_shapes",
    "6. Which mark keeps your name?",
    "A `Dim` may have a range; the example must lie inside it.",
)
def examples_outside_of_a_range() -> Attempts:
    for size in (1, 2, 10, 11):
        dims = ({0: Dim("batch", min=2, max=10)},)
        error = raised(exported, nn.ReLU(), (torch.rand(size, 4),), dynamic_shapes=dims)
        yield f"{size}: {error[:60]}", bool(error) == (size not in {2, 10})


@claim(
    "04_dynamic_shapes",
    "7. How do you mark several inputs?",
    "Equal sizes get one name: if you call the mask's rows `rows`, the file says `batch` for both.",
)
def two_names_for_sizes_that_the_model_joins() -> Attempts:
    for label, function in {
        "add": lambda a, b: a + b,
        "cat": lambda a, b: torch.cat([a, b], 1),
        "stack": lambda a, b: torch.stack([a, b]),
    }.items():
        dims = ({0: "batch"}, {0: "rows"})
        file = exported(Call(function), (torch.rand(3, 4), torch.rand(3, 4)), dynamic_shapes=dims)
        names = {value.type.tensor_type.shape.dim[0].dim_param for value in file.graph.input}
        yield f"{label}: {names}", names == {"batch"}


@claim(
    "04b_right_at_every_size",
    "2. Which ways to ask for a size are safe?",
    "While a model is captured, `x.shape[0]` is a symbol (or, for TorchScript, a tensor), and arithmetic with it "
    "goes into the graph.",
)
def arithmetic_with_a_size() -> Attempts:
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "+": lambda x: x.sum(0) + x.shape[0],
        "/": lambda x: x.sum(0) / x.shape[0],
        "//": lambda x: x.sum(0) + x.shape[0] // 2,
        "%": lambda x: x.sum(0) + x.shape[0] % 3,
        "**": lambda x: x.sum(0) + x.shape[0] ** 2,
        "-n": lambda x: x.sum(0) + -x.shape[0],
        "n * n": lambda x: x.sum(0) * (x.shape[0] * x.shape[0]),
        "** 0.5": lambda x: x.sum(0) * x.shape[0] ** -0.5,
    }
    for label, function in ways.items():
        for exporter in BOTH:
            options: dict[str, Any] = {"dynamic_shapes": ({0: "rows"},)}
            if exporter is TORCHSCRIPT:
                options = {"input_names": ["x"], "dynamic_axes": {"x": {0: "rows"}}}
            made = tried(Call(function), (torch.rand(3, 2),), exporter, **options)
            wrong = [
                n
                for n in (2, 5, 7)
                if not made.ok or not close(ran(made.proto, x := torch.rand(n, 2))[0], function(x), 1e-4)
            ]
            yield (
                f"{label}, {exporter}: wrong at {wrong}, {made.failure and made.failure.message[:80]}",
                not wrong,
            )


@claim(
    "04b_right_at_every_size",
    "2. Which ways to ask for a size are safe?",
    "In a trace, `max` and `min` ask Python as well, with a warning.",
    fell="`len`, `int`, `range` and `if` ask Python for a number, and Python has only the example's.",
    why="the list lacked two: `max(n, 4)` and `min(n, 4)` keep the example's number in a trace",
)
def sizes_that_python_compares() -> Attempts:
    for label, function in {
        "max": lambda x: x * max(x.shape[0], 4),
        "min": lambda x: x * min(x.shape[0], 4),
    }.items():
        options = {"input_names": ["x"], "dynamic_axes": {"x": {0: "rows"}}}
        made = tried(Call(function), (torch.rand(3, 2),), TORCHSCRIPT, **options)
        x = torch.rand(6, 2)
        yield f"{label}: frozen", not close(ran(made.proto, x)[0], function(x))
        yield f"{label}: a warning", any("Python boolean" in message for message in warned(made))
        file = exported(Call(function), (torch.rand(3, 2),), DEFAULT, dynamic_shapes=({0: "rows"},))
        yield f"{label}: torch.export keeps it", close(ran(file, x)[0], function(x))


@claim(
    "04b_right_at_every_size",
    "4. Does anybody know the condition?",
    "ONNX has no assertion operator, so the exporter removes the assertions before it writes the file.",
)
def definitions_that_could_assert() -> Attempts:
    names = {schema.name for schema in onnx.defs.get_all_schemas()}
    yield "a schema", not [name for name in names if "assert" in name.lower() or "check" in name.lower()]
    file = exported(
        Call(lambda x: x.reshape(-1, 4).sum(-1)), (torch.rand(8),), dynamic_shapes=({0: Dim.DYNAMIC},)
    )
    yield str(operators(file)), not any("ssert" in name for name in operators(file))


@claim(
    "05_export_only_code",
    "2. What if the model was captured earlier?",
    "The flag belongs to the process, not to the model: whatever runs during an export sees it.",
)
def another_thread_during_an_export() -> Attempts:
    for exporter in BOTH:
        seen: list[bool] = []

        def look(seen: list[bool] = seen) -> None:
            seen.append(torch.onnx.is_in_onnx_export())

        def forward(x: torch.Tensor) -> torch.Tensor:
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            return x * 2

        exported(Call(forward), (torch.rand(2),), exporter)
        yield f"{exporter}: {seen}", bool(seen) and all(seen)
        yield f"{exporter}: afterwards", not torch.onnx.is_in_onnx_export()


@claim(
    "05_export_only_code",
    "4. Which test notices a lost clip?",
    "Two flags cover all four today; the third costs nothing and names the purpose.",
)
def two_flags_in_four_ways() -> Attempts:
    class Clip(nn.Module):
        def forward(self, x):
            if torch.jit.is_tracing() or torch.compiler.is_exporting():
                x = torch.clip(x, 0, 1)
            return x * 2

    x = torch.rand(2)
    ways = {
        "torch.export": lambda: exported(Clip(), (x,), DEFAULT),
        "TorchScript": lambda: exported(Clip(), (x,), TORCHSCRIPT),
        "program first": lambda: exported(torch.export.export(Clip(), (x,)), (), DEFAULT),
        "program first, strict": lambda: exported(
            torch.export.export(Clip(), (x,), strict=True), (), DEFAULT
        ),
        "traced first": lambda: exported(torch.jit.trace(Clip(), (x,)), (x,), TORCHSCRIPT),
    }
    for label, way in ways.items():
        yield label, close(ran(way(), torch.tensor([-3.0, 5.0]))[0], [0, 2])


@claim(
    "06_trace_breakers",
    "4. A model may lose its only input",
    "Nothing depends on the input, so the input is gone, and ONNX Runtime runs the file without one.",
)
def other_models_that_ignore_their_input() -> Attempts:
    for label, function in {
        "ones": lambda x: torch.ones(3),
        "item": lambda x: torch.tensor(x.sum().item()),
        "numpy": lambda x: torch.from_numpy(x.numpy() * 2),
    }.items():
        file = exported(Call(function), (torch.rand(3),), TORCHSCRIPT)
        yield f"{label}: {len(file.graph.input)} inputs", not file.graph.input and not raised(ran, file)


@claim(
    "06_trace_breakers",
    "6. What becomes of a Python number that is an input?",
    "(An `int` that `dynamic_shapes` marks `Dim.DYNAMIC` stays an input.)",
    fell="The default exporter bakes a plain number, and gives no warning: here it is the silent one.",
    why="an `int` marked `Dim.DYNAMIC` becomes an input",
)
def plain_numbers_of_every_type_and_mark() -> Attempts:
    for value in (2, 2.0, True):
        made = tried(Call(lambda x, k: x * k), (torch.rand(2), value), DEFAULT)
        yield f"{value}: {warned(made)}", made.ok and len(made.proto.graph.input) == 1 and not warned(made)
    marked = tried(Call(lambda x, k: x * k), (torch.rand(2), 2), DEFAULT, dynamic_shapes=(None, Dim.DYNAMIC))
    inputs = len(marked.proto.graph.input) if marked.model else -1
    yield (
        f"an int marked Dim.DYNAMIC: {inputs} inputs, {marked.failure and marked.failure.message[:90]}",
        inputs == 2,
    )


@claim(
    "06_trace_breakers",
    "6. What becomes of a Python number that is an input?",
    "The TorchScript exporter makes an input of the plain number, if `forward` computes with it.",
)
def plain_numbers_in_a_trace() -> Attempts:
    for label, function in {
        "x * k": lambda x, k: x * k,
        "x + k": lambda x, k: x + k,
        "x ** k": lambda x, k: x**k,
        "clamp": lambda x, k: x.clamp(max=k),
    }.items():
        for value, other in ((2, 3), (2.0, 3.0)):
            made = tried(Call(function), (torch.rand(2), value), TORCHSCRIPT)
            x = torch.rand(2)
            kind = np.int64 if isinstance(value, int) else np.float64
            right = made.ok and len(made.proto.graph.input) == 2
            right = right and close(ran(made.proto, x, np.array(other, kind))[0], function(x, other))
            yield f"{label}, {value}: {made.failure and made.failure.message[:80]}", right


@claim(
    "06_trace_breakers",
    "6. What becomes of a Python number that is an input?",
    "Pass a tensor; both exporters make an input of it.",
)
def numbers_as_tensors() -> Attempts:
    for label, function in {
        "x * k": lambda x, k: x * k,
        "pow": lambda x, k: x**k,
        "where": lambda x, k: torch.where(x > k, x, k),
    }.items():
        for exporter in BOTH:
            file = exported(Call(function), (torch.rand(2), torch.tensor(2.0)), exporter)
            x = torch.rand(2)
            yield (
                f"{label}, {exporter}",
                close(ran(file, x, np.float32(3))[0], function(x, torch.tensor(3.0))),
            )
