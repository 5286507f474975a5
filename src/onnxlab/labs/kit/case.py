"""The case that a check fails on: its name, and the model and arguments to run it again."""

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import numpy as np
import onnx

__all__ = ["Case", "case_of", "trying"]

_KEPT = "__onnxlab_case__"


class Case(Mapping[str, object]):
    """What was tried: arguments by name, so that `answer(**case)` tries it again.

    Args:
        name: Which of the cases it is, as a learner would say it: "three channels at opset 11".
        arguments: The learner's arguments, models and arrays by name.

    Example:
        >>> Case("an empty row", {"x": np.zeros((0, 3), np.float32), "k": 2})
        Case: an empty row
          x: float32[0, 3]
          k: 2
    """

    def __init__(self, name: str, arguments: Mapping[str, object]) -> None:
        self.name = name
        self._arguments = dict(arguments)

    def __getitem__(self, key: str) -> object:
        return self._arguments[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments)

    def __reduce__(self) -> tuple[type["Case"], tuple[str, dict[str, object]]]:
        # What only lives in the process that made it, such as a class of a function, is left behind there.
        kept = {}
        for key, value in self.items():
            with suppress(Exception):
                pickle.dumps(value)
                kept[key] = value
        return Case, (self.name, kept)

    def __repr__(self) -> str:
        lines = [f"  {key}: {_short(value)}" for key, value in self.items()]
        return "\n".join([f"Case: {self.name}" if self.name else "Case:", *lines])


def _short(value: object) -> str:
    if isinstance(value, onnx.ModelProto):
        return f"a model with {len(value.graph.node)} nodes"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        shown = f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
        small = 0 < np.prod(value.shape) <= 8
        return f"{shown} {value.tolist()}" if small and hasattr(value, "tolist") else shown
    if isinstance(value, tuple | list):
        inner = ", ".join(_short(item) for item in value[:8]) + (", ..." if len(value) > 8 else "")
        return f"({inner})" if isinstance(value, tuple) else f"[{inner}]"
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


@contextmanager
def trying(name: str = "", **arguments: object) -> Iterator[None]:
    """Name the case that is tried inside: whatever is found wrong or raised there belongs to it.

    Used around each call of an answer and around each judgement. Of two blocks inside one another the inner
    one counts.

    Args:
        name: Which case, as a learner would say it; it ends the sentence "This happened for ...".
        **arguments: What the answer was given, or a model and its inputs. `case("the-exercise")` returns it.

    Example:
        >>> try:
        ...     with trying("an empty row", x=[]):
        ...         raise ValueError("nothing came out")
        ... except ValueError as error:
        ...     print(case_of(error).name)
        an empty row
    """
    try:
        yield
    except Exception as error:
        if case_of(error) is None:
            with suppress(Exception):  # a class written by a learner can refuse; then the case has no name
                setattr(error, _KEPT, Case(name, arguments))
        raise


def case_of(error: BaseException) -> Case | None:
    """Return the case that an exception belongs to, its causes' included."""
    found: BaseException | None = error
    for _ in range(100):  # a chain can be a circle
        if found is None:
            break
        kept = vars(found).get(_KEPT) if hasattr(found, "__dict__") else None
        if isinstance(kept, Case):
            return kept
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    return None
