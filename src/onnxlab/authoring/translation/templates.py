"""Texts in Python source, as patterns: an f-string is a text with named gaps, as "{name} is missing."."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from onnxlab.notebook.language import GAP

__all__ = ["template", "templates"]


def template(node: ast.expr) -> str | None:
    """Return a text of the source as a pattern; None if it is not one text.

    Braces of a text without gaps stay as they are, unless they look like a gap.

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
    if found is None or GAP.search(found):
        return found
    text = found.replace("{{", "{").replace("}}", "}")
    return found if GAP.search(text) else text


def templates(node: ast.expr) -> Iterator[str]:
    """Yield the patterns of an expression: both arms of `a if b else c`, each element of a list."""
    found = template(node)
    if found is not None:
        yield found
    elif isinstance(node, ast.IfExp):
        yield from (*templates(node.body), *templates(node.orelse))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):  # a sentence, and a name for another
        yield from (*templates(node.left), *templates(node.right))
    elif isinstance(node, ast.BoolOp):
        yield from (text for value in node.values for text in templates(value))
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from (text for element in node.elts for text in templates(element))
