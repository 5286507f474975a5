"""Exercise cached-decoder: a decoder with a cache, exported with an example that hides frozen sizes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.exporting import axis_options, exported_or_stopped, of_both_exporters, require_type
from onnxlab.labs.kit.judging import require_dynamic, require_exported, require_valid
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab11_cache.decoder import VOCABULARY, Decoder, draw_weights, step_model
from onnxlab.labs.lab11_cache.reading import (
    ADVICE,
    Reading,
    readings,
    require_names,
    require_piece,
    require_read,
)
from onnxlab.model.distance import Array

__all__ = ["EXERCISE"]

_PASTS, _PRESENTS = ("past_key", "past_value"), ("present_key", "present_value")
_INPUTS, _OUTPUTS = ["ids", *_PASTS], ["logits", *_PRESENTS]
_CACHES = dict(zip(_PASTS, _PRESENTS, strict=True))
_HEADS, _SIZE = 2, 8
_AXES: dict[str, dict[int, str]] = {
    "ids": {0: "batch", 1: "new"},
    "past_key": {0: "batch", 2: "past"},
    "past_value": {0: "batch", 2: "past"},
}
# Batch, new tokens and tokens in the cache at the export. For one token without a cache, a mask of the
# example's size is a single True: it broadcasts, so only the numbers become wrong.
_EXAMPLES = {Exporter.TORCHSCRIPT: (1, 1, 0), Exporter.TORCH_EXPORT: (2, 3, 4)}


def _decoder(random: np.random.Generator) -> Decoder:
    return draw_weights(random, Decoder())


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Read drawn texts with the learner's module, piece by piece; export it with both exporters."""
    decoder = _decoder(random)
    with trying("the decoder", decoder=_decoder(work.questions())):
        module = answers["CachedDecoder"](decoder)
        require_type(module, torch.nn.Module, "CachedDecoder(decoder)")
    with torch.no_grad():
        for number, reading in enumerate(readings(random)):
            _read(work, number, module, reading)
    for exporter, (batch, new, past) in _EXAMPLES.items():
        shape = batch, _HEADS, past, _SIZE
        key, value = (torch.from_numpy(random.normal(size=shape).astype(np.float32)) for _ in _PASTS)
        ids = torch.from_numpy(random.integers(VOCABULARY, size=(batch, new)))
        options, args = axis_options(exporter, _AXES), (ids, key, value)
        exported_or_stopped(
            work, exporter.name.lower(), module, args, exporter, output_names=_OUTPUTS, **options
        )


def _read(work: Work, number: int, module: torch.nn.Module, reading: Reading) -> None:
    """Read a text piece by piece, each with the cache that the last one returned; keep the outputs."""
    batch = len(reading.ids)
    cache, logits = [torch.zeros(batch, _HEADS, 0, _SIZE) for _ in _PASTS], []
    for begin, end in reading.pieces():
        ids = torch.from_numpy(reading.ids[:, begin:end])
        piece = reading.describe(begin, end)
        with trying(piece, ids=ids, past_key=cache[0], past_value=cache[1]):
            result = module(ids.clone(), *(tensor.clone() for tensor in cache))
            require_type(result, (tuple, list), "forward(ids, past_key, past_value)")
            if len(result) != len(_OUTPUTS):
                msg = f"forward() returned {len(result)} values; three were expected: {', '.join(_OUTPUTS)}."
                raise Wrong(msg, "The caller gives the cache back with the next tokens: it needs both parts.")
            for name, tensor in zip(_OUTPUTS, result, strict=True):
                require_type(tensor, torch.Tensor, f"forward(), as {name},")
                cached = [batch, _HEADS, end, _SIZE]
                shape = cached if name in _PRESENTS else [batch, end - begin, VOCABULARY]
                if list(tensor.shape) != shape:  # otherwise the next piece fails with PyTorch's own error
                    difference = Difference(f"{piece}; {name}", str(shape), str(list(tensor.shape)))
                    msg = f"In PyTorch, {name} has another shape than it should."
                    look_at = (
                        ADVICE["cache"]
                        if name in _PRESENTS
                        else "There are logits for each of the new tokens."
                    )
                    raise Wrong(msg, look_at, difference=difference)
            logits.append(result[0])
            cache = list(result[1:])
    for name, tensor in zip(_OUTPUTS, (torch.cat(logits, 1), *cache), strict=True):
        work.write_array(f"torch_{number}_{name}", tensor)


def judge_torch(work: Work, random: np.random.Generator) -> None:
    """Require the right outputs in PyTorch: an export keeps the mistakes of a module."""
    questions = work.questions()
    decoder = _decoder(questions)
    for number, reading in enumerate(readings(questions)):
        right, where = _expected_outputs(decoder, reading), f"In PyTorch, {reading.where.lower()}"
        outputs = {name: work.array(f"torch_{number}_{name}") for name in _OUTPUTS}
        for name, array in outputs.items():
            if array.shape != right[name].shape:
                msg = f"{where}: {name} is {list(array.shape)}; {list(right[name].shape)} was expected."
                raise Wrong(msg, ADVICE["cache"])
        for begin, end in reading.pieces():
            pasts = {past: right[present][:, :, :begin] for past, present in _CACHES.items()}
            ids = reading.ids[:, begin:end]
            with trying(reading.describe(begin, end), ids=torch.from_numpy(ids), **_tensors(pasts)):
                got = {name: array[:, :, :end] for name, array in outputs.items()}
                got["logits"] = outputs["logits"][:, begin:end]
                require_piece(got, reading, (begin, end), right, _CACHES, where=where)


def _tensors(arrays: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _expected_outputs(decoder: Decoder, reading: Reading) -> dict[str, Array]:
    """Return the logits, keys and values of a whole text from the decoder without a cache."""
    ids = torch.from_numpy(reading.ids)
    with torch.no_grad():
        x = decoder.token(ids) + decoder.position(torch.arange(ids.shape[1]))
        tensors = decoder(ids), decoder.heads(decoder.key(x)), decoder.heads(decoder.value(x))
    return {name: tensor.numpy() for name, tensor in zip(_OUTPUTS, tensors, strict=True)}


def judge_graph(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require a valid model with dynamic lengths."""
    with _model(work, exporter) as model:
        require_dynamic(model, _AXES)


def judge_numbers(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require the right numbers for every length of cache and text."""
    _, new, past = _EXAMPLES[exporter]
    example = f"{new} token{'s' if new > 1 else ''} and a cache of {past}"
    frozen = f"The example had {example}. Which constant of the graph has that size?"
    advice = {**ADVICE, **dict.fromkeys(("first", "one", "several", "stop"), frozen)}
    decoder = _decoder(work.questions())
    with _model(work, exporter) as model:
        for reading in readings(random):
            with trying(f"the {exporter} export: {reading.where.lower()}", model=model, ids=reading.ids):
                expected = _expected_outputs(decoder, reading)
                require_read(model, reading, expected, _CACHES, advice, where=f"The {exporter} export")


@contextmanager
def _model(work: Work, exporter: Exporter) -> Iterator[onnx.ModelProto]:
    """Yield an export that is valid and has the right names; attach the case to what is raised."""
    with trying(f"the {exporter} export", decoder=_decoder(work.questions())):
        model = require_exported(work, exporter.name.lower())
        look_at = "An argument that is never read is left out of the graph."
        require_names(model, _INPUTS, _OUTPUTS, f"The {exporter} export", look_at)
        require_valid(model)
        yield model


EXERCISE = Exercise(
    order=1,
    id="cached-decoder",
    title="Give a decoder a cache, and a mask for every length",
    points=4,
    answers=("CachedDecoder",),
    produce=produce,
    torch_export=True,
    parts=(
        Part("in PyTorch: what the decoder gives without a cache", judge_torch),
        *of_both_exporters(
            ("a valid model with free lengths", judge_graph),
            ("right for every length of cache and text", judge_numbers),
        ),
    ),
    hints=(
        "Two things depend on how much is cached: the places of the new tokens, and what each of them may "
        "see. Compute both from the shapes of `ids` and `past_key`, with operators on tensors.",
        "With `before = past_key.shape[2]` and `new = ids.shape[1]`, the new tokens have the places "
        "`torch.arange(before, before + new)`. A token sees a key if the key's place is not greater than its "
        "own: that is a mask of `new` rows and `before + new` columns. `is_causal=True` is another one.",
        "`key = torch.cat([past_key, d.heads(d.key(x))], 2)`, the same for `value`, "
        "`mask = torch.arange(before + new) <= places[:, None]`, then "
        "`scaled_dot_product_attention(query, key, value, attn_mask=mask)`.",
    ),
    expected=lambda work: step_model(_decoder(work.questions()), _PASTS, _PRESENTS),
)
