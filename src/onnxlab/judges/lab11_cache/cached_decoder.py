"""What is right in cached-decoder, part by part."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import onnx
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.judges.lab11_cache.decoder import step_model
from onnxlab.judges.lab11_cache.reading import require_piece, require_read
from onnxlab.kit.exercise import Judges
from onnxlab.kit.exporting import of_both_exporters
from onnxlab.kit.judging import require_dynamic, require_exported, require_interface, require_valid
from onnxlab.kit.outcome import Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.labs.lab11_cache.cached_decoder import (
    AXES,
    EXAMPLES,
    INPUTS,
    OUTPUTS,
    PASTS,
    PRESENTS,
    draw_decoders,
)
from onnxlab.labs.lab11_cache.decoder import Decoder
from onnxlab.labs.lab11_cache.reading import ADVICE, Reading, readings
from onnxlab.message import Message
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

_CACHES = dict(zip(PASTS, PRESENTS, strict=True))


def judge_torch(work: Work, random: np.random.Generator) -> None:
    """Require the right outputs in PyTorch: an export keeps the mistakes of a module."""
    questions = work.questions()
    decoders = draw_decoders(questions)
    for number, reading in enumerate(readings(questions)):
        decoder = decoders[number % 2]
        expected, where = (
            _expected_outputs(decoder, reading),
            Message("In PyTorch, {reading.where}", reading=reading),
        )
        outputs = {name: _pieces(work.array(f"torch_{number}_{name}"), reading, name) for name in OUTPUTS}
        for i, (begin, end) in enumerate(reading.pieces()):
            pasts = {past: expected[present][:, :, :begin] for past, present in _CACHES.items()}
            ids = torch.from_numpy(reading.ids[:, begin:end])
            with trying(reading.describe(begin, end), decoder=decoder, ids=ids, **_tensors(pasts)):
                got = {name: arrays[i] for name, arrays in outputs.items()}
                require_piece(got, reading, (begin, end), expected, _CACHES, where=where)


def _pieces(array: Array, reading: Reading, name: str) -> list[Array]:
    """Return the outputs of one name for each piece of a text, from all of them in one array."""
    axis, sizes = (2, [end for _, end in reading.pieces()]) if name in PRESENTS else (1, [*reading.sizes])
    if array.ndim <= axis or array.shape[axis] != sum(sizes):
        msg = Message(
            "The array {name} is {shape}; {count} were expected in axis {axis}.",
            name=name,
            shape=list(array.shape),
            count=sum(sizes),
            axis=axis,
        )
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
    return {name: tensor.numpy() for name, tensor in zip(OUTPUTS, tensors, strict=True)}


def judge_graph(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require a valid model with dynamic lengths."""
    with _model(work, exporter) as model:
        require_dynamic(model, AXES)


def judge_numbers(exporter: Exporter, work: Work, random: np.random.Generator) -> None:
    """Require the right numbers for every length of cache and text."""
    _, new, past = EXAMPLES[exporter]
    frozen = Message(
        "The example's text had length {new}, its cache {past}. Which constant of the graph has that size?",
        new=new,
        past=past,
    )
    advice = {**ADVICE, **dict.fromkeys(("alone", "first", "one", "several", "stop"), frozen)}
    _, decoder = draw_decoders(work.questions())
    where = Message("The {exporter} export", exporter=exporter)
    with _model(work, exporter) as model:
        session = open_session(model)
        for reading in readings(random):
            name = Message("the {exporter} export: {text}", exporter=exporter, text=reading.where)
            with trying(name, decoder=decoder, model=model, ids=reading.ids):
                expected = _expected_outputs(decoder, reading)
                require_read(model, reading, expected, _CACHES, advice, where=where, session=session)


@contextmanager
def _model(work: Work, exporter: Exporter) -> Iterator[onnx.ModelProto]:
    """Yield an export that is valid and has the right names; attach the case to what is raised."""
    with trying(
        Message("the {exporter} export", exporter=exporter), decoder=draw_decoders(work.questions())[1]
    ):
        model = require_exported(work, exporter.name.lower())
        look_at = "An argument that is never read is left out of the graph."
        where = Message("The {exporter} export", exporter=exporter)
        require_interface(model, INPUTS, OUTPUTS, where, look_at, ordered=False)
        require_valid(model)
        yield model


JUDGES = Judges(
    (judge_torch, *of_both_exporters(judge_graph, judge_numbers)),
    expected=lambda work: step_model(draw_decoders(work.questions())[1], PASTS, PRESENTS),
)
