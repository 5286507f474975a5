"""Folders of answers with damaged files, and what a judge says of one."""

import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from onnxlab.labs.kit.checking import judge, questions_seed
from onnxlab.labs.kit.exercise import Exercise
from onnxlab.labs.kit.work import Work
from tools.fuzz.mutation import mutated

Folder: TypeAlias = dict[str, bytes]
"""The files of an answer by name."""


def damaged(answer: Folder, everything: list[bytes], random: Random) -> Folder:
    """Return a copy of a folder in which one file is damaged, or all of one kind in the same way."""
    kind = random.choice(sorted({name.rpartition(".")[2] for name in answer}))
    names = [name for name in answer if name.endswith(kind)]
    targets = names if random.random() < 0.4 else [random.choice(names)]
    seed = random.random()
    changed = dict(answer)
    for name in targets:
        content = _damaged_file(changed.pop(name), kind, everything, Random(seed))
        if content is not None:
            changed[name] = content
    return changed


def judged(record: Exercise, answer: Folder, place: Path) -> str:
    """Judge a folder's files in an empty place; return "passed" or "refused".

    Raises:
        AssertionError: If a part has no finding, or a failure no message.
        Exception: Whatever the judge raises.
    """
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for name, content in answer.items():
        (place / name).write_bytes(content)
    findings = judge(record, Work(place, questions_seed(record, 0)), 0)
    assert len(findings) == len(record.parts), "a part without a finding"
    assert all(finding.holds in (True, False) for finding in findings), "a finding that says nothing"
    wrong = [finding for finding in findings if not finding.holds]
    assert all(finding.message.strip() for finding in wrong), "a failure without a message"
    return "refused" if wrong else "passed"


def _damaged_file(content: bytes, kind: str, everything: list[bytes], random: Random) -> bytes | None:
    choice = random.randrange(12)
    if choice == 0:
        return None
    if choice == 1:
        return random.choice(
            (b"", b"\xff\xfe\x00", content[: random.randrange(len(content) + 1)], _zipped(content))
        )
    if choice == 2:
        return random.choice(everything)
    changes: dict[str, Callable[[bytes, Random], bytes]] = {
        "json": _json,
        "npy": _array,
        "onnx": _model,
    }
    return changes[kind](content, random)


def _zipped(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("arr_0.npy", content)
    return buffer.getvalue()


# --- JSON ---

_VALUES = (
    *("null", "true", "false", "0", "1", "-1", "0.5", "NaN", "Infinity", "-Infinity", "1e308", '""', '"x"'),
    *("9" * 400, "-" + "9" * 400, "9" * 5000, "9223372036854775808", '"\\ud800"', '"\\u0000"', '"a/b"'),
    *("[]", "{}", "[[]]", "[null]", '{"a": null}', '["a", "b"]', "[1, 2, 3]", "[[1, 2], [3]]", '["1"]'),
    *("[" * 900 + "]" * 900, "[" * 100_000, '"' + "x" * 100_000 + '"'),
)


def _json(content: bytes, random: Random) -> bytes:
    value = json.loads(content)
    for _ in range(random.randint(1, 3)):
        value = _changed(value, random)
    text = json.dumps(value)
    for number, replacement in enumerate(_VALUES):
        text = text.replace(f'"@{number}"', replacement)
    return text.encode()


def _changed(value: Any, random: Random) -> Any:  # noqa: ANN401 - JSON can be anything
    """Change one part of a value, at any depth; "@3" stands for `_VALUES[3]`."""
    if isinstance(value, dict | list) and value and random.random() < 0.75:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = random.choice(keys)
        copy: Any = value.copy()
        copy[key] = _changed(value[key], random)
        return copy
    if isinstance(value, list) and random.random() < 0.5:
        one = random.choice(value) if value else "@0"
        return random.choice(
            (
                value[::-1],
                [*value, one],
                value[:-1],
                [value],
                {str(number): entry for number, entry in enumerate(value)},
                one,
            )
        )
    if isinstance(value, dict) and random.random() < 0.5:
        pairs = list(value.items())
        return random.choice((list(value), list(value.values()), pairs, dict(pairs[1:]), {**value, "x": 1}))
    if isinstance(value, int | float) and random.random() < 0.5:
        return random.choice((bool(value), float(value), str(value), [value], value + 1, -value))
    return f"@{random.randrange(len(_VALUES))}"


# --- arrays ---

_TYPES = ("?", "i1", "u1", "<i2", ">i4", "<i8", "<u8", "<f2", "<f4", ">f4", "<f8", "<c8", "<c16")
_HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4398046511104,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -2), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 2), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 99999999999999999999), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
    "{'descr': '<U9', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (99,), }",
    "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f4', 'fortran_order': 3, 'shape': 5, }",
    "(" * 5000,
    "{'descr'",
    "{1: 2}",
)


def _array(content: bytes, random: Random) -> bytes:
    array = np.load(io.BytesIO(content), allow_pickle=False)
    choice = random.randrange(10)
    if choice == 0:
        header = random.choice(_HEADERS).encode()
        return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content[-8:]
    if choice == 1:
        return content[:6] + bytes([random.randrange(9), random.randrange(3)]) + content[8:]
    with np.errstate(all="ignore"):
        changed: Any = (
            lambda: array.astype(random.choice(_TYPES)),
            lambda: array.T,
            lambda: array[None],
            lambda: array.reshape(-1),
            lambda: array[..., :0],
            lambda: np.full(array.shape, random.choice((np.nan, np.inf, -np.inf)), "<f4"),
            lambda: np.full(array.shape, random.choice((-(2**63), 2**63 - 1))),
            lambda: np.zeros((1,) * random.randint(0, 40), array.dtype),
        )[choice - 2]()
    buffer = io.BytesIO()
    np.save(buffer, changed)
    return buffer.getvalue()


# --- models ---


def _model(content: bytes, random: Random) -> bytes:
    if random.random() < 0.5:
        return mutated(content, random)
    model = onnx.ModelProto()
    model.ParseFromString(content)
    random.choice(_MODEL_CHANGES)(model, random)
    try:
        return bytes(model.SerializeToString())
    except ValueError:  # it refuses to write what is nested too deep
        return content


def _opset(model: onnx.ModelProto, random: Random) -> None:
    for entry in model.opset_import:
        entry.version = random.choice((0, -1, 1, 7, 99, 2**31, 10**18, -(2**63), 2**63 - 1))


def _ir_version(model: onnx.ModelProto, random: Random) -> None:
    model.ir_version = random.choice((0, -1, 2, 99, 2**31, 2**63 - 1))


def _after_each_output(model: onnx.ModelProto, random: Random) -> None:
    """Put a node after each output: another axes order, rank or type."""
    changes: tuple[tuple[str, dict[str, Any]], ...] = (
        *((kind, {}) for kind in ("Transpose", "Shape", "Size", "Flatten", "NonZero", "SequenceConstruct")),
        ("ReduceSum", {}),
        ("Cast", {"to": random.choice((1, 6, 7, 8, 9, 10, 11, 14))}),
    )
    kind, attributes = random.choice(changes)
    for output in model.graph.output:
        before = output.name
        output.name = f"{before}_changed"
        model.graph.node.append(helper.make_node(kind, [before], [output.name], **attributes))
        if random.random() < 0.7:
            output.type.Clear()
            output.type.tensor_type.elem_type = attributes.get("to", 1)


def _input_types(model: onnx.ModelProto, random: Random) -> None:
    for entry in model.graph.input:
        entry.type.tensor_type.elem_type = random.choice((1, 6, 7, 8, 9, 10, 11))


def _ranks(model: onnx.ModelProto, random: Random) -> None:
    for entry in (*model.graph.input, *model.graph.output):
        shape = entry.type.tensor_type.shape
        if random.random() < 0.5:
            shape.dim.add(dim_value=random.choice((0, 1, -1, 2**40)))
        elif shape.dim:
            del shape.dim[-1]


def _names(model: onnx.ModelProto, random: Random) -> None:
    for entry in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        if random.random() < 0.5:
            entry.name = random.choice(("x", "y", "", "a b", "\u202e", "x" * 5000))


def _sparse(model: onnx.ModelProto, random: Random) -> None:
    for weight in [*model.graph.initializer][: random.randint(1, 3)] or [onnx.TensorProto(name="w")]:
        sparse = model.graph.sparse_initializer.add()
        sparse.values.CopyFrom(weight)
        sparse.dims.extend(random.choice(([], [4], [-1], [2**40])))
        sparse.indices.CopyFrom(helper.make_tensor("i", 7, [1], [random.choice((0, 99, -1))]))
    del model.graph.initializer[:]


def _domain(model: onnx.ModelProto, random: Random) -> None:
    domain = random.choice(("own", "com.microsoft", "ai.onnx.ml", "ai.onnx"))
    for node in model.graph.node:
        if random.random() < 0.5:
            node.domain = domain
    if random.random() < 0.5:
        model.opset_import.add(domain=domain, version=1)


def _function(model: onnx.ModelProto, random: Random) -> None:
    """Let a function with a name of the default domain, or of its own, stand for every operator."""
    for kind in {node.op_type for node in model.graph.node}:
        function = model.functions.add(
            name=kind, domain=random.choice(("", "own")), input=["x"], output=["y"]
        )
        function.node.add(op_type=random.choice(("Identity", kind)), input=["x"], output=["y"])
        function.opset_import.extend(model.opset_import)


def _nothing(model: onnx.ModelProto, random: Random) -> None:
    field = random.choice(("graph", "opset_import", "ir_version"))
    model.ClearField(field)
    if field == "graph" and random.random() < 0.5:
        model.graph.SetInParent()


def _no_nodes(model: onnx.ModelProto, random: Random) -> None:
    del model.graph.node[:]
    if random.random() < 0.5:
        for output, entry in zip(model.graph.output, model.graph.input, strict=False):
            model.graph.node.append(helper.make_node("Identity", [entry.name], [output.name]))


def _no_field(model: onnx.ModelProto, random: Random) -> None:
    model.graph.ClearField(random.choice(("input", "output", "initializer", "name", "node")))


_MODEL_CHANGES: tuple[Callable[[onnx.ModelProto, Random], None], ...] = (
    *(_opset, _ir_version, _after_each_output, _after_each_output, _input_types, _ranks, _names, _sparse),
    *(_domain, _function, _nothing, _no_nodes, _no_field),
)
