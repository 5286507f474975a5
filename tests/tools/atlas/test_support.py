"""The four links from an operator to a running model, each against the registry that it is read from."""

import onnx
import pytest
import torch
from torch.onnx._internal.exporter._registration import ONNXRegistry
from torch.onnx._internal.torchscript_exporter import symbolic_opset9, symbolic_opset13

from onnxlab.exporters.export import Exporter, export
from onnxlab.exporters.silence import silenced
from onnxlab.exporters.symbolics import symbolic
from onnxlab.runtime.session import open_session
from tools.atlas.parts import decompositions, guesses, is_composite, parts_of
from tools.atlas.rules import always_refuses, library, named_operators, torchscript_rule
from tools.atlas.schemas import readable_opsets, schema
from tools.atlas.support import State, known_operators, support

SCRIPT, MODERN = Exporter


def links(name, exporter, opset):
    chain = support(f"aten::{name}", exporter, opset)
    return [str(link.state) for link in (chain.operator, chain.rule, chain.schema, chain.kernel)]


def test_the_three_examples_of_the_course():
    assert links("asinh", SCRIPT, 20) == ["yes", "no", "yes", "yes"]
    assert links("asinh", SCRIPT, 8) == ["yes", "no", "no", "unknown"]
    assert links("asinh", MODERN, 20) == ["yes", "yes", "yes", "yes"]
    shift = support("aten::bitwise_right_shift", MODERN, 20)
    assert shift.kernel.lacks["int16"] == ("BitShift",)
    assert "int32" not in shift.kernel.lacks


def test_the_missing_kernel_is_real():
    class Shift(torch.nn.Module):
        def forward(self, x):
            return torch.bitwise_right_shift(x, 1)

    failures = {
        dtype: export(Shift(), torch.tensor([-5, 7], dtype=dtype)).failure
        for dtype in (torch.int16, torch.int32)
    }
    assert "NOT_IMPLEMENTED" in failures[torch.int16].message
    assert "BitShift" in failures[torch.int16].message
    assert failures[torch.int32] is None


@pytest.mark.parametrize("opset", [18, 20, 23])
def test_own_rules_are_the_registrys(opset):
    with silenced():
        registry = ONNXRegistry.from_torchlib(opset)
    registered = {
        t.name()
        for ms in registry.functions.values()
        for m in ms
        if isinstance(t := m.fx_target, torch._ops.OpOverload) and not m.is_complex
    }
    assert {name for name in library().rules if library().rule(name, opset) is not None} == registered


def test_a_newer_rule_counts_from_its_opset():
    assert support("aten::gelu", MODERN, 19).writes != support("aten::gelu", MODERN, 20).writes == ("Gelu",)


def test_below_its_lowest_opset_the_torch_export_exporter_converts():
    rule = support("aten::relu", MODERN, 12).rule
    assert (rule.state, rule.text) == (State.PART, "own rule; exported at 18, then converted")


def test_the_torchscript_exporter_warns_and_then_ends():
    assert [support("aten::relu", SCRIPT, opset).rule.state for opset in (20, 23, 24)] == [
        "yes",
        "part",
        "no",
    ]


def test_a_rule_that_only_raises_is_no_rule():
    assert support("aten::erf", SCRIPT, 8).rule.text == "the rule only refuses"
    assert always_refuses(torch.onnx._internal.torchscript_exporter.symbolic_opset9._unique)
    assert not always_refuses(symbolic_opset9.erf)


def test_a_rule_that_a_learner_registers_counts_at_once():
    assert support("aten::asinh", SCRIPT, 11).missing == "rule"
    with symbolic("aten::asinh", lambda g, x: g.op("Asinh", x), opset=9):
        assert support("aten::asinh", SCRIPT, 11).missing == ""
        assert torchscript_rule("aten::asinh", 11).operators == frozenset()  # a lambda has no source to read
    assert support("aten::asinh", SCRIPT, 11).missing == "rule"


def test_overloads_are_told_apart():
    assert support("aten::__rshift__", MODERN, 20).rule.text == "own rule; none for Tensor"
    assert support("aten::__rshift__.Tensor", MODERN, 20).missing == "rule"
    assert support("aten::__rshift__.Scalar", MODERN, 20).missing == ""


def test_an_operator_that_works_in_place_has_the_rule_of_the_other():
    for exporter in Exporter:
        assert support("aten::relu_", exporter, 20).writes == support("aten::relu", exporter, 20).writes


def test_an_unknown_name_misses_the_first_link():
    assert support("aten::no_such_thing", MODERN, 20).missing == "operator"
    assert "aten::no_such_thing" not in known_operators()


@pytest.mark.parametrize("opset", [24, 27, 28])
def test_the_runtime_reads_no_newer_opset(opset):
    assert (links("relu", MODERN, opset)[3] == "no") == (opset not in readable_opsets())


def test_sources_are_followed_into_the_functions_they_call():
    assert named_operators(symbolic_opset9.silu) == {"Sigmoid", "Mul"}
    assert "Resize" in torchscript_rule("aten::upsample_bicubic2d", 11).operators
    assert "ReduceSum" in torchscript_rule("aten::sum", 9).operators  # the name is in a closure
    assert "Slice" in torchscript_rule("aten::flip", 10).operators  # the helper is imported inside a function
    assert named_operators(symbolic_opset13.softmax) >= {"Softmax"}


def test_decompositions_are_run_with_guessed_arguments():
    huber = torch.ops.aten.huber_loss.default
    table = decompositions(set())
    assert huber in table
    assert parts_of([huber], table, {"aten::sub.Tensor", "aten::abs"})["aten::huber_loss"][:2] == (
        "aten::sub.Tensor",
        "aten::abs",
    )
    assert is_composite(torch.ops.aten.batch_norm.default)
    assert parts_of([torch.ops.aten.asinh.default], {}, set()) == {}


def test_several_arguments_are_guessed_for_an_operator():
    assert list(guesses(torch.ops.aten.rand_like.generator._schema))
    assert len(list(guesses(torch.ops.aten.asinh.default._schema))) > 3


@pytest.mark.parametrize("name", ["Relu", "Asinh", "Resize", "BitShift", "Conv"])
@pytest.mark.parametrize("opset", [9, 11, 13, 20])
def test_schemas_are_those_of_onnx(name, opset):
    definition = schema(name, opset)
    if definition is None:
        with pytest.raises(onnx.defs.SchemaError):
            onnx.defs.get_schema(name, opset)
    else:
        assert definition.since == onnx.defs.get_schema(name, opset).since_version


KINDS = {"float": 1, "float16": 10, "double": 11, "bfloat16": 16}


@pytest.mark.parametrize("name", ["Asinh", "Relu", "Erf", "Sqrt"])
@pytest.mark.parametrize("element", KINDS)
def test_a_model_loads_unless_its_type_lacks_a_kernel(name, element):
    ends = [onnx.helper.make_tensor_value_info(value, KINDS[element], [1]) for value in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node(name, ["x"], ["y"])], "one", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    data = model.SerializeToString()
    if element not in schema(name, 20).types:
        with pytest.raises(Exception, match="INVALID_GRAPH"):
            open_session(data)
    elif element in support(f"aten::{name.lower()}", MODERN, 20).kernel.lacks:
        with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
            open_session(data)
    else:
        assert open_session(data)
