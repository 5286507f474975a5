"""The sentences put to the test stand in their chapters, and the quick probes refute none of them."""

import pytest

from tools.refute import CLAIMS
from tools.refute.claims import Attempts, Claim, refute
from tools.refute.sentences import NOTEBOOKS, one_line, prose, sentences

QUICK = (
    "every_operator_at_every_opset",
    "asinh_in_each_type",
    "bodies_of_many_operators_and_opsets",
    "sizes_scales_and_modes",
    "one_channel_of_several_pictures",
    "pools_of_the_reference",
    "wrong_names_in_a_cut",
    "records_that_are_wrong_in_other_ways",
    "softmax_of_each_opset_and_axis",
    "paths_out_of_the_folder",
    "what_else_a_file_can_say",
    "too_new_in_one_of_two_numbers",
    "what_the_tool_changes",
    "values_beyond_float16_in_the_middle",
    "what_a_second_run_remembers",
    "boxes_that_touch",
    "sigmoids_of_runtime_and_reference",
)


@pytest.mark.parametrize("one", CLAIMS, ids=lambda one: one.probe.__name__)
def test_a_sentence_stands_below_its_heading(one):
    texts = [
        one_line(text)
        for heading, text in prose(NOTEBOOKS / f"{one.notebook}.ipynb")
        if one.sentence in one_line(text)
    ]
    assert texts, f"no longer in {one.notebook}: {one.sentence}"
    if one.fell:
        assert one.why
        assert one.fell != one.sentence


@pytest.mark.parametrize(
    "one", [one for one in CLAIMS if one.probe.__name__ in QUICK], ids=lambda one: one.probe.__name__
)
def test_a_quick_probe_refutes_nothing(one):
    verdict = refute(one)
    assert verdict.holds, verdict.counterexamples


def test_a_false_sentence_falls_and_so_does_a_probe_that_tries_nothing():
    def odd() -> Attempts:
        yield from ((str(number), number % 2 == 1) for number in (1, 3, 4))

    def empty() -> Attempts:
        yield from ()

    assert refute(Claim("00", "", "Every number is odd.", odd)).counterexamples == ("4",)
    assert not refute(Claim("00", "", "", empty)).holds


def test_general_sentences_are_found():
    texts = [one.text for one in sentences(NOTEBOOKS / "01_first_deployment.ipynb") if one.is_general]
    assert len(texts) > 5
