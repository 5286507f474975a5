import re

import pytest
import torch

from onnxlab.networks.detection import DetectorNet, load_trained
from tools import train_detector


@pytest.fixture(scope="module")
def few_scenes():
    return train_detector.training_scenes(192)


def test_training_begins_the_same_every_time_and_learns(few_scenes):
    scenes = few_scenes[:128]
    first, second = (train_detector.train(scenes, epochs=1) for _ in range(2))
    for name, weight in first.state_dict().items():
        torch.testing.assert_close(weight, second.state_dict()[name], rtol=0, atol=0)
    trained = train_detector.train(scenes, epochs=12)
    unseen = train_detector.batch(few_scenes[128:], trained.centres)
    torch.manual_seed(0)
    with torch.inference_mode():
        untrained = train_detector.loss(DetectorNet().eval(), unseen)
        assert train_detector.loss(trained, unseen) < untrained / 2


def test_each_shape_has_a_cell_of_its_own_kind(few_scenes):
    examples = train_detector.batch(few_scenes, DetectorNet().centres)
    for scene, boxes, scores in zip(few_scenes, examples.boxes, examples.scores, strict=True):
        assert set(scores.any(1).nonzero().flatten().tolist()) == set(scene.shapes.tolist())
        assert len(boxes[scores.any(0)].unique(dim=0)) == len(scene.boxes)


def test_no_picture_is_both_trained_on_and_measured():
    measured = train_detector.quality.__defaults__[0]
    assert max(measured) < train_detector.FIRST_SEED


def test_the_documented_quality_is_that_of_the_shipped_weights(request):
    reached = train_detector.quality(load_trained())
    assert reached.recall > 0.95
    assert reached.precision > 0.98
    assert reached.overlap > 0.87
    text = (request.config.rootpath / "docs" / "weights.md").read_text(encoding="utf-8")
    figures = re.search(r"([\d.]+) % of the shapes.*?([\d.]+) % of the boxes.*?IoU ([\d.]+)", text)
    recall, precision, overlap = figures.groups()
    documented = [float(recall) / 100, float(precision) / 100, float(overlap)]
    assert documented == pytest.approx([reached.recall, reached.precision, reached.overlap], abs=0.003)
