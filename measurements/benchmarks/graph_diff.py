"""How long `diff` takes as graphs grow: python -m measurements.benchmarks.graph_diff [--write]

Each case is compared at sizes from 100 to 10,000 nodes. Near-linear growth shows as a constant time per node.
"""

import sys
import time
from collections.abc import Callable

from onnx import ModelProto, TensorProto, helper

from measurements.benchmarks import report
from onnxlab.model.diff import diff

SIZES = (100, 300, 1000, 3000, 10_000)


def chain(size: int, every: int = 0, name: str = "node", first: str = "Relu") -> ModelProto:
    """A chain of Elu, Relu and LeakyRelu; each `every`-th has another alpha."""
    nodes = []
    for i in range(size):
        op = first if i == 0 else ("Relu", "Elu", "LeakyRelu")[i % 3]
        alpha = {} if op == "Relu" or op == first else {"alpha": 0.25 if every and i % every == 0 else 0.5}
        nodes.append(helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], name=f"{name}{i}", **alpha))
    kind = TensorProto.FLOAT
    ends = [[helper.make_tensor_value_info(value, kind, [4])] for value in ("v0", f"v{size}")]
    graph = helper.make_graph(nodes, "chain", *ends)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def every_other_operator(size: int) -> ModelProto:
    """The chain with each second node replaced by another operator under another name."""
    model = chain(size)
    for node in list(model.graph.node)[::2]:
        node.op_type, node.name = "Tanh", f"other_{node.name}"
        del node.attribute[:]
    return model


def shortened(size: int) -> ModelProto:
    """The chain without its tenth node, all names new."""
    model = chain(size, name="new")
    reader, gone = model.graph.node[10], model.graph.node[9]
    reader.input[0] = gone.input[0]
    del model.graph.node[9]
    return model


CASES: dict[str, Callable[[int], tuple[ModelProto, ModelProto]]] = {
    "the same": lambda n: (chain(n), chain(n)),
    "first operator": lambda n: (chain(n), chain(n, first="Tanh")),
    "every second attribute": lambda n: (chain(n), chain(n, every=2)),
    "every second attribute, other names": lambda n: (chain(n), chain(n, every=2, name="new")),
    "every second operator": lambda n: (chain(n), every_other_operator(n)),
    "one node gone, other names": lambda n: (chain(n), shortened(n)),
    "nothing in common": lambda n: (chain(n), chain(n, every=1, name="new", first="Tanh")),
}


def main() -> None:
    parser = report.arguments(__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest size")
    options = parser.parse_args()
    sizes = [size for size in SIZES if size <= options.most]
    rows = []
    for name, make in CASES.items():
        seconds = []
        for size in sizes:
            pair = make(size)
            start = time.perf_counter()
            diff(*pair)
            seconds.append(f"{time.perf_counter() - start:.2f}")
        rows.append([name, *seconds])
        print(*rows[-1], sep="\t", file=sys.stderr)
    head = ["seconds, nodes:", *(f"{size:,}" for size in sizes)]
    report.finish("graph_diff", report.table(head, rows), options, ("onnx",))


if __name__ == "__main__":
    main()
