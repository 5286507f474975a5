"""What is drawn reaches every case at every seed, and neither rounding nor a hard draw decides."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from onnxlab.judges.lab10_quantise import quantise_to_8_bits
from onnxlab.judges.lab11_cache import reading
from onnxlab.judges.lab12_detection.suppress import _FORMAT, _MANY, _Scene, _suppressed
from onnxlab.kit.checking import check
from onnxlab.kit.exercise import exercise
from onnxlab.kit.judging import opsets
from onnxlab.labs.lab09_ship_it.one_file import draw_uploads
from onnxlab.labs.lab11_cache.reading import readings
from onnxlab.labs.lab12_detection.suppress import ASKS, DetectorQuestion
from onnxlab.model.distance import Array
from tests.labs.test_contract import report
from tests.support.labs import contracts

pytestmark = pytest.mark.slow

SEEDS = pytest.mark.parametrize("seed", range(3))


@SEEDS
def test_uploads_have_every_ir_version_and_every_opset(seed):
    models = [upload.model for upload in draw_uploads(np.random.default_rng(seed)) if upload.possible]
    assert {model.ir_version for model in models} == {8, 9, 10}
    assert {opset for model in models for opset in opsets(model)} == {17, 18, 19, 20}


@pytest.mark.parametrize(
    "answer", [0, *(pytest.param(number, marks=pytest.mark.release) for number in (1, 2))]
)
def test_right_calibrations_pass_where_eight_bits_are_few_for_the_network(monkeypatch, answer):
    monkeypatch.setattr(quantise_to_8_bits, "_ALLOWED", 1e-9)
    _, record = exercise("quantise-to-8-bits")
    answers = dict(zip(record.answers, contracts()["quantise-to-8-bits"].right[answer], strict=True))
    outcome = check(record, answers, 0)
    assert outcome.passed, report(outcome)


def test_rounding_of_eleven_layers_is_far_below_what_counts(monkeypatch):
    strict = partial(reading.first_mismatch, tolerance=1e-6)  # a twentieth
    monkeypatch.setattr(reading, "first_mismatch", strict)
    _, record = exercise("append-to-cache")
    answers = dict(zip(record.answers, contracts()["append-to-cache"].right[0], strict=True))
    outcome = check(record, answers, 1)
    assert outcome.passed, report(outcome)


def scenes(seed: int) -> Iterator[tuple[DetectorQuestion, _Scene, Array]]:
    random = np.random.default_rng(seed)
    for question in ASKS.draw(random):
        for scene in _MANY:
            yield question, scene, scene.raw(question, random)


@SEEDS
def test_two_texts_of_one_batch_are_read_in_turn_by_each_decoder(seed):
    texts = list(readings(np.random.default_rng(seed)))
    for number in (0, 1):  # a decoder reads every second text
        batches = [len(text.ids) for text in texts[number::2] if len(text.sizes) > 1]
        assert len(set(batches)) < len(batches)


@SEEDS
def test_two_digits_of_a_threshold_decide_no_drawn_scene(seed):
    for question, scene, raw in scenes(seed):
        rounded = replace(question, iou=round(question.iou, 2), least=round(question.least, 2))
        for left, expected in zip(_suppressed(rounded, raw), _suppressed(question, raw), strict=True):
            assert np.array_equal(left, expected), f"{question.where}. {scene.where}"


@SEEDS
def test_a_higher_overlap_is_seen_where_an_object_is_found_several_times(seed):
    for question, scene, raw in scenes(seed):
        if scene.candidates > 2 and question.most > scene.objects:
            higher = _suppressed(replace(question, iou=question.iou + 0.1), raw)[0]
            assert len(higher) != len(_suppressed(question, raw)[0]), f"{question.where}. {scene.where}"


def refused(name: str, answer: str, seed: int) -> str:
    """Return what a learner reads about a wrong answer of the contract, which must be said at every seed."""
    _, record = exercise(name)
    wrong = next(wrong for wrong in contracts()[name].wrong if wrong.name == answer)
    outcome = check(record, dict(zip(record.answers, wrong.functions, strict=True)), seed)
    assert outcome.status is wrong.status
    assert wrong.says in report(outcome)
    return report(outcome)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("one-file", "another IR version"),
        ("one-file", "always opset 20"),
        ("suppress", "two digits"),
        ("cached-decoder", "its own cache"),
        ("cached-decoder", "views of one buffer"),
    ],
)
def test_a_message_does_not_depend_on_the_seed(name, answer):
    refused(name, answer, 1)  # the contract asks for it at seed 0


@SEEDS
def test_a_small_scene_alone_names_no_mistake(seed):
    assert _FORMAT not in refused("suppress", "half of the boxes at least", seed)
