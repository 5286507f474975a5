"""Random test inputs and models, drawn from a seed, with the edge cases among them."""

from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from onnxlab.model.distance import Array


def floats(random: np.random.Generator, *shape: int) -> torch.Tensor:
    """Return float32 numbers of many sizes, edges included: zeros, infinities, not-a-number, 1e30.

    The edges fill as many elements as there are.

    Example:
        >>> floats(np.random.default_rng(0), 3, 7).isnan().sum().item()
        1
    """
    edges = np.array(
        [0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 1e4, -1e4, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32
    )
    count = int(np.prod(shape))
    mantissas = random.normal(size=count)
    values = (mantissas * 10.0 ** random.integers(-3, 4, size=count)).astype(np.float32)
    places = random.permutation(count)[: len(edges)]
    values[places] = edges[: len(places)]
    return torch.from_numpy(values.reshape(shape))


def integers(random: np.random.Generator, dtype: torch.dtype, count: int) -> torch.Tensor:
    """Return whole numbers of a type, its edges included: smallest, largest, 0, 1, -1 and their neighbours.

    Example:
        >>> integers(np.random.default_rng(0), torch.int8, 20).min().item()
        -128
    """
    limits = torch.iinfo(dtype)
    edges = [limits.min, limits.max, 0, 1, limits.min + 1, limits.max - 1]
    edges += [-1, -2, -5] if limits.min < 0 else [200, 128, 5]
    others = random.integers(limits.min, limits.max, size=max(count - len(edges), 0), endpoint=True)
    values = np.concatenate([np.array(edges[:count]), others])
    return torch.tensor(random.permutation(values).tolist(), dtype=dtype)


def pictures(random: np.random.Generator, *shape: int) -> torch.Tensor:
    """Return float32 numbers between 0 and 1, as the pixels of pictures."""
    return torch.from_numpy(random.random(shape, dtype=np.float32))


def normal(random: np.random.Generator, *shape: int) -> torch.Tensor:
    """Return float32 numbers around 0, most of them between -2 and 2."""
    return torch.from_numpy(random.normal(size=shape).astype(np.float32))


def normal_weights(random: np.random.Generator, module: torch.nn.Module) -> None:
    """Give a module normally distributed weights, and put it into evaluation mode.

    Example:
        >>> layer = torch.nn.Linear(2, 2, bias=False)
        >>> normal_weights(np.random.default_rng(0), layer)
        >>> layer.training, round(layer.weight[0, 0].item(), 3)
        (False, 0.126)
    """
    with torch.no_grad():
        for weights in module.eval().parameters():
            weights.copy_(torch.from_numpy(random.normal(size=tuple(weights.shape))))


def every_size(random: np.random.Generator, low: float, high: float) -> list[torch.Tensor]:
    """Return single float32 numbers of both signs, of shape [1, 1], one for every two powers of ten.

    Example:
        >>> len(every_size(np.random.default_rng(0), -4, 4))
        4
    """
    exponents = np.arange(low, high, 2.0) + random.uniform(0, 2, int(np.ceil((high - low) / 2)))
    values = random.choice([-1.0, 1.0], len(exponents)) * 10.0 ** np.minimum(exponents, high)
    return [torch.tensor([[value]], dtype=torch.float32) for value in values]


def column_of_sizes(random: np.random.Generator, low: float, high: float) -> torch.Tensor:
    """Return float32 numbers of both signs in one column, eight of each power of ten.

    Example:
        >>> tuple(column_of_sizes(np.random.default_rng(0), -4, 4).shape)
        (128, 1)
    """
    exponents = np.arange(low, high, 1 / 8)
    exponents = np.minimum(exponents + random.uniform(0, 1 / 8, len(exponents)), high)
    sizes = torch.from_numpy((10.0**exponents).astype(np.float32))
    return torch.cat([sizes, -sizes])[:, None]


def extremes() -> list[torch.Tensor]:
    """Return the float32 numbers where formulas break, of shape [1, 1]: tiny, huge, largest; both signs."""
    sizes = (1e-8, 1e20, float(np.finfo(np.float32).max))
    return [torch.tensor([[sign * size]]) for size in sizes for sign in (1.0, -1.0)]


class Sketch:
    """A builder of a graph in which every name is random.

    Example:
        >>> sketch = Sketch(np.random.default_rng(0))
        >>> x = sketch.name()
        >>> model = sketch.model({x: ("N", 3)}, {sketch.add("Relu", x): ("N", 3)})
        >>> [node.op_type for node in model.graph.node]
        ['Relu']
    """

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self._names: dict[str, None] = {}  # in order
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[TensorProto] = []

    def name(self) -> str:
        """Return a name that was not used before; about every fourth begins with one that was."""
        while True:
            name = "".join(map(str, self.random.choice(list("abcdefghkmnprstuvw"), 5)))
            if self._names and name[0] in "abcd":
                name = next(reversed(self._names)) + name[-1]
            if name not in self._names:
                self._names[name] = None
                return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:  # noqa: ANN401 - as make_node takes them
        """Add a node and return the name of the first value it makes."""
        return self.split(operator, *inputs, **attributes)[0]

    def split(
        self,
        operator: str,
        *inputs: str,
        results: int = 1,
        **attributes: Any,  # noqa: ANN401 - as make_node takes them
    ) -> list[str]:
        """Add a node with several results and return their names."""
        outputs = [self.name() for _ in range(results)]
        self._nodes.append(helper.make_node(operator, inputs, outputs, self.name(), **attributes))
        return outputs

    def weight(self, values: object) -> str:
        """Add an initializer and return its name; floats become float32."""
        array = np.asarray(values)
        if array.dtype.kind == "f":
            array = array.astype(np.float32)
        name = self.name()
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, *shape: int) -> Array:
        """Return normally distributed numbers."""
        return self.random.normal(size=shape)

    def model(
        self, inputs: dict[str, Any], outputs: dict[str, Any], opset: int = 20, ir_version: int = 10
    ) -> onnx.ModelProto:
        """Return the model: float32 inputs and outputs by name, each with its shape."""
        input_infos, output_infos = (
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values.items()]
            for values in (inputs, outputs)
        )
        graph = helper.make_graph(self._nodes, self.name(), input_infos, output_infos, self._weights)
        return helper.make_model(graph, ir_version=ir_version, opset_imports=[helper.make_opsetid("", opset)])
