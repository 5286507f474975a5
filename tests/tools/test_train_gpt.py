import torch

from onnxlab import gpt
from tools import train_gpt


def test_training_begins_the_same_every_time_and_learns(capsys):
    first, second = (train_gpt.train(steps=2) for _ in range(2))
    for name, weight in first.state_dict().items():
        torch.testing.assert_close(weight, second.state_dict()[name], rtol=0, atol=0)
    untrained, trained = (train_gpt.mistakes(train_gpt.train(steps=steps, of=5)) for steps in (0, 5))
    assert sum(trained.values()) < sum(untrained.values())
    assert capsys.readouterr().out == ""  # it speaks every 50 steps


def test_another_seed_gives_other_weights():
    first, second = (train_gpt.train(steps=0, seed=seed).state_dict() for seed in (0, 1))
    assert not torch.equal(first["head.weight"], second["head.weight"])


def test_the_shipped_weights_make_no_mistake(capsys):
    train_gpt.main(["--evaluate"])
    assert capsys.readouterr().out.splitlines() == [
        f"{title}: 0 wrong bytes" for title in ("Jabberwocky", "The Crocodile", "The Eagle", "The Wind")
    ]


def test_a_mistake_is_counted():
    network = gpt.load_trained()
    with torch.no_grad():
        network.head.weight[ord("!")] = 0  # it never writes an exclamation mark again
    marks = gpt.poems().count("!")
    assert marks <= sum(train_gpt.mistakes(network).values()) < 3 * marks


def test_what_is_written_can_be_loaded(tmp_path, monkeypatch):
    trained = train_gpt.train(steps=1)
    monkeypatch.setattr(train_gpt, "train", lambda: trained)
    train_gpt.main(["--output", str(tmp_path / "gpt.safetensors")])
    monkeypatch.setattr(gpt, "_WEIGHTS", tmp_path / "gpt.safetensors")
    assert torch.equal(gpt.load_trained().head.weight, trained.head.weight)
