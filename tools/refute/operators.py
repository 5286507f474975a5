"""Chapters 07 to 09: rules, schemas, kernels, operators of one's own, Resize."""

import itertools
from functools import partial
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from torch import nn
from torch.onnx._internal.torchscript_exporter.registration import registry

from tools.refute.claims import Attempts, claim
from tools.refute.exports import (
    BOTH,
    DEFAULT,
    TORCHSCRIPT,
    Call,
    close,
    exported,
    operators,
    parsed,
    raised,
    ran,
    referred,
    tried,
)


@claim(
    "07_operator_support",
    "4. Where is the rule?",
    "The TorchScript exporter has one rule for all forms.",
)
def rules_that_name_a_form() -> Attempts:
    names = [name for name in registry.all_functions() if name.startswith("aten::")]
    yield f"{len(names)} names", len(names) > 300
    forms = [name for name in names if "." in name]
    yield f"with a form: {forms[:5]}", not forms


@claim(
    "07_operator_support",
    "1. Which operator does the error message name?",
    "Translation stops at the first operator without a rule.",
)
def two_operators_without_a_rule_in_both_orders() -> Attempts:
    lgamma, digamma = torch.lgamma, torch.digamma
    for first, second in ((lgamma, digamma), (digamma, lgamma)):
        for exporter in BOTH:
            made = tried(Call(partial(lambda a, b, x: b(a(x)), first, second)), (torch.rand(2),), exporter)
            assert made.failure is not None
            text = " ".join((made.failure.message, *made.failure.causes))
            told = f"aten{'::' if exporter is TORCHSCRIPT else '.'}{second.__name__}"
            yield (
                f"{exporter}, {first.__name__} first: {text[:150]}",
                first.__name__ in text and told not in text,
            )


@claim(
    "07_operator_support",
    "5. Does ONNX define it?",
    "What counts is the latest definition that is not newer than the model's opset; for `Relu` at opset 12 that is "
    "definition 6.",
)
def every_operator_at_every_opset() -> Attempts:
    versions: dict[str, list[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            versions.setdefault(schema.name, []).append(schema.since_version)
    for name, known in versions.items():
        for opset in range(1, 27):
            expected = max((version for version in known if version <= opset), default=None)
            try:
                got = onnx.defs.get_schema(name, opset).since_version
            except onnx.defs.SchemaError:
                got = None
            if got != expected:
                yield f"{name} at {opset}: {got}, expected {expected}", False
    yield f"{len(versions)} operators", len(versions) > 150
    yield "Relu at 12", onnx.defs.get_schema("Relu", 12).since_version == 6


@claim(
    "07_operator_support",
    "5. Does ONNX define it?",
    "What a rule writes must be in ONNX, in the edition that the file names, its **opset**, or be an "
    "operator that the runtime adds to it.",
    fell="What a rule writes must be in ONNX, in the edition that the file names: its **opset**.",
    why="a rule that writes com.microsoft::Gelu gives a file that is checked and runs",
)
def a_rule_that_writes_an_operator_of_the_runtime() -> Attempts:
    def gelu(g: Any, x: Any, _approximate: Any) -> Any:
        return g.op("com.microsoft::Gelu", x).setType(x.type())

    torch.onnx.register_custom_op_symbolic("aten::gelu", gelu, 17)
    try:
        file = exported(nn.GELU(), (torch.rand(3),), TORCHSCRIPT, opset_version=17)
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::gelu", 17)
    x = torch.randn(3)
    works = close(ran(file, x)[0], nn.functional.gelu(x)) and not raised(onnx.checker.check_model, file)
    yield "com.microsoft::Gelu is checked and runs", works
    unknown = one_node("NoSuchOperator", TensorProto.FLOAT)
    yield "an operator of neither is refused", bool(raised(onnx.checker.check_model, unknown))


def one_node(
    operator: str, kind: int, count: int = 1, *, opset: int = 20, domain: str = "", **attributes: Any
) -> onnx.ModelProto:
    """A model of one node with inputs and an output of one type."""
    names = [f"x{i}" for i in range(count)]
    node = helper.make_node(operator, names, ["y"], domain=domain, **attributes)
    values = [helper.make_tensor_value_info(name, kind, [4]) for name in names]
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", kind, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@claim(
    "07_operator_support",
    "7. Which link is missing?",
    "The kernels of `Asinh` are for float32 only, and its definition has no body.",
)
def asinh_in_each_type() -> Attempts:
    for kind in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        for opset in (9, 20, 22):
            refused = "NOT_IMPLEMENTED" in raised(ran_shape, one_node("Asinh", kind, opset=opset))
            name = TensorProto.DataType.Name(kind)
            if not raised(onnx.checker.check_model, one_node("Asinh", kind, opset=opset), full_check=True):
                yield f"{name}, opset {opset}: refused {refused}", refused == (kind != TensorProto.FLOAT)
    for opset in (9, 22, 26):
        yield f"body at {opset}", not onnx.defs.get_schema("Asinh", opset).has_function


def ran_shape(model: onnx.ModelProto) -> None:
    """Load a model, whatever its inputs are."""
    from onnxlab.runtime.session import open_session

    open_session(model)


@claim(
    "07_operator_support",
    "8. Can all links hold, and the result be wrong?",
    "`BitShift` for uint8 only; all other types are divided by a power of two.",
)
def shifts_of_each_type() -> Attempts:
    for kind in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        for label, function in {">>": lambda x: x >> 1, "<<": lambda x: x << 1}.items():
            made = tried(Call(function), (torch.tensor([5, 4], dtype=kind),), TORCHSCRIPT)
            names = operators(made.proto) if made.model else []
            used = "BitShift" in names
            yield f"{kind} {label}: {names}", used == (kind is torch.uint8)


@claim(
    "08_custom_operators",
    "2. A decomposition leaves the model's code alone",
    "The others stay, except some that any `run_decompositions` rewrites, such as BatchNorm and "
    "operators that work in place.",
    fell="One entry replaces every call, also in code that you did not write, and leaves the other operators "
    "as they are.",
    why="batch_norm and relu_ are rewritten by a table that names neither",
)
def what_a_table_of_one_entry_does_to_the_rest() -> Attempts:
    def halves(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * x + y * y).sqrt()

    table = {torch.ops.aten.hypot.default: halves}
    modules = {
        "linear": nn.Linear(4, 4),
        "conv": nn.Conv1d(4, 4, 1),
        "batch_norm": nn.BatchNorm1d(4),
        "layer_norm": nn.LayerNorm(4),
        "in place": nn.ReLU(inplace=True),
        "gelu": nn.GELU(),
        "silu": nn.SiLU(),
        "attention": Call(lambda x: nn.functional.scaled_dot_product_attention(x, x, x)),
        "einsum": Call(lambda x: torch.einsum("bij,bkj->bik", x, x)),
        "hard swish": nn.Hardswish(),
    }
    for label, module in modules.items():
        captured = torch.export.export(
            nn.Sequential(module, Call(lambda x: torch.hypot(x, x))).eval(), (torch.rand(2, 4, 4),)
        )
        before = sorted(calls(captured))
        after = sorted(calls(captured.run_decompositions(table)))
        kept = [
            name
            for name in before
            if name not in {"hypot.default", "batch_norm.default"} and not name.split(".")[0].endswith("_")
        ]
        lost = [name for name in kept if name not in after]
        yield f"{label}: no longer there: {lost}", not lost and "hypot.default" not in after


def calls(captured: torch.export.ExportedProgram) -> list[str]:
    """The operators of a captured program, with their overloads."""
    return [
        str(node.target).removeprefix("aten.") for node in captured.graph.nodes if node.op == "call_function"
    ]


@claim(
    "08_custom_operators",
    "9. Does another runtime accept the body?",
    "The checker refuses it only where an operator *in the body* was redefined between the two opsets, here "
    "`Constant` at 19.",
)
def bodies_of_many_operators_and_opsets() -> Attempts:
    unary = (
        "Abs",
        "Relu",
        "Neg",
        "Exp",
        "Identity",
        "Softplus",
        "Sigmoid",
        "Erf",
        "HardSwish",
        "Elu",
        "Sign",
        "Shape",
        "Softmax",
        "Cos",
    )
    for operator, body, model in itertools.product(unary, (13, 15, 17, 18, 20, 21), (18, 19, 20, 21, 22, 23)):
        if operator == "HardSwish" and body < 14:
            continue  # it did not exist
        node = helper.make_node(operator, ["x"], ["y"])
        function = helper.make_function("a.b", "F", ["x"], ["y"], [node], [helper.make_opsetid("", body)])
        kind = TensorProto.INT64 if operator == "Shape" else TensorProto.FLOAT
        graph = helper.make_graph(
            [helper.make_node("F", ["x"], ["y"], domain="a.b")],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
            [helper.make_tensor_value_info("y", kind, [1] if operator == "Shape" else [2])],
        )
        imports = [helper.make_opsetid("", model), helper.make_opsetid("a.b", 1)]
        file = helper.make_model(graph, opset_imports=imports, functions=[function], ir_version=10)
        redefined = (
            onnx.defs.get_schema(operator, body).since_version
            != onnx.defs.get_schema(operator, model).since_version
        )
        refused = bool(raised(onnx.checker.check_model, file))
        yield f"{operator}, body {body}, model {model}: refused {refused}", refused == redefined


@claim(
    "08_custom_operators",
    "4. Which exporter reads which rule?",
    "The TorchScript exporter trusts `symbolic` and never compares it with `forward`: its file here is wrong.",
)
def a_symbolic_with_another_type_and_shape() -> Attempts:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.exp()

        @staticmethod
        def symbolic(g, x):
            return g.op("NonZero", x)

    made = tried(Call(lambda x: Wrong.apply(x)), (torch.rand(2, 3),), TORCHSCRIPT)
    yield f"{made.failure}", made.ok and operators(made.proto) == ["NonZero"]


@claim(
    "08_custom_operators",
    "6. Where does an operator of your own stop?",
    "One that is only composed of ATen calls needs neither in the torch.export exporter, which sees the calls.",
)
def composite_operators() -> Attempts:
    for label, function in {
        "arithmetic": lambda x: x * 2 + x.exp(),
        "a branch on the shape": lambda x: x * 2 if x.shape[0] > 1 else x,
        "a loop": lambda x: sum(x[i] for i in range(2)),
    }.items():
        library = torch.library.Library("refute36" + label.split()[-1], "FRAGMENT")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", function, "CompositeImplicitAutograd")
        operator = getattr(torch.ops, "refute36" + label.split()[-1]).twice
        x = torch.rand(2, 3)
        made = tried(Call(partial(lambda f, x: f(x), operator)), (x,), DEFAULT)
        yield (
            f"{label}: {made.failure and made.failure.causes}",
            made.ok and close(ran(made.proto, x)[0], function(x)),
        )


@claim(
    "08_custom_operators",
    "2. A decomposition leaves the model's code alone",
    "Its limit: a captured program goes through the torch.export exporter, even with `dynamo=False`.",
)
def captured_programs_and_the_other_exporter() -> Attempts:
    captured = torch.export.export(nn.Linear(3, 3).eval(), (torch.rand(2, 3),))
    for options in ({}, {"opset_version": 17}, {"opset_version": 20}):
        made = tried(captured, (), TORCHSCRIPT, **options)
        producer = made.proto.graph.node[0].metadata_props if made.model else []
        yield (
            f"{options}: IR {made.proto.ir_version}, {made.failure}",
            made.ok and made.proto.ir_version == 10,
        )
        del producer


@claim(
    "09_dynamic_resize",
    "7. The TorchScript exporter",
    "The torch.export exporter never calls `symbolic`.",
)
def a_symbolic_that_counts_its_calls() -> Attempts:
    called: list[str] = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.exp()

        @staticmethod
        def symbolic(g, x):
            called.append("symbolic")
            return g.op("Exp", x)

    module = Call(lambda x: Counted.apply(x))
    for label, options in {
        "plain": {},
        "verify": {"verify": True},
        "training": {"training": torch.onnx.TrainingMode.EVAL},
    }.items():
        called.clear()
        tried(module, (torch.rand(2),), DEFAULT, **options)
        yield label, not called
    called.clear()
    tried(torch.export.export(module, (torch.rand(2),), strict=True), (), DEFAULT)
    yield "strict capture", not called


@claim(
    "09_dynamic_resize",
    "8. Which coordinates, where one pixel remains?",
    "The two modes differ only where one pixel remains.",
)
def sizes_scales_and_modes() -> Attempts:
    generator = np.random.default_rng(0)
    for mode, rank in itertools.product(("linear", "cubic", "nearest"), (1, 2)):
        for _ in range(40):
            sizes = generator.integers(1, 9, rank)
            scales = generator.choice([0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0], rank)
            new = np.floor(sizes * scales).astype(int)
            if (new == 0).any():
                continue
            x = generator.random((1, 1, *sizes), np.float32)
            results = []
            for transformation in ("half_pixel", "pytorch_half_pixel"):
                scale = ", ".join(map(str, [1.0, 1.0, *scales]))
                text = (
                    f"g (float[1, 1, {', '.join(map(str, sizes))}] x) => (float[a, b, {', '.join('cd'[:rank])}] y)\n"
                    f"<float[{rank + 2}] s = {{{scale}}}> {{\n"
                    f'y = Resize<coordinate_transformation_mode = "{transformation}", mode = "{mode}"> (x, , s)\n}}'
                )
                results.append(
                    referred(parsed(text), x)[0] if mode == "cubic" and rank == 1 else ran(parsed(text), x)[0]
                )
            same = close(*results)
            told = f"{mode}, {sizes} by {scales}: {'same' if same else 'other'} values"
            yield told, same or bool((new == 1).any())


@claim(
    "09_dynamic_resize",
    "8. Which coordinates, where one pixel remains?",
    "Both exporters write `half_pixel` today: use it in rules of your own.",
)
def the_mode_that_is_written() -> Attempts:
    kinds = {4: ("bilinear", "bicubic"), 5: ("trilinear",)}  # torch.export writes no Resize in 1-D
    for rank, modes in kinds.items():
        for mode, exporter in itertools.product(modes, BOTH):
            for option in ({"scale_factor": 2.0}, {"size": [5] * (rank - 2)}):
                module = Call(
                    partial(lambda m, o, x: nn.functional.interpolate(x, mode=m, **o), mode, option)
                )
                made = tried(module, (torch.rand(1, 1, *[4] * (rank - 2)),), exporter)
                written = [
                    attribute.s.decode()
                    for node in (made.proto.graph.node if made.model else [])
                    for attribute in node.attribute
                    if attribute.name == "coordinate_transformation_mode"
                ]
                yield f"{mode}, {option}, {exporter}: {written} {made.failure}", written == ["half_pixel"]
