"""The work of a diff, in lines executed, grows with the number of nodes and not with its square."""

import random
import sys
from difflib import SequenceMatcher
from itertools import pairwise

import pytest
from onnx import TensorProto, helper

from onnxlab.model.diff import diff
from onnxlab.model.diff.matching import align

KINDS = (("Relu", ()), ("Elu", ("alpha",)), ("LeakyRelu", ("alpha",)))


def chain(size, alpha=lambda i: 0.5, name="node"):
    nodes = []
    for i in range(size):
        op, names = KINDS[i % 3]
        attributes = dict.fromkeys(names, alpha(i))
        nodes.append(helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], name=f"{name}{i}", **attributes))
    ends = [[helper.make_tensor_value_info(value, TensorProto.FLOAT, [4])] for value in ("v0", f"v{size}")]
    graph = helper.make_graph(nodes, "chain", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def twins(size, op="Relu"):
    """A model with `size` nodes that read one value and compute the same."""
    nodes = [helper.make_node(op, ["x"], [f"v{i}"], name=f"{op}{i}") for i in range(size)]
    nodes.append(helper.make_node("Sum", [f"v{i}" for i in range(size)], ["y"]))
    ends = [[helper.make_tensor_value_info(value, TensorProto.FLOAT, [4])] for value in ("x", "y")]
    graph = helper.make_graph(nodes, "twins", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def every_second(i):
    return 0.25 if i % 2 else 0.5


def executed_lines(function, *arguments):
    """The number of lines of Python that a call executes."""
    lines = 0

    def count(_frame, event, _argument):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return lines


CASES = {
    "every second node": lambda n: (chain(n), chain(n, every_second)),
    "every second node, under other names": lambda n: (chain(n), chain(n, every_second, "other")),
    "every node, under other names": lambda n: (chain(n), chain(n, lambda i: 0.25, "other")),
    "all of many twins": lambda n: (twins(n), twins(n, "Tanh")),
}


@pytest.mark.parametrize("case", CASES)
def test_four_times_the_nodes_take_about_four_times_the_work(case):
    small, large = (executed_lines(diff, *CASES[case](size)) for size in (200, 800))
    assert large / small < 6


def test_short_sequences_are_aligned_as_difflib_does():
    draw = random.Random(5)
    for _ in range(200):
        a, b = (draw.choices("abcdef", k=draw.randrange(60)) for _ in range(2))
        blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
        assert align(a, b) == [(i + k, j + k) for i, j, size in blocks for k in range(size)]


@pytest.mark.parametrize("letters", [2, 6, 5000])
def test_long_sequences_are_aligned_where_they_are_equal(letters):
    draw = random.Random(letters)
    a = [draw.randrange(letters) for _ in range(3000)]
    b = [number for number in a if draw.random() < 0.95]
    pairs = align(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
    assert len(pairs) > {2: 0.7, 6: 0.8, 5000: 0.99}[letters] * len(b)
