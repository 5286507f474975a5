"""Strategies for damaged files, models, JSON and arrays: nothing that an exporter or a learner would write.

They shrink: hypothesis shows the smallest damage that is a fault.
"""

import io
import json
import math
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError, Message
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from onnx.parser import parse_model

from tests.support.graph_models import chain, loop, modules, string_everywhere

SECRET = b"nobody may read this"
"""What stands in a file beside the model's folder."""
PLACES = ("../outside", "../../../../etc/passwd", "/etc/passwd", "folder", "link", "weights", "", "a\0b")
"""Where external weights are said to lie; `damaged_folder` puts something there."""

_STRINGS = ("", "x" * 20_000, "\0", "\n\n\n\n", "a/b/c", "..", "\u202e<b>", "名", "__proto__", "body", "If")
_NUMBERS = (0, 1, -1, 2, 99, 127, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
_FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40)
_FUNCTIONS = """<ir_version: 10, opset_import: ["": 18, "own": 1]>
calls (float[N, 4] x) => (float[N, 4] y) { y = own.twice <times = 2> (x) }
<domain: "own", opset_import: ["": 18]> twice <times> (x) => (y) { one = own.once (x)  y = Add (one, x) }
<domain: "own", opset_import: ["": 18]> once (x) => (y) { y = Constant <value_int: int = @times> () }"""
MODELS = tuple(
    model.SerializeToString()
    for model in (
        *(parse_model(_FUNCTIONS), chain(), loop(), string_everywhere("text")),
        *(modules(2, scopes=scopes) for scopes in (False, True)),
    )
)


def _deep() -> onnx.ModelProto:
    model = chain()
    graph = model.graph
    for _ in range(31):  # protobuf reads about a hundred messages deep, three for each body
        graph = graph.node.add(op_type="If", input=["c"], output=["d"]).attribute.add(name="body", type=5).g
    graph.node.add(op_type="Relu", input=["d"], output=["d"])
    return model


def _calls_itself() -> onnx.ModelProto:
    model = chain()
    for name, called in (("f", "g"), ("g", "f")):
        function = model.functions.add(name=name, domain="own", input=["x"], output=["y"])
        function.node.add(op_type=called, domain="own", input=["x"], output=["y"])
    model.graph.node.add(op_type="f", domain="own", input=["x"], output=["own"])
    return model


def _changed(**fields: object) -> onnx.ModelProto:
    model = chain()
    weight = model.graph.initializer.add(name="w", data_type=1, dims=[2], raw_data=bytes(8))
    for name, value in fields.items():
        if name == "location":
            weight.data_location = onnx.TensorProto.EXTERNAL
            weight.ClearField("raw_data")
            weight.external_data.add(key="location", value=str(value))
        elif name == "scopes":
            for node in model.graph.node:
                node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(value))
        elif name == "opset":
            model.opset_import[0].version = value
        elif name == "dims":
            weight.dims[:] = value
        else:
            setattr(weight, name, value)
    return model


_REBUILT = (
    *(_deep(), _calls_itself()),
    *(_changed(location=place) for place in PLACES),
    *(_changed(data_type=kind) for kind in (0, 8, 29, 99, -1)),
    *(_changed(dims=dims) for dims in ([2**62, 2], [-1], [0], [1] * 70, [7])),
    *(_changed(opset=opset) for opset in (0, -1, 99, 10**18)),
    *(_changed(scopes=text) for text in ("['', 'a', 'b']", "[" * 300, "['a', 3]", "{}")),
    _changed(raw_data=b"\xff\xfe\xff"),
)
KNOWN = (
    *(model.SerializeToString() for model in _REBUILT),
    chain().SerializeToString().replace(b"Relu", b"\xff\xfelu"),
    *(b"", b"\0" * 10, bytes(range(256))),
)
"""Faults of earlier readers, each one once."""


def _messages(root: Message) -> list[Message]:
    messages, todo = [], [root]
    while todo:
        messages.append(message := todo.pop())
        for field, content in message.ListFields():
            if field.message_type is not None:
                todo += list(content) if field.is_repeated else [content]
    return messages


@st.composite
def damaged_models(draw: st.DrawFn, files: tuple[bytes, ...] = MODELS) -> bytes:
    """A model with one to four fields changed, and now and then some bytes."""
    model = onnx.ModelProto.FromString(draw(st.sampled_from(files)))
    for _ in range(draw(st.integers(1, 4))):
        _change_a_field(draw, model)
    try:
        data = bytes(model.SerializeToString())
    except (ValueError, DecodeError):  # it refuses to write what is nested too deep
        data = files[0]
    return draw(damaged_bytes(data)) if draw(st.integers(0, 3)) == 3 else data


def _change_a_field(draw: st.DrawFn, model: onnx.ModelProto) -> None:
    kinds: dict[str, list[Message]] = {}
    for message in _messages(model):
        kinds.setdefault(type(message).__name__, []).append(message)
    message = draw(st.sampled_from(kinds[draw(st.sampled_from(sorted(kinds)))]))  # also what is rare
    field = draw(st.sampled_from(list(message.DESCRIPTOR.fields)))
    content = getattr(message, field.name)
    if field.is_repeated:
        place = draw(st.integers(0, max(0, len(content) - 1)))
        kind = draw(st.sampled_from(("empty", "remove", "copy", "add")))
        if kind == "empty" or not content:
            del content[:]
        elif kind == "remove":
            del content[place]
        elif field.message_type is not None:
            content.add().CopyFrom(content[place])
        elif kind == "copy":
            content[place] = draw(_scalars(field, model))
        else:
            content.append(draw(_scalars(field, model)))
    elif field.message_type is None:
        setattr(message, field.name, draw(_scalars(field, model)))
    elif draw(st.booleans()):
        message.ClearField(field.name)
    else:
        content.SetInParent()


def _scalars(field: Any, model: onnx.ModelProto) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.type == field.TYPE_BYTES:
        return st.binary(max_size=64)
    if field.cpp_type == field.CPPTYPE_STRING:
        names = [name for node in model.graph.node for name in (*node.input, *node.output, node.op_type)]
        return st.sampled_from([*_STRINGS, *PLACES, *names])
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return st.sampled_from(_FLOATS)
    bits = 32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
    if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        return st.sampled_from(sorted({number % 2**bits for number in _NUMBERS}))
    signed = {(number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for number in (*_NUMBERS, *range(30))}
    return st.sampled_from(sorted(signed))


@st.composite
def damaged_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with some flipped, cut out or put in."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(changed)))
        kind = draw(st.sampled_from(("flip", "cut", "insert", "end")))
        if kind == "flip" and place < len(changed):
            changed[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del changed[place : place + draw(st.integers(1, 40))]
        elif kind == "insert":
            changed[place:place] = draw(st.binary(min_size=1, max_size=40))
        elif kind == "end":
            del changed[place:]
    return bytes(changed)


_LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    st.sampled_from((10**400, "\ud800", "x" * 100_000)),
)


@st.composite
def json_files(draw: st.DrawFn, content: bytes) -> bytes:
    """A JSON file with one of its values replaced, or another file."""
    other = st.recursive(
        _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner)
    )
    if draw(st.integers(0, 4)) == 4:
        return draw(st.sampled_from((b"", b"\xff", b"[" * 50_000, b"9" * 5000, content[:-1])))
    value = json.loads(content)
    box: Any = [value]
    place: tuple[Any, Any] = (box, 0)
    for _ in range(draw(st.integers(0, 4))):
        inner = place[0][place[1]]
        if not isinstance(inner, dict | list) or not inner:
            break
        place = (inner, draw(st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner)))))
    place[0][place[1]] = draw(other)
    return json.dumps(box[0]).encode()


_HUGE = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4398046511104,), }"  # sixteen terabytes
_OBJECTS = b"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"


@st.composite
def arrays(draw: st.DrawFn, content: bytes) -> bytes:
    """An array's file with other numbers, of another type or shape; or a header that lies."""
    kind = draw(st.sampled_from(("header", "bytes", "array", "array", "cast")))
    if kind == "header":
        header = draw(st.sampled_from((_HUGE, _OBJECTS, b"{'descr'", b"(" * 5000)))
        return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    if kind == "bytes":
        return draw(damaged_bytes(content))
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if kind == "array":
        shape = draw(
            st.just(array.shape) | arrays_of.array_shapes(min_dims=0, max_dims=9, min_side=0, max_side=3)
        )
        fill = draw(st.sampled_from((0, 1, -1, math.nan, math.inf, 1e30)))
        changed: Any = np.full(shape, fill, "<f4")
    else:
        types = arrays_of.scalar_dtypes()
        with np.errstate(all="ignore"):
            changed = array.astype(draw(types.filter(lambda dtype: dtype.kind in "biufc")))
    buffer = io.BytesIO()
    np.save(buffer, changed)
    return buffer.getvalue()
