"""Values for a model's inputs: read, or drawn so that the model accepts them."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from onnxlab.runtime.apart import attempt, open_by_path, run_apart, run_once
from onnxlab.runtime.values import ModelInputs, NoValues, read_values

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "ai.onnx.ml" : 3]>'


def text(body: str) -> onnx.ModelProto:
    return parse_model(HEAD + body)


def drawn(body: str, seed: int = 0, **sizes: int) -> "dict[str, np.ndarray]":
    return ModelInputs(text(body)).draw(sizes, seed)


def test_values_are_read_from_a_file_a_folder_and_a_folder_of_batches(tmp_path):
    x = np.arange(3.0)
    np.savez(tmp_path / "a.npz", x=x, words=np.array(["b", "c"]))
    assert read_values(tmp_path / "a.npz")[0]["words"].tolist() == ["b", "c"]
    (tmp_path / "one").mkdir()
    np.save(tmp_path / "one" / "x.npy", x)
    assert [np.array_equal(batch["x"], x) for batch in read_values(tmp_path)] == [True, True]


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", b"PK\x03\x04", None])
def test_a_file_without_values_says_so(tmp_path, content):
    path = tmp_path / "inputs.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NoValues, match=r"numpy\.savez"):
        read_values(path)
    with pytest.raises(NoValues):
        read_values(tmp_path) if content is None else read_values(path)


TABLE = "float[7, 2] t = {" + "1, " * 13 + "1}"


def test_ids_are_rows_of_the_table_that_they_index():
    body = f"g (int32[n] i) => (float[n, 2] y) <{TABLE}> {{ j = Cast <to = 7> (i) y = Gather(t, j) }}"
    ids = drawn(body, n=200)["i"]
    assert set(ids.tolist()) == set(range(7))
    assert ids.dtype == np.int32


def test_places_have_a_number_below_each_axis():
    body = f"g (int64[n, 2] i) => (float[n] y) <{TABLE}> {{ y = GatherND(t, i) }}"
    places = drawn(body, n=300)["i"]
    assert [set(numbers.tolist()) for numbers in places.T] == [set(range(7)), {0, 1}]


@pytest.mark.parametrize("made", ["Identity(s)", "Neg(s)"])
def test_a_size_that_comes_out_of_a_branch_is_one(made):
    body = """g (float[1] v, int64[1] s, bool c) => (float[n] y) {{
        k = If (c) <then_branch = t () => (int64[1] o) {{ o = {} }},
                    else_branch = e () => (int64[1] q) {{ q = Abs(s) }}>
        y = Expand(v, k) }}"""
    assert ModelInputs(text(body.format(made))).sets_sizes


@pytest.mark.slow
def test_the_time_limit_begins_when_the_process_has_started(tmp_path):
    reports, _ = run_apart("onnxlab.diagnosis.trial", ["", "", "0", "", ""], tmp_path, 0)
    assert [report["step"] for report in reports][:1] == ["start"]


def test_a_switch_is_on_and_with_other_seeds_off():
    inputs = ModelInputs(text("g (bool a, bool[1] b, bool[n] c) => (bool y) { y = Or(a, b) }"))
    assert [*inputs.seeds] == [1, 2, 3]
    drawings = [inputs.draw({"n": 2}, seed) for seed in (0, *inputs.seeds)]
    assert [(bool(d["a"]), bool(d["b"])) for d in drawings] == [
        (True, True),
        (False, True),
        (True, False),
        (False, False),
    ]


def test_a_state_without_names_gets_the_batch_of_the_input():
    """Its second axis is the batch; no name says so."""
    body = "g (float[b, t] x, float[2, d, 8] h) => (float[b, t] y) { y = Relu(x) }"
    assert {"b": 2, "t": 32, "d": 2} in [*ModelInputs(text(body)).sizes()]


def test_bytes_are_drawn_over_all_of_them():
    pixels = drawn("g (uint8[n] x) => (float[n] y) { y = Cast <to = 1> (x) }", n=5000)["x"]
    assert (pixels.min(), pixels.max()) == (0, 255)


def test_lengths_fall_and_the_first_is_full():
    body = (
        "g (float[t, b, 1] x, int32[b] n, float[1, 4, 1] w, float[1, 4, 1] r) => (float[t, 1, b, 1] y)"
        " { y = LSTM <hidden_size = 1> (x, w, r, , n) }"
    )
    lengths = drawn(body, t=9, b=20)["n"].tolist()
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 9
    assert min(lengths) >= 1


@pytest.mark.parametrize("kind", ["bool", "int64", "float"])
def test_a_mask_keeps_one_position_of_each_row(kind):
    body = f"g ({kind}[b, n] mask) => ({kind}[b, n] y) {{ y = Identity(mask) }}"
    for seed in range(3):
        mask = drawn(body, seed, b=3, n=40)["mask"]
        assert set(np.unique(mask).tolist()) == {0, 1}
        assert mask.any(axis=1).all()


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("g (float[1, 3, 1] x, int64[3] s) => (float[2, 3, 5] y) { y = Expand(x, s) }", [2, 3, 5]),
        ("g (float[2, 6] x, int64[2] s) => (float[4, 3] y) { y = Reshape(x, s) }", [4, 3]),
        ("g (float[2, 3] x, int64[2] s) => (float[4, 3] y) { y = Tile(x, s) }", [2, 1]),
        ("g (float[2, 3] x, int64[1] s) => (float[1, 2, 3] y) { y = Unsqueeze(x, s) }", [0]),
        ("g (float[2, 3] x, int64[1] s) => (float[2] y) { y = ReduceSum <keepdims = 0> (x, s) }", [1]),
        ("g (float[2, 9] x, int64[1] s) => (float[2, 5] y, int64[2, 5] i) { y, i = TopK(x, s) }", [5]),
        ("g (float[9] x, int64[2] s) => (float[4] a, float[5] b) { a, b = Split(x, s) }", [4, 5]),
        (
            "g (float[1, 1, 4, 4] x, float[4] s) => (float[1, 1, 8, 2] y) { y = Resize(x, , s) }",
            [1, 1, 2, 0.5],
        ),
        ("g (int64[1] s) => (bool[1] y) <int64 k = {16000}> { y = Equal(s, k) }", [16000]),
        (
            "g (float[1, 1, 2, 2] x, float[1, 4] r, int64[1] s) => (float y) { y = RoiAlign(x, r, s) }",
            [0],
        ),
        (
            "g (float[5, 1] x, int64[1] s) => (float[5, 1] y) { y = ai.onnx.ml.ArrayFeatureExtractor(x, s) }",
            [0],
        ),
    ],
)
def test_sizes_axes_and_factors_come_from_the_declared_result(body, wanted):
    assert drawn(body)["s"].tolist() == wanted


def test_texts_are_those_that_the_graph_lists_and_none_where_it_lists_none():
    listed = 'g (string[n] x) => (int64[n] y) { y = ai.onnx.ml.LabelEncoder <keys_strings = ["a", "b"]> (x) }'
    assert set(drawn(listed, n=20)["x"].tolist()) <= {"a", "b"}
    with pytest.raises(NoValues, match="its texts are free"):
        drawn("g (string[n] x) => (string[n] y) { y = Identity(x) }", n=1)


def test_axes_that_follow_from_others_grow_with_them():
    body = (
        "g (float[b, past] k, float[b, tokens] x, int64[b, {}] mask) => (float[b, past] y) {{ y = Relu(k) }}"
    )
    for total, size in (("total", 7), ('"past + tokens"', 7), ('"past + 1"', 6)):
        model = text(body.format("total"))
        model.graph.input[2].type.tensor_type.shape.dim[1].dim_param = total.strip('"')
        inputs = ModelInputs(model)
        assert inputs.axes == ("b", "past", "tokens")
        assert inputs.draw({"b": 2, "past": 5, "tokens": 2})["mask"].shape == (2, size)


def test_a_type_that_numpy_does_not_have_is_run_and_given_back(tmp_path):
    path = tmp_path / "m.onnx"
    body = "g (bfloat16[2] h) => (bfloat16[4] k, string[1] s) "
    onnx.save(text(body + '{ k = Concat <axis = 0> (h, h) s = Constant <value_strings = ["t"]> () }'), path)
    session, halves = open_by_path(path), np.ones(3, ml_dtypes.bfloat16)
    doubled, words = run_once(session, {"h": halves[:2]})
    assert (doubled.tolist(), doubled.dtype.name, words.tolist()) == ([1, 1, 1, 1], "bfloat16", ["t"])
    assert "3" in attempt(lambda: run_once(session, {"h": halves}))
