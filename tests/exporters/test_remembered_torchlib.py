"""What an export remembers for the next ones changes no model and misses no operator."""

import torch
from torch._export.utils import _collect_all_valid_cia_ops
from torch.export import decomp_utils, exported_program

from onnxlab.exporters.export import Exporter, export, remembered_torchlib

MODEL = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Hardswish(), torch.nn.AdaptiveAvgPool2d(1))


def walks() -> list:
    """The functions by which an export finds the composite operators that it keeps."""
    return [module._collect_all_valid_cia_ops for module in (decomp_utils, exported_program)]


def test_a_model_is_the_same_to_the_byte():
    data = torch.ones(1, 1, 8, 8)
    with remembered_torchlib():
        remembered = export(MODEL, data, Exporter.TORCH_EXPORT)
    assert remembered.ok
    assert remembered.model == export(MODEL, data, Exporter.TORCH_EXPORT).model


def test_the_same_operators_are_found_and_those_that_come_later():
    with remembered_torchlib():
        assert _collect_all_valid_cia_ops not in walks()
        assert [walk() for walk in walks()] == [_collect_all_valid_cia_ops()] * 2
        with torch.library._scoped_library("remembered_test", "DEF") as library:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: 2 * x, "CompositeImplicitAutograd")
            for walk in walks():
                assert "remembered_test::twice" in {operator.name() for operator in walk()}


def test_torch_is_as_it_was_afterwards():
    with remembered_torchlib(), remembered_torchlib():
        pass
    assert walks() == [_collect_all_valid_cia_ops] * 2
