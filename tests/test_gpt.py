import onnxruntime
import pytest
import torch
from safetensors.torch import save_file

from onnxlab import gpt
from onnxlab.errors import ModelNotReadable


def written(network: gpt.GPT, prompt: bytes, count: int) -> bytes:
    """What the network writes, one token at a time, with its cache."""
    text, new, past = list(prompt), torch.tensor([list(prompt)]), gpt.cache()
    with torch.inference_mode():
        for _ in range(count):
            scores, past = network(new, past)
            new = scores[:, -1:].argmax(-1)
            text.append(int(new))
    return bytes(text)


def test_it_recites_a_whole_poem():
    poem = gpt.poems().split("\n\n\n")[0]
    assert written(gpt.load_trained(), b"Jabberwocky\n", len(poem) - 12).decode() == poem


@pytest.mark.parametrize("cut", [1, 5, 19])
def test_a_text_in_two_pieces_gives_the_scores_of_the_whole(cut):
    network, text = gpt.load_trained(), torch.randint(0, 256, (2, 20))
    with torch.inference_mode():
        whole, cached = network(text, gpt.cache(2))
        first, past = network(text[:, :cut], gpt.cache(2))
        second, present = network(text[:, cut:], past)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-4)
    for pair, other in zip(present, cached, strict=True):
        torch.testing.assert_close(pair, other, rtol=0, atol=1e-4)


def test_no_token_sees_a_later_one():
    network, text = gpt.load_trained(), torch.randint(0, 256, (1, 20))
    changed = text.clone()
    changed[:, 12:] = 7
    with torch.inference_mode():
        before, after = (network(given, gpt.cache())[0] for given in (text, changed))
    torch.testing.assert_close(before[:, :12], after[:, :12], rtol=0, atol=1e-5)
    assert (before[:, 12:] - after[:, 12:]).abs().max() > 0.1


def test_positions_count_only_as_differences():
    network, text = gpt.load_trained(), torch.tensor([list(b"The Eagle\n\nHe clasps")])
    with torch.inference_mode():
        near, _ = network(text, gpt.cache())
        far, _ = network(text, gpt.cache(), torch.arange(500, 500 + text.shape[1]))
        wrong, _ = network(text, gpt.cache(), torch.zeros(text.shape[1], dtype=torch.int64))
    torch.testing.assert_close(near, far, rtol=0, atol=1e-3)
    assert (near - wrong).abs().max() > 0.1


def test_another_attention_takes_the_place_of_the_first():
    def blind(query, key, value, past_key, past_value):
        return value, torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)

    text = torch.tensor([list(b"The Eagle\n")])
    with torch.inference_mode():
        right, wrong = (gpt.load_trained(attend)(text, gpt.cache())[0] for attend in (gpt.attend, blind))
    assert (right - wrong).abs().max() > 0.1


def test_the_weights_are_small_and_finite():
    weights = gpt.load_trained().state_dict()
    assert sum(weight.numel() for weight in weights.values()) == 132_032
    assert all(weight.dtype == torch.float32 and weight.isfinite().all() for weight in weights.values())
    assert gpt._WEIGHTS.stat().st_size < 1_000_000


def test_the_keys_and_values_of_a_cache_are_tensors_of_their_own():
    leaves = [leaf for pair in gpt.cache(2, 3) for leaf in pair]
    assert len({leaf.data_ptr() for leaf in leaves}) == 2 * gpt.LAYERS
    assert {tuple(leaf.shape) for leaf in leaves} == {(2, gpt.HEADS, 3, gpt.HEAD_SIZE)}


def test_the_poems_are_plain_text_with_titles():
    text = gpt.poems()
    assert text.isascii()
    assert [poem.splitlines()[1] for poem in text.split("\n\n\n")[:-1]] == [""] * 4
    assert text.count("'Twas brillig, and the slithy toves") == 2


def test_damaged_weights_are_named_in_the_error(tmp_path, monkeypatch):
    path = tmp_path / "gpt.safetensors"
    save_file({"conv9.weight": torch.ones(1)}, path)
    monkeypatch.setattr(gpt, "_WEIGHTS", path)
    with pytest.raises(ModelNotReadable, match=r"gpt\.safetensors"):
        gpt.load_trained()


@pytest.mark.slow
def test_an_example_of_one_text_with_several_tokens_freezes_no_axis(tmp_path):
    network, file = gpt.load_trained(), tmp_path / "one.onnx"
    past = {0: "batch", 2: "past"}
    axes = {"tokens": {0: "batch", 1: "new"}, "past": [(past, past), (past, past)]}
    example = (torch.randint(0, 256, (1, 5)), gpt.cache(1, 4))
    torch.onnx.export(network, example, file, dynamic_shapes=axes, external_data=False, verbose=False)
    opened = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert all(isinstance(value.shape[0], str) for value in opened.get_outputs())
    for batch, count, length in ((3, 5, 4), (2, 1, 12), (1, 7, 0)):
        tokens, cache = torch.randint(0, 256, (batch, count)), gpt.cache(batch, length)
        leaves = [tokens, *(leaf for pair in cache for leaf in pair)]
        names = [value.name for value in opened.get_inputs()]
        scores = opened.run(None, dict(zip(names, (leaf.numpy() for leaf in leaves), strict=True)))[0]
        with torch.inference_mode():
            torch.testing.assert_close(torch.from_numpy(scores), network(tokens, cache)[0], rtol=0, atol=1e-3)
