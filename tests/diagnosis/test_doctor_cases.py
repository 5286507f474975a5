"""Files of public reports, each rebuilt small: what the doctor says of them, and that its advice helps."""

import json
import re

import numpy as np
import onnx
import onnx.version_converter
import pytest
import torch
from onnx import numpy_helper
from onnx.parser import parse_model

from onnxlab.cli import main
from onnxlab.diagnosis.against import CAUSES
from onnxlab.diagnosis.behaviour import BEHAVIOUR
from onnxlab.diagnosis.examination import Examination, examine
from onnxlab.diagnosis.model_file import read_model_file
from onnxlab.diagnosis.reference import compare_with
from onnxlab.diagnosis.structure import STRUCTURE
from onnxlab.runtime.values import NoValues

pytestmark = pytest.mark.slow  # every file runs in a process of its own

HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3, "com.microsoft" : 1]>'


def text(body: str, head: str = HEAD, **weights: object) -> onnx.ModelProto:
    model = parse_model(head + body)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items()
    )
    return model


def said(found: Examination, *severities: str) -> list[str]:
    return [
        symptom.what for symptom in found.symptoms if symptom.severity in (severities or ("wrong", "risk"))
    ]


EXPAND = "g (float[1, 3, 1] x, int64[4] shape) => (float[3, 3, 3, 3] y) { y = Expand(x, shape) }"
SIZES = (
    "g (float[1, 3, h, w] x, int64[4] sizes) => (float[1, 3, a, b] y) "
    '{ y = Resize <mode = "nearest"> (x, , , sizes) }'
)
SCALES = (
    "g (float[1, 3, h, w] x, float[4] scales) => (float[1, 3, a, b] y) "
    '{ y = Resize <mode = "nearest"> (x, , scales) }'
)
CHOSEN = "g (float[9] x, bool[9] c) => (float[3] y) { y = Compress <axis = 0> (x, c) }"
KEPT = "g (float[4, 9] x, int64[1] k) => (float[4, 5] y, int64[4, 5] i) { y, i = TopK(x, k) }"


@pytest.mark.parametrize("body", [EXPAND, SIZES, SCALES, KEPT, CHOSEN])
def test_an_input_that_is_a_size_is_no_wrong_declaration(body):
    found = examine(text(body))
    assert not said(found)
    assert "Run with drawn values" in found.verdict("")


def test_what_was_not_run_is_said_and_runs_with_values_of_ones_own(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    onnx.save(text("g (string[n] c) => (string[m] y) { y = Concat <axis = 0> (c, c) }"), path)
    assert main(["doctor", str(path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "Not run: no values can be drawn for the input c" in last
    assert "--inputs FILE.npz" in last
    np.savez(tmp_path / "in.npz", c=np.array(["a", "b"]))
    assert main(["doctor", str(path), "--inputs", str(tmp_path / "in.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tried"] == ["Run with the inputs given (1)."]
    np.savez(tmp_path / "in.npz", d=np.array(["a"]))
    assert main(["doctor", str(path), "--inputs", str(tmp_path / "in.npz")]) == 2
    assert "holds d; the model's inputs are c" in capsys.readouterr().err
    np.savez(tmp_path / "in.npz", c=np.ones(2))
    assert main(["doctor", str(path), "--inputs", str(tmp_path / "in.npz")]) == 1
    assert "It refuses the inputs given" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("x", "held"),
    [
        (np.ones((2, 3)), r"float64\[2, 3\]"),
        (np.ones((2, 1), "f"), r"float32\[2, 1\]"),
        (np.ones(3, "f"), r"float32\[3\]"),
    ],
)
def test_values_of_another_type_or_shape_are_no_fault_of_the_file(tmp_path, x, held):
    np.savez(tmp_path / "in.npz", x=x)
    with pytest.raises(NoValues, match=rf"holds x as {held}; the model's input is float32\[n, 3\]"):
        examine(text("g (float[n, 3] x) => (float[n, 3] y) { y = Relu(x) }"), inputs=tmp_path / "in.npz")


def test_a_locale_that_is_not_installed_is_no_fault_of_the_file():
    error = (
        "Failed to construct locale with name:en_US.UTF-8:locale::facet::_S_create_c_locale name not valid"
    )
    [symptom] = BEHAVIOUR["load"]({"error": error, "without_optimiser": False})
    assert symptom.severity == "risk"
    assert "The file is not wrong" in symptom.why


def test_a_fault_of_the_optimiser_is_not_called_the_files():
    body = (
        "g (float[n] x, float[n] d) => (float[n] y) <float one = {1}> "
        "{ m = Cast <to = 1> (x) r = Div(one, d) y = Mul(m, r) }"
    )
    found = examine(text(body))
    [symptom] = [s for s in found.symptoms if s.severity != "note"]
    assert symptom.severity == "risk"
    assert "optimiser makes the fault, not the file" in symptom.why
    assert "Run with drawn values" in found.verdict("")
    assert not said(examine(text(body.replace("Cast <to = 1>", "Neg"))))  # without the Cast it loads


def test_an_operator_that_the_checker_does_not_know_is_a_note():
    body = (
        "g (float[n, 4] x) => (float[n, 4] y) <float[4] s = {1, 1, 1, 1}> "
        "{ y = SimplifiedLayerNormalization(x, s) }"
    )
    found = examine(text(body))
    assert not said(found)
    assert any(
        "does not know the operator SimplifiedLayerNormalization" in line for line in said(found, "note")
    )


def test_axes_that_follow_from_others_and_the_size_of_a_state_are_no_fault():
    """As onnxruntime-genai's builder writes a decoder: the size of a head has a name, two lengths a total."""
    body = (
        "g (float[batch, sequence_length, 4] x, int64[batch, total_sequence_length] attention_mask,"
        " float[batch, past_sequence_length, kv_cache_dim] past_key)"
        " => (float[batch, t, 4] present, float[batch, t] y) {"
        " present = Concat <axis = 1> (past_key, x) m = Cast <to = 1> (attention_mask)"
        " r = ReduceSum <keepdims = 0> (present, two) y = Mul(r, m) }"
    )
    found = examine(text(body, two=np.array([2])))
    assert not said(found)
    assert [line for line in said(found, "note") if "kv_cache_dim" in line] == [
        "The axis 'kv_cache_dim' has a name, and one size: 4."
    ]


def test_a_decoder_of_onnxruntimes_own_attention_is_no_broken_standard():
    past = "float[batch_size, 2, past_sequence_length, kv_cache_dim]"
    kept = "float[batch_size, 2, total_sequence_length, kv_cache_dim]"
    body = (
        "g (float[batch_size, sequence_length, 32] q,"
        " int64[batch_size, total_sequence_length] attention_mask,"
        f" {past} past_key, {past} past_value)"
        f" => (float[batch_size, sequence_length, 32] y, {kept} k, {kept} v) {{"
        " lengths = ReduceSum <keepdims = 0> (attention_mask, one) last = Sub(lengths, one)"
        " last32 = Cast <to = 6> (last) s = Shape(attention_mask) t = Gather <axis = 0> (s, index)"
        " total = Cast <to = 6> (t) scaled = SimplifiedLayerNormalization(q, scale)"
        " y, k, v = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2>"
        " (scaled, q, q, past_key, past_value, last32, total) }"
    )
    found = examine(text(body, one=np.array([1]), index=np.array(1), scale=np.ones(32, np.float32)))
    assert not said(found)
    assert "Run with drawn values" in found.verdict("")


def quantised(operators: str) -> onnx.ModelProto:
    weight = np.random.default_rng(0).integers(-90, 90, (64, 64)).astype(np.int8)
    body = f"g (float[n, 64] x) => (float[n, 64] y) {{ {operators} }}"
    return text(body, w=weight, s=np.float32(0.02), z=np.uint8(128))


def test_dynamic_quantisation_over_a_batch_is_named_with_its_amount():
    rest = " h = MatMulInteger(q, w, zero) f = Cast <to = 1> (h) y = Mul(f, scale)"
    found = examine(quantised("q, scale, zero = DynamicQuantizeLinear(x)" + rest))
    [symptom] = [s for s in found.symptoms if s.severity != "note"]
    assert re.search(r"by up to [\d.]+ of [\d.]+", symptom.what)
    assert symptom.why == "DynamicQuantizeLinear takes its scale from the whole batch."
    static = "q = QuantizeLinear(x, s, z) zero = Identity(z) scale = Identity(s)"
    assert not said(examine(quantised(static + rest)))


def test_shape_inference_that_onnx_cannot_do_is_no_risk():
    body = (
        "g (float[n, 1] x) => (seq(map(int64, float)) y) {"
        " l, p = ai.onnx.ml.LinearClassifier <coefficients = [1.0, -1.0], intercepts = [0.0, 0.0], "
        "classlabels_ints = [0, 1]> (x) y = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1]> (p) }"
    )
    assert not said(examine(text(body)))


@pytest.mark.parametrize(
    ("body", "node"),
    [
        ("g (float[n] x) => (float[n] y) { r = Log(x) y = Abs(r) }", "Log"),
        ("g (float[n, 4] x) => (float[n, 4] y) { s = Sqrt(x) a = Add(s, x) y = Softmax(a) }", "Sqrt"),
    ],
)
def test_the_first_node_that_makes_nan_is_named(body, node):
    assert any(f": {node} " in line and "makes it first" in line for line in said(examine(text(body))))
    assert not said(examine(text(body.replace(node + "(", "Exp("))))


def test_a_cast_that_a_converter_to_float16_left_is_named():
    body = "g (int64[n] i) => (float16[n] y) { f = Cast <to = 1> (i) y = Identity(f) }"
    model = text(body)
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("f", onnx.TensorProto.FLOAT16, ["n"]))
    loading = next(s for s in examine(model).symptoms if "refuses to load" in s.what)
    assert "op_block_list=['Cast']" in loading.then
    model.graph.node[0].attribute[0].i = onnx.TensorProto.FLOAT16  # as the advice says
    assert not said(examine(model))


def test_an_opset_below_7_is_converted():
    older = '<ir_version: 3, opset_import: ["" : 6]>'
    model = text(
        "g (float[1, 1, 4, 4] x) => (float[1, 1, 3, 3] y) { y = AveragePool <kernel_shape = [2, 2]> (x) }",
        older,
    )
    assert [line for line in said(examine(model)) if "opset 6" in line]
    assert not said(examine(onnx.version_converter.convert_version(model, 13)))


# Beside PyTorch


class Half(torch.nn.Module):
    def forward(self, x):
        return x // 2


class Sum(torch.nn.Module):
    def forward(self, x, i, v):
        return x.index_add(0, i, v)


class Packed(torch.nn.Module):
    """Accepts lengths in falling order only, and the first one as long as the longest."""

    def forward(self, x, n):
        if not (n[:-1] >= n[1:]).all() or n[0] != x.shape[1]:
            raise ValueError("lengths must be sorted")
        return x * n[:, None]


class Pool(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.adaptive_avg_pool2d(x, (6, 6))


HALVED = "g (int64[4] x) => (int64[4] y) <int64 two = {2}> { y = Div(x, two) }"
SUMMED = (
    "g (float[5] x, int64[3] i, float[3] v) => (float[5] y) "
    '{ a = GatherElements(x, i) b = Add(a, v) y = ScatterElements <reduction = "none"> (x, i, b) }'
)
PACKED = (
    "g (float[b, t] x, int64[b] n) => (float[b, t] y) <int64[1] one = {1}> "
    "{ f = Cast <to = 1> (n) u = Unsqueeze(f, one) y = Mul(x, u) }"
)
POOLED = (
    "g (float[1, 2, h, w] x) => (float[1, 2, a, b] y) "
    "{ y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x) }"
)


def half():
    return Half(), torch.tensor([-7, 7, -1, 5])


def summing():
    return Sum(), (torch.zeros(5), torch.tensor([0, 2, 2]), torch.ones(3))


def packed():
    return Packed(), (torch.ones(3, 7), torch.tensor([7, 5, 2]))


def pool():
    return Pool(), torch.randn(1, 2, 12, 12, generator=torch.Generator().manual_seed(0))


class Clipped(torch.nn.Module):
    def forward(self, x):
        return torch.where(x > 50, x * 0, x)


def clipped():
    """An example that is nothing like the values that are drawn."""
    return Clipped(), torch.full((3,), 100.0)


def strict():
    return Packed(), (torch.ones(3, 7), torch.tensor([2, 5, 7]))


@pytest.mark.parametrize(
    ("body", "factory", "says", "section"),
    [
        (HALVED, "half", "With the example the file is wrong: y: 2 of 4 elements", "8. Can all links hold"),
        (
            PACKED.replace("Mul(x, u)", "Sub(x, u)"),
            "packed",
            "With the example the file is wrong",
            "6. The outputs",
        ),
        (
            "g (float[n] x) => (float[n] y) { y = Identity(x) }",
            "clipped",
            "With the example the file is wrong",
            "6. The outputs",
        ),
        (POOLED, "pool", "With h = 13, w = 12 the file is wrong: y: ", "1. Right at"),
    ],
)
def test_against_pytorch_the_example_comes_first_and_the_lesson_follows(
    tmp_path, body, factory, says, section
):
    path = tmp_path / "m.onnx"
    onnx.save(text(body), path)
    known = [symptom for find in STRUCTURE for symptom in find(read_model_file(path))]
    cause = next((symptom for symptom in known if symptom.lesson in CAUSES), None)
    *_, compared = compare_with(path, f"{__name__}:{factory}", cause=cause)
    [worst] = compared.symptoms
    assert worst.severity == "wrong"
    assert re.match(says, worst.what), worst.what
    assert worst.place[1].startswith(section)


def test_advice_for_a_wrong_file_makes_it_agree(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(text(SUMMED), path)
    worst = examine(path, reference=f"{__name__}:summing").symptoms[0]
    assert worst.what.startswith("With the example the file is wrong: y: 1 of 5 elements")
    assert worst.place[1].startswith("10. The other patients")
    summed = SUMMED.replace("a = GatherElements(x, i) b = Add(a, v) ", "").replace("(x, i, b)", "(x, i, v)")
    onnx.save(text(summed.replace('"none"', '"add"')), path)
    *_, compared = compare_with(path, f"{__name__}:summing")
    assert [symptom.severity for symptom in compared.symptoms] == ["note"]
    assert compared.tried == "Compared with PyTorch at the example."


class Sums(torch.nn.Module):
    def forward(self, x, lengths):
        return x[:, : int(lengths.max())]


def sums():
    return Sums(), (torch.ones(2, 5, 1), torch.tensor([5, 3], dtype=torch.int32))


def test_one_of_the_lengths_that_are_drawn_is_full(tmp_path):
    path = tmp_path / "m.onnx"
    body = """g (float[b, t, 1] x, int32[b] lengths) => (float[b, t, 1] y)
        <float[1, 3, 1] w = {0, 0, 0}, float[1, 3, 1] r = {0, 0, 0}> {
        s = Transpose <perm = [1, 0, 2]> (x) g, h = GRU <hidden_size = 1> (s, w, r, , lengths)
        f = Squeeze(h) k = ReduceSum <keepdims = 0> (f) z = Mul(x, k) y = Add(x, z) }"""
    onnx.save(text(body), path)
    [compared] = compare_with(path, f"{__name__}:sums")
    assert [symptom.severity for symptom in compared.symptoms] == ["note"]


def test_lengths_that_pytorch_wants_sorted_are_compared_and_a_refusal_is_said(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(text(PACKED), path)
    *_, compared = compare_with(path, f"{__name__}:packed")
    assert [symptom.severity for symptom in compared.symptoms] == ["note"]
    assert compared.tried == "Compared with PyTorch at b = 1, 2, 3, 4, 6, 7; t = 1, 6, 7, 8, 14, 15."
    *_, refused = compare_with(path, f"{__name__}:strict")
    [symptom] = refused.symptoms
    assert symptom.what == "Nothing was compared: PyTorch refused the example and every other size."
    assert symptom.severity == "risk"
    assert "lengths must be sorted" in symptom.why


class Scaled(torch.nn.Module):
    def forward(self, x, scale=None, *, bias=0.0):
        return torch.relu(x) if scale is None else torch.relu(x) * scale + bias


def by_keyword():
    return Scaled(), {"x": torch.tensor([-1.0, 2.0])}


def scripted():
    return torch.jit.script(torch.nn.ReLU()), (torch.tensor([-1.0, 2.0]),)


@pytest.mark.parametrize("factory", ["by_keyword", "scripted"])
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_keyword_arguments_and_a_scripted_module_are_compared(tmp_path, factory):
    path = tmp_path / "m.onnx"
    onnx.save(text("g (float[n] x) => (float[n] y) { y = Relu(x) }"), path)
    [compared] = compare_with(path, f"{__name__}:{factory}")
    assert [symptom.severity for symptom in compared.symptoms] == ["note"]


def linear():
    return torch.nn.Linear(2, 1, bias=False), (torch.ones(1, 2),)


@pytest.mark.parametrize("beside", [False, True])
def test_a_file_with_other_weights_than_the_modules_is_told_so(tmp_path, beside):
    path = tmp_path / "m.onnx"
    body = "g (float[n, 2] x) => (float[n, 1] y) { y = Gemm <transB = 1> (x, weight) }"
    model = text(body, weight=np.full((1, 2), 9, np.float32))
    onnx.save(model, path, save_as_external_data=beside, location="m.data", size_threshold=0)
    [compared] = compare_with(path, f"{__name__}:linear")
    assert compared.symptoms[0].why == "The file's weight weight differs from the module's."


class Encode(torch.nn.Module):
    """Reads a list of texts and returns one: PyTorch has no tensor of them."""

    def forward(self, words):
        return [{"a": "x", "b": "y"}.get(word, "?") for word in words]


def encode():
    return Encode(), (["b", "a", "c"],)


def unchanged():
    return torch.nn.Identity(), (np.array(["b", "c"], object),)


def test_a_pool_whose_last_window_onnx_counts_is_not_told_to_be_changed():
    pool = "AveragePool <ceil_mode = 1, kernel_shape = [3, 3], strides = [3, 3], pads = [1, 1, 1, 1]> (x)"
    model = text(f"g (float[1, 1, 2, 2] x) => (float[1, 1, 1, 1] y) {{ y = {pool} }}")
    [then] = [symptom.then for symptom in examine(model).symptoms if "differ in dimension" in symptom.what]
    assert "leave the declared shape" in then


def dropped():
    return torch.nn.Dropout(0.5), (torch.ones(64),)


def test_a_module_in_training_mode_is_not_taken_for_the_one_that_the_file_computes(tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(text("g (float[n] x) => (float[n] y) { y = Identity(x) }"), path)
    *_, compared = compare_with(path, f"{__name__}:dropped")
    agreement, training = compared.symptoms
    assert agreement.what.startswith("The file agrees with PyTorch")
    assert "in training mode" in training.what


ENCODED = (
    "g (string[n] c) => (string[n] y) { y = ai.onnx.ml.LabelEncoder"
    ' <keys_strings = ["a", "b"], values_strings = ["x", "y"], default_string = "?"> (c) }'
)


@pytest.mark.parametrize(
    ("body", "factory", "says"),
    [
        (ENCODED, "encode", "The file agrees with PyTorch at n = 1, 2, 3, 4, 6, 7."),
        (
            ENCODED.replace('"y"]', '"z"]'),
            "encode",
            "With the example the file is wrong: y: ['z' 'x' '?'] instead of ['y' 'x' '?'].",
        ),
        (
            "g (string[n] c) => (string[n] y) { y = Identity(c) }",
            "unchanged",
            "The file agrees with PyTorch at n = 1, 2, 3, 4, 5.",
        ),
    ],
)
def test_texts_are_compared_with_pytorch(tmp_path, body, factory, says):
    path = tmp_path / "m.onnx"
    onnx.save(text(body), path)
    np.savez(tmp_path / "in.npz", c=np.array(["a", "d"]))
    *_, compared = compare_with(path, f"{__name__}:{factory}", tmp_path / "in.npz")
    assert [symptom.what for symptom in compared.symptoms] == [says]


# For machines


def test_annotations_json_and_what_to_fail_on(tmp_path, capsys):
    path = tmp_path / "a,b.onnx"
    onnx.save(text("g (float[n] x, float[n] z) => (float[n] y) { y = Relu(x) }"), path)
    assert main(["doctor", str(path), "--format", "github"]) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith(
        f"::warning file={tmp_path}/a%2Cb.onnx,title=onnxlab doctor::No node reads the input z."
    )
    assert last.startswith("0 wrong, 1 risk")
    assert main(["doctor", str(path), "--fail-on", "wrong", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["healthy"] is False
    assert {"name", "nodes", "size", "symptoms", "tried", "not_tried"} <= read.keys()
    assert {"severity", "what", "why", "then", "chapter", "section"} == read["symptoms"][0].keys()
    with pytest.raises(SystemExit):
        main(["doctor", "--help"])
    assert "Exit codes" in capsys.readouterr().out
