"""What the parts that every exercise shares say: the reason, the place, the case and where to look."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx import parser

from onnxlab.kit.checking import check, load_judges
from onnxlab.kit.exercise import Judges, exercise
from onnxlab.kit.exporting import require_model
from onnxlab.kit.judging import (
    first_mismatch,
    require_numbers,
    require_same_numbers,
    require_valid,
    require_well_formed,
)
from onnxlab.kit.outcome import Status, Wrong, case_of, trying
from onnxlab.runtime.parity import paired_runs
from onnxlab.runtime.refusals import short_reason
from onnxlab.runtime.session import open_session

_, ASINH = exercise("asinh-symbolic")
_, TRANSLATION = exercise("asinh-translation")


def model(body: str, signature: str = "float[n] x) => (float[m] y", opset: int = 11, ir: int = 8):
    return parser.parse_model(
        f'<ir_version: {ir}, opset_import: ["" : {opset}]> g ({signature}) {{ {body} }}'
    )


def zeros(*shape: int, kind: str = "float32") -> np.ndarray:
    return np.zeros(shape, kind)


RESIZE = """<ir_version: 8, opset_import: ["" : 11]>
g (float[1,1,4,4] x) => (float[1,1,n,m] y) <float[0] r = {}, float[4] s = {1.0,1.0,2.0,2.0}>
{ y = Resize <mode = "bicubic"> (x, r, s) }"""
RESHAPE = """<ir_version: 8, opset_import: ["" : 11]>
g (float[n] x) => (float[m, k] y) <int64[2] s = {2, 3}> { y = Reshape (x, s) }"""


@pytest.mark.parametrize(
    ("invalid", "feeds", "reason"),
    [
        (parser.parse_model(RESIZE), {}, "mode attribute is bicubic. It can only be nearest(default)"),
        (
            model('y = BitShift <direction = "left"> (x, x)', "uint8[4] x) => (uint8[4] y"),
            {},
            "Invalid direction value of 'left'. Valid values are 'LEFT' or 'RIGHT'.",
        ),
        (model("y = Relu (x)", opset=99), {}, "Opset 99 is not released; this runtime knows ai.onnx up to"),
        (model("y = Relu (x)", ir=99), {}, "Unsupported model IR version: 99, max supported IR version:"),
        (
            parser.parse_model(RESHAPE),
            {"x": zeros(4)},
            "Reshape node: The input tensor cannot be reshaped to the requested shape. Input shape:{4}",
        ),
        (model("y = ASinh (x)"), {}, "ASinh node: No Op registered for ASinh with domain_version of 11"),
        (
            model("y = MatMul (x, z)", "float[n,3] x, float[k,m] z) => (float[n,m] y"),
            {"x": zeros(2, 3), "z": zeros(2, 3)},
            "MatMul node: MatMul dimension mismatch",
        ),
        (
            model("y = Relu (x)", "float[3] x) => (float[3] y"),
            {"x": zeros(4)},
            "Got invalid dimensions for input: x for the following indices index: 0 Got: 4 Expected: 3",
        ),
        (
            model("y = Relu (x)", "float[3, 5] x) => (float[3, 5] y"),
            {"x": zeros(4, 6)},
            "Got invalid dimensions for input: x for the following indices "
            "index: 0 Got: 4 Expected: 3; index: 1 Got: 6 Expected: 5",
        ),
    ],
    ids=["bicubic", "left", "opset", "ir", "reshape", "no operator", "matmul", "dimension", "dimensions"],
)
def test_the_reason_of_an_error_of_the_runtime_comes_first(invalid, feeds, reason):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the runtime raises many kinds
        open_session(invalid).run(None, feeds)
    assert short_reason(caught.value).startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Error(s) in loading:\n\tMissing key(s): bias.", "Error(s) in loading: Missing key(s): bias."),
        ("\nranges must be ints in argument 0:\n  File 'x', line 4\n", "ranges must be ints in argument 0"),
        ("one\ntwo", "one"),
        ("", "ValueError"),
        ("\n \n", "ValueError"),
        ("word " * 200, "word word"),
        ("/src/a/b.h:12 void onnxruntime::f(std::function<void (int)>, int) const [with T = int] odd", "odd"),
    ],
)
def test_the_reason_of_other_errors(text, reason):
    assert short_reason(ValueError(text)).startswith(reason)
    assert len(short_reason(ValueError(text))) <= 240


def test_a_script_that_fails_says_what_was_raised():
    @torch.jit.script
    def reshaped(x):
        return x.reshape(2, 3)

    with pytest.raises(RuntimeError) as caught:
        reshaped(torch.ones(4))
    assert "shape '[2, 3]' is invalid for input of size 4" in short_reason(caught.value)


class ReadOnce:
    """An input that is an array the first time only, and then raises without a word."""

    reads = 0

    def __array__(self, dtype=None, copy=None):
        self.reads += 1
        if self.reads > 1:
            raise RuntimeError
        return zeros(2)


def test_a_pair_whose_exception_has_no_text():
    [pair] = paired_runs(lambda x: torch.ones(2), model("y = Neg (x)"), [ReadOnce()])
    assert pair.error == "RuntimeError"


def wrong_of(reference, candidate, inputs) -> Wrong:
    with pytest.raises(Wrong) as caught:
        require_numbers(reference, candidate, inputs, look_at="Add up the numbers.")
    return caught.value


def test_a_counterexample_that_is_not_element_by_element_shows_its_input_whole():
    wrong = wrong_of(lambda x: x.mean() + x, model("y = Identity (x)"), torch.tensor([2.0, -1.0]))
    assert wrong.difference.given.startswith("x = [2, -1] (float32[2]); element ")
    assert wrong.difference.given.endswith(' of output "y"')


def test_a_counterexample_names_the_row_and_the_output():
    two_outputs = model("y = Identity (x)\n z = Neg (x)", "float[n, m] x) => (float[n, m] y, float[n, m] z")
    x = torch.zeros(4, 5)
    x[2, 3] = 1.0
    wrong = wrong_of(lambda x: (x, x), two_outputs, x)
    assert wrong.difference.given == 'x = 1 (float32[4, 5]); row 2, column 3 of output "z"'


@pytest.mark.parametrize(
    ("body", "signature", "message", "look_at"),
    [
        ("y = Cast <to = 11> (x)", "float[n] x) => (double[n] y", "The output's type is", "element type"),
        ("y = Shape (x)", "float[n] x) => (int64[m] y", "The output's type is", "element type"),
        ("y = ReduceSum <keepdims = 0> (x)", "float[n] x) => (float y", "The output's shape is", "shape"),
        ("y = Neg (x)", "float[n] x) => (float[n] y", "The outputs differ", "Add up"),
        (
            "y = Neg (x)\n z = Neg (x)",
            "float[n] x) => (float[n] y, float[n] z",
            "number of outputs",
            "returned",
        ),
        (
            "y = Add (x, x)\n z = MatMul (y, y)",
            "float[2] x) => (float z",
            "stops while it runs",
            "Which node",
        ),
    ],
)
def test_where_to_look_belongs_to_the_kind_of_failure(body, signature, message, look_at):
    inputs = torch.ones(3) if "float[2]" not in signature else torch.ones(5)
    wrong = wrong_of(torch.asinh, model(body, signature), inputs)
    assert message in wrong.message
    assert look_at in wrong.look_at


def test_the_schema_is_named_with_the_opset_that_makes_it_true():
    with pytest.raises(Wrong) as caught:
        require_valid(model("y = BitShift (x, x)", "uint8[n] x) => (uint8[n] y"))
    assert "onnx.defs.get_schema('BitShift', 11)" in caught.value.look_at
    assert caught.value.evidence.highlight == ("BitShift",)


def forgets(g, x):
    g.op("Asinh", x)


def translation_that_forgets(x):
    pass


@pytest.mark.parametrize(
    ("record", "answer"),
    [(ASINH, forgets), (TRANSLATION, translation_that_forgets)],
    ids=["rule", "translation"],
)
def test_a_forgotten_return_is_said(record, answer):
    outcome = check(record, {record.answers[0]: answer})
    assert outcome.status is Status.INCORRECT
    failed = outcome.first_failure
    assert f"{answer.__name__} returned None" in failed.message
    assert "return" in failed.look_at


def test_an_error_names_its_case():
    def answer(g, x):
        return g.oops()

    outcome = check(ASINH, {"asinh_symbolic": answer})
    assert outcome.message.endswith("This happened for the TorchScript export of asinh at opset 9.")
    assert set(outcome.case) == {"module", "inputs"}


def test_the_inner_of_two_cases_counts():
    with pytest.raises(Wrong) as caught, trying("the outer", a=1), trying("the inner", b=2):
        raise Wrong("no")
    assert (case_of(caught.value).name, dict(case_of(caught.value))) == ("the inner", {"b": 2})


def test_a_counterexample_can_be_run_again():
    def answer(g, x):
        return g.op("Atan", x)

    case = check(ASINH, {"asinh_symbolic": answer}).failing_case
    y = open_session(case["model"]).run(None, {"x": case["inputs"][0]})[0]
    assert not np.allclose(y, np.arcsinh(case["inputs"][0]))


def test_a_refused_model_is_a_case():
    record = replace(ASINH, parts=ASINH.parts[:1], judges=Judges(load_judges(ASINH).parts[:1]))
    outcome = check(record, {"asinh_symbolic": lambda g, x: g.op("ASinh", x)})
    assert outcome.failing_case["model"].graph.node[0].op_type == "ASinh"


@pytest.mark.parametrize(
    ("body", "signature", "reason", "look_at"),
    [
        ("s = Neg (x) s = Abs (x) y = Relu (s)", "float[2] x) => (float[2] y", "'s'", "A name is made twice"),
        (
            "y = Relu (s) s = Neg (x)",
            "float[2] x) => (float[2] y",
            "Relu is not output",
            "before its readers",
        ),
        ("y = Relu (x)", "float[2] x) => (double[2] y", "(1) vs (11)", "another element type"),
        ("y = Relu (x)", "float[2] x) => (float[3] y", "(2) vs (3)", "an old shape left"),
        ("y = Foo (x)", "float[2] x) => (float[2] y", "No Op registered for Foo", "Advice of the exercise."),
    ],
    ids=["made twice", "order", "type", "shape", "no operator"],
)
def test_advice_for_a_refused_model_fits_the_refusal(body, signature, reason, look_at):
    with pytest.raises(Wrong) as caught:
        require_well_formed(model(body, signature), "A model", "Advice of the exercise.")
    assert reason in caught.value.message
    assert look_at in caught.value.look_at


def test_an_output_without_a_type_is_said_to_be_one():
    added = model("y = Relu (x)")
    added.graph.output.append(onnx.ValueInfoProto(name="x"))
    with pytest.raises(Wrong) as caught:
        require_well_formed(added, "A model")
    assert "An input or an output has no type" in caught.value.look_at


def test_a_result_that_does_not_run_shows_the_whole_reason():
    fixed = model("y = Relu (x)", "float[1, 3] x) => (float[1, 3] y")
    with pytest.raises(Wrong) as caught:
        require_same_numbers(fixed, {"x": zeros(2, 3)}, [zeros(2, 3)], "A model", "Look at ReduceMean.")
    assert "index: 0 Got: 2 Expected: 1" in caught.value.message
    assert "accepts other inputs" in caught.value.look_at


def test_two_numbers_that_differ_are_shown_with_the_digits_that_differ():
    with pytest.raises(Wrong) as caught:
        require_same_numbers(
            model("y = Identity (x)"), {"x": zeros(2) + 1000.04}, [zeros(2) + 1000], "A model", ""
        )
    assert caught.value.difference.expected == "1000"
    assert caught.value.difference.got == "1000.04"


@pytest.mark.parametrize(
    ("expected", "actual", "index"),
    [
        ([1.0, np.inf], [1.0, np.inf], None),
        ([1.0, np.inf], [5.0, np.inf], (0,)),
        ([1.0, np.inf], [1.0, -np.inf], (1,)),
        ([1.0, np.nan], [1.0, np.nan], None),
        ([1.0, np.nan], [1.0, 2.0], (1,)),
        ([0.0], [-0.0], None),
        ([2**53], [2**53 + 1], (0,)),
        ([10**6], [10**6 + 1], (0,)),
        ([1 + 1j], [1 - 1j], (0,)),
        ([True], [False], (0,)),
        ([], [], None),
    ],
)
def test_the_first_number_apart(expected, actual, index):
    assert first_mismatch(np.array(expected), np.array(actual)) == index


def test_an_empty_model_is_said_to_be_empty():
    with pytest.raises(Wrong, match=r"lower_for\(\) returned an empty ModelProto"):
        require_model(onnx.ModelProto(), "lower_for()")
    with pytest.raises(Wrong, match="without graph"):
        require_model(onnx.ModelProto(ir_version=8), "lower_for()")
