"""The small GPT: its cache, positions, attention and exports."""

import onnxruntime
import pytest
import torch

from onnxlab import gpt


@pytest.mark.parametrize("cut", [1, 5, 19])
def test_a_text_in_two_pieces_gives_the_scores_of_the_whole(cut):
    network, text = gpt.load_trained(), torch.randint(0, 256, (2, 20))
    with torch.inference_mode():
        expected, cached = network(text, gpt.cache(2))
        first, past = network(text[:, :cut], gpt.cache(2))
        second, present = network(text[:, cut:], past)
    torch.testing.assert_close(torch.cat([first, second], 1), expected, rtol=0, atol=1e-4)
    for pair, other in zip(present, cached, strict=True):
        torch.testing.assert_close(pair, other, rtol=0, atol=1e-4)


def test_later_tokens_do_not_affect_earlier_ones():
    network, text = gpt.load_trained(), torch.randint(0, 256, (1, 20))
    changed = text.clone()
    changed[:, 12:] = 7
    with torch.inference_mode():
        before, after = (network(tokens, gpt.cache())[0] for tokens in (text, changed))
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


def test_the_attention_can_be_replaced():
    def blind(query, key, value, past_key, past_value):
        return value, torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)

    text = torch.tensor([list(b"The Eagle\n")])
    with torch.inference_mode():
        scores, other = (gpt.load_trained(attend)(text, gpt.cache())[0] for attend in (gpt.attend, blind))
    assert (scores - other).abs().max() > 0.1


def test_the_keys_and_values_of_a_cache_are_tensors_of_their_own():
    leaves = [leaf for pair in gpt.cache(2, 3) for leaf in pair]
    assert len({leaf.data_ptr() for leaf in leaves}) == 2 * gpt.LAYERS
    assert {tuple(leaf.shape) for leaf in leaves} == {(2, gpt.HEADS, 3, gpt.HEAD_SIZE)}


def test_the_poems_are_plain_text_with_titles():
    text = gpt.poems()
    assert text.isascii()
    assert [poem.splitlines()[1] for poem in text.split("\n\n\n")[:-1]] == [""] * 4
    assert text.count("'Twas brillig, and the slithy toves") == 2


PAST = {0: "batch", 2: "past"}
AXES = {"tokens": {0: "batch", 1: "new"}, "past": [(PAST, PAST), (PAST, PAST)]}
NAMES = ["tokens", *(f"past.{number}" for number in range(2 * gpt.LAYERS))]


@pytest.mark.slow
def test_an_example_of_one_text_and_an_empty_cache_freezes_no_axis(tmp_path):
    network, file = gpt.load_trained(), tmp_path / "file.onnx"
    example = (torch.randint(0, 256, (1, 5)), gpt.cache(1, 0))
    named = {"input_names": NAMES, "dynamic_shapes": AXES, "external_data": False, "verbose": False}
    torch.onnx.export(network, example, file, dynamo=True, **named)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert all(isinstance(value.shape[0], str) for value in session.get_outputs())
    for batch, count, length in ((3, 5, 4), (2, 1, 12), (1, 7, 0)):
        tokens, cache = torch.randint(0, 256, (batch, count)), gpt.cache(batch, length)
        leaves = [tokens, *(leaf for pair in cache for leaf in pair)]
        scores = session.run(None, dict(zip(NAMES, (leaf.numpy() for leaf in leaves), strict=True)))[0]
        with torch.inference_mode():
            torch.testing.assert_close(torch.from_numpy(scores), network(tokens, cache)[0], rtol=0, atol=1e-3)


@pytest.mark.slow
def test_an_architecture_from_transformers_is_refused_with_an_example_of_one_token(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=gpt.LAYERS,
        num_attention_heads=gpt.HEADS,
        num_key_value_heads=gpt.HEADS,
    )

    class TensorsOnly(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.LlamaForCausalLM(config).eval()

        def forward(self, tokens, past, mask):
            cache = transformers.DynamicCache(config=config)
            for layer, (key, value) in enumerate(past):
                cache.update(key, value, layer)
            output = self.model(input_ids=tokens, attention_mask=mask, past_key_values=cache)
            return output.logits, [(layer.keys, layer.values) for layer in output.past_key_values.layers]

    example = (torch.randint(0, 256, (1, 1)), gpt.cache(1, 4), torch.ones(1, 5, dtype=torch.int64))
    axes = AXES | {"mask": {0: "batch", 1: "total"}}
    with pytest.raises(torch.onnx.OnnxExporterError) as refused:
        torch.onnx.export(TensorsOnly(), example, tmp_path / "one.onnx", dynamic_shapes=axes, verbose=False)
    assert "must be bool, not SymBool" in str(refused.value.__cause__)
