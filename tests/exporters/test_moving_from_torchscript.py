"""Every row of the museum's last table: a way of the TorchScript exporter, and its counterpart, both run."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import nbformat
import numpy as np
import onnx
import pytest
import torch
import torch.onnx.testing
import torch.onnx.verification
from onnxscript import opset20 as op
from torch._higher_order_ops.while_loop import while_loop
from torch.onnx._internal.exporter._registration import ONNXRegistry

from onnxlab import Exporter, compare, export, history, op_types, run, silenced, summary, symbolics

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("remembered_translations")]
MUSEUM = Path(__file__).parents[2] / "notebooks" / "99_museum.ipynb"
OLD = Exporter.TORCHSCRIPT
GONE = "error"
LINEAR, ROWS = torch.nn.Linear(4, 2).eval(), torch.linspace(-1, 1, 8).reshape(2, 4)
VECTOR, NUMBERS = torch.linspace(0.1, 1, 4), torch.tensor([3.0, 4.0])
TRAINING = torch.onnx.TrainingMode.TRAINING
Verdicts = tuple[str, str]
CASES: dict[str, Callable[[Path], Verdicts]] = {}


def row(way: str) -> Callable[[Callable[[Path], Verdicts]], Callable[[Path], Verdicts]]:
    """Mark the test of a row: its TorchScript way, without backticks."""

    def register(case: Callable[[Path], Verdicts]) -> Callable[[Path], Verdicts]:
        CASES[way] = case
        return case

    return register


def table() -> dict[str, Verdicts]:
    """The table's verdicts by the TorchScript way."""
    cells = nbformat.read(MUSEUM, as_version=4).cells
    (text,) = [cell.source for cell in cells if "What replaces each TorchScript habit?\n" in cell.source]
    verdicts = {}
    for line in re.findall(r"^\| \d\d[a-z]? \|.*$", text, re.MULTILINE):
        _, way, old, _, new = [column.strip() for column in line.strip("| ").split(" | ")]
        verdicts[way.replace("`", "")] = (old, new)
    return verdicts


TABLE = table()


def test_every_row_of_the_table_is_run():
    assert list(TABLE)
    assert sorted(TABLE) == sorted(CASES)


@pytest.mark.parametrize("way", list(TABLE))
def test_row(way, tmp_path):
    with silenced():
        assert CASES[way](tmp_path) == TABLE[way]


def word(correct: bool) -> str:
    return "ok" if correct else "wrong"


@cache
def linear_program() -> torch.onnx.ONNXProgram:
    """One export of LINEAR for all rows that look at it."""
    return torch.onnx.export(LINEAR, (ROWS,), dynamo=True)


def both(module, args, old=None, new=None):
    return export(module, args, OLD, **(old or {})), export(module, args, **(new or {}))


def parity(module, result, *inputs) -> str:
    return word(compare(module, result, list(inputs)).right) if result.ok else "error"


def refused(argument: str) -> str:
    """The verdict for an argument that torch 1.8.1 had and both exporters refuse."""
    assert f"{argument}=" in history.recorded_fact("1.8.1", "export_signature")
    failures = [export(LINEAR, ROWS, exporter, **{argument: True}).failure for exporter in Exporter]
    assert all(failure.error == "TypeError" and argument in failure.message for failure in failures)
    return GONE


class Branch(torch.nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            return x * 2
        else:  # noqa: RET505 - TorchScript wants both returns at one level
            return x - 1


class Cond(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


class Repeat(torch.nn.Module):
    def forward(self, x, n: int):
        for _ in range(n):
            x = torch.sin(x)
        return x


class While(torch.nn.Module):
    def forward(self, x, n):
        zero = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, torch.sin(x)), (zero, x))[1]


@row("example_outputs=...")
def _(_folder):
    return refused("example_outputs"), parity(LINEAR, export(LINEAR, ROWS), ROWS)


@row("torch.jit.script: for")
def _(_folder):
    old = export(torch.jit.script(Repeat()), (VECTOR, 2), OLD)
    new = export(While(), (VECTOR, torch.tensor(2)))

    def verdict(result):
        outputs = {n: run(result, VECTOR, np.array(n))[0] for n in (0, 2, 5)}
        return word(all(np.allclose(y, Repeat()(VECTOR, n), atol=1e-6) for n, y in outputs.items()))

    return verdict(old), verdict(new)


@row("torch.jit.script: if")
def _(_folder):
    old, new = export(torch.jit.script(Branch()), NUMBERS, OLD), export(Cond(), NUMBERS)
    return parity(Branch(), old, NUMBERS, -NUMBERS), parity(Branch(), new, NUMBERS, -NUMBERS)


@row("torch.jit.trace first")
def _(_folder):
    old = export(torch.jit.trace(LINEAR, (ROWS,)), ROWS, OLD)
    new = export(torch.export.export(LINEAR, (ROWS,)), ROWS)
    return parity(LINEAR, old, ROWS), parity(LINEAR, new, ROWS)


@row("f, the file, is required")
def _(folder):
    with pytest.raises(AttributeError, match="'flush'"):
        torch.onnx.export(LINEAR, (ROWS,), dynamo=False)
    torch.onnx.export(LINEAR, (ROWS,), folder / "m.onnx", dynamo=False)
    return word((folder / "m.onnx").exists()), word(isinstance(linear_program(), torch.onnx.ONNXProgram))


@row("input_names, output_names")
def _(_folder):
    names = {"input_names": ["in"], "output_names": ["out"]}
    old, new = both(LINEAR, ROWS, names, names)
    named = [(summary(r).inputs[0].name, summary(r).outputs[0].name) == ("in", "out") for r in (old, new)]
    return word(named[0]), word(named[1])


@row("export_params=False")
def _(folder):
    old = export(LINEAR, ROWS, OLD, export_params=False, run=False)
    linear_program().save(folder / "bare.onnx", include_initializers=False, keep_initializers_as_inputs=True)

    def fed(model):
        return np.allclose(run(model, ROWS, LINEAR.weight, LINEAR.bias)[0], LINEAR(ROWS).detach(), atol=1e-6)

    return word(len(summary(old).inputs) == 3 and fed(old.proto)), word(fed(folder / "bare.onnx"))


@row("keep_initializers_as_inputs=True")
def _(_folder):
    option = {"keep_initializers_as_inputs": True}
    old, new = both(LINEAR, ROWS, option, option)
    return word(len(summary(old).inputs) == 3), word(len(summary(new).inputs) == 3)


@row("do_constant_folding=False")
def _(_folder):
    normed = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3), torch.nn.BatchNorm2d(3)).eval()
    old, new = both(normed, torch.rand(2, 3, 8, 8), {"do_constant_folding": False}, {"optimize": False})
    return word("BatchNormalization" in op_types(old)), word("BatchNormalization" in op_types(new))


@row("verbose=True prints the graph")
def _(folder):
    with silenced() as heard:
        torch.onnx.export(LINEAR, (ROWS,), folder / "said.onnx", dynamo=False, verbose=True)
    return word("Gemm" in heard.text), word("Gemm" in str(linear_program().model))


@row("opset_version=11")
def _(_folder):
    option = {"opset_version": 11}
    norm = both(torch.nn.LayerNorm(4).eval(), ROWS, option, option)
    conv = both(torch.nn.Conv2d(3, 3, 3).eval(), torch.rand(2, 3, 8, 8), option, option)
    opsets = [[summary(result).opsets["ai.onnx"] for result in results] for results in (norm, conv)]
    old, new = map(list, zip(*opsets, strict=True))
    return word(old == [11, 11]), {(11, 11): "ok", (18, 18): "ignored"}.get(tuple(new), "depends")


@row("training=TRAINING")
def _(_folder):
    drop = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(), torch.nn.Linear(4, 2)).train()
    old, new = both(drop, ROWS, {"training": TRAINING}, {"training": TRAINING})

    def trains(result):
        nodes = [node for node in result.proto.graph.node if node.op_type == "BatchNormalization"]
        return any(a.name == "training_mode" and a.i == 1 for node in nodes for a in node.attribute)

    assert "Dropout" in op_types(new)  # although its BatchNormalization is for inference
    in_eval = export(drop.eval(), ROWS, training=TRAINING)
    assert "Dropout" not in op_types(in_eval)  # train() or eval() decides, not the argument
    return word(trains(old)), "ok" if trains(new) else "ignored"


@row("enable_onnx_checker=True")
def _(_folder):
    onnx.checker.check_model(linear_program().model_proto)
    return refused("enable_onnx_checker"), "ok"


@row("use_external_data_format=True")
def _(folder):
    torch.onnx.export(LINEAR, (ROWS,), folder / "large.onnx", dynamo=True, external_data=True)
    return refused("use_external_data_format"), word((folder / "large.onnx.data").exists())


@row("strip_doc_string=True")
def _(_folder):
    model = linear_program().model_proto
    assert b"stack_trace" in model.SerializeToString()
    for node in model.graph.node:
        del node.metadata_props[:]
    return refused("strip_doc_string"), word(b"stack_trace" not in model.SerializeToString())


@row("aten=True, export_raw_ir=True")
def _(_folder):
    assert refused("aten") == refused("export_raw_ir") == GONE
    return GONE, word("aten.linear" in str(linear_program().exported_program))


@row("torch.onnx.verification.verify")
def _(_folder):
    torch.onnx.testing.assert_onnx_program(linear_program())
    return "ok" if hasattr(torch.onnx.verification, "verify") else GONE, "ok"


@row('dynamic_axes={"in": {0: "batch"}}')
def _(_folder):
    names = {"input_names": ["in"], "dynamic_axes": {"in": {0: "batch"}}}
    old, new = both(LINEAR, ROWS, names, {"dynamic_shapes": {"input": {0: "batch"}}})
    batches = [torch.rand(size, 4) for size in (1, 2, 7)]
    return parity(LINEAR, old, *batches), parity(LINEAR, new, *batches)


@row('dynamic_axes={"in": [0]}')
def _(_folder):
    names = {"input_names": ["in"], "dynamic_axes": {"in": [0]}}
    old, new = both(LINEAR, ROWS, names, {"dynamic_shapes": {"input": {0: torch.export.Dim.DYNAMIC}}})
    batches = [torch.rand(size, 4) for size in (1, 2, 7)]
    return parity(LINEAR, old, *batches), parity(LINEAR, new, *batches)


class Deploy(torch.nn.Module):
    def forward(self, x):
        return x.clip(0, 1) if torch.onnx.is_in_onnx_export() else x + 0


@row("is_in_onnx_export()")
def _(_folder):
    old, new = both(Deploy(), ROWS)
    assert "Clip" not in op_types(export(torch.export.export(Deploy(), (ROWS,)), ROWS))  # captured before
    return word("Clip" in op_types(old)), word("Clip" in op_types(new))


class First(torch.nn.Module):
    def forward(self, x):
        return x * x[0].item()


@row("x[0].item()")
def _(_folder):
    old, new = both(First(), VECTOR)
    return parity(First(), old, 2 * VECTOR), parity(First(), new, 2 * VECTOR)


class Scale(torch.nn.Module):
    def forward(self, x, k):
        return x * k


@row("an int as input")
def _(_folder):
    old, new = both(Scale(), (VECTOR, 3), {}, {"dynamic_shapes": (None, torch.export.Dim.DYNAMIC)})
    fives = [np.allclose(run(result, VECTOR, np.array(5))[0], VECTOR * 5) for result in (old, new)]
    return word(fives[0]), word(fives[1])


@row("a float given as a tensor")
def _(_folder):
    old, new = both(Scale(), (VECTOR, torch.tensor(2.5)))
    other = (VECTOR, torch.tensor(-1.5))
    return parity(Scale(), old, other), parity(Scale(), new, other)


@row("look for rules in symbolic_opsetN.py")
def _(_folder):
    library = ONNXRegistry.from_torchlib(opset_version=20)
    return (
        word(symbolics.rule_opsets("aten::relu") is not None),
        word(library.is_registered(torch.ops.aten.relu.default)),
    )


@torch.library.custom_op("moving::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def twice_shape(x):
    return torch.empty_like(x)


class Twice(torch.nn.Module):
    def forward(self, x):
        return twice(x)


TWICE_RULE = {torch.ops.moving.twice.default: lambda x: op.Add(x, x)}


@row("register_custom_op_symbolic")
def _(_folder):
    with symbolics.symbolic("moving::twice", lambda g, x: g.op("Add", x, x)):
        old = export(Twice(), VECTOR, OLD)
    new = export(Twice(), VECTOR, custom_translation_table=TWICE_RULE)
    return parity(Twice(), old, VECTOR), parity(Twice(), new, VECTOR)


class Marker(torch.autograd.Function):
    @staticmethod
    def symbolic(g, x):
        return g.op("Add", x, x)

    @staticmethod
    def forward(_ctx, x):
        return x * 2


class Wrapped(torch.nn.Module):
    def forward(self, x):
        return Marker.apply(x)


@row("autograd.Function with symbolic")
def _(_folder):
    old, ignored = both(Wrapped(), VECTOR)
    assert (op_types(old), op_types(ignored)) == (["Add"], ["Mul"])
    new = export(Twice(), VECTOR, custom_translation_table=TWICE_RULE)
    return parity(Wrapped(), old, VECTOR), parity(Wrapped(), new, VECTOR)


class Own(torch.nn.Module):
    def forward(self, x):
        return torch.onnx.ops.symbolic("course::Twice", (x,), {}, dtype=x.dtype, shape=x.shape, version=3)


@row('g.op("course::Twice"), custom_opsets')
def _(_folder):
    with symbolics.symbolic("moving::twice", lambda g, x: g.op("course::Twice", x).setType(x.type())):
        old = export(Twice(), VECTOR, OLD, run=False, custom_opsets={"course": 3})
    new = export(Own(), VECTOR, run=False)
    assert summary(export(Own(), VECTOR, run=False, custom_opsets={"course": 7})).opsets["course"] == 3
    written = [op_types(r) == ["course::Twice"] and summary(r).opsets["course"] == 3 for r in (old, new)]
    return word(written[0]), word(written[1])


class Resized(torch.nn.Module):
    def forward(self, x, size):
        return torch.nn.functional.interpolate(x, (size[0].item(), size[1].item()), mode="bicubic")


@row("a size at run time, .item()")
def _(_folder):
    x = torch.rand(2, 3, 8, 8)
    old, new = both(Resized(), (x, torch.tensor([12, 9])))
    other = (x, torch.tensor([7, 20]))
    assert len(summary(old).inputs) == 1  # the size is no input any more
    return word(run(old, x)[0].shape == Resized()(*other).shape), parity(Resized(), new, other)


class NewInterpolate(torch.autograd.Function):
    @staticmethod
    def symbolic(g, x, scales):
        no_roi = g.op("Constant", value_t=torch.tensor([]))
        mode = {"mode_s": "cubic", "coordinate_transformation_mode_s": "half_pixel"}
        return g.op("Resize", x, no_roi, scales, **mode)

    @staticmethod
    def forward(_ctx, x, scales):
        return torch.nn.functional.interpolate(x, scale_factor=scales.tolist()[2:], mode="bicubic")


@torch.library.custom_op("moving::resize", mutates_args=())
def resize(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.interpolate(x, scale_factor=scales.tolist()[2:], mode="bicubic")


@resize.register_fake
def resize_shape(x, scales):
    unknown = torch.library.get_ctx().new_dynamic_size
    return x.new_empty(x.shape[0], x.shape[1], unknown(), unknown())


def resize_rule(x, scales):
    return op.Resize(x, None, scales, mode="cubic", coordinate_transformation_mode="half_pixel")


class Enlarge(torch.nn.Module):
    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def forward(self, x, scales):
        return self.operator(x, scales)


@row("NewInterpolate")
def _(_folder):
    x = torch.rand(2, 3, 8, 8)
    doubled, wide = (x, torch.tensor([1.0, 1, 2, 2])), (x, torch.tensor([1.0, 1, 1.5, 3]))
    old = export(Enlarge(NewInterpolate.apply), doubled, OLD)
    table = {torch.ops.moving.resize.default: resize_rule}
    new = export(Enlarge(resize), doubled, custom_translation_table=table)
    return parity(Enlarge(resize), old, doubled, wide), parity(Enlarge(resize), new, doubled, wide)
