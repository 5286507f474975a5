"""Exercise cached-decoder: a decoder with a cache, exported with an example that hides frozen sizes.

What is asked, and what is drawn for it:

- a module with the weights of its decoder: two modules with other weights, read in turn;
- logits, keys, values; what is new after what was cached: every piece of a text is compared;
- one new token or more, an empty cache or not, at most 64 tokens in all: pieces of one token, as many new
  tokens as cached ones, a cache up to the last position, 64 tokens at once;
- the same for every cut: texts of one to seven rows, each read in other pieces;
- what comes before is in the cache that is given, nowhere else: the texts are read in turn, and every cache
  is compared after the last piece was read, so that neither a state nor a shared buffer goes unnoticed;
- the decoder and the arguments stay as they are;
- both exporters' models: the same texts.
"""

from collections.abc import Sequence

import numpy as np
import torch

from onnxlab.exporters.export import Exporter
from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import axis_options, exported_or_stopped, require_type
from onnxlab.kit.outcome import Difference, Wrong, trying
from onnxlab.kit.work import Work
from onnxlab.labs.lab11_cache.decoder import VOCABULARY, Decoder, changed_part, draw_weights
from onnxlab.labs.lab11_cache.reading import ADVICE, Reading, readings
from onnxlab.message import Message

PASTS, PRESENTS = ("past_key", "past_value"), ("present_key", "present_value")
INPUTS, OUTPUTS = ["ids", *PASTS], ["logits", *PRESENTS]
_HEADS, _SIZE = 2, 8
AXES: dict[str, dict[int, str]] = {
    "ids": {0: "batch", 1: "new"},
    "past_key": {0: "batch", 2: "past"},
    "past_value": {0: "batch", 2: "past"},
}
# Batch, new tokens and tokens in the cache at the export. For one token without a cache, a mask of the
# example's size is a single True: it broadcasts, so only the numbers become wrong.
EXAMPLES = {Exporter.TORCHSCRIPT: (1, 1, 0), Exporter.TORCH_EXPORT: (2, 3, 4)}


def draw_decoders(random: np.random.Generator) -> list[Decoder]:
    """Draw two decoders: the second one is exported."""
    return [draw_weights(random, Decoder()) for _ in range(2)]


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Read drawn texts with the learner's modules, piece by piece; export one of them with both exporters."""
    originals, decoders = draw_decoders(work.questions()), draw_decoders(random)
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
                msg = Message("The decoder is another one afterwards: its {name} has changed.", name=name)
                raise Wrong(msg, "Others use this decoder too: what you change has to be a copy.")
    for exporter, (batch, new, past) in EXAMPLES.items():
        shape = batch, _HEADS, past, _SIZE
        key, value = (torch.from_numpy(random.normal(size=shape).astype(np.float32)) for _ in PASTS)
        ids = torch.from_numpy(random.integers(VOCABULARY, size=(batch, new)))
        options, args = axis_options(exporter, AXES), (ids, key, value)
        exported_or_stopped(
            work, exporter.name.lower(), modules[1], args, exporter, output_names=OUTPUTS, **options
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
        for name, tensors in zip(OUTPUTS, zip(*done, strict=True), strict=True):
            work.write_array(f"torch_{i}_{name}", torch.cat(tensors, 2 if name in PRESENTS else 1))


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
    with trying(where, decoder=decoder, ids=ids, **dict(zip(PASTS, cache, strict=True))):
        given = [tensor.clone() for tensor in (ids, *cache)]
        result = module(*given)
        require_type(result, (tuple, list), "forward(ids, past_key, past_value)")
        if len(result) != len(OUTPUTS):
            msg = Message(
                "Values that forward() returned: {count}; three were expected: {outputs}.",
                count=len(result),
                outputs=", ".join(OUTPUTS),
            )
            raise Wrong(msg, "The caller gives the cache back with the next tokens: it needs both parts.")
        for name, tensor in zip(OUTPUTS, result, strict=True):
            require_type(tensor, torch.Tensor, f"forward(), as {name},")
            cached = [len(ids), _HEADS, end, _SIZE]
            shape = cached if name in PRESENTS else [len(ids), end - begin, VOCABULARY]
            if list(tensor.shape) != shape:  # otherwise the next piece fails with PyTorch's own error
                difference = Difference(
                    Message.compose("; ", [where, name]), str(shape), str(list(tensor.shape))
                )
                msg = Message("In PyTorch, {name} has another shape than it should.", name=name)
                look_at = (
                    ADVICE["cache"] if name in PRESENTS else "There are logits for each of the new tokens."
                )
                raise Wrong(msg, look_at, difference=difference)
        for name, before, after in zip(INPUTS, (ids, *cache), given, strict=True):
            if not torch.equal(before, after):
                msg = Message("forward() changes its argument {name}.", name=name)
                raise Wrong(msg, "The caller's tensors stay as they are; what is new is returned.")
    outputs: Sequence[torch.Tensor] = result
    return outputs
