"""Variations of drawn models change how a graph is written or read, and none of its numbers."""

import numpy as np
import onnx
import pytest

from onnxlab.kit import variations
from onnxlab.kit.samples import Sketch
from onnxlab.runtime.parity import run


def drawn(seed: int = 0) -> tuple[onnx.ModelProto, list[str], np.ndarray]:
    """Return a model with two branches, its inner values, and an input."""
    s = Sketch(np.random.default_rng(seed))
    x = s.name()
    stem = s.add("MatMul", x, s.weight(s.normal(3, 3)))
    left, right = s.add("Tanh", stem), s.add("LeakyRelu", stem, alpha=0.3)
    y = s.add("Add", left, right)
    return s.model({x: ("N", 3)}, {y: ("N", 3)}), [stem, left, right], np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    "change",
    [
        variations.unname_nodes,
        variations.shuffle_nodes,
        variations.nest_names,
        variations.add_domain,
        variations.list_weights,
        variations.add_idle_node,
        variations.vary,
        lambda random, model: variations.call_function(random, model, model.graph.node[2]),
    ],
    ids=["unnamed", "order", "names", "domain", "weights listed", "idle node", "several", "function"],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_variation_changes_the_model_and_no_number(change, seed):
    model, _, x = drawn()
    before = run(model, x)
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    random = np.random.default_rng(seed)
    for _ in range(8):  # an order can come out as it was
        change(random, changed)
        if changed != model:
            break
    assert changed != model
    onnx.checker.check_model(changed, full_check=True)
    after = run(changed, {model.graph.input[0].name: x})
    np.testing.assert_array_equal(after[0], before[0])


@pytest.mark.parametrize("kind", variations.READERS)
@pytest.mark.parametrize("number", range(3))
def test_a_reader_gets_the_value(kind, number):
    model, values, x = drawn()
    variations.add_reader(np.random.default_rng(0), model, values[number], kind)
    onnx.checker.check_model(model, full_check=True)
    also = run(model, x)[1]
    model.graph.output.append(onnx.ValueInfoProto(name=values[number]))
    np.testing.assert_array_equal(also, run(model, x)[-1])


def test_some_names_begin_with_another_name():
    s = Sketch(np.random.default_rng(0))
    names = [s.name() for _ in range(40)]
    assert len(set(names)) == 40
    assert any(a != b and b.startswith(a) for a in names for b in names)
