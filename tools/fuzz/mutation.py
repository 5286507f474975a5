"""Damaged ONNX files: bytes at random, and protobuf messages changed in fields that readers rely on."""

import re
from collections.abc import Callable
from random import Random
from typing import Any

import onnx
from google.protobuf.message import Message  # type: ignore[import-untyped]  # it has no types

PLACES = (
    "../outside",
    "../../../../etc/passwd",
    "/etc/passwd",
    "fifo",
    "folder",
    "link",
    "weights",
    "",
    "a\0b",
)
"""Where external weights are said to lie; `tools.fuzz.models` puts something there."""

_STRINGS = ("", "x" * 20_000, "\0", "\n\n\n\n", "a/b/c", "..", "\u202e<b>", "名", "__proto__", "body", "If")
_NUMBERS = (0, 1, -1, 2, 99, 127, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
_FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40)


def mutated(data: bytes, random: Random) -> bytes:
    """Return a model's bytes with one to four things changed; the same ones for the same generator."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(random.randint(1, 4)):
        random.choice((*_CHANGES, _any_field, _any_field, _any_field))(model, random)
    try:
        changed: bytes = model.SerializeToString()
    except ValueError:  # it refuses to write what is nested too deep
        changed = data
    return _bytes_changed(changed, random) if random.random() < 0.3 else changed


def _bytes_changed(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 8)):
        place = random.randrange(len(changed) + 1)
        kind = random.randrange(6)
        if kind < 2 and place < len(changed):
            changed[place] ^= 1 << random.randrange(8)
        elif kind == 2:
            del changed[place : place + random.randint(1, 40)]
        elif kind == 3:
            changed[place:place] = random.randbytes(random.randint(1, 40))
        elif kind == 4 and random.random() < 0.2:
            del changed[place:]
        elif kind == 5 and (words := list(re.finditer(rb"[A-Za-z_.]{3,}", changed))):
            start = random.choice(words).start()
            changed[start : start + 2] = b"\xff\xfe"  # a name that is no UTF-8
    return bytes(changed)


def _messages(root: Message) -> list[Message]:
    messages, todo = [], [root]
    while todo:
        messages.append(message := todo.pop())
        for field, content in message.ListFields():
            if field.message_type is not None:
                todo += list(content) if field.is_repeated else [content]
    return messages


def _any_field(model: onnx.ModelProto, random: Random) -> None:
    """Change one field of one message, whatever it is."""
    kinds: dict[str, list[Message]] = {}
    for message in _messages(model):
        kinds.setdefault(type(message).__name__, []).append(message)
    message = random.choice(kinds[random.choice(sorted(kinds))])  # also what is rare
    field = random.choice(message.DESCRIPTOR.fields)
    content = getattr(message, field.name)
    if field.is_repeated:
        _repeated(content, field, model, random)
    elif field.message_type is None:
        setattr(message, field.name, _scalar(field, model, random))
    elif random.random() < 0.5:
        message.ClearField(field.name)
    else:
        content.SetInParent()


def _repeated(content: Any, field: Any, model: onnx.ModelProto, random: Random) -> None:  # noqa: ANN401 - of protobuf
    kind, place = random.randrange(4), random.randrange(len(content)) if content else 0
    if kind == 0:
        del content[:]
    elif kind == 1 and content:
        del content[place]
    elif field.message_type is not None:
        if content:
            content.add().CopyFrom(content[place])
        else:
            content.add()
    elif kind == 2 and content:
        content[place] = _scalar(field, model, random)
    else:
        content.append(_scalar(field, model, random))


def _scalar(field: Any, model: onnx.ModelProto, random: Random) -> Any:  # noqa: ANN401 - of protobuf
    if field.enum_type is not None:
        return random.choice([value.number for value in field.enum_type.values])
    if field.cpp_type == field.CPPTYPE_STRING:
        if field.type == field.TYPE_BYTES:
            return random.randbytes(random.choice((0, 1, 3, 7, 64, 5000)))
        names = [name for node in model.graph.node for name in (*node.input, *node.output, node.op_type)]
        return random.choice(_STRINGS) if random.random() < 0.5 or not names else random.choice(names)
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return random.choice(_FLOATS)
    number = random.choice(_NUMBERS)
    bits = 32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
    if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        return number % 2**bits
    return (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def _node(model: onnx.ModelProto, random: Random) -> onnx.NodeProto:
    nodes = [message for message in _messages(model) if isinstance(message, onnx.NodeProto)]
    return random.choice(nodes) if nodes else model.graph.node.add(op_type="Relu", input=["x"], output=["y"])


def _tensor(model: onnx.ModelProto, random: Random) -> onnx.TensorProto:
    tensors = [message for message in _messages(model) if isinstance(message, onnx.TensorProto)]
    return random.choice(tensors) if tensors else model.graph.initializer.add(name="w", data_type=1, dims=[2])


def _reads_itself(model: onnx.ModelProto, random: Random) -> None:
    node = _node(model, random)
    node.input.append(node.output[0] if node.output else "")


def _cycle(model: onnx.ModelProto, random: Random) -> None:
    first, second = _node(model, random), _node(model, random)
    first.input.extend(second.output)
    second.input.extend(first.output)


def _same_output(model: onnx.ModelProto, random: Random) -> None:
    first, second = _node(model, random), _node(model, random)
    del second.output[:]
    second.output.extend([*first.output, *first.output])


def _deep(model: onnx.ModelProto, random: Random) -> None:
    """Bodies in bodies; protobuf reads about a hundred messages deep, three for each body."""
    graph = model.graph
    for _ in range(random.choice((5, 20, 31, 32, 40))):
        graph = graph.node.add(op_type="If", input=["c"], output=["d"]).attribute.add(name="body", type=5).g
    graph.node.add(op_type="Relu", input=["d"], output=["d"])


def _deep_type(model: onnx.ModelProto, random: Random) -> None:
    kind = random.choice([*model.graph.input, model.graph.output.add(name="deep")]).type
    for _ in range(random.choice((3, 30, 45))):
        kind = kind.sequence_type.elem_type
    kind.tensor_type.elem_type = random.choice((1, 99))


def _wide(model: onnx.ModelProto, random: Random) -> None:
    node = _node(model, random)
    for number in range(random.choice((100, 1000))):
        model.graph.node.add().CopyFrom(node)
        model.graph.node[-1].output.append(f"wide{number}")


def _type(model: onnx.ModelProto, random: Random) -> None:
    _tensor(model, random).data_type = random.choice([*range(30), -1, 99, 2**31 - 1])


def _elem_type(model: onnx.ModelProto, random: Random) -> None:
    kinds = [kind for kind in _messages(model) if isinstance(kind, onnx.TypeProto.Tensor)]
    for kind in kinds[: random.randint(0, 2)]:
        kind.elem_type = random.choice([*range(30), -1, 99])


def _raw(model: onnx.ModelProto, random: Random) -> None:
    tensor = _tensor(model, random)
    tensor.raw_data = tensor.raw_data[: random.randrange(9)] + random.randbytes(random.randrange(300))


def _dims(model: onnx.ModelProto, random: Random) -> None:
    del (tensor := _tensor(model, random)).dims[:]
    tensor.dims.extend(random.choice(_NUMBERS) for _ in range(random.randrange(70)))


def _external(model: onnx.ModelProto, random: Random) -> None:
    tensor = _tensor(model, random)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.ClearField("external_data")
    tensor.external_data.add(key="location", value=random.choice(PLACES))
    for key in random.sample(["offset", "length", "checksum", "other"], random.randrange(4)):
        tensor.external_data.add(key=key, value=str(random.choice([*_NUMBERS, "", "x", "9" * 5000])))


def _attribute(model: onnx.ModelProto, random: Random) -> None:
    node, name = _node(model, random), random.choice(("value", "body", "to", "axis", "then_branch", "new"))
    attribute = random.choice([*node.attribute, node.attribute.add(name=name)])
    attribute.type = random.choice(onnx.AttributeProto.AttributeType.values())
    attribute.f, attribute.i, attribute.s = random.choice(_FLOATS), random.choice(_NUMBERS), b"\xff\xfe"


def _opsets(model: onnx.ModelProto, random: Random) -> None:
    if random.random() < 0.3:
        del model.opset_import[:]
    else:
        domain = random.choice(("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "x"))
        model.opset_import.add(domain=domain, version=random.choice(_NUMBERS))


def _calls_itself(model: onnx.ModelProto, random: Random) -> None:
    names = ("f", random.choice("fg"))
    for name, called in zip(names, reversed(names), strict=True):
        function = model.functions.add(name=name, domain="own", input=["x"], output=["y"])
        function.node.add(op_type=called, domain="own", input=["x"], output=["y"])
    model.graph.node.add(op_type="f", domain="own", input=["x"], output=["own"])


def _scopes(model: onnx.ModelProto, random: Random) -> None:
    """Malformed module names in the metadata that exporters write."""
    for node in model.graph.node:
        text = random.choice(("['', 'a', 'b']", "[" * 300, "['a', 3]", "{}", str([*"abcdefgh"] * 40)))
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=text)
        node.name = "/" * random.choice((0, 3)) + "/".join("abcdefgh"[: random.randrange(9)])


_CHANGES: tuple[Callable[[onnx.ModelProto, Random], None], ...] = (
    *(_reads_itself, _cycle, _same_output, _deep, _deep_type, _wide, _type, _elem_type, _raw, _dims),
    *(_external, _attribute, _opsets, _calls_itself, _scopes),
)
