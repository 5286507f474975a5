"""What is right in one-file, part by part."""

from collections.abc import Iterator
from copy import deepcopy

import numpy as np
import onnx
from google.protobuf.message import Message as Proto  # type: ignore[import-untyped]  # it has no types

from onnxlab.kit.exercise import Judges
from onnxlab.kit.judging import evidence, opsets, require_same_interface, require_well_formed
from onnxlab.kit.outcome import Difference, Wrong
from onnxlab.kit.rewriting import Rewriting, Rewritten, require_as_before
from onnxlab.kit.work import Work
from onnxlab.labs.lab09_ship_it.one_file import Upload, draw_uploads
from onnxlab.message import Message
from onnxlab.model.load import strip_origins


def _require_structure(model: onnx.ModelProto, upload: Upload) -> None:
    """Require a valid model in one file, with the same inputs and outputs."""
    require_same_interface(model, upload.model, upload.where)
    require_well_formed(model, upload.where)


def _require_numbers(model: onnx.ModelProto, upload: Upload, random: np.random.Generator) -> None:
    """Require the original model's numbers, IR version and opset."""
    inputs = [random.normal(size=(n, 3)).astype(np.float32) for n in (1, 2, int(random.integers(3, 9)))]
    require_as_before(model, upload, [*inputs, *(-x for x in inputs)])  # x and -x take both branches
    (opset,) = opsets(upload.model)
    for what, expected_value, got in (
        (Message("IR version"), upload.model.ir_version, model.ir_version),
        ("opset", opset, next(iter(opsets(model) - {opset}), opset)),
    ):
        if expected_value != got:
            msg = Message(
                "{upload.where}: the {subject} was {expected_value}, and is {got} now.",
                upload=upload,
                subject=what,
                expected_value=expected_value,
                got=got,
            )
            raise Wrong(msg, "No other version was asked for.", evidence=evidence(model))


def _require_no_notes(model: onnx.ModelProto, upload: Upload, random: np.random.Generator) -> None:
    """Require that no note of the author is left, in any message of the file."""
    model = _without_stamp(model)
    left = [(place, note) for place, note in _notes(model) if note]
    if left:
        place, note = left[0]
        msg = Message(
            "{upload.where}: notes of the author that are left: {count}.", upload=upload, count=len(left)
        )
        look_at = "Notes can stand in every message of the format that has a metadata_props or a doc_string."
        difference = Difference(place, Message("no note"), note[:120])
        raise Wrong(msg, look_at, difference=difference, evidence=evidence(model))


def _require_metadata(model: onnx.ModelProto, upload: Upload, random: np.random.Generator) -> None:
    """Require exactly the metadata that was asked for."""
    got = sorted((entry.key, entry.value) for entry in model.metadata_props)
    if got != sorted(upload.notes.items()):
        difference = Difference(Message("model.metadata_props"), str(upload.notes), str(got)[:160])
        msg = Message("{upload.where}: the file does not say what it was to be stamped with.", upload=upload)
        look_at = "What came last: the stamp, or the clearing? `onnx.helper.set_model_props` stamps."
        values = dict(got)
        if len(values) < len(got) or set(values) > set(upload.notes):
            look_at = "Which of these entries was not asked for, or is there twice?"
        elif changed := [key for key, value in upload.notes.items() if values.get(key, value) != value]:
            key = changed[0]
            difference = Difference(
                Message("the entry {key!r}", key=key), repr(upload.notes[key]), repr(values[key])[:160]
            )
            look_at = "Is each value written as it was given, character by character?"
        raise Wrong(msg, look_at, difference=difference, evidence=evidence(model))


def _judge_refused(work: Work, random: np.random.Generator) -> None:
    """Require a ValueError for an upload that must not become a file."""
    for _, upload, got in _REWRITING.not_refused(work):
        with upload.as_case():
            difference = Difference(", ".join(sorted(upload.files)), Message("ValueError"), got[:80])
            msg = Message("{upload.where}: this has to end with a ValueError.", upload=upload)
            raise Wrong(msg, upload.look_at, difference=difference)


def _without_stamp(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without its own metadata, which another part judges."""
    rest = deepcopy(model)
    rest.ClearField("metadata_props")
    return rest


def _notes(message: Proto, place: str = "model") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every note."""
    for field, content in message.ListFields():
        where = f"{place}.{field.name}"
        if field.name == "doc_string":
            yield where, content
        elif field.name == "metadata_props":
            yield from ((where, f"{entry.key}: {entry.value}") for entry in content)
        elif field.message_type is not None:
            children = content if field.is_repeated else [content]
            for number, child in enumerate(children):
                yield from _notes(child, f"{where}[{number}]" if field.is_repeated else where)


def _cleaned(upload: Upload) -> onnx.ModelProto:
    """Return a right answer: the model without notes, with the metadata."""
    model = deepcopy(upload.model)
    strip_origins(model)
    onnx.helper.set_model_props(model, upload.notes)
    return model


ASKS = Rewriting("one_file", "one", draw_uploads)

_REWRITING = Rewritten(ASKS, _require_structure, _cleaned)

JUDGES = Judges(
    (
        _REWRITING.judge(_require_numbers),
        _REWRITING.judge(_require_no_notes),
        _REWRITING.judge(_require_metadata),
        _judge_refused,
    )
)
