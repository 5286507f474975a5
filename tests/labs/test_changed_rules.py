"""Labs 4 and 5 where the exporter has other rules than the tested torch: registered, or repaired."""

import pytest
from torch.onnx._internal.torchscript_exporter import utils

from onnxlab.exporters.symbolics import restored_rules, rule_opsets, symbolic
from onnxlab.judges.lab05_bitshift import diagnosis
from onnxlab.kit.checking import check
from onnxlab.kit.exercise import exercise
from tests.labs.answers.lab05 import minus_one, nothing_found, rule

_, SHIFT = exercise("rshift-symbolic")


@pytest.fixture
def rules_of_the_notebook():
    with restored_rules():
        for name in ("asinh", "sinh", "relu"):
            utils.register_custom_op_symbolic(f"aten::{name}", lambda g, x: g.op("Neg", x), 9)
        yield
        assert rule_opsets("aten::asinh") == (9,), "the notebook's own rule still counts in the notebook"


@pytest.mark.usefixtures("rules_of_the_notebook")
def test_a_right_answer_passes_although_the_notebook_has_registered_rules():
    _, record = exercise("asinh-symbolic")
    outcome = check(record, {"asinh_symbolic": lambda g, x: g.op("Asinh", x)})
    assert outcome.passed, str(outcome)


@pytest.fixture
def repaired_shift():
    """The exporter's right shift, repaired, as a later torch may have it."""
    with symbolic("aten::__rshift_", rule, 11):
        diagnosis._count_wrong_k.cache_clear()
        yield
    diagnosis._count_wrong_k.cache_clear()


@pytest.mark.usefixtures("repaired_shift")
def test_none_is_right_where_no_shift_is_wrong():
    outcome = check(SHIFT, {"rshift_symbolic": rule, "find_wrong_shift": nothing_found})
    assert outcome.passed


@pytest.mark.usefixtures("repaired_shift")
def test_a_pair_is_wrong_where_no_shift_is_wrong():
    outcome = check(SHIFT, {"rshift_symbolic": rule, "find_wrong_shift": minus_one})
    assert not outcome.passed
    assert outcome.first_failure.title == "the diagnosis: nothing is made up where every shift is right"
    assert "-1 >> 1: torch [-1], the model [-1]" in outcome.first_failure.message
