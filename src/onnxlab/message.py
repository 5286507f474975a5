"""A message: an English sentence with named gaps and what fills them, so that it can be said in any language.

It is the finished English sentence, a `str`, wherever nobody asks for another language. The template is what
a catalogue translates; `onnxlab.language.tr` fills the translation with the same values.
"""

import re
from collections.abc import Iterable, Mapping
from string import Formatter
from typing import Any, SupportsIndex

GAP = re.compile(r"(?<!\{)\{([A-Za-z_]\w*(?:\.\w+)*(?:!r)?(?::[^{}\s]*)?)\}(?!\})")
"""A gap in a template, as in `str.format`: "{name}", "{model.opset}", "{path!r}", "{size:,}"."""

LONGEST = 2000
"""Characters of a message from a file: another process may have written it."""

_DEEPEST = 5  # messages in messages
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")


class Message(str):
    """A finished English sentence that remembers its template and what fills each gap.

    Args:
        template: The sentence, with gaps such as "{name}". Where it has one, other braces are doubled.
        **values: What the gaps name: texts, numbers, other messages.

    Example:
        >>> message = Message("There is no {operator} in the graph.", operator="Resize")
        >>> message, message.template
        ('There is no Resize in the graph.', 'There is no {operator} in the graph.')
    """

    template: str
    values: dict[str, str]

    def __new__(cls, template: str, /, **values: object) -> "Message":  # noqa: D102 - see the class
        if isinstance(template, Message):
            if template.values or not values:
                return template
            template = template.template
        gaps = [gap for gap in GAP.findall(template) if re.split(r"[.!:]", gap)[0] in values]
        return cls.filled(template, {gap: _rendered(gap, values) for gap in gaps})

    @classmethod
    def filled(cls, template: str, texts: Mapping[str, str]) -> "Message":
        """Return the message of a template with a text for each gap."""
        message = super().__new__(cls, fill(template, texts))
        message.template, message.values = template, dict(texts)
        return message

    @classmethod
    def compose(cls, mark: str, parts: Iterable[str]) -> "Message":
        """Join messages and other texts, with a mark between them.

        >>> Message.compose("; ", ["one", Message("{n} more", n=2)])
        'one; 2 more'
        """
        values = {f"part{number}": part for number, part in enumerate(parts, 1)}
        return cls(mark.join(f"{{{name}}}" for name in values), **values)

    def __str__(self) -> str:
        return self

    def __repr__(self) -> str:
        return super().__repr__()

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        """Return a piece as text; the message itself where it is short enough for all of it."""
        piece = super().__getitem__(key)
        return self if piece == self else piece

    def __add__(self, other: str) -> "Message":
        return Message.compose("", [self, other])

    def __radd__(self, other: str) -> "Message":
        return Message.compose("", [other, self])

    def __reduce__(self) -> tuple[Any, ...]:
        return Message.filled, (self.template, self.values)


def _rendered(gap: str, values: Mapping[str, object]) -> str:
    """Return what stands in a gap; a message stays one."""
    path, _, form = gap.partition(":")
    name, _, conversion = path.partition("!")
    value, _ = Formatter().get_field(name, (), values)
    value = repr(value) if conversion else value
    return format(value, form) if form else str(value)


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its gaps filled; without values it stays as it is.

    >>> fill("{n} of {{n}}", {"n": "2"}), fill("{{n}}", {})
    ('2 of {n}', '{{n}}')
    """
    if not values:
        return template
    return _PIECE.sub(lambda piece: values.get(piece[1], piece[0]) if piece[1] else piece[0][0], template)


def with_templates(value: Any) -> Any:  # noqa: ANN401 - anything that JSON can hold
    """Return plain data for a JSON file, in which each message is its template and its values.

    >>> with_templates(["a", Message("{n} nodes", n=2)])
    ['a', {'template': '{n} nodes', 'values': {'n': '2'}}]
    """
    if isinstance(value, Message):
        gaps = {"template": value.template, "values": with_templates(value.values)}
        return gaps if value.values else str.__str__(value)
    if isinstance(value, dict):
        return {key: with_templates(inner) for key, inner in value.items()}
    return [with_templates(inner) for inner in value] if isinstance(value, list | tuple) else value


def from_json(value: dict[str, Any]) -> Any:  # noqa: ANN401 - what the JSON file holds
    """Return an object of a JSON file, or the message that it is: the `object_hook` for `json.loads`.

    A message that is too long or too deep, which no course writes, becomes plain text.
    """
    if value.keys() != {"template", "values"}:
        return value
    template, values = value["template"], value["values"]
    if not isinstance(template, str) or not isinstance(values, dict) or len(template) > LONGEST:
        return value
    if not all(isinstance(text, str) for text in values.values()):
        return value
    # Cut first: a file of one megabyte could fill gigabytes.
    message = Message.filled(template, {gap: text[:LONGEST] for gap, text in values.items()})
    if len(message) > LONGEST:
        return str.__str__(message)[:LONGEST]
    return message if _depth(message) <= _DEEPEST else str.__str__(message)


def _depth(text: str) -> int:
    return 1 + max(map(_depth, text.values.values()), default=0) if isinstance(text, Message) else 0
