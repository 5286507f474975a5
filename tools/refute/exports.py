"""Export, load and run in one line each: what most probes do."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator

from onnxlab.exporters.export import Export, Exporter, export
from onnxlab.model.distance import Array
from onnxlab.runtime.session import open_session

BOTH = tuple(Exporter)
DEFAULT, TORCHSCRIPT = Exporter.TORCH_EXPORT, Exporter.TORCHSCRIPT


class Call(torch.nn.Module):
    """A module whose forward is a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keep the function in place of forward, with the names of its parameters."""
        super().__init__()
        self.forward = function


def tried(model: Any, args: Any, exporter: Exporter = DEFAULT, **options: Any) -> Export:
    """Export a model in its eval form, without running it."""
    if isinstance(model, torch.nn.Module):
        model.eval()
    return export(model, args, exporter, run=False, **options)


def exported(model: Any, args: Any, exporter: Exporter = DEFAULT, **options: Any) -> onnx.ModelProto:
    """Return the file that `tried` makes; raise ExportFailed if there is none."""
    return tried(model, args, exporter, **options).proto


def parsed(text: str, opset: int = 20, ir: int = 10) -> onnx.ModelProto:
    """Return a model from the printed form of its graph."""
    return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]>\n{text}')


def ran(model: onnx.ModelProto, *inputs: Any, optimize: bool = True) -> list[Array]:
    """Return ONNX Runtime's outputs for inputs in order."""
    session = open_session(model, optimize=optimize)
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, map(np.asarray, inputs), strict=True)))


def referred(model: onnx.ModelProto, *inputs: Any) -> list[Array]:
    """Return the outputs of onnx's reference implementation."""
    evaluator = ReferenceEvaluator(model)
    return evaluator.run(None, dict(zip(evaluator.input_names, map(np.asarray, inputs), strict=True)))


def raised(call: Callable[..., Any], *args: Any, **options: Any) -> str:
    """Return the class and text of what a call raises; nothing if it raises nothing."""
    try:
        call(*args, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def close(one: Any, other: Any, tolerance: float = 1e-5) -> bool:
    """Whether two arrays have one shape and differ by no more than the tolerance."""
    one, other = np.asarray(one), np.asarray(other)
    return one.shape == other.shape and bool(np.allclose(one, other, atol=tolerance, rtol=1e-4))


def operators(model: onnx.ModelProto) -> list[str]:
    """Return the operators of a graph in order."""
    return [node.op_type for node in model.graph.node]


def warned(made: Export) -> list[str]:
    """Return an export's warnings, without torch's notices about LeafSpec and torchvision."""
    return [
        notice.message for notice in made.notices if not re.search("LeafSpec|torchvision", notice.message)
    ]
