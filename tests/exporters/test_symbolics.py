"""A registration for a block: the TorchScript exporter's registry is the same after it."""

import io

import onnxscript
import pytest
import torch
from onnxscript import opset20 as op
from torch.onnx import register_custom_op_symbolic, unregister_custom_op_symbolic
from torch.onnx._internal.torchscript_exporter.registration import registry

from onnxlab.exporters.silence import silenced
from onnxlab.exporters.symbolics import restored_rules, rule_opsets, symbolic
from onnxlab.model.graph import op_types


class Asinh(torch.nn.Module):
    def forward(self, x):
        return torch.asinh(x)


class Relu6(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.relu6(x)


def exported(model, **options):
    buffer = io.BytesIO()
    with silenced():
        torch.onnx.export(model.eval(), (torch.rand(3),), buffer, dynamo=False, **options)
    return op_types(buffer.getvalue())


def asinh(g, x):
    return g.op("Asinh", x)


def snapshot():
    return {name: dict(registry._registry[name]._functions._merged) for name in registry.all_functions()}


def test_the_rule_is_used_inside_and_gone_afterwards():
    with symbolic("aten::asinh", asinh, opset=9):
        assert exported(Asinh(), opset_version=9) == ["Asinh"]
    # not the ValueError that torch's own unregister leads to
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="asinh"):
        exported(Asinh(), opset_version=9)


def test_torch_itself_leaves_an_empty_group_behind():
    with restored_rules():
        register_custom_op_symbolic("aten::asinh", asinh, 9)
        unregister_custom_op_symbolic("aten::asinh", 9)
        assert rule_opsets("aten::asinh") == ()
    assert rule_opsets("aten::asinh") is None


def test_an_overridden_rule_comes_back():
    before = exported(Relu6())
    with symbolic("aten::relu6", lambda g, x: g.op("Neg", x), opset=13):
        assert exported(Relu6()) == ["Neg"]
    assert exported(Relu6()) == before


def test_the_whole_registry_comes_back_after_an_error():
    rule_opsets("aten::relu")  # loads the built-in rules
    before = snapshot()

    def meddle():
        with symbolic("aten::asinh", asinh):
            registry._registry.pop("aten::relu")
            register_custom_op_symbolic("mine::a", asinh, 9)
            raise KeyError

    with pytest.raises(KeyError):
        meddle()
    assert snapshot() == before


def test_an_operator_that_an_export_registers_is_removed():
    domain = onnxscript.values.Opset("test.symbolics", 1)

    @onnxscript.script(domain, default_opset=op)
    def Twice(x):  # noqa: N802 (the name of an ONNX operator)
        return x + x

    with symbolic("aten::asinh", lambda g, x: g.onnxscript_op(Twice, x), opset=9):
        assert exported(Asinh(), opset_version=20) == ["test.symbolics::Twice"]
        assert rule_opsets("test.symbolics::Twice") == (1,)
    assert rule_opsets("test.symbolics::Twice") is None


def test_blocks_nest():
    with symbolic("aten::asinh", asinh, opset=9):
        with symbolic("aten::asinh", lambda g, x: g.op("Neg", x), opset=9):
            assert exported(Asinh(), opset_version=9) == ["Neg"]
        assert exported(Asinh(), opset_version=9) == ["Asinh"]


def test_a_name_without_a_namespace_is_refused():
    with pytest.raises(Exception, match="asinh"), symbolic("asinh", asinh):
        pass
    assert rule_opsets("asinh") is None


def test_a_rule_below_a_newer_built_in_rule_is_not_used():
    assert rule_opsets("aten::relu6") == (9, 11)
    before = exported(Relu6())
    with symbolic("aten::relu6", asinh, opset=9):
        assert exported(Relu6()) == before
