"""Lab 4 in a notebook that has left a rule for asinh registered, as one that tries things out may."""

import pytest
import torch
from torch.onnx._internal.torchscript_exporter import utils

from onnxlab.exporters.symbolics import restored_rules, rule_opsets
from onnxlab.labs.kit.checking import check
from onnxlab.labs.kit.exercise import exercise
from tests.labs.answers_lab04 import CONTRACTS


@pytest.fixture
def left_over():
    with restored_rules():
        for name in ("asinh", "sinh", "relu"):
            utils.register_custom_op_symbolic(f"aten::{name}", lambda g, x: g.op("Neg", x), 9)
        yield
        assert rule_opsets("aten::asinh") == (9,), "the notebook's own rule still counts in the notebook"


@pytest.mark.usefixtures("left_over")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["missing-rules", "safely-registered"])
def test_a_right_answer_passes_whatever_is_asked(name, seed):
    one = exercise(name)[1]
    right = dict(zip(one.answers, CONTRACTS[name].right[0], strict=True))
    torch.manual_seed(seed)
    outcome = check(one, right, seed=seed)
    assert outcome.passed, str(outcome)
