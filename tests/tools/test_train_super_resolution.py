import re

import numpy as np
import pytest
import torch

pytest.importorskip("skimage")

from onnxlab.errors import OnnxLabError
from onnxlab.networks.super_resolution import SuperResolutionNet, load_trained
from tools import train_super_resolution
from tools.train_super_resolution import (
    HELD_OUT,
    PATCH,
    TRAINING,
    batch,
    evaluate,
    held_out_pictures,
    main,
    train,
    training_pairs,
)


@pytest.fixture(scope="module")
def scores():
    return evaluate(load_trained())


def test_shipped_weights_beat_bicubic_on_every_held_out_picture(scores):
    assert len(scores) == 4
    assert {score.picture: score.gain for score in scores if score.gain < 0.3} == {}
    assert np.mean([score.gain for score in scores]) > 0.7


def test_untrained_weights_do_not_beat_bicubic():
    torch.manual_seed(0)
    assert all(score.gain < -3 for score in evaluate(SuperResolutionNet()))


def test_figures_in_the_documentation_are_those_of_the_shipped_weights(scores, request):
    text = (request.config.rootpath / "docs" / "weights.md").read_text(encoding="utf-8")
    for score in scores:
        (row,) = re.findall(rf"^\| {score.picture.partition('.')[0]}\b.*$", text, re.MULTILINE)
        documented = [float(cell) for cell in row.strip("| ").split("|")[1:]]
        assert documented == pytest.approx([score.bicubic, score.network, score.gain], abs=0.011)


def test_no_picture_is_both_trained_on_and_measured():
    assert not set(TRAINING) & {*HELD_OUT, "chelsea.png", "cat.jpg"}
    held_out = [picture.tobytes() for picture in held_out_pictures().values()]
    assert not any(large.tobytes() in held_out for _, large in training_pairs())


def test_pairs_and_patches_belong_together():
    pairs = training_pairs()
    assert all(large.shape == (3 * small.shape[0], 3 * small.shape[1]) for small, large in pairs)
    small, large = batch(pairs, 8, np.random.default_rng(0))
    assert small.shape == (8, 1, PATCH, PATCH)
    assert large.shape == (8, 1, 3 * PATCH, 3 * PATCH)
    assert 0 <= large.min() < large.max() <= 1
    means = torch.nn.functional.avg_pool2d(large, 3)
    mirrored = means.flip(-1)
    # The same place, turned the same way.
    assert (means - small).abs().mean() < 0.5 * (mirrored - small).abs().mean()


@pytest.mark.slow
def test_a_few_steps_make_the_loss_fall():
    losses = []
    train(30, report=lambda _, loss: losses.append(loss))
    assert len(losses) == 30
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])


@pytest.mark.slow
def test_one_seed_gives_one_set_of_weights():
    first, again, other = (train(3, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_the_script_writes_weights_that_load_and_prints_the_table(tmp_path, capsys, monkeypatch):
    path = tmp_path / "weights.safetensors"
    monkeypatch.setattr(train_super_resolution, "train", lambda report: train(2))
    main(["--output", str(path)])
    shown = capsys.readouterr().out
    for picture in ("cat.jpg", *HELD_OUT, "mean gain"):
        assert re.search(rf"^{re.escape(picture)} .*[+-]\d+\.\d\d$", shown, re.MULTILINE)
    monkeypatch.setattr("onnxlab.networks.super_resolution._WEIGHTS", path)
    assert load_trained()(torch.rand(1, 1, 4, 5)).shape == (1, 1, 12, 15)


def test_evaluate_measures_without_training(capsys, monkeypatch):
    monkeypatch.setattr(train_super_resolution, "train", None)
    main(["--evaluate"])
    assert re.search(r"^cat.jpg +31\.5\d +31\.9\d", capsys.readouterr().out, re.MULTILINE)


def test_a_folder_that_is_not_there_is_said_before_training(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--output", "no/such/folder/w.safetensors"])
    assert caught.value.code == 2
    assert "there is no folder" in capsys.readouterr().err


def test_without_scikit_image_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skimage", None)
    with pytest.raises(OnnxLabError, match="pip install"):
        training_pairs()
    with pytest.raises(SystemExit, match="scikit-image, which is not installed"):
        main([])
