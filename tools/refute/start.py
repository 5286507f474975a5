"""Chapters 00 to 02: a first export, providers, tracing and scripting."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.onnx.testing
from onnx import TensorProto, helper
from torch import nn

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
)


@claim(
    "00_start_here",
    "5. Does ONNX Runtime compute the same?",
    "An exported file accepts only the sizes of the example, unless the export gave an axis a name.",
)
def another_size_of_each_axis() -> Attempts:
    for label, model, example in (
        ("Conv", nn.Conv2d(3, 4, 3), torch.rand(2, 3, 8, 8)),
        ("ReLU", nn.ReLU(), torch.rand(2, 3)),
        ("Identity", nn.Identity(), torch.rand(2, 3)),
        ("a script", torch.jit.script(nn.ReLU()), torch.rand(2, 3)),
        ("one element", nn.ReLU(), torch.rand(1)),
    ):
        for exporter in BOTH:
            if label == "a script" and exporter is DEFAULT:
                continue  # it accepts no script
            file = exported(model, (example,), exporter)
            for axis in range(example.dim()):
                for size in (0, 1, example.shape[axis] + 1):
                    shape = [*example.shape]
                    shape[axis] = size
                    if shape != [*example.shape]:
                        refused = raised(ran, file, torch.rand(shape))
                        yield f"{label}, {exporter}, {shape}", "invalid dimensions" in refused


@claim(
    "00_start_here",
    "6. Two exporters",
    "Both print a few lines, whatever the model: that TorchScript is deprecated (Python shows a warning "
    "once for each line of code), that torchvision is missing.",
    fell="Both print a few lines on every call, whatever the model: that TorchScript is deprecated, that "
    "torchvision is missing.",
    why="TorchScript's second call from one line of code prints nothing: Python shows a warning once a line",
)
def two_models_in_a_row() -> Attempts:
    code = (
        "import sys, torch\n"
        "for model in (torch.nn.Linear(2, 2), torch.nn.ReLU()):\n"
        "    torch.onnx.export(model.eval(), (torch.rand(2, 2),), 'x.onnx', dynamo=sys.argv[1] == 'True')\n"
        "    print('--next--', file=sys.stderr, flush=True)\n    print('--next--', flush=True)\n"
    )
    for exporter in BOTH:
        done = subprocess.run(
            [sys.executable, "-c", code, str(exporter.dynamo)], capture_output=True, text=True, check=True
        )
        parts = zip(done.stdout.split("--next--"), done.stderr.split("--next--"), strict=True)
        for number, (out, err) in enumerate([*parts][:2], start=1):
            silent = exporter is TORCHSCRIPT and number == 2  # the same line of code
            yield f"{exporter}, call {number}: {(out + err)[:60]!r}", bool((out + err).strip()) != silent


@claim(
    "00_start_here",
    "4. A first export",
    "`.eval()` at the end of the first line switches it off, so there is nothing left to export.",
)
def every_dropout_of_torch() -> Attempts:
    kinds = (nn.Dropout, nn.Dropout1d, nn.AlphaDropout, nn.FeatureAlphaDropout)
    for kind in kinds:
        for exporter in BOTH:
            file = exported(nn.Sequential(kind(0.5), nn.ReLU()).eval(), (torch.rand(2, 3, 4),), exporter)
            yield f"{kind.__name__}, {exporter}: {operators(file)}", operators(file) == ["Relu"]


@claim(
    "01_first_deployment",
    "4. Run the file, then ask where it ran",
    "`pip install onnxruntime` brings nothing for NVIDIA cards: that is `onnxruntime-gpu`.",
    fell="`pip install onnxruntime` brings the CPU only; for NVIDIA cards it is `onnxruntime-gpu`.",
    why="the package has AzureExecutionProvider, too (on macOS CoreML)",
)
def providers_of_the_installed_package() -> Attempts:
    for provider in ort.get_available_providers():
        yield (
            provider,
            provider in {"CPUExecutionProvider", "AzureExecutionProvider", "CoreMLExecutionProvider"},
        )


@claim(
    "01_first_deployment",
    "4. Run the file, then ask where it ran",
    "A provider that is missing costs a warning, not an error: the session falls back to the CPU.",
)
def every_provider_that_is_missing() -> Attempts:
    file = exported(nn.ReLU(), (torch.rand(2),)).SerializeToString()
    for name in [*ort.get_all_providers(), "NoSuchExecutionProvider"]:
        if name not in ort.get_available_providers():
            for asked in ([name], [(name, {})], [name, "CPUExecutionProvider"]):
                error = raised(ort.InferenceSession, file, providers=asked)
                yield f"{asked}: {error}", not error


@claim(
    "01_first_deployment",
    "3. The checker reads the file; it does not run it",
    "The checker's silence does not mean that a runtime can run the file: it does not look into other domains than "
    "ONNX's own.",
)
def nonsense_in_each_domain() -> Attempts:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    for domain in ("com.microsoft", "org.pytorch.aten", "a.b", "", "ai.onnx.ml"):
        node = helper.make_node("NoSuchOperator", ["x"], ["y"], domain=domain)
        graph = helper.make_graph([node], "g", [value], [helper.make_tensor_value_info("y", 1, [2])])
        imports = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
        imports += [helper.make_opsetid(domain, 1)] if "." in domain and domain != "ai.onnx.ml" else []
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        error = raised(onnx.checker.check_model, model, full_check=True)
        yield f"{domain!r}: {error[:60]}", bool(error) == (domain in {"", "ai.onnx.ml"})


@claim(
    "01_first_deployment",
    "7. A recipe for your own model: compare at several sizes",
    "`torch.onnx.testing.assert_onnx_program` is not enough: it compares the file with the captured "
    "program, and at the example unless you pass `args=`.",
    fell="`torch.onnx.testing.assert_onnx_program` is not enough: it compares the file with the captured "
    "program, at the example only.",
    why="`args=` takes other inputs, and finds the file with a frozen size",
)
def other_inputs_than_the_example() -> Attempts:
    class Mean(nn.Module):
        def forward(self, x):
            return x.sum(0) / len(x)

    shapes = {"x": {0: "rows"}}
    program = torch.onnx.export(Mean(), (torch.rand(1, 3),), dynamic_shapes=shapes, verbose=False)
    judge = torch.onnx.testing.assert_onnx_program
    yield "at the example", not raised(judge, program)
    error = raised(judge, program, args=(torch.rand(5, 3),))
    yield f"args=, of five rows, finds the frozen size: {error[:200]}", bool(error)


@claim(
    "02_trace_and_script",
    "2. A tracer without numbers",
    "A size is lost where Python needs an `int` or a truth value of it, as `len`, `range` and `if` do.",
)
def where_a_traced_size_is_kept_and_where_lost() -> Attempts:
    kept = {
        "x * x.shape[0]": lambda x: x * x.shape[0],
        "x[: n // 2]": lambda x: x[: x.shape[0] // 2],
        "x / (n + 1)": lambda x: x / (x.shape[0] + 1),
        "reshape(n * 3)": lambda x: x.reshape(x.shape[0] * 3),
        "zeros(n)": lambda x: torch.zeros(x.shape[0]) + x[:, 0],
        "arange(n)": lambda x: torch.arange(x.shape[0]) * x[:, 0],
        "x[n - 1]": lambda x: x[x.shape[0] - 1],
    }
    lost = {
        "int(n)": lambda x: x * int(x.shape[0]),
        "len(x)": lambda x: x * len(x),
        "float(n)": lambda x: x * float(x.shape[0]),
        "range(n)": lambda x: sum(x[i] for i in range(x.shape[0])),
        "if n > 3": lambda x: x * 2 if x.shape[0] > 3 else x,
        "[0] * n": lambda x: x * len([0] * x.shape[0]),
    }
    for label, function in (kept | lost).items():
        options = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
        file = exported(Call(function), (torch.rand(2, 3),), TORCHSCRIPT, **options)
        x = torch.rand(5, 3)
        right = not raised(ran, file, x) and close(ran(file, x)[0], function(x))
        yield label, right == (label in kept)


@claim(
    "02_trace_and_script",
    "7. Where does a loop with a fixed count go?",
    "But the exporter *freezes* a script first (it makes its weights constants), and freezing unrolls a `for` of a "
    "known count, up to 63 steps.",
)
def loops_of_other_counts_and_longer_bodies() -> Attempts:
    class Short(nn.Module):
        n: int

        def __init__(self, n: int) -> None:
            super().__init__()
            self.n = n

        def forward(self, x):
            for _ in range(self.n):
                x = x * 0.5
            return x

    class Long(nn.Module):
        def forward(self, x):
            for _ in range(3):
                x = x.sin().cos().sin().cos().sin().cos().sin().cos().sin().cos().sin().cos()
                x = x.sin().cos().sin().cos().sin().cos().sin().cos().sin().cos().sin().cos()
                x = x.sin().cos().sin().cos().sin().cos().sin().cos().sin().cos().sin().cos()
            return x

    for n in (1, 2, 63, 64, 100):
        file = exported(torch.jit.script(Short(n)), (torch.rand(2),), TORCHSCRIPT)
        yield f"{n} steps", ("Loop" in operators(file)) == (n > 63)
    file = exported(torch.jit.script(Long()), (torch.rand(2),), TORCHSCRIPT)
    yield "3 steps of 36 operators", "Loop" not in operators(file)


@claim(
    "02_trace_and_script",
    "7. Where does a loop with a fixed count go?",
    "(A `while`, and a `for` with a `break`, stay a `Loop`.)",
)
def loops_whose_end_is_known_all_the_same() -> Attempts:
    class While(nn.Module):
        def forward(self, x):
            i = 0
            while i < 3:
                x = x * 0.5
                i += 1
            return x

    class Break(nn.Module):
        def forward(self, x):
            for i in range(3):
                if i == 2:
                    break
                x = x * 0.5
            return x

    class DataBreak(nn.Module):
        def forward(self, x):
            for _ in range(3):
                if bool(x.sum() > 1):
                    break
                x = x * 0.5
            return x

    for module in (While(), Break(), DataBreak()):
        file = exported(torch.jit.script(module), (torch.rand(2),), TORCHSCRIPT)
        yield type(module).__name__, "Loop" in operators(file)


@claim(
    "02_trace_and_script",
    "6. A branch as an operator: `torch.cond` or `torch.where`",
    "Its functions must return the same data type, must not change their input in place, and must not return the "
    "input itself: return `x.clone()`.",
)
def sides_of_cond_that_break_a_rule() -> Attempts:
    double = lambda x: x * 2
    sides = {
        "another type": lambda x: (x * 2).to(torch.int64),
        "in place": lambda x: x.add_(1),
        "in place, returns another": lambda x: x.add_(1) * 2,
        "the input itself": lambda x: x,
        "a view of the input": lambda x: x.view(-1),
        "two results": lambda x: (x * 2, x),
    }
    for label, side in sides.items():
        for first, second in ((double, side), (side, double)):
            module = Call(lambda x, a=first, b=second: torch.cond(x.sum() > 0, a, b, (x,)))
            yield label, bool(raised(exported, module, (torch.rand(2),)))
    module = Call(lambda x: torch.cond(x.sum() > 0, double, lambda x: x.clone(), (x,)))
    yield "x.clone()", close(ran(exported(module, (torch.rand(2),)), -torch.ones(2))[0], -np.ones(2))


@claim(
    "02_trace_and_script",
    "6. A branch as an operator: `torch.cond` or `torch.where`",
    "Use `where` if both sides are cheap and have one shape: both exporters translate it.",
)
def where_with_broadcast_and_other_types() -> Attempts:
    for label, function in {
        "numbers": lambda x: torch.where(x > 0, x * 2, x - 1),
        "a scalar side": lambda x: torch.where(x > 0, x, 0.0),
        "a truth value of the whole": lambda x: torch.where(x.sum() > 0, x * 2, x - 1),
        "int64": lambda x: torch.where(x > 0, x.long(), -x.long()),
    }.items():
        for exporter in BOTH:
            file = exported(Call(function), (torch.rand(4),), exporter)
            x = torch.tensor([-2.0, -0.5, 0.0, 3.0])
            yield f"{label}, {exporter}", close(ran(file, x)[0], function(x))
