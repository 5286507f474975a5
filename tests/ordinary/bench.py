"""The record of an ordinary model, the register, and the export of a model to a file."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

EXPORTERS = {"torch.export": True, "TorchScript": False}
"""The value of `dynamo` by the exporter's name."""


def _as_exported(path: Path) -> Path:
    return path


@dataclass(frozen=True)
class Ordinary:
    """A module with arguments as its user has them.

    Attributes:
        module: The module, in the mode in which its author left it.
        args: The example.
        others: More arguments, of other sizes or values: tuples, or pairs (args, kwargs) if there are kwargs.
        kwargs: Keyword arguments of the example.
        shapes: `dynamic_shapes`; the TorchScript exporter gets the same axes by name.
        options: More arguments of `torch.onnx.export`.
        store: Moves the exported file to where and how it is kept, and returns its path.
        draw: Makes arguments for a batch and a length, where every input has both.
    """

    module: nn.Module
    args: tuple[Any, ...]
    others: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None
    shapes: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    store: Callable[[Path], Path] = _as_exported
    draw: Callable[[int, int], tuple[Any, ...]] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the file lies as the exporter wrote it."""
        return self.store is _as_exported

    @property
    def passed(self) -> tuple[Any, ...]:
        """The example for torch.onnx.export, which takes a dict at the end for keyword arguments."""
        return (*self.args, {}) if self.kwargs is None and isinstance(self.args[-1], dict) else self.args

    def export_options(self, *, dynamo: bool) -> dict[str, Any]:
        """Return what torch.onnx.export is given besides the arguments: each exporter has its own axes."""
        axes = {"dynamic_shapes": self.shapes} if dynamo else self._named_axes()
        return {"dynamo": dynamo, "verbose": False, **self.options, **axes}

    def export(self, path: Path, *, dynamo: bool) -> Path:
        """Export with either exporter and its defaults, and return the path of the file."""
        options = self.export_options(dynamo=dynamo)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(self.module, self.passed, path, kwargs=self.kwargs, **options)
        return self.store(path)

    def _named_axes(self) -> dict[str, Any]:
        """`dynamic_shapes` in the words of the TorchScript exporter, which has names for each tensor."""
        if self.shapes is None:
            return {}
        named, _ = pytree.tree_flatten_with_path(self.shapes, is_leaf=_is_axes)
        names = [
            "_".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path) for path, _ in named
        ]
        axes = {name: axes for name, (_, axes) in zip(names, named, strict=True) if axes}
        return {"input_names": names, "dynamic_axes": axes}


def _is_axes(value: object) -> bool:
    return value is None or (isinstance(value, dict) and all(isinstance(key, int) for key in value))


MODELS: dict[str, Callable[[], Ordinary]] = {}
"""What makes each model, by its name."""


def ordinary(factory: Callable[[], Ordinary]) -> Callable[[], Ordinary]:
    """Register a model, the same at each call. `NAME_from_LIBRARY` needs the library."""

    def seeded() -> Ordinary:
        torch.manual_seed(0)
        return factory()

    _, origin, library = factory.__name__.partition("_from_")
    if not origin or find_spec(library):
        MODELS[factory.__name__] = seeded
    return seeded
