"""Two files are compared: by name, in every kind of output, at several sizes, in the sizes they accept."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxlab.cli import main
from onnxlab.diagnosis.pair import Pair, compare_files, pair_of, structure_text
from onnxlab.diagnosis.pair_trial import Options, try_pair
from onnxlab.model.diff import diff
from onnxlab.notebook.graph.comparison_page import comparison_page

RELU = "g (float[n] x) => (float[n] y) { y = Relu(x) }"


def text(graph: str, opset: int = 18) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}, "ai.onnx.ml": 3]> {graph}')


@pytest.fixture
def compared(tmp_path):
    """Compare two models in this process: the trial itself, without the seconds that a process costs."""

    def compare(first, second, **options) -> Pair:
        paths = (tmp_path / "a.onnx", tmp_path / "b.onnx")
        for path, model in zip(paths, (first, second), strict=True):
            path.write_bytes((text(model) if isinstance(model, str) else model).SerializeToString())
        reports = []
        try_pair(Options((str(paths[0]), str(paths[1])), **options), reports.append)
        return pair_of("", json.loads(json.dumps(reports)), ("a.onnx", "b.onnx"))

    return compare


def said(pair: Pair) -> str:
    return "\n".join([*pair.findings, *map(str, pair.outputs), pair.tried])


DIVIDED = (
    "g (float[b, n] x) => (float[b, n] y) <int64 one = {1}>"
    " { s = Shape(x) k = Gather(s, one) f = Cast <to = 1> (k) y = Div(x, f) }"
)
FROZEN = "g (float[b, n] x) => (float[b, n] y) <float f = {32}> { y = Div(x, f) }"
ZIPPED = (
    "g (float[n, 2] x) => (seq(map(int64, float)) y)"
    " { p = Softmax(x) y = ai.onnx.ml.ZipMap <classlabels_int64s = [4, 7]> (p) }"
)
WORDS = 'g (float[n] x) => (string[1] y) { y = Constant <value_strings = ["a"]> () }'
BOTH = "g (float[n] x) => (float[n] p, float[n] q) { p = Relu(x) q = Neg(x) }"
LIST = "g (float[n] x) => (seq(float[n]) y) { z = Neg(x) y = SequenceConstruct(x, z) }"


@pytest.mark.parametrize("model", [RELU, DIVIDED, ZIPPED, WORDS, BOTH, LIST])
def test_a_file_agrees_with_itself(compared, model):
    pair = compared(model, model)
    assert pair.equal
    assert "Their outputs agree" in said(pair)
    assert re.search(r"Run: \d comparisons with drawn values, at .* = 1, 2, 3.*Not tried: ", pair.tried)


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (WORDS, WORDS.replace('"a"', '"b"'), "1 of 1 texts differ"),
        (ZIPPED, ZIPPED.replace("7", "8"), "other elements"),
        (ZIPPED, ZIPPED.replace("Softmax(x)", "Sigmoid(x)"), "wrong"),
        (LIST, LIST.replace("Neg", "Abs"), "wrong"),
        (RELU, RELU.replace("Relu", "Log"), r"NaN only in the first: 0; only in the second: \d+"),
        (
            RELU,
            RELU.replace("float[n] y", "int64[n] y").replace("Relu", "Cast <to = 7> "),
            "int64 .* instead",
        ),
        (BOTH, "g (float[n] x) => (float[n] p) { p = Relu(x) }", "only in the first"),
        ("g (float[n] x) => (float[n] p) { p = Relu(x) }", BOTH, "only in the second"),
    ],
)
def test_outputs_that_differ_are_named_with_what_differs(compared, first, second, problem):
    pair = compared(first, second)
    assert not pair.outputs_agree
    assert re.search(problem, said(pair))
    assert "Their outputs differ" in said(pair)
    json.loads(json.dumps(pair.as_json(), allow_nan=False))


def test_outputs_and_inputs_are_paired_by_name_else_by_place(compared):
    swapped = BOTH.replace("float[n] p, float[n] q", "float[n] q, float[n] p")
    pair = compared(BOTH, swapped)
    assert pair.equal
    assert "outputs are in another order: p, q; q, p" in said(pair)
    two = "g (float[n] a, float[n] b) => (float[n] y) { y = Sub(a, b) }"
    assert compared(two, two.replace("float[n] a, float[n] b", "float[n] b, float[n] a")).equal
    assert compared(RELU, RELU.replace("x", "other").replace("y", "z")).equal
    unread = RELU.replace("(float[n] x)", "(float[n] x, float[m] unread)")
    assert compared(unread, RELU).outputs_agree
    assert "Nothing was compared: their inputs are" in said(compared(two, RELU))


def test_several_sizes_are_run(compared):
    pair = compared(DIVIDED, FROZEN)
    assert not pair.outputs_agree
    assert pair.sizes_agree
    assert "They diverge first at Div y of b.onnx" in said(pair)


@pytest.mark.parametrize("turned", [False, True])
def test_a_file_that_accepts_fewer_sizes_is_named(compared, turned):
    fixed = FROZEN.replace("b, n", "1, 32")
    pair = compared(fixed, DIVIDED) if turned else compared(DIVIDED, fixed)
    assert pair.outputs_agree
    assert not pair.equal
    assert f"{'ab'[not turned]}.onnx accepts fewer sizes: it refuses b = 2" in said(pair)
    assert "at b = 1, n = 32" in pair.tried
    reshaped = "g (float[n] x) => (float[4] y) <int64[1] s = {4}> { y = Reshape(x, s) }"
    assert "fewer sizes" in said(compared("g (float[n] x) => (float[n] y) { y = Identity(x) }", reshaped))


def test_an_input_that_is_a_weight_in_the_other_file_gets_that_weight(compared):
    weight = "g (float[n, 2] x) => (float[n, 2] y) <float[2] w = {3., 4.}> { y = Mul(x, w) }"
    read = "g (float[n, 2] x, float[2] w) => (float[n, 2] y) { y = Mul(x, w) }"
    assert compared(weight, read).equal
    assert compared(read, weight).equal
    assert not compared(weight, read.replace("Mul", "Div")).equal


@pytest.mark.slow
def test_a_provider_that_is_not_here_is_not_replaced_by_another(tmp_path, capsys):
    path = tmp_path / "relu.onnx"
    path.write_bytes(text(RELU).SerializeToString())
    assert main(["compare", str(path), str(path), "--provider", "NothingExecutionProvider"]) == 2
    said = capsys.readouterr().err
    assert "NothingExecutionProvider does not run here.\nONNX Runtime would take CPUExecution" in said


def test_a_file_without_a_shape_is_run_at_that_of_the_other(compared):
    open_shape = text(RELU)
    open_shape.graph.input[0].type.tensor_type.ClearField("shape")
    for pair in (compared(open_shape, RELU), compared(RELU, open_shape)):
        assert pair.outputs_agree
        assert "float32[2]" in str(pair.outputs)


def test_bfloat16_is_compared_with_float32(compared):
    narrow = text(
        "g (bfloat16[n] x) => (bfloat16[n] y) { f = Cast <to = 1> (x) e = Exp(f) t = Tanh(e)"
        " y = Cast <to = 16> (t) }"
    )
    pair = compared(SINGLE, narrow)
    assert pair.equal
    assert "allowed for bfloat16" in said(pair)


def test_no_shape_that_fits_both_is_said(compared):
    pair = compared(RELU.replace("n]", "3]"), RELU.replace("n]", "4]"))
    assert not pair.equal
    assert "Nothing was compared: no shape fits the input x of both" in said(pair)


def looking_up(row: float) -> onnx.ModelProto:
    table = np.zeros((9, 2), np.float32)
    table[7] = row
    node = helper.make_node("Gather", ["t", "ids"], ["y"])
    ids, y = (
        helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2]),
    )
    graph = helper.make_graph([node], "g", [ids], [y], [numpy_helper.from_array(table, "t")])
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])


def test_ids_are_drawn_over_the_whole_table(compared):
    assert compared(looking_up(1), looking_up(1)).equal
    assert not compared(looking_up(1), looking_up(2)).outputs_agree


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("beside", [False, True])
def test_a_row_of_a_large_table_that_differs_is_drawn(compared, tmp_path, width, beside):
    paths = []
    for number in range(2):
        table = np.zeros((5000, 6, 2)[2 - width :], np.float32)
        table[3777 % len(table)] = number
        body = "g (int64[n] i) => (float[n, 2] y) { y = Gather(t, i) }"
        if width == 2:
            body = "g (int64[n, 2] i) => (float[n, 2] y) { y = GatherND(t, i) }"
        model = text(body)
        model.graph.initializer.append(numpy_helper.from_array(table, "t"))
        paths.append(tmp_path / f"{number}.onnx")
        onnx.save(model, paths[-1], save_as_external_data=beside, location=f"{number}.data", size_threshold=0)
    reports = []
    try_pair(Options((str(paths[0]), str(paths[1]))), reports.append)
    assert not pair_of("", json.loads(json.dumps(reports)), ("a", "b")).outputs_agree


BRANCHES = """g (float[n] x, bool c, int64 rate) => (float[n] y, float[n] z) <int64 a = {16000}> {
    y = If (c) <then_branch = t () => (float[n] o) { o = Sin(x) },
                else_branch = e () => (float[n] q) { q = Neg(x) }>
    fast = Equal(rate, a)
    z = If (fast) <then_branch = t2 () => (float[n] r) { r = Sinh(x) },
                   else_branch = e2 () => (float[n] s) { s = Tan(x) }> }"""


@pytest.mark.parametrize("changed", [("Sin(", "Abs("), ("Neg(", "Abs("), ("Sinh(", "Abs("), ("Tan(", "Abs(")])
def test_each_branch_that_an_input_chooses_is_run(compared, changed):
    assert compared(BRANCHES, BRANCHES).equal
    assert not compared(BRANCHES, BRANCHES.replace(*changed)).outputs_agree


def test_double_precision_is_compared_with_single(compared):
    double = SINGLE.replace("float", "double")
    assert compared(double, SINGLE).equal
    assert compared(SINGLE, double).equal
    assert not compared(double, SINGLE.replace("Exp", "Sin")).equal


def test_a_size_of_minus_1_is_a_free_axis(compared):
    free = text(RELU)
    for value in (*free.graph.input, *free.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1
    assert compared(free, RELU).equal
    assert compared(RELU, free).equal
    pair = compared(RELU.replace("n]", "3]"), free)
    assert pair.outputs_agree
    assert "a.onnx accepts fewer sizes" in said(pair)


def test_a_map_that_differs_is_no_fault_of_the_optimiser(compared):
    pair = compared(ZIPPED, ZIPPED.replace("4, 7", "7, 4"))
    assert not pair.outputs_agree
    assert "was not looked for: a list or a map differs" in said(pair)
    assert "optimiser" not in said(pair)


def test_why_nothing_is_drawn_is_said(compared):
    chosen = "g (seq(float[n]) x, int64 i) => (float[n] y) { y = SequenceAt(x, i) }"
    assert "for the input x: its type is sequence" in said(compared(chosen, chosen))
    large = RELU.replace("n]", "99999, 99999]")
    assert "values of x, [99999, 99999], were not drawn: too large" in said(compared(large, large))


def test_values_can_be_given(compared, tmp_path):
    np.savez(tmp_path / "in.npz", ids=np.array([0, 1]))
    inputs = str(tmp_path / "in.npz")
    pair = compared(looking_up(1), looking_up(2), inputs=inputs)
    assert pair.equal
    assert "Run: 1 set of values from --inputs" in pair.tried
    np.savez(tmp_path / "in.npz", other=np.array([0, 1]))
    assert "Nothing was compared: no values are given for ids, only for other" in said(
        compared(looking_up(1), looking_up(2), inputs=inputs)
    )
    np.savez(tmp_path / "in.npz", ids=np.array([99]))
    assert "Nothing was compared: they refuse the values" in said(
        compared(looking_up(1), looking_up(2), inputs=inputs)
    )
    np.savez(tmp_path / "in.npz", ids=np.array([7]))
    assert not compared(looking_up(1), looking_up(2), inputs=inputs).equal


HALF = (
    "g (float16[n] x) => (float16[n] y) { f = Cast <to = 1> (x) e = Exp(f) h = Cast <to = 10> (e)"
    " y = Tanh(h) }"
)
SINGLE = "g (float[n] x) => (float[n] y) { e = Exp(x) y = Tanh(e) }"


def test_the_tolerance_follows_the_narrower_type_unless_it_is_given(compared):
    pair = compared(SINGLE, HALF)
    assert pair.equal
    assert "allowed for float16" in said(pair)
    assert float(pair.outputs[0][3]) > 1e-6
    assert not compared(SINGLE, HALF, rtol=0.0, atol=1e-9).equal
    nearly = (
        SINGLE.replace("Tanh(e)", "Tanh(k)")
        .replace("{ e", "<float f = {1.001}> { e")
        .replace(" y =", " k = Mul(e, f) y =")
    )
    assert not compared(SINGLE, nearly).equal
    assert compared(SINGLE, nearly, rtol=0.01).equal


def test_an_agreement_within_which_a_constant_would_agree_proves_little(compared):
    tiny = SINGLE.replace("Tanh(e)", "Mul(e, f)").replace("{ e", "<float f = {0.000001}> { e")
    zeros = tiny.replace("{0.000001}", "{0}")
    pair = compared(tiny, zeros)
    assert pair.equal
    assert re.search(r"That proves little for y: all its values lie between .*e-0\d and ", said(pair))
    assert "proves little" not in said(compared(SINGLE, HALF))
    assert "proves little" not in said(compared(tiny, zeros, atol=1e-9))  # they differ


def test_weights_of_another_type_are_one_line_and_other_changes_their_own():
    single = "g (float[2] x) => (float[2] y) <float[2] w = {1., 2.}> { a = Add(x, w)"
    single += " b = Mul(a, w) y = Relu(b) }"
    double = single.replace("float", "double").replace("Relu", "Elu")
    lines = structure_text(diff(text(single), text(double))).splitlines()
    assert "~ 2 nodes: weights float32 -> float64" in lines
    assert not any("Add" in line or "Mul" in line for line in lines)
    assert any("Relu" in line for line in lines)


def test_random_outputs_are_no_difference_of_the_files(compared):
    random = "g (float[n] x) => (float[n] y) { r = RandomNormalLike (x) y = Add(x, r) }"
    pair = compared(random, random.replace("Like", "Like <seed = 3.0>"))
    assert "makes other outputs when it runs again" in said(pair)
    assert not pair.equal


def test_a_file_that_does_not_load_or_is_missing_weights_is_said(compared):
    unknown = RELU.replace("Relu", "Nothing")
    pair = compared(RELU, unknown)
    assert not pair.equal
    assert "b.onnx does not load" in said(pair)
    assert "Run: nothing." in pair.tried


ENDLESS = (
    "g (float[n] x) => (float[n] y) <int64 most = {9223372036854775807}, bool go = {1}>"
    " { y = Loop (most, go, x) <body = b (int64 i, bool c, float[n] s) => (bool d, float[n] t)"
    " { d = Identity(c) t = Identity(s) }> }"
)


@pytest.mark.slow
def test_the_command_ends_a_file_that_never_ends(tmp_path, capsys):
    path = tmp_path / "endless.onnx"
    path.write_bytes(text(ENDLESS).SerializeToString())
    pair = compare_files(path, path, seconds=1)
    assert not pair.equal
    assert re.search("did not end within 1 s, (running|loading|starting)", said(pair))


@pytest.mark.slow
def test_the_command_compares_weights_beside_a_file_and_writes_for_a_workflow(tmp_path, capsys):
    """A process of its own, by path; the page holds both graphs and no script."""
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, row in zip(paths, (1, 2), strict=True):
        onnx.save(
            looking_up(row), path, save_as_external_data=True, location=f"{path.stem}.data", size_threshold=0
        )
    page = tmp_path / "page.html"
    command = ["compare", *map(str, paths), "--format", "github", "--html", str(page)]
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert f"Both graphs: {page}" in shown
    assert re.search(r"^::error file=.*b\.onnx,title=onnxlab compare::Their outputs differ", shown, re.M)
    assert shown.splitlines()[-1].startswith("Run: ")
    html = page.read_text("utf-8")
    assert html.count("<img ") == 2
    assert "Gather y" in html
    assert "<script" not in html
    assert not re.search(r'(src|href)="(?!data:)', html)


@pytest.mark.slow
def test_json_names_the_page(tmp_path, capsys):
    path, page = tmp_path / "relu.onnx", tmp_path / "page.html"
    path.write_bytes(text(RELU).SerializeToString())
    assert main(["compare", str(path), str(path), "--json", "--html", str(page)]) == 0
    assert json.loads(capsys.readouterr().out)["page"] == str(page)
    assert page.exists()


@pytest.mark.parametrize("wrong", ["-1", "nan", "inf", "much"])
def test_a_tolerance_that_is_none_is_refused(wrong):
    with pytest.raises(SystemExit) as ended:
        main(["compare", "a.onnx", "b.onnx", "--rtol", wrong])
    assert ended.value.code == 2


@pytest.mark.parametrize("inputs", ["gone.npz", "text.npz", "."])
def test_values_that_cannot_be_read_are_refused(tmp_path, monkeypatch, capsys, inputs):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(text(RELU).SerializeToString())
    (tmp_path / "text.npz").write_text("no arrays")
    (tmp_path / "empty").mkdir()
    folder = "empty" if inputs == "." else inputs
    assert main(["compare", "m.onnx", "m.onnx", "--inputs", folder]) == 2
    assert folder in capsys.readouterr().err


def test_the_first_divergence_of_weights_too_large_to_copy_is_not_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("onnxlab.diagnosis.pair_trial._LARGEST_SEARCHED", 1000)
    table = np.zeros((200, 2), np.float32)
    for name, row in (("a", 1), ("b", 2)):
        model = looking_up(row)
        table[:] = row
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(table, "t"))
        onnx.save(
            model, tmp_path / f"{name}.onnx", save_as_external_data=True, location=name, size_threshold=0
        )
    reports = []
    try_pair(Options((str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"))), reports.append)
    assert "larger than 1 GiB" in said(pair_of("", reports, ("a", "b")))


def test_a_page_shows_names_as_text_and_a_large_graph_in_part(compared):
    nodes = "".join(f"v{i + 1} = Neg(v{i}) " for i in range(150))
    long = f"g (float[n] v0) => (float[n] v150) {{ {nodes}}}"
    other = long.replace("v100 = Neg", "v100 = Abs")
    pair = compared(long, other)
    assert pair.suspects == ["99"]
    page = comparison_page(text(long), text(other), ("<b>a", "b"), pair)
    assert "<b>" not in page
    assert "only the part around the first difference" in page
    assert page.count("<img ") == 2
