"""`progress()`: what is passed, tried and open in the labs."""

import html
import os

import ipywidgets
from IPython.core.getipython import get_ipython

from onnxlab.labs.kit.exercise import labs
from onnxlab.labs.kit.progress import Standing, is_private, set_private, standings
from onnxlab.notebook.language import tr
from onnxlab.notebook.outputs import display_saved_and_live
from onnxlab.notebook.tables import Table, table

__all__ = ["progress", "progress_table", "shared"]

# The saved table names the labs; the live one below it says how the learner stands, and takes its place.
_STYLE = (
    "<style>.jp-OutputArea-child:has(.onnxlab-progress-saved)"
    ":has(+ .jp-OutputArea-child .onnxlab-progress-live) {display: none}</style>"
)


def progress(*, private: bool | None = None) -> None:
    """Show, lab by lab, what is passed, tried and open, with points.

    A saved notebook shows only the labs: how a learner stands is theirs.

    Args:
        private: In a class: True leaves you out of the instructor's live page, False shows you there again
            (without your name, unless the instructor asks for it). It stays so.
    """
    reply = set_private(private) if private is not None else ""
    if get_ipython() is None:
        shown, message = progress_table()
        lines = (tr(reply), tr(message), repr(shown), shared(always=private is not None))
        print("\n".join(filter(None, lines)))
        return
    rows = [
        {
            tr("lab"): lab.name,
            tr("about"): lab.title,
            tr("exercises"): len(lab.exercises),
            tr("points"): lab.points,
        }
        for lab in labs()
    ]
    saved = table(rows, caption=f"{sum(record.points for record in labs())} points in {len(rows)} labs")
    shown, message = progress_table()
    notes = filter(None, [tr(reply), tr(message), shared(always=private is not None)])
    note = "".join(f"<p>{html.escape(text)}</p>" for text in notes)
    live = ipywidgets.HTML(f'<div class="onnxlab-progress-live">{note}{shown._repr_html_()}</div>')
    markup = f'{_STYLE}<div class="onnxlab-progress-saved">{saved._repr_html_()}</div>'
    display_saved_and_live(markup, repr(saved), live, hides=".onnxlab-progress-saved")


def progress_table() -> tuple[Table, str]:
    """Return a row for each exercise, and a message if the file with the progress was damaged."""
    current, message = standings()
    total = sum(standing.exercise.points for standing in current)
    have = sum(standing.points for standing in current)
    passed = sum(standing.passed for standing in current)
    caption = f"{have} of {total} points, {passed} of {len(current)} exercises passed"
    return table([_row(standing) for standing in current], caption=caption, bad=("tried",)), message


def shared(*, always: bool = False, terminal: bool = False) -> str:
    """Return a line on who else sees the learner's progress, and how to change that; empty where nobody does.

    Args:
        always: Return the line outside of a class, too.
        terminal: Name the command of the terminal, not the call in a cell.
    """
    if not always and "JUPYTERHUB_USER" not in os.environ:
        return ""
    if is_private():
        how = "onnxlab progress --public" if terminal else "progress(private=False)"
        return tr(f"The instructor's page leaves you out. To be shown there again: {how}")
    how = "onnxlab progress --private" if terminal else "progress(private=True)"
    return tr(f"The instructor's page shows how you stand. To be left out there: {how}")


def _row(standing: Standing) -> dict[str, object]:
    return {
        tr("lab"): standing.lab.name,
        tr("exercise"): standing.exercise.id,
        tr("state"): standing.word,
        tr("last check"): "" if standing.last is None or standing.passed else str(standing.last),
        tr("points"): tr(f"{standing.points} of {standing.exercise.points}"),
        tr("hints"): tr(f"{standing.hints} of {len(standing.exercise.hints)}") if standing.hints else "",
    }
