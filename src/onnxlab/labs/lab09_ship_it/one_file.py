"""Exercise one-file: merge a model and its weight files into one, without notes, with new metadata."""

import tempfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message  # type: ignore[import-untyped]  # it has no types
from onnx import numpy_helper, parser

from onnxlab.labs.kit.exercise import Answers, Exercise, Part
from onnxlab.labs.kit.judging import evidence, opsets, require_same_interface, require_well_formed
from onnxlab.labs.kit.outcome import RETURN, Difference, Wrong
from onnxlab.labs.kit.rewriting import Question, Rewriting, require_as_before
from onnxlab.labs.kit.work import Work
from onnxlab.model.load import strip_origins

__all__ = ["EXERCISE"]

_NOTES = ("metadata_props", "doc_string")
_WHICH_WEIGHTS = "Which weights did you read, and from which of the files?"
_HEAD = """<ir_version: 10, opset_import: ["" : 20, "acme" : 1]>
net (float[n, 3] x) => (float[n, 3] y) {
    h = MatMul (x, w)
    k = Tanh (h)
"""
# What the upload is, the rest of its graph, and whether each weight has a file of its own.
_KINDS = (
    ("All weights in one second file", "y = Add (k, b) }", False),
    ("A file for each weight", "y = Add (k, b) }", True),
    (
        "An If whose branches have weights, and a function",
        """total = ReduceSum <keepdims = 0> (k)
        positive = Greater (total, zero)
        y = If (positive) <
            then_branch = a () => (float[n, 3] p) { p = Mul (k, b) },
            else_branch = c () => (float[n, 3] q) {
                v = Constant <value = float[3] {1, 2, 3}> ()
                q = acme.Twice (k, v)
            }>
    }
    <domain: "acme", opset_import: ["" : 20]> Twice (u, v) => (r) { d = Add (u, u) r = Mul (d, v) }""",
        False,
    ),
)


@dataclass(frozen=True, kw_only=True)
class _Upload(Question):
    files: dict[str, bytes]
    notes: dict[str, str]

    @property
    def arguments(self) -> dict[str, Any]:
        """The files by name, and the metadata that the one file must have."""
        return {"files": self.files, "notes": self.notes}


def _uploads(random: np.random.Generator) -> Iterator[_Upload]:
    """Draw a model of each kind, add notes everywhere, and save it with external weights."""
    for where, rest, separate_files in _KINDS:
        model = parser.parse_model(_HEAD + rest)
        for name, shape in (("w", (3, 3)), ("b", (3,)), ("zero", ())):
            if name == "zero" and "zero" not in rest:
                continue
            values = random.normal(size=shape) if shape else np.zeros(())
            model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        model = onnx.shape_inference.infer_shapes(model)
        annotated = deepcopy(model)
        author, folder = (_word(random) for _ in "ab")
        _annotate(annotated, f'File "/home/{author}/{folder}/network.py", line 12, in forward')
        notes = {"version": f"{random.integers(1, 9)}.{random.integers(0, 20)}", _word(random): _word(random)}
        yield _Upload(
            where, model, _WHICH_WEIGHTS, files=_saved_files(annotated, separate_files), notes=notes
        )


def _word(random: np.random.Generator) -> str:
    return "".join(map(str, random.choice(list("abcdefghkmnprstuvw"), 7)))


def _annotate(message: Message, note: str) -> None:
    """Add a note to every message that has a metadata_props or a doc_string."""
    for field, content in message.ListFields():
        if field.message_type is not None and field.name not in _NOTES:
            for child in content if field.is_repeated else [content]:
                _annotate(child, note)
    if "metadata_props" in message.DESCRIPTOR.fields_by_name:
        message.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=note)
    if "doc_string" in message.DESCRIPTOR.fields_by_name:
        message.doc_string = note


def _saved_files(model: onnx.ModelProto, separate_files: bool) -> dict[str, bytes]:
    """Save a model with external weights, and return its files by name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(
            model,
            folder / "net.onnx",
            save_as_external_data=True,
            all_tensors_to_one_file=not separate_files,
            location=None if separate_files else "net.onnx.data",
            size_threshold=0,
            convert_attribute=True,
        )
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Let the learner make one file of each upload."""
    for number, upload in enumerate(_uploads(random)):
        with upload.as_case():
            data = answers["one_file"](*upload.copies())
            if not isinstance(data, bytes):
                msg = f"one_file() returned {type(data).__name__}; bytes were expected."
                raise Wrong(msg, RETURN if data is None else "`model.SerializeToString()` gives them.")
            work.write_file(f"one_{number}", data)


def _require_structure(model: onnx.ModelProto, upload: _Upload) -> None:
    """Require a valid model in one file, with the same inputs and outputs."""
    require_well_formed(model, upload.where)
    require_same_interface(model, upload.model, upload.where)


def _require_numbers(model: onnx.ModelProto, upload: _Upload, random: np.random.Generator) -> None:
    """Require the original model's numbers, IR version and opset."""
    batches = 1, 2, int(random.integers(3, 9))
    require_as_before(model, upload, (random.normal(size=(n, 3)).astype(np.float32) for n in batches))
    for what, expected_value, got in (
        ("IR version", upload.model.ir_version, model.ir_version),
        ("opset", max(opsets(upload.model)), max(opsets(model), default=None)),
    ):
        if expected_value != got:
            msg = f"{upload.where}: the {what} was {expected_value}, and is {got} now."
            raise Wrong(msg, "Nobody asked for another version.", evidence=evidence(model))


def _require_no_notes(model: onnx.ModelProto, upload: _Upload, random: np.random.Generator) -> None:
    """Require that no note of the author is left, in any message of the file."""
    left = [(place, note) for place, note in _notes(model) if "/home/" in note]
    if left:
        place, note = left[0]
        msg = f"{upload.where}: {len(left)} notes of the author are left."
        look_at = "Notes can stand in every message of the format that has a metadata_props or a doc_string."
        difference = Difference(place, "no note", note[:120])
        raise Wrong(msg, look_at, difference=difference, evidence=evidence(model))


def _require_metadata(model: onnx.ModelProto, upload: _Upload, random: np.random.Generator) -> None:
    """Require exactly the metadata that was asked for."""
    got = {entry.key: entry.value for entry in model.metadata_props}
    if got != upload.notes:
        difference = Difference("model.metadata_props", str(upload.notes), str(got)[:160])
        msg = f"{upload.where}: the file does not say what it was to be stamped with."
        look_at = "What came last: the stamp, or the clearing? `onnx.helper.set_model_props` stamps."
        raise Wrong(msg, look_at, difference=difference, evidence=evidence(model))


def _notes(message: Message, place: str = "model") -> Iterator[tuple[str, str]]:
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


def _cleaned(upload: _Upload) -> onnx.ModelProto:
    """Return a right answer: the model without notes, with the metadata."""
    model = deepcopy(upload.model)
    strip_origins(model)
    onnx.helper.set_model_props(model, upload.notes)
    return model


_REWRITING = Rewriting("one_file", "one", _uploads, _require_structure, _cleaned)

EXERCISE = Exercise(
    order=2,
    id="one-file",
    title="Make one clean, stamped file",
    points=5,
    answers=("one_file",),
    produce=produce,
    parts=(
        Part("one file, valid, with the numbers of the given ones", _REWRITING.judge(_require_numbers)),
        Part("no note of its author is left", _REWRITING.judge(_require_no_notes)),
        Part("the stamp is in it, and nothing else", _REWRITING.judge(_require_metadata)),
    ),
    hints=(
        "Three jobs, in this order: read all files, clear the notes, stamp. "
        "`ClearMetadataAndDocStringPass` clears most notes, not all of them.",
        "Write the files into a `tempfile.TemporaryDirectory()` and `onnx.load` the model there: that reads "
        "the weights, too. For the notes, walk through the whole message: `message.ListFields()` gives "
        "pairs of a field and its content.",
        "def clear(message): message.ClearField(name) for each of 'metadata_props' and 'doc_string' that is "
        "in `message.DESCRIPTOR.fields_by_name`; then for field, content in message.ListFields(), if "
        "`field.message_type` is not None, clear(content), or each part of it if `field.is_repeated`. "
        "Then `onnx.helper.set_model_props(model, notes)` and `model.SerializeToString()`.",
    ),
)
