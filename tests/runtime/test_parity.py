"""Differences between torch and the runtime, for all kinds of inputs and outputs."""

import numpy as np
import pytest
import torch
from onnx.parser import parse_model

from onnxlab.errors import InputMismatch
from onnxlab.exporters.export import Exporter, export
from onnxlab.history import recorded_graph
from onnxlab.language import Speech
from onnxlab.model.distance import difference, largest_difference, magnitude
from onnxlab.plain_text import pluralise
from onnxlab.runtime.parity import compare, run, smallest_counterexample


def model(body, inputs="float[n] x", outputs="float[n] y"):
    head = '<ir_version: 8, opset_import: ["" : 18]>'
    return parse_model(f"{head} g ({inputs}) => ({outputs}) {{ {body} }}")


RELU = model("y = Relu(x)")


def test_each_set_of_inputs_is_compared():
    compared = compare(torch.abs, RELU, [torch.ones(2), torch.tensor([-1.0, -3.0, 2.0]), torch.zeros(0)])
    assert [not row.problem for row in compared.outputs] == [True, False, True]
    assert compared.outputs[1].inputs == "others[0]: 0_0 (3,)"
    assert compared.difference == 3.0
    assert not compared


def test_no_inputs_prove_nothing():
    assert not compare(torch.relu, RELU, [])


@pytest.mark.parametrize("alone", [torch.ones(2), np.ones(2, np.float32)])
def test_one_array_is_one_set(alone):
    compared = compare(lambda x: torch.relu(torch.as_tensor(x)), RELU, alone)
    assert [row.inputs for row in compared.outputs] == ["example: x (2,)"]
    assert compared


def test_arguments_may_be_tuples_and_dicts():
    subtract = model("y = Sub(a, b)", "float[n] a, float[n] b")
    a, b = torch.tensor([3.0]), torch.tensor([1.0])
    assert compare(lambda a, b: a - b, subtract, [(a, b), {"b": b, "a": a}]).right
    assert compare(lambda a, b: a - b, subtract, {"b": b, "a": a}).right


def test_a_dropped_input_is_not_fed():
    class Scaled(torch.nn.Module):
        def forward(self, x, scale):
            return x * scale.item()

    exported = export(Scaled(), (torch.ones(3), torch.tensor(2.0)), Exporter.TORCHSCRIPT)
    compared = compare(Scaled(), exported, [(torch.ones(3), torch.tensor(factor)) for factor in (2.0, 5.0)])
    assert [row.difference for row in compared.outputs] == [0.0, 3.0]


def test_run_takes_positions_or_names():
    subtract = model("y = Sub(a, b)", "float[n] a, float[n] b")
    a, b = torch.tensor([3.0]), np.array([1.0], np.float32)
    assert run(subtract, a, b)[0].tolist() == [2.0]
    assert run(subtract, {"b": b, "a": a})[0].tolist() == [2.0]
    assert run(subtract, [a, b], optimize=False)[0].tolist() == [2.0]


@pytest.mark.parametrize("inputs", [(), (np.ones(2, np.float32),) * 2])
def test_run_requires_one_array_for_each_input(inputs):
    given = pluralise(len(inputs), "array")
    with pytest.raises(InputMismatch, match=rf"takes 1 input \(x\) and was given {given}\."):
        run(RELU, *inputs)


def test_python_numbers_take_the_type_of_the_input():
    power = model("y = Pow(x, p)", "float[n] x, int64 p")
    assert run(power, np.array([2.0], np.float32), 3)[0].tolist() == [8.0]


def test_optimisation_can_be_switched_off():
    # Unoptimised, the runtime runs both Casts; optimised, it may drop them, as the result shows.
    casts = model("h = Cast <to = 10> (x) y = Cast <to = 1> (h)")
    x = np.array([1.0001], np.float32)
    assert run(casts, x, optimize=False)[0][0] == np.float32(np.float16(1.0001))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "uint64", "bool", "float16", "float64"])
def test_differences_of_every_type(kind):
    ours, theirs = np.array([1, 0, 1], kind), np.array([1, 1, 0], kind)
    assert difference(ours, theirs).tolist() == [0.0, 1.0, 1.0]


def test_neighbouring_large_integers_differ():
    ours, theirs = np.array([2**62, 2**62]), np.array([2**62 + 1, 2**62])
    assert difference(ours, theirs).tolist() == [1.0, 0.0]
    extremes = np.array([np.iinfo(np.int64).min]), np.array([np.iinfo(np.int64).max])
    assert difference(*extremes)[0] == pytest.approx(2.0**64)
    assert magnitude(np.array([2**60, -(2**63)])).tolist() == [2.0**60, 2.0**63]


def test_infinities_of_one_sign_agree():
    values = np.array([np.inf, -np.inf, np.inf, np.nan]), np.array([np.inf, np.inf, 1.0, 0.0])
    assert difference(*values).tolist() == [0.0, np.inf, np.inf, np.inf]


def test_the_smallest_failing_input_is_reported():
    inputs = [
        torch.arange(-4.0, 4.0),
        torch.tensor([-7.0, -2.0, 5.0]),
        torch.tensor([-70.0, 2.0, 1.0]),
        torch.ones(1),
    ]
    counterexample = smallest_counterexample(torch.abs, RELU, inputs)
    assert counterexample.inputs[0].tolist() == [-7.0, -2.0, 5.0]
    assert (counterexample.output, counterexample.index) == (0, (1,))
    assert (counterexample.torch, counterexample.runtime) == (2.0, 0.0)
    assert counterexample.input_slice[0].tolist() == -2.0
    assert str(counterexample) == "output 0 at [1]: torch 2, runtime 0\ninputs: float32[3]; there: -2.0"


def test_there_is_no_counterexample_where_all_agree():
    assert smallest_counterexample(torch.relu, RELU, [torch.randn(5), torch.zeros(0)]) is None
    assert smallest_counterexample(torch.abs, RELU, torch.tensor([-1.0]), atol=1.0) is None


def test_large_floating_point_values_may_differ_in_their_last_digits_if_asked_for():
    inputs = torch.tensor([-1000.0, 0.5])
    almost = lambda x: torch.relu(-x * 1.000001)  # noqa: E731 - a module in a line
    negated = model("z = Neg(x) y = Relu(z)", "float[n] x", "float[n] y")
    counterexample = smallest_counterexample(almost, negated, inputs)
    assert (counterexample.index, counterexample.runtime) == ((0,), 1000.0)
    assert smallest_counterexample(almost, negated, inputs, rtol=1e-5) is None
    assert smallest_counterexample(almost, negated, inputs, rtol=1e-7) is not None
    # Neither a whole number nor an infinity has a last digit that may differ.
    far = torch.tensor([2**40], dtype=torch.int64)
    same = model("y = Identity(x)", "int64[n] x", "int64[n] y")
    assert smallest_counterexample(lambda x: x + 1, same, far, rtol=1e-5) is not None
    unlike = lambda x: torch.full_like(x, torch.inf)  # noqa: E731 - a module in a line
    assert smallest_counterexample(unlike, RELU, torch.ones(1), rtol=1e-5) is not None


def test_where_shapes_differ_the_worst_element_and_a_corner_are_shown():
    total = model("y = ReduceSum <keepdims = 0> (x, axes)", "float[a,b] x, int64[1] axes", "float[a] y")
    x = torch.arange(20.0).reshape(4, 5)
    counterexample = smallest_counterexample(
        lambda x, axes: x.sum(1) + torch.tensor([0, 3.0, 1.0, 0]), total, [(x, torch.tensor([1]))]
    )
    assert (counterexample.index, counterexample.torch - counterexample.runtime) == ((1,), 3.0)
    assert counterexample.input_slice[0].shape == (3, 3)


def test_a_single_number_may_be_the_counterexample():
    counterexample = smallest_counterexample(
        lambda x: x + 1, model("y = Relu(x)", "float x", "float y"), torch.tensor(2.0)
    )
    assert (counterexample.index, counterexample.torch, counterexample.runtime) == ((), 3.0, 2.0)


def test_nan_may_be_the_counterexample():
    counterexample = smallest_counterexample(
        lambda x: x.nan_to_num(0.0), RELU, torch.tensor([1.0, torch.nan])
    )
    assert counterexample.index == (1,)
    assert np.isnan(counterexample.runtime)


def test_outputs_that_cannot_be_compared_are_a_counterexample():
    counterexample = smallest_counterexample(lambda x: torch.relu(x).double(), RELU, torch.ones(2))
    assert counterexample.reason == "output 0: torch gives float64, the runtime float32"
    words = Speech({}, {"output {n}: torch gives {a.dtype}, the runtime {b.dtype}": "{a.dtype} != {b.dtype}"})
    assert words(counterexample.reason) == "float64 != float32"
    assert (counterexample.index, counterexample.torch, counterexample.runtime) == ((), None, None)


def test_booleans_are_shown_as_such():
    greater = model("y = Greater(x, z)", "float[n] x, float[n] z", "bool[n] y")
    counterexample = smallest_counterexample(torch.ge, greater, [(torch.ones(1), torch.ones(1))])
    assert (counterexample.torch, counterexample.runtime) == (True, False)
    assert "torch True, runtime False" in str(counterexample)


def test_the_recorded_shift_is_wrong_for_negative_numbers():
    shift = recorded_graph("1.12.1", "rshift_int32_o9")
    x, n = torch.tensor([8, -5, -1, 7, 9, -3], dtype=torch.int32), torch.ones(6, dtype=torch.int32)
    counterexample = smallest_counterexample(torch.bitwise_right_shift, shift, [(x, n)])
    assert [part.item() for part in counterexample.input_slice] == [-1, 1]
    assert (counterexample.torch, counterexample.runtime) == (-1, 0)


def test_imaginary_parts_count():
    ours, theirs = np.array([1 + 1j, 2, np.nan]), np.array([1 - 1j, 2, np.nan])
    assert difference(ours, theirs).tolist() == [2, 0, 0]
    assert largest_difference(ours[:1], theirs[:1].real) == 1
