"""Exercise cached-decoder: a decoder with a cache, exported with an example that hides frozen sizes.

What is asked, and what is drawn for it:

- a module with the weights of its decoder: two modules with other weights, read in turn;
- logits, keys, values; what is new behind what was there: every piece of a text is compared;
- one new token or more, an empty cache or not, at most 64 tokens in all: pieces of one token, as many new
  tokens as cached ones, a cache up to the last position, 64 tokens at once;
- the same for every cut: texts of one to seven rows, each read in other pieces;
- what comes before is in the cache that is given, nowhere else: the texts are read in turn, and every cache
  is compared after the last piece was read, so that neither a state nor a shared buffer goes unnoticed;
- the decoder and the arguments stay as they are;
- both exporters' models: the same texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.labs.kit.exercise import Answers, Judges
from onnxlab.labs.kit.exporting import axis_options, exported_or_stopped, of_both_exporters, require_type
from onnxlab.labs.kit.judging import require_dynamic, require_exported, require_valid
from onnxlab.labs.kit.outcome import Difference, Wrong, trying
from onnxlab.labs.kit.work import Work
from onnxlab.labs.lab11_cache.decoder import VOCABULARY, Decoder, changed_part, draw_weights, step_model
from onnxlab.labs.lab11_cache.reading import (
    ADVICE,
    Reading,
    readings,
    require_names,
    require_piece,
    require_read,
)
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

__all__ = ["JUDGES", "produce"]

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


def _decoders(random: np.random.Generator) -> list[Decoder]:
    """Draw two decoders: the second one is exported."""
    return [draw_weights(random, Decoder()) for _ in range(2)]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Read drawn texts with the learner's modules, piece by piece; export one of them with both exporters."""
    originals, decoders = _decoders(work.questions()), _decoders(random)
    modules = []
    for decoder, original in zip(decoders, originals, strict=True):
        with trying("the decoder", decoder=original):
            module = answers["CachedDecoder"](decoder)
            require_type(module, torch.nn.Module, "CachedDecoder(decoder)")
            modules.append(module)
    with torch.no_grad():
        _read_in_turn(work, modules, originals, list(readings(random)))
    with trying("the decoder", decoder=originals[1]):
        for decoder, original in zip(decoders, originals, strict=True):
            if name := changed_part(decoder, original):
                msg = f"The decoder is another one afterwards: its {name} has changed."
                raise Wrong(msg, "Others use this decoder too: what you change has to be a copy.")
    for exporter, (batch, new, past) in _EXAMPLES.items():
        shape = batch, _HEADS, past, _SIZE
        key, value = (torch.from_numpy(random.normal(size=shape).astype(np.float32)) for _ in _PASTS)
        ids = torch.from_numpy(random.integers(VOCABULARY, size=(batch, new)))
        options, args = axis_options(exporter, _AXES), (ids, key, value)
        exported_or_stopped(
            work, exporter.name.lower(), modules[1], args, exporter, output_names=_OUTPUTS, **options
        )


def _read_in_turn(
    work: Work, modules: Sequence[torch.nn.Module], decoders: Sequence[Decoder], texts: Sequence[Reading]
) -> None:
    """Read the first piece of each text, then the second one of each, and so on; then write the outputs."""
    outputs: list[list[Sequence[torch.Tensor]]] = [[] for _ in texts]
    for number in range(max(len(reading.sizes) for reading in texts)):
        for i, (reading, done) in enumerate(zip(texts, outputs, strict=True)):
            if number < len(reading.sizes):
                empty = torch.zeros(len(reading.ids), _HEADS, 0, _SIZE)
                cache = done[-1][1:] if done else (empty, empty)
                done.append(_read(modules[i % 2], decoders[i % 2], reading, reading.pieces()[number], cache))
    for i, done in enumerate(outputs):
        for name, tensors in zip(_OUTPUTS, zip(*done, strict=True), strict=True):
            work.write_array(f"torch_{i}_{name}", torch.cat(tensors, 2 if name in _PRESENTS else 1))


def _read(
    module: torch.nn.Module,
    decoder: Decoder,
    reading: Reading,
    piece: tuple[int, int],
    cache: Sequence[torch.Tensor],
) -> Sequence[torch.Tensor]:
    """Return the outputs of a module for one piece, with the cache that it returned for the last one."""
    begin, end = piece
    ids = torch.from_numpy(reading.ids[:, begin:end])
    where = reading.describe(begin, end)
    with trying(where, decoder=decoder, ids=ids, **dict(zip(_PASTS, cache, strict=True))):
        given = [tensor.clone() for tensor in (ids, *cache)]
        result = module(*given)
        require_type(result, (tuple, list), "forward(ids, past_key, past_value)")
        if len(result) != len(_OUTPUTS):
            msg = f"forward() returned {len(result)} values; three were expected: {', '.join(_OUTPUTS)}."
            raise Wrong(msg, "The caller gives the cache back with the next tokens: it needs both parts.")
        for name, tensor in zip(_OUTPUTS, result, strict=True):
            require_type(tensor, torch.Tensor, f"forward(), as {name},")
            cached = [len(ids), _HEADS, end, _SIZE]
            shape = cached if name in _PRESENTS else [len(ids), end - begin, VOCABULARY]
            if list(tensor.shape) != shape:  # otherwise the next piece fails with PyTorch's own error
                difference = Difference(f"{where}; {name}", str(shape), str(list(tensor.shape)))
                msg = f"In PyTorch, {name} has another shape than it should."
                look_at = (
                    ADVICE["cache"] if name in _PRESENTS else "There are logits for each of the new tokens."
                )
                raise Wrong(msg, look_at, difference=difference)
        for name, before, after in zip(_INPUTS, (ids, *cache), given, strict=True):
            if not torch.equal(before, after):
                msg = f"forward() changes its argument {name}."
                raise Wrong(msg, "The caller's tensors stay as they are; what is new is returned.")
    outputs: Sequence[torch.Tensor] = result
    return outputs


def judge_torch(work: Work, random: np.random.Generator) -> None:
    """Require the right outputs in PyTorch: an export keeps the mistakes of a module."""
    questions = work.questions()
    decoders = _decoders(questions)
    for number, reading in enumerate(readings(questions)):
        decoder = decoders[number % 2]
        expected, where = _expected_outputs(decoder, reading), f"In PyTorch, {reading.where.lower()}"
        outputs = {name: _pieces(work.array(f"torch_{number}_{name}"), reading, name) for name in _OUTPUTS}
        for i, (begin, end) in enumerate(reading.pieces()):
            pasts = {past: expected[present][:, :, :begin] for past, present in _CACHES.items()}
            ids = torch.from_numpy(reading.ids[:, begin:end])
            with trying(reading.describe(begin, end), decoder=decoder, ids=ids, **_tensors(pasts)):
                got = {name: arrays[i] for name, arrays in outputs.items()}
                require_piece(got, reading, (begin, end), expected, _CACHES, where=where)


def _pieces(array: Array, reading: Reading, name: str) -> list[Array]:
    """Return the outputs of one name for each piece of a text, from all of them in one array."""
    axis, sizes = (2, [end for _, end in reading.pieces()]) if name in _PRESENTS else (1, [*reading.sizes])
    if array.ndim <= axis or array.shape[axis] != sum(sizes):
        msg = f"The array {name} is {list(array.shape)}; {sum(sizes)} were expected in axis {axis}."
        raise Wrong(msg, ADVICE["cache"])
    return np.split(array, np.cumsum(sizes)[:-1], axis)


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
    advice = {**ADVICE, **dict.fromkeys(("alone", "first", "one", "several", "stop"), frozen)}
    _, decoder = _decoders(work.questions())
    where = f"The {exporter} export"
    with _model(work, exporter) as model:
        session = open_session(model)
        for reading in readings(random):
            name = f"the {exporter} export: {reading.where.lower()}"
            with trying(name, decoder=decoder, model=model, ids=reading.ids):
                expected = _expected_outputs(decoder, reading)
                require_read(model, reading, expected, _CACHES, advice, where=where, session=session)


@contextmanager
def _model(work: Work, exporter: Exporter) -> Iterator[onnx.ModelProto]:
    """Yield an export that is valid and has the right names; attach the case to what is raised."""
    with trying(f"the {exporter} export", decoder=_decoders(work.questions())[1]):
        model = require_exported(work, exporter.name.lower())
        look_at = "An argument that is never read is left out of the graph."
        require_names(model, _INPUTS, _OUTPUTS, f"The {exporter} export", look_at)
        require_valid(model)
        yield model


JUDGES = Judges(
    (judge_torch, *of_both_exporters(judge_graph, judge_numbers)),
    expected=lambda work: step_model(_decoders(work.questions())[1], _PASTS, _PRESENTS),
)
