"""The course's one comparison: what it calls right, what wrong, and what it leaves as it was."""

import ast
import inspect
import re
import shutil
import warnings
from pathlib import Path

import nbformat
import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx.parser import parse_model

from onnxlab import check_export, compare_outputs
from onnxlab.runtime import comparison

pytestmark = pytest.mark.usefixtures("remembered_translations")
NAN, INF = float("nan"), float("inf")
f = torch.tensor


def i8(*values):
    return f(values, dtype=torch.uint8)


with warnings.catch_warnings():  # PyTorch will drop them
    warnings.simplefilter("ignore", UserWarning)
    QUANTISED = torch.quantize_per_tensor(f([0.2, 0.31]), 0.1, 0, torch.quint8)
    BY_CHANNEL = torch.quantize_per_channel(torch.ones(2, 1), f([0.1, 0.2]), f([0, 0]), 0, torch.qint8)

RIGHT = {
    "last digits": (f([1.0, 100.0]), [np.float32([1.000001, 100.005])]),
    "small beside large": (f([1e-6, 5000.0]), [np.float32([5e-6, 5000.0])]),
    "NaN in one place": (f([NAN, 1.0]), [np.float32([NAN, 1])]),
    "only NaN": (f([NAN]), [np.float32([NAN])]),
    "infinity": (f([INF, -INF]), [np.float32([INF, -INF])]),
    "empty": (torch.zeros(0, 4), [np.zeros((0, 4), np.float32)]),
    "Boolean": (f([True, False]), [np.array([True, False])]),
    "whole numbers": (f([3, -1]), [np.int64([3, -1])]),
    "texts": (["a", "b"], [np.array("a", object), np.array("b", object)]),
    "numbers of Python": ((3, 2.5, True), [np.int64(3), np.float32(2.5), np.bool_(True)]),
    "None is left out": ((f([1.0]), None), [np.float32([1])]),
    "nested": (
        {"a": f([1.0]), "b": [f([2]), (f([3.0]),)]},
        [np.float32([1]), np.int64([2]), np.float32([3])],
    ),
    "a sequence": ([f([1.0]), f([2.0])], [[np.float32([1]), np.float32([2])]]),
    "names in another order": ({"a": f(1.0), "b": f(2.0)}, {"b": np.float32(2), "a": np.float32(1)}),
    "float16": (f([1.0]).half(), [np.float16([1.002])]),
    "bfloat16": (f([1.0]).bfloat16(), [f([1.008]).bfloat16()]),
    "has a gradient": (f([1.0], requires_grad=True), [np.float32([1])]),
    "sparse": (f([1.0, 0.0]).to_sparse(), [np.float32([1, 0])]),
    "quantised": (QUANTISED, [np.float32([0.3, 0.3])]),
    "quantised by channel": (BY_CHANNEL, [np.float32([[1], [1.2]])]),
}
WRONG = {
    "nothing": ([], [], "nothing was compared"),
    "a scalar for an array": (f([1.0, 1.0]), [np.float32(1)], "float32 () instead of float32 (2,)"),
    "another type": (f([1]), [np.float32([1])], "float32 (1,) instead of int64 (1,)"),
    "another shape": (torch.zeros(2, 3), [np.zeros((3, 2), np.float32)], "(3, 2) instead of"),
    "an output too few": ((f([1.0]), f([1.0])), [np.float32([1])], "1 ['0'] instead of 2 ['0', '1']"),
    "an output too many": (f([1.0]), [np.float32([1])] * 2, "2 ['0', '1'] instead of 1"),
    "outputs exchanged": ((f([1.0]), f([2.0])), [np.float32([2]), np.float32([1])], "0: 1 of 1 elements"),
    "a small value beside large": (
        f([0.05, 5000.0]),
        [np.float32([0, 5000])],
        "most at [0]: 0 instead of 0.05",
    ),
    "GELU by tanh": (f([-2.2, 5.0]), [np.float32([-2.1995, 5])], "1 of 2 elements, most at [0]"),
    "NaN in one only": (f([NAN, 1.0]), [np.float32([1, 1])], "1 instead of nan"),
    "NaN in the other only": (f([1.0, 1.0]), [np.float32([1, NAN])], "most at [1]: nan instead of 1"),
    "infinity for a number": (f([1.0]), [np.float32([INF])], "inf instead of 1"),
    "a number for infinity": (f([INF]), [np.float32([1])], "1 instead of inf"),
    "Boolean": (f([True, False]), [np.array([True, True])], "most at [1]: 1 instead of 0"),
    "whole numbers": (f([1000000]), [np.int64([1000001])], "1000001 instead of 1000000"),
    "neighbours too large for float64": (f([2**60]), [np.int64([2**60 + 1])], "1 of 1 elements"),
    "bytes that wrap": (i8(255, 0), [np.uint8([1, 0])], "1 instead of 255"),
    "texts": (["a"], [np.array("c", object)], "c instead of a"),
    "a text for a number": (f([1.0]), [np.array(["1"], object)], "object (1,) instead of float32 (1,)"),
    "a number of another kind": (3, [np.float32(3)], "float32 () instead of int64 ()"),
    "a number for a row": (3, [np.int64([3])], "int64 (1,) instead of int64 ()"),
    "an object": (object(), [np.float32(3)], "float32 () instead of object ()"),
    "float16": (f([1.0]).half(), [np.float16([1.02])], "instead of 1"),
    "quantised": (QUANTISED, [np.float32([0.2, 0.5])], "1 of 2 elements, most at [1]: 0.5 instead of 0.3"),
    "codes for a quantised": (QUANTISED, [np.uint8([2, 3])], "uint8 (2,) instead of float32 (2,)"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_outputs_that_are_right(name):
    compared = compare_outputs(*RIGHT[name])
    assert (compared.right, bool(compared), compared.problem) == (True, True, ""), compared
    compared.raise_if_wrong()


@pytest.mark.parametrize("name", WRONG)
def test_outputs_that_are_wrong(name):
    expected, actual, problem = WRONG[name]
    compared = compare_outputs(expected, actual)
    assert not compared.right
    assert problem in compared.problem
    with pytest.raises(AssertionError, match=re.escape(problem)):
        compared.raise_if_wrong()


def test_a_difference_is_infinite_where_one_value_is():
    for value in (INF, NAN):
        assert compare_outputs(f([1.0]), [np.float32([value])]).difference == INF


def test_own_tolerance_is_for_floats_alone():
    floats, whole = f([1.0]), f([1])
    assert compare_outputs(floats, [np.float32([1.5])], atol=1)
    assert compare_outputs(floats, [np.float32([1.5])], rtol=1)
    assert not compare_outputs(floats, [np.float32([1.00001])], rtol=0, atol=0)
    assert not compare_outputs(whole, [np.int64([2])], rtol=1, atol=1)


def test_a_table_says_the_worst_element_and_no_digits_of_what_is_right():
    compared = compare_outputs(
        {"a": f([[1.0, 2.0]]), "b": f([1.0])}, [np.float32([[1, 4]]), np.float32([1.0000001])]
    )
    assert (compared.difference, compared.outputs[0].where) == (2, "[0, 1]")
    assert repr(compared).splitlines()[2:] == [
        "a       2 at [0, 1]         wrong: 1 of 2 elements, most at [0, 1]: 4 instead of 2",
        "b       below 1e-06         right",
    ]
    assert '<td class="bad">wrong: 1 of 2' in compared._repr_html_()


# --- files ---


def file(path, text, inputs="float[n] x", outputs="float[n] y", opset=20):
    """Save a graph of a few nodes, written in ONNX's own text format."""
    model = parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {text} }}'
    )
    onnx.save(model, path)
    return path


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """A module and its export in two files."""
    module = torch.nn.Linear(300, 2).eval()
    path = tmp_path_factory.mktemp("linear") / "linear.onnx"
    torch.onnx.export(module, (torch.rand(2, 300),), path, dynamo=True, verbose=False)
    return module, path


def test_a_file_beside_its_weights_as_text_path_and_link(linear, tmp_path):
    module, path = linear
    assert path.with_name("linear.onnx.data").stat().st_size
    x = torch.rand(2, 300)
    link = tmp_path / "model.onnx"
    link.symlink_to(path)  # as a hub's cache keeps it
    (tmp_path / "linear.onnx.data").symlink_to(path.with_name("linear.onnx.data"))
    for given in (str(path), path, link):
        assert check_export(module, x, given)


def test_what_cannot_be_loaded_or_fed_is_a_row(linear, tmp_path):
    module, path = linear
    x = torch.rand(2, 300)
    compared = check_export(module, (x,), path, others=[(torch.rand(5, 300),), (torch.rand(2, 7),)])
    assert [row.output for row in compared.outputs] == ["linear", "the file", "PyTorch"]
    assert compared.problem.startswith(
        "others[0]: input (5, 300): the file: InvalidArgument: Got invalid dimensions"
    )
    alone = shutil.copy(path, tmp_path)
    assert "cannot be loaded" in check_export(module, (x,), alone).problem
    assert "NoSuchFile" in check_export(module, (x,), "none.onnx").problem


def test_a_provider_that_is_not_there_is_said(linear):
    module, path = linear
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        compared = check_export(module, torch.rand(2, 300), path, providers=[("CUDAExecutionProvider", {})])
    assert compared.problem == "providers: asked for CUDAExecutionProvider, got CPUExecutionProvider"
    assert check_export(module, torch.rand(2, 300), path, providers=[("CPUExecutionProvider", {})])


def test_a_session_of_ones_own_and_a_function(tmp_path):
    session = ort.InferenceSession(file(tmp_path / "abs.onnx", "y = Abs(x)"))
    assert check_export(torch.abs, f([-1.0]), None, session=session)
    assert not check_export(torch.neg, f([-1.0, 1.0]), None, session=session)


class Modes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls = self.calls + 1
        return self.drop(self.norm(x)) * self.calls


def test_mode_and_state_are_as_before(tmp_path):
    path = file(tmp_path / "same.onnx", "y = Identity(x)", "float[n, 2] x", "float[n, 2] y")
    module = Modes()
    module.drop.eval()
    module.norm.eps = 0.0
    state = {name: value.clone() for name, value in module.state_dict().items()}
    example, other = torch.rand(3, 2), torch.rand(1, 2)
    random = torch.random.get_rng_state()
    compared = check_export(module, example, path, others=[other])
    assert compared, compared
    assert [note.split(";")[0] for note in compared.notes] == [
        "a call changes the buffer calls",
        "the module is in training mode, where it gives other outputs",
    ]
    assert (module.training, module.norm.training, module.drop.training) == (True, True, False)
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), random)


def test_no_note_where_training_mode_changes_nothing(tmp_path):
    assert check_export(torch.nn.ReLU(), f([-1.0]), file(tmp_path / "relu.onnx", "y = Relu(x)")).notes == ()


def test_a_module_that_keeps_a_state_or_is_random_cannot_be_compared(tmp_path):
    path = file(tmp_path / "same.onnx", "y = Identity(x)")
    calls = []
    for module in (lambda x: x + torch.rand_like(x), lambda x: calls.append(0) or x * len(calls)):
        assert "two calls with the same input differ" in check_export(module, f([1.0]), path).problem


def test_inputs_are_not_changed_by_a_forward_that_works_in_place(tmp_path):
    x = f([-1.0, 2.0])
    path = file(tmp_path / "relu.onnx", "y = Relu(x)")
    assert check_export(lambda x: x.clamp_(min=0), x, path, others=[x])
    assert not check_export(lambda x: x.clamp_(min=0), x, file(tmp_path / "same.onnx", "y = Identity(x)"))
    assert x.tolist() == [-1, 2]


def test_outputs_that_are_views_of_what_changes_later(tmp_path):
    path = file(
        tmp_path / "views.onnx",
        "zero = Constant <value = float {0}> () a = Clip(x, zero) b = Identity(a)",
        outputs="float[n] a, float[n] b",
    )
    assert check_export(lambda x: (x.view(-1), x.clamp_(0)), f([-1.0, 2.0]), path)


SUBTRACT = "y = Sub(a, b)", "float[n] a, float[n] b"


def test_arguments_go_to_inputs_by_name_and_where_names_lie_in_order(tmp_path):
    a, b = f([3.0]), f([1.0])
    straight = file(tmp_path / "straight.onnx", *SUBTRACT)
    crossed = file(tmp_path / "crossed.onnx", "y = Sub(b, a)", "float[n] b, float[n] a")

    def keywords(*, a, b):
        return a - b

    assert check_export(lambda a, b: a - b, (a, b), straight)
    assert check_export(lambda a, b: a - b, (a, b), crossed)
    assert check_export(lambda x, y: x - y, (a, b), straight)
    assert check_export(keywords, (), straight, kwargs={"b": b, "a": a}, others=[((), {"a": a, "b": a})])
    orig = file(tmp_path / "orig.onnx", "a = Sub(a_orig, b)", "float[n] a_orig, float[n] b", "float[n] a")
    assert check_export(keywords, (), orig, kwargs={"b": b, "a": a})


def test_numbers_of_torchscript_names(tmp_path):
    def scaled(x, mask=None, by=2.0, turned=False):
        return x * by

    path = file(
        tmp_path / "mul.onnx", "by = Cast <to = 1> (number) y = Mul(x, by)", "float[n] x, double number"
    )
    model = onnx.load(path)  # the text format has no such names
    for value, name in zip(model.graph.input, ("onnx::Mul_0", "onnx::Cast_1"), strict=True):
        value.name = name
    model.graph.node[0].input[0], model.graph.node[1].input[0] = "onnx::Cast_1", "onnx::Mul_0"
    onnx.save(model, path)
    compared = check_export(scaled, f([3.0]), path, others=[(f([1.0, 2.0]), None, 7.0)])
    assert compared, compared
    assert compared.outputs[1].inputs == "others[0]: x (2,), by=7.0"


def test_arguments_that_fit_no_input_are_named(tmp_path):
    path = file(tmp_path / "straight.onnx", *SUBTRACT)
    compared = check_export(lambda x: x, f([1.0]), path)
    assert compared.outputs[0].output == "the file"
    assert "(a, b) do not fit the arguments (x)" in compared.problem


def test_a_dict_in_last_place_is_an_argument(tmp_path):
    path = file(tmp_path / "straight.onnx", *SUBTRACT)
    arguments = f([3.0]), {"k": f([1.0])}
    assert check_export(lambda x, past: {"y": x - past["k"]}, arguments, path, others=[arguments])


def test_bfloat16_goes_in_and_out(tmp_path):
    path = file(
        tmp_path / "same.onnx",
        "y = Identity(x) z = Cast <to = 1> (x)",
        "bfloat16[n] x",
        "bfloat16[n] y, float[n] z",
    )
    x = f([1.5, NAN]).bfloat16()
    assert check_export(lambda x: (x, x.float()), x, path)
    assert not check_export(lambda x: (x + 1, x.float()), x, path)


def test_layouts_and_scalars(tmp_path):
    path = file(tmp_path / "neg.onnx", "y = Neg(x)", "float[a, b, c, d] x", "float[a, b, c, d] y")
    x = torch.rand(1, 3, 4, 5).to(memory_format=torch.channels_last)
    assert check_export(torch.neg, x, path, others=[x.transpose(1, 3), x[:, :, ::2]])
    assert check_export(torch.neg, f(1.0), file(tmp_path / "scalar.onnx", "y = Neg(x)", "float x", "float y"))


def test_a_dropped_output_a_frozen_axis_and_a_negated_weight(linear, tmp_path):
    module, path = linear
    x = torch.rand(2, 300)
    model = onnx.load(path)
    weights = onnx.numpy_helper.to_array(model.graph.initializer[0]).copy()
    weights.flat[7] *= -1
    model.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(weights, model.graph.initializer[0].name)
    )
    onnx.save(model, tmp_path / "negated.onnx")
    assert not check_export(module, x, tmp_path / "negated.onnx")

    def both(rows):
        return module(rows), module(rows).argmax(1)

    assert "1 ['linear'] instead of 2" in check_export(both, x, path).problem
    assert not check_export(module, x, path, others=[torch.rand(1, 300)])


def test_scripted_and_exported_modules(linear):
    module, path = linear
    x = torch.rand(2, 300)
    for other in (torch.jit.script(module), torch.export.export(module, (x,)).module()):
        assert check_export(other, x, path)


# --- the chapter ---


def definitions(source):
    """The functions of a source and its TOLERANCE, without docstrings and annotations."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            found[ast.unparse(node.targets[0])] = ast.unparse(node)
        if isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            for argument in arguments:
                argument.annotation = None
            node.returns = None
            node.body = node.body[ast.get_docstring(node) is not None :]
            found[node.name] = ast.unparse(node)
    return found


def test_chapter_01_shows_the_code_that_is_shipped():
    path = Path(__file__).resolve().parents[2] / "notebooks" / "01_first_deployment.ipynb"
    shown = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and "proof" not in cell.metadata.get("tags", ()):
            shown |= definitions(cell.source)
    shipped = definitions(inspect.getsource(comparison))
    assert len(shipped) == 7
    assert {name: shown.get(name) for name in shipped} == shipped


def test_complex_values_differ_by_their_imaginary_part_too():
    compared = compare_outputs(torch.tensor([1 + 1j]), torch.tensor([1 + 2j]))
    assert not compared.right
    assert compared.difference == 1
    assert compare_outputs(torch.tensor([1 + 1j]), torch.tensor([1 + 1j])).right


NUMPYS_OR_TORCHS = re.compile(r"\b(all|is)close\(|\bassert_(all)?close\(|abs\(.+ - .+\)\.max\([^)]*\) <")


def test_no_module_and_no_function_of_a_chapter_has_a_comparison_of_its_own():
    root = Path(__file__).resolve().parents[2]
    sources = {path.name: path.read_text(encoding="utf-8") for path in (root / "src").rglob("*.py")}
    for path in (root / "notebooks").glob("*.ipynb"):
        cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        suspects = [source for source in cells if "close(" in source or ".max(" in source]
        nodes = [node for source in suspects for node in ast.walk(ast.parse(source))]
        functions = [ast.unparse(node) for node in nodes if isinstance(node, ast.FunctionDef)]
        sources[path.name] = "\n".join(functions)
    own = {name for name, source in sources.items() if NUMPYS_OR_TORCHS.search(source)}
    assert own == set()
