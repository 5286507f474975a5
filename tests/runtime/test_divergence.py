"""first_divergence finds the first value that differs, and names the nodes that can be the cause."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch

from onnxlab.errors import UnknownValue
from onnxlab.runtime.divergence import expose, first_divergence, inner_values, intermediates, program_values

LENGTH = 40
X = np.array([1.0, 2.0], np.float32)


def chain(wrong: int | None = None) -> onnx.ModelProto:
    """v0 = x + 1, v1 = v0 + 1, ...; the step at `wrong` adds 2."""
    steps = "\n".join(
        f"v{i} = Add({f'v{i - 1}' if i else 'x'}, {'two' if i == wrong else 'one'})" for i in range(LENGTH)
    )
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 20]>
        chain (float[2] x) => (float[2] v{LENGTH - 1})
        <float one = {{1}}, float two = {{2}}> {{ {steps} }}""")


FORK = """<ir_version: 10, opset_import: ["": 20]>
fork (float[2] x) => (float[2] y) {
    stem = %s(x)
    l1 = Exp(stem)
    l2 = %s(l1)
    r1 = Cos(stem)
    r2 = Tanh(r1)
    y = Add(l2, r2)
}"""


def fork(stem: str = "Sin", left: str = "Neg") -> onnx.ModelProto:
    return onnx.parser.parse_model(FORK % (stem, left))


def test_what_tries_a_file_loads_no_torch():
    """It would be most of the time of each examination and each comparison."""
    code = "import sys, onnxlab.diagnosis.trial, onnxlab.diagnosis.pair_trial; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


@pytest.mark.parametrize("wrong", [0, 1, 17, 38, 39])
def test_the_wrong_node_is_named(wrong: int) -> None:
    expected = intermediates(chain(), X)
    divergence = first_divergence(chain(wrong), expected, X)
    assert divergence.value == f"v{wrong}"
    assert [node.outputs for node in divergence.suspects] == [(f"v{wrong}",)]


def test_equal_values_have_no_divergence() -> None:
    expected = intermediates(chain(), X)
    assert first_divergence(chain(), expected, X) is None


def test_without_expected_values_there_is_no_divergence() -> None:
    assert first_divergence(chain(), {}, X) is None


@pytest.mark.parametrize(("changed", "value"), [({"stem": "Cos"}, "stem"), ({"left": "Abs"}, "l2")])
def test_a_correct_branch_is_not_suspected(changed: dict[str, str], value: str) -> None:
    expected = intermediates(fork(), X)
    divergence = first_divergence(fork(**changed), expected, X)
    assert divergence.value == value


def test_values_without_a_counterpart_make_more_suspects() -> None:
    expected = {"v5": intermediates(chain(), X)["v5"], "v8": intermediates(chain(), X)["v8"]}
    divergence = first_divergence(chain(7), expected, X)
    assert [node.outputs[0] for node in divergence.suspects] == ["v6", "v7", "v8"]


def test_a_wrong_type_or_shape_is_named() -> None:
    expected = intermediates(fork(), X)
    divergence = first_divergence(fork(), {**expected, "stem": expected["stem"].astype(np.float64)}, X)
    assert (divergence.value, divergence.problem) == ("stem", "type float32 instead of float64")
    divergence = first_divergence(fork(), {**expected, "l2": np.zeros(3, np.float32)}, X)
    assert divergence.problem == "shape (2,) instead of (3,)"
    assert "l2" in str(divergence)


def test_nan_agrees_with_nan() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
        g (float[2] x) => (float[2] y) { y = Sqrt(x) }""")
    nan = np.array([np.nan, np.nan], np.float32)
    assert first_divergence(model, {"y": nan}, -X) is None
    assert first_divergence(model, {"y": nan}, X) is not None


def test_the_rounding_of_large_values_agrees_by_the_type_of_the_value() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
        g (float[2] x) => (float[2] y) { y = Identity(x) }""")
    large = np.array([1e6, 2e6], np.float32)
    assert first_divergence(model, {"y": large + 1}, large, rtol=None, atol=None) is None
    assert first_divergence(model, {"y": large + 1}, large) is not None
    assert first_divergence(model, {"y": large * 2}, large, rtol=None, atol=None) is not None


def test_a_body_reads_values_from_outside() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
        g (float[2] x, bool c) => (float[2] y) {
            h = Sin(x)
            y = If(c) <then_branch = t () => (a) { a = Neg(h) }, else_branch = e () => (b) { b = Abs(h) }>
        }""")
    divergence = first_divergence(model, {"y": X}, X, np.array(True))
    assert [node.op for node in divergence.suspects] == ["Sin", "If"]


def test_expose_keeps_the_model_and_its_outputs() -> None:
    model = fork()
    assert [info.name for info in expose(model, ["l1"]).graph.output] == ["y", "l1"]
    assert [info.name for info in expose(model, ["l1"], only=True).graph.output] == ["l1"]
    assert [info.name for info in model.graph.output] == ["y"]
    assert inner_values(model) == ["stem", "l1", "l2", "r1", "r2", "y"]


@pytest.mark.parametrize("name", ["x", "l3", ""])
def test_expose_refuses_what_no_node_makes(name: str) -> None:
    with pytest.raises(UnknownValue, match="No node of the main graph"):
        expose(fork(), [name])


def test_program_values_survive_a_change_in_place() -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.sin(x)
            return y.mul_(2)

    program = torch.export.export(Doubled().eval(), (torch.ones(2),))
    values = program_values(program, torch.ones(2))
    assert np.allclose(values["sin"], np.sin(1.0))
    assert np.allclose(values["mul_"], 2 * np.sin(1.0))


@pytest.mark.usefixtures("remembered_translations")
def test_the_exporter_names_values_as_the_program_does() -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten()).eval()
    x = torch.rand(1, 3, 6, 6)
    onnx_program = torch.onnx.export(net, (x,), dynamo=True, verbose=False)
    assert onnx_program is not None
    expected = program_values(onnx_program.exported_program, x)
    assert {"conv2d", "relu"} <= set(inner_values(onnx_program)) & set(expected)
    assert first_divergence(onnx_program, expected, x) is None
    broken = onnx.ModelProto()
    broken.CopyFrom(onnx_program.model_proto)
    broken.graph.node[1].op_type = "Sigmoid"
    divergence = first_divergence(broken, expected, x)
    assert (divergence.value, divergence.suspects[-1].op) == ("relu", "Sigmoid")
