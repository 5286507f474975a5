"""Which inputs a model refuses, and why: models against inputs as a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnxlab.facts.loading import ModelLike
from onnxlab.facts.refusals import AxisMismatch, Refusal, RefusalKind, parse_refusal
from onnxlab.facts.runtime import open_session

__all__ = [
    "AxisMismatch",
    "Cell",
    "FailureTable",
    "Refusal",
    "RefusalKind",
    "failure_table",
    "parse_refusal",
]


@dataclass(frozen=True)
class Cell:
    """What happened when one model was given one input.

    Attributes:
        refusal: Why it did not run, or None.
        output_shapes: The shapes of the outputs, where it ran.
    """

    refusal: Refusal | None
    output_shapes: tuple[tuple[int, ...], ...]

    @property
    def ok(self) -> bool:
        """Whether the model ran."""
        return self.refusal is None

    def __str__(self) -> str:
        if self.refusal:
            return f"error: {self.refusal.reason}"
        return "ok " + " ".join(str(shape) for shape in self.output_shapes)


@dataclass(frozen=True)
class FailureTable:
    """Models against inputs.

    Attributes:
        models: The models' names, in order.
        inputs: The inputs' names, in order.
        cells: What happened, by (model, input).
    """

    models: tuple[str, ...]
    inputs: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]

    def rows(self) -> list[dict[str, str]]:
        """Return one row a model: its name, then a column for each input."""
        return [
            {"model": model} | {name: str(self.cells[model, name]) for name in self.inputs}
            for model in self.models
        ]


def failure_table(models: Mapping[str, ModelLike], inputs: Mapping[str, Any]) -> FailureTable:
    """Give each input to each model and note what ONNX Runtime says.

    Args:
        models: The models by name.
        inputs: By name, an array for the model's first input, or a dict of arrays by input name. They are
            given to the runtime as they are; a torch tensor is refused.

    Returns:
        The table.

    Example:
        >>> import numpy as np
        >>> from onnxlab.facts.history import recorded_graph
        >>> table = failure_table(
        ...     {"static": recorded_graph("1.8.1", "model_static")},
        ...     {"one": np.zeros((1, 3, 10, 10), np.float32), "two": np.zeros((2, 3, 10, 10), np.float32)},
        ... )
        >>> table.rows()
        [{'model': 'static', 'one': 'ok (1, 3, 8, 8)', 'two': 'error: axis 0: got 2, expected 1'}]
        >>> table.cells["static", "two"].refusal.mismatches
        (AxisMismatch(axis=0, got=2, expected=1),)
    """
    cells: dict[tuple[str, str], Cell] = {}
    for name, model in models.items():
        session = open_session(model)
        first = next((value.name for value in session.get_inputs()), "")
        for label, given in inputs.items():
            feed = dict(given) if isinstance(given, Mapping) else {first: given}
            try:
                outputs = session.run(None, feed)
            except Exception as error:  # the runtime raises plain Exception subclasses and RuntimeError
                cells[name, label] = Cell(parse_refusal(error), ())
            else:
                shapes = tuple(tuple(getattr(output, "shape", ())) for output in outputs)
                cells[name, label] = Cell(None, shapes)
    return FailureTable(tuple(models), tuple(inputs), cells)
