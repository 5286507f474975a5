"""The trained weights that come with the course."""

import pytest
import torch
from safetensors.torch import save_file

from onnxlab.errors import ModelNotReadable
from onnxlab.networks import detection, digits, gpt, super_resolution

NETWORKS = (detection, digits, gpt, super_resolution)


@pytest.mark.parametrize("module", NETWORKS)
def test_a_trained_network_is_small_finite_and_in_inference_mode(module):
    network = module.load_trained()
    assert not network.training
    assert all(weight.isfinite().all() for weight in network.state_dict().values())
    assert module._WEIGHTS.stat().st_size < 1_000_000


@pytest.mark.parametrize(("module", "count"), [(gpt, 132_032), (super_resolution, 59_657)])
def test_the_number_of_parameters_is_the_documented_one(module, count):
    weights = module.load_trained().parameters()
    assert sum(weight.numel() for weight in weights if weight.dtype == torch.float32) == count


@pytest.mark.parametrize("damage", ["missing", "not safetensors", "another network"])
@pytest.mark.parametrize("module", NETWORKS)
def test_damaged_weights_are_named_in_the_error(module, damage, tmp_path, monkeypatch):
    path = tmp_path / module._WEIGHTS.name
    if damage == "not safetensors":
        path.write_bytes(b"not weights")
    elif damage == "another network":
        save_file({"conv9.weight": torch.ones(1)}, path)
    monkeypatch.setattr(module, "_WEIGHTS", path)
    with pytest.raises(ModelNotReadable, match=module._WEIGHTS.name) as caught:
        module.load_trained()
    assert len(str(caught.value).splitlines()) <= 3
