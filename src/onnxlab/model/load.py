"""Load a model from a file, bytes, a proto or an export; remove the source paths that an export holds."""

import os
import stat
import warnings
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Protocol, TypeAlias

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # it has no types
from google.protobuf.message import Message as Proto
from onnx.external_data_helper import load_external_data_for_model, uses_external_data

from onnxlab.errors import ModelNotReadable
from onnxlab.message import Message

_SPARSE = (onnx.AttributeProto.SPARSE_TENSOR, onnx.AttributeProto.SPARSE_TENSORS)
_TENSOR_TEXTS = ("name", "doc_string", "external_data", "metadata_props")


class HasModelProto(Protocol):
    """The part of `torch.onnx.ONNXProgram` that is needed here; a protocol, so torch need not be imported."""

    @property
    def model_proto(self) -> onnx.ModelProto: ...  # noqa: D102 - the class says it


class HasProto(Protocol):
    """The part of `onnxlab.exporters.export.Export` that is needed here."""

    @property
    def proto(self) -> onnx.ModelProto: ...  # noqa: D102 - the class says it


ModelLike: TypeAlias = str | PathLike[str] | bytes | onnx.ModelProto | HasModelProto | HasProto
"""A path, the bytes of a file, a `ModelProto`, an `ONNXProgram`, or an `Export`."""


def load(model: ModelLike) -> onnx.ModelProto:
    """Return the model with all its weights in memory.

    A `ModelProto` is returned as it is, not copied. Weights in a sidecar file are read only from the folder
    of the model.

    Raises:
        ModelNotReadable: If there is no such file, it is not an ONNX model, or its weights are missing.

    Example:
        >>> from onnx.parser import parse_model
        >>> head = '<ir_version: 8, opset_import: ["" : 18]>'
        >>> relu = parse_model(head + "g (float[2] x) => (float[2] y) { y = Relu(x) }")
        >>> load(relu.SerializeToString()).graph.node[0].op_type
        'Relu'
        >>> load(b"no model")
        Traceback (most recent call last):
        ...
        onnxlab.errors.ModelNotReadable: The 8 bytes given are not an ONNX model.
        ...
    """
    if isinstance(model, onnx.ModelProto):
        return _complete(model, Message("The model"))
    if isinstance(model, bytes | bytearray | memoryview):
        data = bytes(model)
        given = Message("The {count:,} bytes given", count=len(data))
        return _complete(_parse(data, given), Message("The model"))
    if isinstance(model, str | PathLike):
        return _load_file(path_of(model))
    # isinstance with a protocol would read the property, which may be costly, twice.
    for name in ("proto", "model_proto"):
        proto = getattr(model, name, None)
        if isinstance(proto, onnx.ModelProto):
            return proto
    raise _no_model(model)


def path_of(model: str | PathLike[str]) -> Path:
    """Return a path as a `Path`; `os.PathLike` may also give bytes.

    Raises:
        ModelNotReadable: If it is a `PathLike` that gives no path.
    """
    try:
        return Path(os.fsdecode(model))
    except (TypeError, UnicodeError):
        raise _no_model(model) from None


def _no_model(source: object) -> ModelNotReadable:
    msg = Message("A model was expected, not a {type_name}.", type_name=_shown(type(source).__name__))
    then = "Give a path, bytes, an onnx.ModelProto, or what torch.onnx.export returned."
    return ModelNotReadable(msg, then=then)


def _shown(name: object, most: int = 240) -> str:
    """A name for a message: on one line, shortened in the middle, without unprintable characters."""
    text = str(name)
    if len(text) > most:
        text = f"{text[: most // 2]}…{text[-(most // 2) :]}"
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def load_alone(path: Path) -> onnx.ModelProto:
    """Read a model file, and none of the files that it keeps weights in.

    Raises:
        ModelNotReadable: If there is no such file, or it is not an ONNX model.
    """
    name = _shown(path)
    try:
        if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):
            msg = Message("{name} is a pipe or a device, not a model file.", name=name)
            raise ModelNotReadable(msg, then="Save the model in a file, and give the path of that file.")
        data = path.read_bytes()
    except FileNotFoundError:
        msg = Message("There is no file {name}.", name=name)
        files = sorted(file.name for file in path.parent.glob("*.onnx"))
        near = ", ".join(_shown(file, 80) for file in files[:5])
        why = Message("Models in that folder: {near}.", near=near) if near else ""
        raise ModelNotReadable(msg, why, "Check the path, or export the model first.") from None
    except IsADirectoryError:
        raise ModelNotReadable(
            "{name} is a folder, not a model file.",
            then="Give the path of the .onnx file inside it.",
            name=name,
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        msg = Message("{name} cannot be read.", name=name)
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        raise ModelNotReadable(msg, _shown(why)) from error
    return _parse(data, name)


def _load_file(path: Path) -> onnx.ModelProto:
    name, model = _shown(path), load_alone(path)
    try:
        with warnings.catch_warnings():  # about keys that onnx does not know, such as other tools write
            warnings.simplefilter("ignore", UserWarning)
            load_external_data_for_model(model, str(path.parent))
    except (OSError, onnx.checker.ValidationError, ValueError) as error:
        msg = Message("{name} keeps its weights in another file, and that file cannot be used.", name=name)
        why = _shown(str(error).splitlines()[0])
        then = "Keep the .onnx file and its .data file together in one folder, under their original names."
        raise ModelNotReadable(msg, why, then) from error
    why, then = "Sparse weights are read from the model's own file only.", "Save the model with them inside."
    return _complete(model, name, why, then)


def _parse(data: bytes, name: str) -> onnx.ModelProto:
    if not data:
        raise ModelNotReadable(
            Message("{name} is empty.", name=name) if not name.startswith("The ") else "No bytes were given.",
            then="Export the model again; a failed export may leave an empty file.",
        )
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        readable = False
    else:
        # Many byte strings happen to parse as a message without known fields.
        readable = model.ir_version > 0 and model.HasField("graph")
    if not readable:
        verb = "are" if name.startswith("The ") else "is"
        raise ModelNotReadable(
            "{name} {verb} not an ONNX model.", *_what_else(data[:1024]), name=name, verb=verb
        )
    require_text(model, name)
    return model


def _what_else(head: bytes) -> tuple[str, str]:
    """Return what a file that is no model seems to be by its first bytes, and what to do."""
    again = "Export the model again, or fetch the complete file."
    by_torch = "Load it in PyTorch, and export the module with torch.onnx.export."
    page = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith(b"version https://git-lfs"):
        return "It is a pointer of Git LFS: the model itself was not downloaded.", "Run: git lfs pull"
    if page.startswith((b"<!doctype", b"<html", b"<head")):
        then = "Download the file itself; the link may lead to a page about it, or to a sign-in."
        return "It is a web page (HTML).", then
    if (head.startswith(b"PK\x03\x04") and b".pkl" in head) or (head[:1] == b"\x80" and head[1:2] < b"\x06"):
        return "It is a file of PyTorch's (torch.save): weights, or a module.", by_torch
    if head.startswith(b"PK\x03\x04"):
        return "It is a zip archive.", "Unpack it, and give the path of the .onnx file inside it."
    if head.startswith(b"\x1f\x8b"):
        return "It is compressed (gzip).", "Unpack it, and give the path of the .onnx file."
    if head[8:10] == b'{"':
        return "It is a safetensors file: weights without a graph.", by_torch
    if head[4:8] in (b"TFL3", b"ORTM"):
        kind = "TensorFlow Lite" if head[4:8] == b"TFL3" else "the ORT format"
        return Message(
            "It is a model in {kind}.", kind=kind
        ), "Look for the .onnx file that it was made from."
    if _is_text(head[:512]):
        return "It looks like text.", again
    return "The file is damaged, cut off, or of another kind.", again


def require_text(model: onnx.ModelProto, name: str = Message("The model")) -> None:
    """Refuse a model with a string that is not UTF-8: protobuf then gives bytes where a string is expected.

    Raises:
        ModelNotReadable: If a string is not UTF-8.
    """
    if (undecodable := _undecodable(model)) is not None:
        field, owner, content = undecodable
        owner, shown = owner.removesuffix("Proto"), _shown(content, 80)
        msg = Message("{name} cannot be read: a name or note in it is not text in UTF-8.", name=name)
        why = Message("It is the {field} of a {owner}: {shown}.", field=field, owner=owner, shown=shown)
        raise ModelNotReadable(msg, why, "Export the model again, or fetch the complete file.")


def _undecodable(message: Proto) -> tuple[str, str, bytes] | None:
    """The first string that is not UTF-8: its field, the kind of message with that field, its bytes."""
    fields = message.ListFields()
    if isinstance(message, onnx.TensorProto):  # all but the tensor's content, which would be copied
        fields = [(message.DESCRIPTOR.fields_by_name[name], getattr(message, name)) for name in _TENSOR_TEXTS]
    for field, content in fields:
        parts = content if field.is_repeated else [content]
        if field.type == field.TYPE_STRING:
            for part in parts:
                if isinstance(part, bytes):
                    return field.name, message.DESCRIPTOR.name, part
        elif field.message_type is not None:
            for part in parts:
                if (undecodable := _undecodable(part)) is not None:
                    return undecodable
    return None


def _is_text(head: bytes) -> bool:
    return all(byte >= 32 or byte in b"\t\n\r" for byte in head)


def _complete(
    model: onnx.ModelProto,
    name: str,
    why: str = "In memory there is no folder to look in.",
    then: str = "Give the path of the .onnx file instead.",
) -> onnx.ModelProto:
    # ONNX Runtime would read any of them from wherever its path leads.
    bodies = [model.graph]
    for function in model.functions:
        defaults = onnx.NodeProto(attribute=function.attribute_proto)
        bodies.append(onnx.GraphProto(node=[*function.node, defaults]))
    pairs = (pair for body in bodies for pair in tensors(body, sparse=True))
    if missing := next((pair for pair in pairs if uses_external_data(pair[0])), None):
        tensor, node = missing
        msg = Message(
            "{name} keeps weights in another file, {tensor_name!r} for one.",
            name=name,
            tensor_name=_shown(tensor.name),
        )
        if node is not None and node.output:  # a tensor in a node has no name
            operator, output = _shown(node.op_type), _shown(node.output[0])
            msg = Message(
                "{name} keeps weights in another file, that of the {operator} of {output!r} for one.",
                name=name,
                operator=operator,
                output=output,
            )
        raise ModelNotReadable(msg, why, then)
    return model


def tensors(
    graph: onnx.GraphProto, *, sparse: bool = False
) -> Iterator[tuple[onnx.TensorProto, onnx.NodeProto | None]]:
    """Yield each tensor of a graph and its bodies, with the node whose attribute it is, or None.

    Args:
        graph: The graph.
        sparse: Whether the two parts of each sparse tensor are among them.
    """
    yield from ((tensor, None) for tensor in graph.initializer)
    if sparse:
        yield from ((part, None) for pair in graph.sparse_initializer for part in (pair.values, pair.indices))
    for node, attribute in ((owner, attribute) for owner in graph.node for attribute in owner.attribute):
        yield from ((tensor, node) for tensor in (attribute.t, *attribute.tensors))
        if sparse and attribute.type in _SPARSE:
            for pair in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from ((part, node) for part in (pair.values, pair.indices))
        for inner in [attribute.g, *attribute.graphs]:
            yield from tensors(inner, sparse=sparse)


def strip_origins(message: Proto) -> None:
    """Remove, in place, the paths of source files: all metadata, and the stack traces of nodes.

    Example:
        >>> node = onnx.helper.make_node("Relu", ["x"], ["y"])
        >>> node.metadata_props.add(key="pkg.torch.onnx.stack_trace", value="File ...").key
        'pkg.torch.onnx.stack_trace'
        >>> model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], []))
        >>> strip_origins(model)
        >>> len(model.graph.node[0].metadata_props)
        0
    """
    # Fields are taken from the format's own description, so that none of a newer ONNX is forgotten.
    if "metadata_props" in message.DESCRIPTOR.fields_by_name:
        message.ClearField("metadata_props")
    if isinstance(message, onnx.NodeProto):
        message.ClearField("doc_string")  # with verbose=True the TorchScript exporter writes the stack here
    for field, content in message.ListFields():
        if field.message_type is not None:
            for part in content if field.is_repeated else [content]:
                strip_origins(part)
