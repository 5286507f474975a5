"""JSON that somebody untrusted wrote, read as values of a known type."""

import dataclasses
import json
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from onnxlab.message import Message, from_json

T = TypeVar("T")
_LARGEST_INTEGER = 2**63
_NAMES = {bool: "true or false", int: "an integer", float: "a number", NoneType: "null"}
_NAMES |= dict.fromkeys((str, Message), "a text")


class UnexpectedType(ValueError):
    """A value is of another type than its reader expects."""


def decode(text: bytes | str, kind: type[T]) -> T:
    """Read JSON as a value of a type.

    Raises:
        UnexpectedType: If it is no JSON, is nested too deep, or holds something else.

    Example:
        >>> decode("[[1, 2], []]", list[list[int]])
        [[1, 2], []]
        >>> decode('["a", true]', list[str])
        Traceback (most recent call last):
            ...
        onnxlab.typed_json.UnexpectedType: a text was expected at [1], not true or false
    """
    try:
        value = json.loads(text, object_hook=from_json)
    except (ValueError, RecursionError):  # also bytes that are no UTF-8, and integers of 5,000 digits
        raise UnexpectedType("it is no JSON that can be read") from None
    return typed(value, kind)


def typed(value: object, kind: type[T]) -> T:
    """Return what JSON gave as a value of a type.

    An integer may have 64 bits, and a bool is none. Keys that a dataclass does not have are ignored.

    Args:
        value: The value.
        kind: `bool`, `int`, `float`, `str`, `None`, `list[...]`, `tuple[..., ...]`, a tuple of fixed length,
            `dict[str, ...]`, a `StrEnum`, a dataclass of these, a union of these, or `Any`.

    Raises:
        UnexpectedType: If it is of another type.
    """
    result: T = _typed(value, kind, "")
    return result


def _typed(value: Any, kind: Any, place: str) -> Any:  # noqa: ANN401 - JSON can be anything
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if kind is None or kind is NoneType:
        return _instance(value, NoneType, place)
    if origin in (Union, UnionType):
        return _one_of(value, arguments, place)
    if origin is dict:
        entries = _instance(value, dict, place).items()
        return {key: _typed(entry, arguments[1], f"{place}[{key[:40]!r}]") for key, entry in entries}
    if origin in (list, tuple):
        return _sequence(_instance(value, list, place), origin, arguments, place)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value not in list(kind):
            raise _unexpected(value, f"one of {', '.join(kind)}", place)
        return kind(value)
    if dataclasses.is_dataclass(kind):
        return _record(_instance(value, dict, place), kind, place)
    return _instance(value, kind, place)


def _instance(value: Any, kind: type, place: str) -> Any:  # noqa: ANN401
    right = type(value) is kind or (type(value), kind) in ((int, float), (Message, str))
    if not right:
        raise _unexpected(value, _NAMES.get(kind, "a list" if kind is list else "a dict"), place)
    if type(value) is int and not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
        raise _unexpected(value, "an integer of 64 bits", place)
    return float(value) if kind is float else value


def _one_of(value: Any, kinds: tuple[Any, ...], place: str) -> Any:  # noqa: ANN401
    errors = []
    for kind in kinds:
        try:
            return _typed(value, kind, place)
        except UnexpectedType as error:
            errors.append(error)
    raise errors[0]


def _sequence(values: list[Any], origin: type, kinds: tuple[Any, ...], place: str) -> Any:  # noqa: ANN401
    if origin is tuple and kinds[-1] is not Ellipsis:
        if len(values) != len(kinds):
            raise UnexpectedType(f"a list of {len(kinds)} was expected{_at(place)}, not of {len(values)}")
        pairs = list(zip(values, kinds, strict=True))
    else:
        pairs = [(value, kinds[0]) for value in values]
    return origin(_typed(value, kind, f"{place}[{number}]") for number, (value, kind) in enumerate(pairs))


def _record(entries: dict[str, Any], kind: Any, place: str) -> Any:  # noqa: ANN401
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.name in entries]
    values = {name: _typed(entries[name], hints[name], f"{place}[{name!r}]") for name in names}
    try:
        return kind(**values)
    except TypeError:  # one without a default is missing
        raise _unexpected(entries, f"a whole {kind.__name__}", place) from None


def _unexpected(value: object, expected: str, place: str) -> UnexpectedType:
    actual = {dict: "a dict", list: "a list"} | _NAMES
    same = actual[type(value)] in expected
    return UnexpectedType(
        f"{expected} was expected{_at(place)}" + ("" if same else f", not {actual[type(value)]}")
    )


def _at(place: str) -> str:
    return f" at {place}" if place else ""
