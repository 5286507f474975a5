"""`progress()`: what is passed, tried and open in the labs."""

import html

import ipywidgets
from IPython.core.getipython import get_ipython
from IPython.display import display

from onnxlab.display.prediction_widget import display_html
from onnxlab.display.tables import Table, table
from onnxlab.labs.exercise import labs
from onnxlab.labs.progress import Standing, standings

__all__ = ["progress", "progress_table"]

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

# The saved table names the labs; the live one below it says how the learner stands, and takes its place.
_STYLE = (
    "<style>.jp-OutputArea-child:has(.onnxlab-progress-saved)"
    ":has(+ .jp-OutputArea-child .onnxlab-progress-live) {display: none}</style>"
)


def progress() -> None:
    """Show, lab by lab, what is passed, tried and open, with points.

    A saved notebook shows only the labs: how a learner stands is theirs.
    """
    if get_ipython() is None:
        shown, message = progress_table()
        print("\n".join(filter(None, [message, repr(shown)])))
        return
    rows = [
        {"lab": one.name, "about": one.title, "exercises": len(one.exercises), "points": one.points}
        for one in labs()
    ]
    saved = table(rows, caption=f"{sum(one.points for one in labs())} points in {len(rows)} labs")
    display_html(f'{_STYLE}<div class="onnxlab-progress-saved">{saved._repr_html_()}</div>', repr(saved))
    shown, message = progress_table()
    note = f"<p>{html.escape(message)}</p>" if message else ""
    live = ipywidgets.HTML(f'<div class="onnxlab-progress-live">{note}{shown._repr_html_()}</div>')
    display({_WIDGET_VIEW: {"version_major": 2, "version_minor": 0, "model_id": live.model_id}}, raw=True)


def progress_table() -> tuple[Table, str]:
    """Return a row for each exercise, and a message if the file with the progress was damaged."""
    found, message = standings()
    total = sum(each.exercise.points for each in found)
    have = sum(each.points for each in found)
    passed = sum(each.passed for each in found)
    caption = f"{have} of {total} points, {passed} of {len(found)} exercises passed"
    return table([_row(each) for each in found], caption=caption, bad=("tried",)), message


def _row(each: Standing) -> dict[str, object]:
    return {
        "lab": each.lab.name,
        "exercise": each.exercise.id,
        "state": each.word,
        "last check": "" if each.last is None or each.passed else str(each.last),
        "points": f"{each.points} of {each.exercise.points}",
        "hints": f"{each.hints} of {len(each.exercise.hints)}" if each.hints else "",
    }
