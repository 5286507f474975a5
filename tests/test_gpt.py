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


PAST = {0: "batch", 2: "past"}
AXES = {"tokens": {0: "batch", 1: "new"}, "past": [(PAST, PAST), (PAST, PAST)]}
NAMES = ["tokens", *(f"past.{number}" for number in range(2 * gpt.LAYERS))]
OLD_AXES = {"tokens": AXES["tokens"]} | dict.fromkeys(NAMES[1:], PAST)


def opened(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(1, 5, 4), (2, 5, 0)])
@pytest.mark.parametrize("dynamo", [False, True])
def test_an_example_of_one_text_or_an_empty_cache_freezes_no_axis(tmp_path, dynamo, sizes):
    network, file = gpt.load_trained(), tmp_path / "file.onnx"
    batch, count, length = sizes
    example = (torch.randint(0, 256, (batch, count)), gpt.cache(batch, length))
    axes = {"dynamic_shapes": AXES, "external_data": False} if dynamo else {"dynamic_axes": OLD_AXES}
    torch.onnx.export(network, example, file, dynamo=dynamo, input_names=NAMES, verbose=False, **axes)
    session = opened(file)
    if dynamo:  # TorchScript labels no output that dynamic_axes does not name
        assert all(isinstance(value.shape[0], str) for value in session.get_outputs())
    for batch, count, length in ((3, 5, 4), (2, 1, 12), (1, 7, 0)):
        tokens, cache = torch.randint(0, 256, (batch, count)), gpt.cache(batch, length)
        leaves = [tokens, *(leaf for pair in cache for leaf in pair)]
        scores = session.run(None, dict(zip(NAMES, (leaf.numpy() for leaf in leaves), strict=True)))[0]
        with torch.inference_mode():
            torch.testing.assert_close(torch.from_numpy(scores), network(tokens, cache)[0], rtol=0, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("dynamo", "first"), [(False, "tensor(int64)"), (True, "tensor(float)")])
def test_only_torchscript_sorts_the_keyword_arguments_of_a_decoder(tmp_path, dynamo, first):
    keywords = {"past": gpt.cache(2, 4), "tokens": torch.randint(0, 256, (2, 5))}
    file = tmp_path / "file.onnx"
    torch.onnx.export(gpt.load_trained(), (), file, kwargs=keywords, dynamo=dynamo, verbose=False)
    assert opened(file).get_inputs()[0].type == first  # whole numbers are the tokens


@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [False, True])
def test_with_is_causal_and_a_cache_file_and_pytorch_are_wrong_together(tmp_path, dynamo):
    def flag(query, key, value, past_key, past_value):
        key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
        found = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return found, key, value

    flagged, file = gpt.load_trained(flag), tmp_path / "file.onnx"
    axes = {"dynamic_shapes": AXES, "external_data": False} if dynamo else {"dynamic_axes": OLD_AXES}
    example = (torch.randint(0, 256, (2, 5)), gpt.cache(2, 4))
    torch.onnx.export(flagged, example, file, dynamo=dynamo, input_names=NAMES, verbose=False, **axes)
    tokens, cache = torch.randint(0, 256, (1, 3)), gpt.cache(1, 12)
    leaves = [tokens, *(leaf for pair in cache for leaf in pair)]
    scores = opened(file).run(None, dict(zip(NAMES, (leaf.numpy() for leaf in leaves), strict=True)))[0]
    with torch.inference_mode():
        torch.testing.assert_close(torch.from_numpy(scores), flagged(tokens, cache)[0], rtol=0, atol=1e-3)
        assert (flagged(tokens, cache)[0] - gpt.load_trained()(tokens, cache)[0]).abs().max() > 0.1


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
            found = self.model(input_ids=tokens, attention_mask=mask, past_key_values=cache)
            return found.logits, [(layer.keys, layer.values) for layer in found.past_key_values.layers]

    example = (torch.randint(0, 256, (1, 1)), gpt.cache(1, 4), torch.ones(1, 5, dtype=torch.int64))
    axes = AXES | {"mask": {0: "batch", 1: "total"}}
    with pytest.raises(torch.onnx.OnnxExporterError) as refused:
        torch.onnx.export(TensorsOnly(), example, tmp_path / "one.onnx", dynamic_shapes=axes, verbose=False)
    assert "must be bool, not SymBool" in str(refused.value.__cause__)
