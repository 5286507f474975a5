"""Every symptom is seen in a file that has it, and not in its twin that has not."""

import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

from onnxlab.cli import main
from onnxlab.diagnosis import structure
from onnxlab.diagnosis.against import NoReference
from onnxlab.diagnosis.examination import examine
from onnxlab.diagnosis.model_file import read_model_file
from onnxlab.diagnosis.reference import compare_with, reference
from onnxlab.diagnosis.symptom import LESSONS

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
RELU = "g (float[n] x) => (float[n] y) { y = Relu(x) }"


def text(body: str, **weights: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> onnx.ModelProto:
    """Return a model of ONNX's text form, with weights."""
    model = parse_model(HEAD + body)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return model


def adding(weight: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> onnx.ModelProto:
    return text("g (float[n, 200] x) => (float[n, 200] y) { y = Add(x, w) }", w=weight)


def multiplying(second: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> onnx.ModelProto:
    body = "g (float[n, 200] x) => (float[n, 200] y) { h = MatMul(x, a) y = MatMul(h, b) }"
    return text(body, a=MATRIX, b=second)


def with_note(note: str) -> onnx.ModelProto:
    model = text(RELU)
    model.graph.node[0].metadata_props.add(key="stack", value=note)
    return model


def with_input(name: str) -> onnx.ModelProto:
    model = adding(MATRIX[0])
    if name:
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [200]))
    return model


def looping(iterations: str) -> onnx.ModelProto:
    return parse_model(
        HEAD
        + f"""g (float[1] x, int64 n) => (float[1] y) <int64 three = {{3}}, bool go = {{1}}> {{
            y = Loop ({iterations}, go, x) <body = b (int64 i, bool c, float[1] a) => (bool d, float[1] o)
                {{ d = Identity(c) o = Add(a, a) }}>
        }}"""
    )


def choosing(condition: str) -> onnx.ModelProto:
    return parse_model(
        HEAD
        + f"""g (float[1] x, bool c) => (float[1] y) <bool yes = {{1}}> {{
            y = If ({condition}) <then_branch = t () => (float[1] p) {{ p = Neg(x) }},
                                  else_branch = e () => (float[1] q) {{ q = Abs(x) }}>
        }}"""
    )


def versioned(ir: int, opset: int) -> onnx.ModelProto:
    model = text(RELU)
    model.ir_version, model.opset_import[0].version = ir, opset
    return model


def importing(*opsets: int) -> onnx.ModelProto:
    model = text(RELU)
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid("", opset) for opset in opsets)
    return model


def with_function() -> onnx.ModelProto:
    return parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "my" : 1]>'
        + RELU.replace("Relu", "my.Swirl")
        + '<domain: "my", opset_import: ["" : 17]> Swirl (a) => (b) { b = Neg(a) }'
    )


def constant(value: str) -> onnx.ModelProto:
    model = text(
        "g (float[n] x) => (float[n] y) { c = Constant <value: tensor = float[1] {1.0}> () y = Add(x, c) }"
    )
    model.graph.node[0].attribute[0].t.CopyFrom(numpy_helper.from_array(np.array([float(value)], np.float32)))
    return model


def choosing_a_mark(value: str) -> onnx.ModelProto:
    """Return a model that marks what is not positive with a number."""
    model = constant(value)
    nodes = text(
        "g (float[n] x) => (float[n] y) { z = Sub(x, x) p = Greater(x, z) y = Where(p, x, c) }"
    ).graph
    model.graph.node.pop()
    model.graph.node.extend(nodes.node)
    return model


def tree(threshold: float) -> onnx.ModelProto:
    """Return a tree of two leaves."""
    numbers = {"nodes_splits": [threshold], "leaf_weights": [1.0, 2.0], "nodes_modes": [0]}
    kinds = {"nodes_modes": np.uint8}
    node = helper.make_node(
        "TreeEnsemble",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        n_targets=1,
        **{name: [0] for name in ("nodes_featureids", "nodes_truenodeids", "leaf_targetids")},
        nodes_falsenodeids=[1],
        nodes_trueleafs=[1],
        nodes_falseleafs=[1],
        tree_roots=[0],
        **{
            name: numpy_helper.from_array(np.array(content, kinds.get(name, np.float32)))
            for name, content in numbers.items()
        },
    )
    model = text(RELU)
    model.graph.node[0].CopyFrom(node)
    return model


def in_a_function(content: str) -> onnx.ModelProto:
    """Return a model that calls a function, with a constant or a Dropout in training mode in it."""
    body = f"c = Constant <value: tensor = float {{{content}}}> () b = Add(a, c)"
    if content == "drop":
        body = (
            "r = Constant <value: tensor = float {0.5}> () t = Constant <value: tensor = bool {1}> () "
            "b = Dropout(a, r, t)"
        )
    model = parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "my" : 1]>'
        + RELU.replace("Relu", "my.Swirl")
        + '<domain: "my", opset_import: ["" : 17]> Swirl (a) => (b) { '
        + body.replace("{nan}", "{1.0}")
        + " }"
    )
    if content == "nan":
        broken = numpy_helper.from_array(np.float32(np.nan))
        model.functions[0].node[0].attribute[0].t.CopyFrom(broken)
    return model


def normalised(variance: float) -> onnx.ModelProto:
    body = "g (float[n, 2, 3] x) => (float[n, 2, 3] y) { y = BatchNormalization(x, one, zero, zero, v) }"
    return text(body, **ONES, v=np.full(2, variance, np.float32))


def halves(value: float) -> onnx.ModelProto:
    model = text("g (bfloat16[n] x) => (bfloat16[n] y) { y = Add(x, w) }")
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.BFLOAT16, [1], [value]))
    return model


ONES = {"one": np.ones(2, np.float32), "zero": np.zeros(2, np.float32)}
MATRIX = np.random.default_rng(0).standard_normal((200, 200)).astype(np.float32)
BROKEN = MATRIX.copy()
BROKEN[3, 4] = np.nan
DROPOUT = "g (float[n] x) => (float[n] y) <float r = {{0.5}}, bool t = {{{}}}> {{ y = Dropout(x, r, t) }}"
RESIZE = (
    "g (float[1, 1, 4, 4] x) => (float[1, 1, a, b] y) <float[4] s = {{1., 1., 2., 2.}}> "
    '{{ y = Resize <mode = "{}"> (x, , s) }}'
)

SCATTER = (
    "g (float[5] x, int64[3] i, float[3] v) => (float[5] y) <int64[3] j = {{0, 1, 2}}> "
    '{{ y = ScatterElements <reduction = "{1}"> ({0}, v) }}'
)
HALVED = "g (int64[n] x) => (int64[n] y) <int64 two = {2}> { y = Div(x, two) }"
CORRECTED = HALVED.replace("{ y", "{ rest = Mod(x, two) y")
MASKED = (
    "g (float[2, 3] x, bool[2, 3] m) => (float[2, 3] p) <bool[2, 3] k = {{1, 1, 1, 1, 1, 1}}> "
    "{{ l = Constant <value: tensor = float {{{1}}}> () "
    "s = Where({0}, x, l) p = Softmax(s) }}"
)
AVERAGE = (
    "g (float[1, 2, {}] x) => (float[1, 2, a, b] y) "
    "{{ y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x) }}"
)
BATCH = "g (float[{}] x) => (float[a, b] y) {{ y = Relu(x) }}"
SHIFT = 'g (uint8[n] x, uint8[n] z) => (uint8[n] y) { y = BitShift <direction = "LEFT"> (x, z) }'
BLOCKS = "g (float[n, 4, h, w] x) => (float[n, c, a, b] y) { y = DepthToSpace <blocksize = 2> (x) }"
TO_DEPTH = ("DepthToSpace", "SpaceToDepth")
CROP = RESIZE.format("linear").replace(
    "> (x", ', coordinate_transformation_mode = "half_pixel_symmetric"> (x'
)
PAD = 'g (float[n] x) => (float[m] y) <int64[2] p = {{1, 1}}> {{ y = Pad <mode = "{}"> (x, p) }}'
POOL = "g (float[1, 1, h, w] x) => (float[1, 1, a, b] y) {{ {} = MaxPool <kernel_shape = [2, 2]> (x) }}"

STRUCTURE = [
    (
        structure.unread_inputs,
        text("g (float[n] x, float[n] z) => (float[n] y) { y = Relu(x) }"),
        text(RELU),
        "input z",
    ),
    (structure.unread_inputs, with_input("spare"), with_input(""), "spare"),
    (
        structure.unread_inputs,
        text("g (float[n] x, float[n] z) => (float[n] y) { y = Relu(x) }"),
        text("g (float[n] x, float[n] z) => (float[n] y, float[n] z) { y = Relu(x) }"),  # read by the caller
        "input z",
    ),
    (
        structure.passed_through,
        text("g (float[n] x) => (float[n] y) { y = Identity(x) }"),
        text(RELU),
        "'x' itself",
    ),
    (structure.overridable_weights, with_input("w"), with_input(""), "Weights that are inputs, too: w"),
    (
        structure.custom_domains,
        parse_model('<ir_version: 8, opset_import: ["" : 17, "my" : 1]>' + RELU.replace("Relu", "my.Swirl")),
        text(RELU),
        "my::Swirl",
    ),
    (structure.random_outputs, text(DROPOUT.format(1)), text(DROPOUT.format(0)), "Dropout"),
    (
        structure.random_outputs,
        text("g (float[n] x) => (float[n] y) { r = RandomUniformLike(x) y = Add(x, r) }"),
        text(RELU),
        "RandomUniformLike",
    ),
    (structure.frozen_subgraphs, choosing("yes"), choosing("c"), "its else_branch never runs"),
    (structure.frozen_subgraphs, looping("three"), looping("n"), "has 3 as its number of iterations"),
    (structure.repeated_weights, multiplying(MATRIX.copy()), multiplying(MATRIX + 1), "is equal to a"),
    (structure.repeated_weights, multiplying(MATRIX.T.copy()), multiplying(MATRIX + 1), "is transposed to a"),
    (
        structure.expanded_constants,
        adding(np.tile(MATRIX[:1], (200, 1))),
        adding(MATRIX),
        "800 of 160,000 bytes",
    ),
    (structure.broken_weights, adding(BROKEN), adding(MATRIX), "w float32[200, 200]"),
    (structure.broken_weights, adding(BROKEN[3:4]), adding(MATRIX[3:4]), "NaN: w float32[1, 200]"),
    (structure.broken_weights, constant("nan"), constant("1.0"), "NaN: c float32[1]"),
    (structure.broken_weights, constant("inf"), choosing_a_mark("inf"), "with inf: c"),
    (structure.broken_weights, constant("nan"), choosing_a_mark("nan"), "NaN: c"),
    (structure.broken_weights, constant("inf"), tree(np.inf), "with inf: c"),
    (
        structure.broken_weights,
        adding(np.full((1, 200), np.inf, np.float32)),
        adding(MATRIX[:1]),
        "with inf: w",
    ),
    (
        structure.broken_weights,
        adding(np.full((1, 200), -np.inf, np.float16)),
        adding(MATRIX[:1]),
        "with -inf",
    ),
    (structure.broken_weights, halves(np.nan), halves(1.0), "NaN: w bfloat16[1]"),
    (structure.broken_weights, in_a_function("nan"), in_a_function("1.0"), "NaN:"),
    (structure.negative_variances, normalised(-1.0), normalised(0.0), "variance v of the BatchNormalization"),
    (structure.random_outputs, in_a_function("drop"), in_a_function("1.0"), "Dropout"),
    (
        structure.overwriting_scatters,
        text(SCATTER.format("x, i", "none")),
        text(SCATTER.format("x, i", "add")),
        "scattered",
    ),
    (
        structure.overwriting_scatters,
        text(SCATTER.format("x, i", "none")),
        text(SCATTER.format("x, j", "none")),
        "y",
    ),
    (
        structure.whole_divisions,
        text(HALVED),
        text(HALVED.replace("int64[n]", "float[n]")),
        "Div of whole numbers: y",
    ),
    (structure.whole_divisions, text(HALVED), text(CORRECTED), "rounds down"),
    (
        structure.masked_rows,
        text(MASKED.format("m", "-inf")),
        text(MASKED.format("m", "-1.0")),
        "Softmax over a mask",
    ),
    (
        structure.masked_rows,
        text(MASKED.format("m", "-inf")),
        text(MASKED.format("k", "-inf")),
        "an input: p",
    ),
    (
        structure.fixed_windows,
        text(AVERAGE.format("h, w")),
        text(AVERAGE.format("12, 12")),
        "fixed window, [2, 2]",
    ),
    (structure.versions, versioned(3, 6), versioned(8, 17), "opset 6"),
    (structure.versions, versioned(10, 21), versioned(8, 17), "1.18.1 is the first"),
    (structure.versions, versioned(99, 17), versioned(8, 17), "No recorded release"),
    (structure.versions, importing(17, 16), importing(17, 17), "imports ai.onnx at opsets 16, 17"),
    (
        structure.authors_notes,
        with_note('File "/home/ada/secret/net.py", line 3'),
        with_note("a / b"),
        "/home/ada/secret/net.py",
    ),
    (structure.fixed_sizes, text(RELU.replace("n", "3", 1)), text(RELU), "x: float32[3]"),
    (
        structure.fixed_sizes,
        text(BATCH.format("1, n")),
        text(BATCH.format("n, 3")),
        "first axis of every input is fixed",
    ),
    (structure.differing_modes, text(RESIZE.format("cubic")), text(RESIZE.format("nearest")), "mode cubic"),
    (structure.differing_modes, text(RELU.replace("Relu", "Asinh")), text(RELU), "Asinh: y"),
    (structure.differing_modes, text(POOL.format("y, i")), text(POOL.format("y")), "MaxPool with indices: y"),
    (structure.differing_modes, choosing("c"), text(RELU), "If: y"),
    (structure.differing_modes, looping("n"), text(RELU), "Loop: y"),
    (structure.differing_modes, text(SHIFT), text(SHIFT.replace("BitShift", "BitwiseAnd")), "BitShift: y"),
    (structure.differing_modes, text(BLOCKS), text(BLOCKS.replace(*TO_DEPTH)), "DepthToSpace: y"),
    (
        structure.differing_modes,
        text(CROP),
        text(RESIZE.format("nearest")),
        "Resize in mode half_pixel_symmetric",
    ),
    (structure.differing_modes, text(PAD.format("wrap")), text(PAD.format("edge")), "Pad in mode wrap: y"),
    (structure.functions, with_function(), text(RELU), "Functions with a body in the file: Swirl"),
    (structure.wide_types, text(RELU.replace("float", "double")), text(RELU), "64 bits: x: float64[n]"),
    (structure.wide_types, text(RELU.replace("float[n] y", "int64[n] y")), text(RELU), "y: int64[n]"),
]


@pytest.mark.parametrize(("find", "ill", "healthy", "says"), STRUCTURE)
def test_a_symptom_of_the_structure_is_seen_in_the_ill_file_only(
    find: Callable[..., object], ill: onnx.ModelProto, healthy: onnx.ModelProto, says: str, tmp_path: Path
) -> None:
    found = [seen(find, model, tmp_path / "model.onnx") for model in (ill, healthy)]
    assert len(found[0]) == 1
    assert says in f"{found[0][0].what} {found[0][0].why}"
    assert not found[1]


def seen(find, model, path):
    path.write_bytes(model.SerializeToString())
    return list(find(read_model_file(path)))


def test_every_symptom_of_the_structure_has_a_case():
    assert {find for find, *_ in STRUCTURE} | {structure.external_data} == set(structure.STRUCTURE)


def test_every_rule_of_the_structure_is_written_for_the_page_too():
    """Whether they see the same, a browser tells: tests/browser/test_site.py."""
    script = (NOTEBOOKS.parent / "site/page/open/findings.js").read_text("utf-8")
    assert not [find.__name__ for find in structure.STRUCTURE if f"['{find.__name__}', " not in script]


@pytest.mark.parametrize(
    ("location", "content", "says"),
    [
        ("weights.bin", MATRIX.tobytes(), None),
        ("weights.bin", MATRIX.tobytes()[:-1], "has 159,999 bytes, and 160,000 are needed"),
        ("gone.bin", None, "is missing"),
        ("../weights.bin", None, "lies outside the model's folder"),
        ("/etc/passwd", None, "lies outside the model's folder"),
    ],
)
def test_external_data_is_looked_at_and_only_in_the_folder(tmp_path, location, content, says):
    model = adding(MATRIX)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    if content is not None:
        (tmp_path / location).write_bytes(content)
    found = seen(structure.external_data, model, tmp_path / "model.onnx")
    assert [says in symptom.what for symptom in found] == ([True] if says else [])


def test_an_offset_that_is_no_number_is_named(tmp_path):
    model = adding(MATRIX)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "weights.bin", "offset": "here"}.items():
        tensor.external_data.add(key=key, value=value)
    [symptom] = seen(structure.external_data, model, tmp_path / "model.onnx")
    assert "Of 'w', its offset 'here' is no whole number." in symptom.what


@pytest.mark.parametrize("overload", ["", "other"])
def test_functions_that_would_unfold_to_a_million_nodes_stay_calls(tmp_path, overload):
    """Beside each function that calls ten of the next there may be a harmless one of the same name."""
    model = text(RELU.replace("Relu(x)", "Neg(x)"))
    model.ir_version = 10
    model.opset_import.add(domain="my", version=1)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    call = {"domain": "my", "overload": overload}
    for level in range(6):
        nodes = [helper.make_node(f"f{level + 1}", ["a"], [f"b{n}"], **call) for n in range(10)]
        model.functions.append(
            helper.make_function("my", f"f{level}", ["a"], ["b9"], nodes, opsets, overload=overload)
        )
    neg = helper.make_node("Neg", ["a"], ["b9"])
    model.functions.append(helper.make_function("my", "f6", ["a"], ["b9"], [neg], opsets, overload=overload))
    if overload:
        harmless = (
            helper.make_function("my", f"f{level}", ["a"], ["b9"], [neg], opsets) for level in range(7)
        )
        model.functions.extend(harmless)
    model.graph.node[0].CopyFrom(helper.make_node("f0", ["x"], ["y"], **call))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert len(read_model_file(path).flat.graph.node) == 1


# What the file does when it is loaded and run

CUMSUM = "g (bool[n] x) => (bool[n] y) <int64 a = {0}> { y = CumSum(x, a) }"
NORM = (
    "g (float[n, 2, 3] x) => (float[n, 2, 3] y) "
    "{{ y = BatchNormalization <training_mode = {}> (x, one, zero, zero, one) }}"
)
RESHAPE = "g (float[n, 6] x) => (float[m, 3] y) { y = Reshape(x, s) }"
CHUNKS = "g (float[n, k] x) => (float[n, m, l] y) { y = Reshape(x, s) }"
OVERFLOW = "g (float16[n] x) => (float16[n] y) { h = Mul(x, w) y = Sigmoid(h) }"
IN_A_BATCH = "g (float[n, 3] x) => (float[n, 3] y) {{ m = ReduceMax <axes = {}> (x) y = Sub(x, m) }}"

BEHAVIOUR = [
    (text(CUMSUM), text(CUMSUM.replace("bool[n]", "float[n]")), "CumSum"),
    (text(RELU.replace("Relu(x)", "Log(x)")), text(RELU), "inf or NaN in the output y"),
    (
        text(OVERFLOW, w=np.full(1, 60000, np.float16)),
        text(OVERFLOW, w=np.full(1, 6, np.float16)),
        "inf or NaN inside, in float16: h",
    ),
    (
        text(RESHAPE, s=np.array([6, 3])),
        text(RESHAPE, s=np.array([-1, 3])),
        "The axis 'n' is declared dynamic, and only 3 runs: 4 fails",
    ),
    (
        text(CHUNKS, s=np.array([0, -1, 4])),
        text(CHUNKS, s=np.array([0, -1, 1])),
        "The axis 'k' runs at 32, 64 and fails at 33",
    ),
    (
        text("g (float[n] x) => (float[n] y) { r = RandomUniformLike(x) y = Add(x, r) }"),
        text(RELU),
        "Two runs with the same input differ in y",
    ),
    (
        text(IN_A_BATCH.format("[0, 1]")),
        text(IN_A_BATCH.format("[1]")),
        "the output y changes with its other elements",
    ),
    (
        text("g (float[n] x) => (float[3] y) { y = Concat <axis = 0> (x, x) }"),
        text("g (float[n] x) => (float[m] y) { y = Concat <axis = 0> (x, x) }"),
        "declared as [3] and has the shape",
    ),
    (text("g (float[n, 3] x) => (float[k] y) { y = Relu(x) }"), text(RELU), "Shape inference fails"),
    (
        text("g (float[n] x) => (float[n] y) { y = Relu(x) y = Neg(x) }"),
        text("g (float[n] x) => (float[n] y) { h = Relu(x) y = Neg(h) }"),
        "ONNX's checker refuses the file",
    ),
]


@cache
def examined(model: bytes) -> list[str]:
    """Examine a model once, though it is the healthy twin of several."""
    return [symptom.what for symptom in examine(model).symptoms]


@pytest.mark.slow
@pytest.mark.parametrize(("ill", "healthy", "says"), BEHAVIOUR)
def test_a_symptom_of_the_run_is_seen_in_the_ill_file_only(ill, healthy, says):
    ill_says, healthy_says = (examined(model.SerializeToString()) for model in (ill, healthy))
    assert any(says in line for line in ill_says), ill_says
    assert not any(says in line for line in healthy_says), healthy_says


def normalising(*, constant: bool) -> onnx.ModelProto:
    """Return a BatchNormalization after a Conv; its scale can be an input."""
    scale = "" if constant else ", float[1] one"
    body = (
        f"g (float[n, 1, 4, 4] x{scale}) => (float[n, 1, 4, 4] y) "
        "{ h = Conv(x, w) y = BatchNormalization(h, one, zero, zero, one) }"
    )
    weights = {"w": np.ones((1, 1, 1, 1), np.float32), "zero": np.zeros(1, np.float32)}
    return text(body, **weights, **({"one": np.ones(1, np.float32)} if constant else {}))


@pytest.mark.slow
def test_a_fusion_that_the_optimiser_left_out_is_seen():
    what = "Not fused: BatchNormalization after Conv (1)"
    assert any(symptom.what.startswith(what) for symptom in examine(normalising(constant=False)).symptoms)
    assert not any("Not fused" in symptom.what for symptom in examine(normalising(constant=True)).symptoms)


@pytest.mark.slow
def test_a_file_that_does_not_end_is_stopped():
    endless = looping("n")
    endless.graph.node[0].input[0] = ""  # no number of iterations; the condition stays true
    worst = examine(endless, seconds=1).symptoms[0]
    assert worst.severity == "wrong"
    assert worst.what.endswith(" did not end in time.")  # on a busy machine not even loading it


CRASH = """g (float[{n}] x) => (int64[k] y) <int64 low = {{-9223372036854775808}}, int64 m = {{{m}}}> {{
    {steps} d = Sub(i, m) y = Div(low, d) }}"""
"""Where i is m - 1, the lowest number is divided by -1: more than int64 holds."""
CRASHES = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="other processors have a result for it"
)


@CRASHES
@pytest.mark.slow
def test_the_step_and_the_size_at_which_a_file_ends_its_process_are_said():
    found = examine(text(CRASH.format(n="n", m=3, steps="i = Shape(x)")))
    assert found.symptoms[0].what == "Running it ended the process."
    assert found.symptoms[0].why.startswith("It was signal 8, with n = 2; ")
    assert "Run with drawn values at n = 1." in found.verdict("")


@pytest.mark.slow
def test_sizes_that_say_nothing_more_are_not_tried():
    """A batch of 33, tried only because another axis has 33 elements, would take for ever here."""
    growing = parse_model(
        HEAD
        + """g (float[n, k] x) => (float[n, k] y)
            <int64[1] two = {2}, int64[1] zero = {0}, int64[1] one = {1}, bool go = {1}> {
            s = Shape(x) rows = Slice(s, zero, one) power = Pow(two, rows) iterations = Squeeze(power)
            y = Loop (iterations, go, x) <body = b (int64 i, bool c, float[r, t] a) => (bool d, float[r, t] o)
                { d = Identity(c) o = Identity(a) }>
        }"""
    )
    assert not [s.what for s in examine(growing, seconds=60).symptoms if "in time" in s.what]


def test_every_symptom_leads_to_a_section():
    source = "".join(path.read_text("utf-8") for path in Path(structure.__file__).parent.glob("*.py"))
    for lesson, (chapter, section) in LESSONS.items():
        assert source.count(f'"{lesson}"') > 1, lesson  # it is used
        assert f'"## {section}' in (NOTEBOOKS / f"{chapter}.ipynb").read_text("utf-8"), section


class Window(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.shape[0]


def window() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    return Window(), (torch.ones(3, 2),)


WINDOW = "g (float[rows, 2] x) => (float[rows, 2] y) <float three = {3}> { y = Div(x, three) }"
COUNTED = "{ s = Shape <end = 1> (x) three = Cast <to = 1> (s)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "severity", "says"),
    [
        (WINDOW, "wrong", "With rows = 4 the file is wrong: "),
        (
            WINDOW.replace("<float three = {3}> {", COUNTED),
            "note",
            "The file agrees with PyTorch at rows = 1, 2, 3, 4, 6, 7.",
        ),
    ],
)
def test_against_pytorch_the_first_wrong_size_is_named(tmp_path, body, severity, says):
    path = tmp_path / "window.onnx"
    path.write_bytes(text(body).SerializeToString())
    *_, compared = compare_with(path, f"{__name__}:window")
    [symptom] = compared.symptoms
    assert symptom.severity == severity
    assert symptom.what.startswith(says)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (
            text(RELU).SerializeToString(),
            0,
            "model.onnx: 1 node, {size} bytes\n\n0 wrong, 0 risks, 0 notes. "
            "Run with drawn values at n = 1, 2, 3, 4, 5. Not compared with",
        ),
        (text(CUMSUM).SerializeToString(), 1, "Explained in chapter "),
    ],
)
def test_the_exit_code_says_healthy_or_ill(tmp_path, capsys, content, code, says):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert main(["doctor", str(path)]) == code
    assert says.format(size=len(content)) in capsys.readouterr().out


@pytest.mark.slow
def test_what_pytorch_prints_is_kept_back_and_unnamed_values_are_said_so(tmp_path, monkeypatch, capfd):
    """The TorchScript exporter gives inner values names of its own; the module prints, and so does torch."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loud.py").write_text(
        "import os, sys, torch\n"
        "class Loud(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        print('printed'); os.write(2, b'written'); return torch.relu(x * 2) + 1\n"
        "def make(): return Loud(), (torch.ones(3),)\n"
    )
    body = "g (float[n] x) => (float[n] y) <float two = {2}> { a = Mul(x, two) y = Relu(a) }"
    (tmp_path / "m.onnx").write_bytes(text(body).SerializeToString())
    assert main(["doctor", "m.onnx", "--against", "loud.py:make"]) == 1
    printed = capfd.readouterr()
    assert "No value inside the file has the name that it has in PyTorch" in printed.out
    assert "that node" not in printed.out
    assert printed.err == ""
    assert not {"printed", "written"} & {*printed.out.split()}
    assert printed.out.splitlines()[-1].startswith("1 wrong, 0 risks, ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("net.py:make", "import sys; sys.exit(0)", "SystemExit"),
        ("net.py:make", "raise ValueError('not yet')", "ValueError: not yet"),
        ("net.py:make", "def other(): pass", "has no attribute 'make'"),
        ("net.py:make", "def make(): return 1, 2, 3", "too many values"),
        ("no.such:module", "", "ModuleNotFoundError"),
        (f"{__name__}:NOTEBOOKS", "", "TypeError"),
        ("json:dumps", "", "TypeError"),
    ],
)
def test_a_factory_that_gives_nothing_is_refused(tmp_path, monkeypatch, name, content, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(content)
    with pytest.raises(NoReference, match="is no factory") as refused:
        reference(name)
    assert name in str(refused.value)
    assert says in str(refused.value)


@pytest.mark.slow
def test_the_exit_code_says_that_a_factory_is_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(text(RELU).SerializeToString())
    assert main(["doctor", "m.onnx", "--against", "net.py:make"]) == 2
    assert "net.py:make is no factory of a module and its inputs.\nFileNotFound" in capsys.readouterr().err


@pytest.mark.slow
def test_what_does_not_load_is_not_compared_and_that_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("import torch\ndef make(): return torch.nn.ReLU(), torch.ones(3)\n")
    (tmp_path / "m.onnx").write_bytes(text(CUMSUM).SerializeToString())
    assert main(["doctor", "m.onnx", "--against", "net.py:make"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("Not run, and not compared with PyTorch: it does not load.")


ENDLESS = """g (float[1] x) => (float[1] y) <float fifty = {50}, bool go = {1}> {
    y = Loop (, go, x) <body = b (int64 i, bool c, float[1] a) => (bool d, float[1] o)
        { o = Identity(a) g = Greater(a, fifty) d = Squeeze(g) }> }"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "how"),
    [
        pytest.param(CRASH.format(n=1, m=100, steps="i = Cast <to = 7> (x)"), "signal 8", marks=CRASHES),
        pytest.param(ENDLESS, "no end in 12 s", marks=pytest.mark.release),
    ],
)
def test_what_ends_with_drawn_values_and_not_with_the_example_is_stopped(
    tmp_path, monkeypatch, capsys, body, how
):
    """The drawn values are below 50; the example is 99."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        "import torch\ndef make(): return torch.nn.Identity(), torch.full((1,), 99.0)\n"
    )
    (tmp_path / "m.onnx").write_bytes(text(body).SerializeToString())
    assert main(["doctor", "m.onnx", "--against", "net.py:make", "--seconds", "12"]) == 1
    shown = capsys.readouterr().out
    assert f"wrong: With inputs of [1] PyTorch runs, and the file does not: {how}." in shown
    assert shown.splitlines()[-1].startswith("1 wrong")


@pytest.mark.parametrize("seconds", [-3, 0, float("nan"), float("inf")])
def test_a_time_limit_that_is_none_is_refused(tmp_path, capsys, seconds):
    (tmp_path / "m.onnx").write_bytes(text(RELU).SerializeToString())
    assert main(["doctor", str(tmp_path / "m.onnx"), "--seconds", str(seconds)]) == 2
    assert "no time limit" in capsys.readouterr().err
