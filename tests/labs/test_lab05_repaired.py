"""Lab 5 with an exporter whose right shift has been repaired, as a later torch may have it."""

import pytest

from onnxlab.exporters.symbolics import symbolic
from onnxlab.labs.kit.checking import check
from onnxlab.labs.kit.exercise import exercise
from onnxlab.labs.lab05_bitshift import find_wrong_shift
from tests.labs.answers_lab05 import in_two_steps, minus_one, nothing_found


@pytest.fixture
def repaired():
    with symbolic("aten::__rshift_", in_two_steps, 11):
        find_wrong_shift._count_wrong_k.cache_clear()
        yield
    find_wrong_shift._count_wrong_k.cache_clear()


@pytest.mark.usefixtures("repaired")
def test_none_is_right_where_no_shift_is_wrong():
    outcome = check(exercise("find-wrong-shift")[1], {"find_wrong_shift": nothing_found})
    assert outcome.passed


@pytest.mark.usefixtures("repaired")
def test_a_pair_is_wrong_where_no_shift_is_wrong():
    outcome = check(exercise("find-wrong-shift")[1], {"find_wrong_shift": minus_one})
    assert not outcome.passed
    assert outcome.first_failure.title == "nothing is made up where every shift is right"
    assert "-1 >> 1: torch [-1], the model [-1]" in outcome.first_failure.message
