"""Exercise one-file: merge a model and its weight files into one, without notes, with new metadata.

What the statement says, and the drawn uploads that reach it:

- The graph is in net.onnx; weights are in one other file, in several, or in net.onnx; other files lie around.
- All weights are inside, those in branches, of other types and in a Constant too; both branches are run.
- The same IR version, and the same opset of each domain.
- No doc_string and no metadata_props in any message, whatever text it holds.
- The stamp is exactly `notes`: also none, an empty text, and a key that the author used.
- ValueError for weights that are not those of the hash in the model, and for a name that is no plain file
  name: one that leaves the folder, from the root too, one in a folder inside it, and the folders themselves.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message as Proto  # type: ignore[import-untyped]  # it has no types
from onnx import numpy_helper, parser

from onnxlab.kit.exercise import Answers
from onnxlab.kit.exporting import require_untouched
from onnxlab.kit.outcome import RETURN, Wrong
from onnxlab.kit.rewriting import Question
from onnxlab.kit.work import Work
from onnxlab.message import Message

_NOTES = ("metadata_props", "doc_string")
_NOTE_KEY = "pkg.torch.onnx.stack_trace"
_WHICH_WEIGHTS = "Which weights did you read, from which of the files, and are they still the same?"
_HEAD = """<ir_version: %d, opset_import: ["" : %d, "acme" : 1]>
net (float[n, 3] x) => (float[n, 3] y) {
    h = MatMul (x, w)
    k = Tanh (h)
"""
# What the upload is, the rest of its graph, whether each weight has a file of its own, and the fewest bytes
# of a weight outside net.onnx.
_KINDS = (
    (Message("All weights in one second file"), "y = Add (k, b) }", False, 0),
    (
        Message("A file for each weight"),
        "i = Constant <value = int64[3] {2, 0, 1}> () g = Gather <axis = 1> (k, order) "
        "j = Gather <axis = 1> (g, i) y = Add (j, b) }",
        True,
        0,
    ),
    (Message("Small weights in net.onnx, a large one in another file"), "y = Add (k, b) }", False, 20),
    (
        Message("An If whose branches have weights, and a function"),
        """total = ReduceSum <keepdims = 0> (k)
        positive = Greater (total, zero)
        y = If (positive) <
            then_branch = a () => (float[n, 3] p) { p = Mul (k, b) },
            else_branch = c () => (float[n, 3] q) {
                v = Constant <value = float[3] {1, 2, 3}> ()
                q = acme.Twice (k, v)
            }>
    }
    <domain: "acme", opset_import: ["" : %d]> Twice (u, v) => (r) { d = Add (u, u) r = Mul (d, v) }""",
        False,
        0,
    ),
    (Message("Weights of another training"), "y = Add (k, b) }", True, 0),
    (Message("A name that is no plain file name"), "y = Add (k, b) }", False, 0),
)
_REFUSED = {
    "Weights of another training": "The model has a hash of each other file. Are they the hashes of `files`?",
    "A name that is no plain file name": "Look at the names in `files` before you write anything.",
}


@dataclass(frozen=True, kw_only=True)
class Upload(Question):
    """The files of a model, and the stamp that is asked for."""

    files: dict[str, bytes]
    notes: dict[str, str]

    @property
    def arguments(self) -> dict[str, Any]:
        """The files by name, and the metadata that the one file must have."""
        return {"files": self.files, "notes": self.notes}


def draw_uploads(random: np.random.Generator) -> Iterator[Upload]:
    """Draw a model of each kind, add notes everywhere, and save it with external weights."""
    stamps = [
        {"version": f"{random.integers(1, 9)}.{random.integers(0, 20)}", _word(random): _word(random)},
        {},
        {_NOTE_KEY: _word(random), "made by": "", "Größe": "3 \u00d7 3\nand more "},
        {"author": _word(random)},
        {"version": "2.0"},
        {"version": "2.1"},
    ]
    # The four that can be made have each of these between them: an answer that writes one for all is found.
    ir_versions = [*random.permutation([8, 9, 10]), *random.integers(8, 11, 3)]
    opsets = [*random.permutation([17, 18, 19, 20]), *random.integers(17, 21, 2)]
    kinds = zip(_KINDS, stamps, ir_versions, opsets, strict=True)
    for (where, rest, separate_files, threshold), notes, ir_version, opset in kinds:
        model = parser.parse_model(_HEAD % (ir_version, opset) + rest.replace("%d", str(opset)))
        _store_as_bytes(model.graph)
        weights = {"w": random.normal(size=(3, 3)), "b": random.normal(size=3), "zero": np.zeros(())}
        for name, values in weights.items():
            if name != "zero" or "zero" in rest:
                model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
        if "order" in rest:
            model.graph.initializer.append(numpy_helper.from_array(random.permutation(3), "order"))
        model = onnx.shape_inference.infer_shapes(model)
        annotated = deepcopy(model)
        _annotate(annotated, random)
        files = _saved_files(annotated, separate_files, threshold, _word(random))
        if threshold:  # what lies around in a folder
            files |= {"a.onnx": random.bytes(60), "README.md": b"The network of a colleague."}
        if where == "Weights of another training":
            files["w"] = random.normal(size=(3, 3)).astype(np.float32).tobytes()  # its hash is not the first
        look_at = _REFUSED.get(where, _WHICH_WEIGHTS)
        if where != "A name that is no plain file name":
            yield Upload(where, model, look_at, where not in _REFUSED, files=files, notes=notes)
            continue
        for start in ("../", f"{tempfile.gettempdir()}/", "weights/"):
            unsafe = files | {f"{start}{_word(random)}.bin": b"outside"}
            yield Upload(where, model, look_at, False, files=unsafe, notes=notes)
        for name in (".", ".."):
            yield Upload(where, model, look_at, False, files=files | {name: b""}, notes=notes)


def _store_as_bytes(graph: onnx.GraphProto) -> None:
    """Store the tensors of all Constants as bytes: only these can be saved to another file."""
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.HasField("t"):
            attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t)))
        if attribute.HasField("g"):
            _store_as_bytes(attribute.g)


def _word(random: np.random.Generator) -> str:
    return "".join(map(str, random.choice(list("abcdefghkmnprstuvw"), 7)))


def _annotate(message: Proto, random: np.random.Generator) -> None:
    """Add a note, a path or a word, to every message that has a metadata_props or a doc_string."""
    for field, content in message.ListFields():
        if field.message_type is not None and field.name not in _NOTES:
            for child in content if field.is_repeated else [content]:
                _annotate(child, random)
    note = _word(random)
    if random.integers(2):
        note = f'File "/home/{note}/network.py", line 12, in forward'
    if "metadata_props" in message.DESCRIPTOR.fields_by_name:
        message.metadata_props.add(key=_NOTE_KEY if random.integers(2) else "", value=note)
    if "doc_string" in message.DESCRIPTOR.fields_by_name:
        message.doc_string = note


def _saved_files(
    model: onnx.ModelProto, separate_files: bool, threshold: int, name_of_weights: str
) -> dict[str, bytes]:
    """Save a model with external weights, and return its files by name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        onnx.save(
            model,
            folder / "net.onnx",
            save_as_external_data=True,
            all_tensors_to_one_file=not separate_files,
            location=None if separate_files else f"{name_of_weights}.bin",
            size_threshold=threshold,
            convert_attribute=True,
        )
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    graph = onnx.ModelProto.FromString(files["net.onnx"])
    for name, content in files.items():
        if name != "net.onnx":
            graph.metadata_props.add(key=f"sha256:{name}", value=hashlib.sha256(content).hexdigest())
    return files | {"net.onnx": graph.SerializeToString()}


def produce(answers: Answers, work: Work, random: np.random.Generator) -> None:
    """Let the learner make one file of each upload, and write down what was raised for a bad one."""
    uploads = list(draw_uploads(random))
    order = random.permutation(len(uploads)).tolist()
    raised: dict[int, str] = {}
    for number in [*order, order[0]]:
        upload = uploads[number]
        with upload.as_case():
            if not upload.possible:
                raised[number] = _refusal(answers, upload)
                continue
            arguments = upload.copies()
            data = answers["one_file"](*arguments)
            require_untouched(arguments, upload.arguments.values())
            if not isinstance(data, bytes):
                msg = Message("one_file() returned {name}; bytes were expected.", name=type(data).__name__)
                raise Wrong(msg, RETURN if data is None else "`model.SerializeToString()` gives them.")
            if not data:
                empty = "one_file() returned no bytes: that is an empty file."
                raise Wrong(empty, "Is the model that you made the one that you return?")
            work.write_file(f"one_{number}", data)
    work.write_json("raised", raised)


def _refusal(answers: Answers, upload: Upload) -> str:
    """Return the name of the exception that the answer raises; remove what it wrote outside its folder."""
    try:
        answers["one_file"](*upload.copies())
    except NotImplementedError:
        raise
    except Exception as error:  # the judge checks which one
        return "ValueError" if isinstance(error, ValueError) else type(error).__name__
    finally:
        for name in upload.files:
            if "/" in name:
                Path(tempfile.gettempdir(), Path(name).name).unlink(missing_ok=True)
    return "nothing"
