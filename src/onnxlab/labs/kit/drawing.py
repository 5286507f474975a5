"""Models that nobody can know beforehand: drawn with onnx.helper, every name by lot."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxlab.model.distance import Array

__all__ = ["Sketch"]


class Sketch:
    """A graph in the making.

    Args:
        random: Where names are drawn from.

    Example:
        >>> sketch = Sketch(np.random.default_rng(0))
        >>> x = sketch.name()
        >>> model = sketch.model({x: ("N", 3)}, {sketch.add("Relu", x): ("N", 3)})
        >>> [node.op_type for node in model.graph.node]
        ['Relu']
    """

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self._names: set[str] = set()
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[TensorProto] = []

    def name(self) -> str:
        """Return a name that was not used before."""
        while True:
            name = "".join(map(str, self.random.choice(list("abcdefghkmnprstuvw"), 5)))
            if name not in self._names:
                self._names.add(name)
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
        graph = helper.make_graph(
            self._nodes,
            self.name(),
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in outputs.items()
            ],
            self._weights,
        )
        return helper.make_model(graph, ir_version=ir_version, opset_imports=[helper.make_opsetid("", opset)])
