"""Texts in Python source, as patterns: an f-string is a text with named gaps, as "{name} is missing."."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

__all__ = ["GAP", "own_words", "regular", "template", "templates"]

GAP = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")
"""A gap in a pattern. A text without gaps is written as it is; in one with gaps, other braces are doubled."""

_WORD = re.compile(r"[A-Za-z][a-z]{2,}")


def template(node: ast.expr) -> str | None:
    """Return a text of the source as a pattern; None if it is not one text.

    >>> template(ast.parse('f"{len(names)} of {total} " + "names"', mode="eval").body)
    '{len_names} of {total} names'
    """
    seen: Counter[str] = Counter()

    def written(part: ast.expr) -> str | None:
        if isinstance(part, ast.Constant):
            return part.value.replace("{", "{{").replace("}", "}}") if isinstance(part.value, str) else None
        if isinstance(part, ast.FormattedValue):
            name = re.sub(r"\W+", "_", ast.unparse(part.value)).strip("_")[-24:].strip("_") or "value"
            name = f"n{name}" if name[0].isdigit() else name
            seen[name] += 1
            return "{" + name + (str(seen[name]) if seen[name] > 1 else "") + "}"
        if isinstance(part, ast.JoinedStr):
            return "".join(written(each) or "" for each in part.values)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            sides = written(part.left), written(part.right)
            return None if sides[0] is None or sides[1] is None else sides[0] + sides[1]
        return None

    found = written(node)
    return found if found is None or GAP.search(found) else found.replace("{{", "{").replace("}}", "}")


def regular(pattern: str) -> re.Pattern[str]:
    """Return the regular expression that a text made from a pattern matches; a group for each gap.

    >>> regular("{n} node{s}").fullmatch("1 node").groups()
    ('1', '')
    """
    parts = GAP.split(pattern)
    for i in range(0, len(parts), 2):
        parts[i] = re.escape(parts[i].replace("{{", "{").replace("}}", "}"))
    parts[1::2] = ["(.*?)"] * (len(parts) // 2)
    return re.compile("".join(parts), re.DOTALL)


def templates(node: ast.expr) -> Iterator[str]:
    """Yield the patterns of an expression: both arms of `a if b else c`, each element of a list."""
    found = template(node)
    if found is not None:
        yield found
    elif isinstance(node, ast.IfExp):
        yield from (*templates(node.body), *templates(node.orelse))
    elif isinstance(node, ast.BoolOp):
        yield from (text for value in node.values for text in templates(value))
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from (text for element in node.elts for text in templates(element))


def own_words(pattern: str) -> int:
    """Return how many letters of words a pattern has outside its gaps and its code.

    >>> own_words("{what} is `not` there: {why}"), own_words("{kind} {name}")
    (5, 0)
    """
    return sum(map(len, _WORD.findall(re.sub(r"`[^`]*`|\{\w+\}", " ", pattern))))
