"""The pages that the grader writes: one file each, no script, nothing loaded, for light and dark screens.

The templates are Jinja's, with autoescape: whatever a student wrote is text in them. Before it is escaped, it
goes through `plain`, since escaping leaves control characters and turned text as they are.
"""

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from onnxlab.errors import UnknownExercise
from onnxlab.grading.catalogue import exercise, lab
from onnxlab.labs.kit.outcome import Status
from onnxlab.plain_text import many, plain

__all__ = ["COLOURS", "marked_up", "rendered"]

COLOURS = {
    Status.PASSED: "var(--passed)",
    Status.INCORRECT: "var(--incorrect)",
    Status.ERROR: "var(--error)",
    Status.TIMED_OUT: "var(--late)",
    Status.NOT_ATTEMPTED: "var(--open)",
}
"""What each status looks like; the word always stands beside it."""


def rendered(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever a template shows
    """Return a template of `templates/` with values in it, as HTML."""
    return _environment().get_template(template).render(values)


def marked_up(text: object) -> Markup:
    """Return a message in which backticks set code apart.

    Example:
        >>> marked_up("`Resize` < 11")
        Markup('<code>Resize</code> &lt; 11')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(plain(text)))))


def _lines(text: object) -> Markup:
    return escape(plain(text, lines=True))


def _shown(value: object) -> object:
    """Make every value that a template shows plain, unless it is HTML of ours."""
    return value if isinstance(value, Markup) else plain(value)


def _lab_title(name: str) -> str:
    try:
        return f"{name.partition('_')[0].replace('lab', 'Lab ')}: {lab(name).title}"
    except UnknownExercise:  # a lab that there is no more
        return name


def _exercise_title(name: str) -> str:
    try:
        return exercise(name)[1].title
    except UnknownExercise:
        return ""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("onnxlab.grading.reports"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "cut": plain,
        "exercise_title": _exercise_title,
        "lab_title": _lab_title,
        "lines": _lines,
        "marked_up": marked_up,
    }
    environment.globals |= {"colours": COLOURS, "many": many, "statuses": list(Status)}
    return environment
