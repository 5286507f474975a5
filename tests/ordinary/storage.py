"""Files as they lie about: in a hub's cache, with weights beside the graph; and a model of a library."""

import dataclasses
import os
from pathlib import Path

import onnx

from tests.ordinary.bench import Ordinary, ordinary
from tests.ordinary.language import TOKENS, padded
from tests.ordinary.vision import residual_network


def in_hub_cache(path: Path) -> Path:
    """Move a file, and its second one, to where huggingface_hub keeps a download: links into `blobs`."""
    blobs, snapshot = path.parent / "hub" / "blobs", path.parent / "hub" / "snapshots" / "main"
    for folder in (blobs, snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(sorted(path.parent.glob(f"{path.name}*"))):
        blob = file.rename(blobs / f"{number:040x}")
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    return snapshot / path.name


def weights_in_own_files(path: Path) -> Path:
    """Store each weight in a file of its own, as the TorchScript exporter does above 2 GB."""
    target = path.parent / "weights" / path.name
    target.parent.mkdir()
    model = onnx.load(path)
    onnx.save(model, target, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=64)
    return target


@ordinary
def file_in_hub_cache() -> Ordinary:
    return dataclasses.replace(residual_network(), store=in_hub_cache)


@ordinary
def weights_outside() -> Ordinary:
    return dataclasses.replace(residual_network(), store=weights_in_own_files)


@ordinary
def bert_from_transformers() -> Ordinary:
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 64}
    config = BertConfig(vocab_size=50, max_position_embeddings=64, attn_implementation="eager", **sizes)
    shapes = {"input_ids": TOKENS, "attention_mask": TOKENS}
    return Ordinary(BertModel(config).eval(), padded(2, 6), [padded(3, 4)], shapes=shapes, draw=padded)
