"""`progress()`: what is passed, tried and open in the labs."""

import html

from IPython.core.getipython import get_ipython

from onnxlab.kit.exercise import labs
from onnxlab.kit.progress import set_private, standings
from onnxlab.language import tr
from onnxlab.message import Message
from onnxlab.notebook.labs.next_step import buttons, progress_map, way_output
from onnxlab.notebook.labs.standings import (
    predictions_table,
    progress_summary,
    progress_table,
    reading_summary,
    shared,
)
from onnxlab.notebook.outputs import display_saved_and_live, hiding_css
from onnxlab.notebook.predict.answers import scores
from onnxlab.notebook.predict.prediction import ask_again
from onnxlab.tables import Table

# The saved table names the labs; the live one below it says how the learner stands, and takes its place.
_STYLE = f"<style>{hiding_css('onnxlab-progress')}</style>"


def progress(*, private: bool | None = None) -> None:
    """Show where to go on, and by chapter and lab what you have predicted, passed and tried.

    A saved notebook shows only the labs: how a learner stands is theirs.

    Args:
        private: In a class: True leaves you out of the instructor's live page, False shows you there again
            (without your name, unless the instructor asks for it). It stays so.
    """
    reply = set_private(private) if private is not None else ""
    if get_ipython() is None:
        shown, message = progress_table()
        predicted = predictions_table()
        lines = (tr(reply), tr(message), repr(shown), shared(always=private is not None))
        print("\n".join(filter(None, (*lines, "" if predicted is None else repr(predicted)))))
        return
    rows = tuple((lab.name, lab.title, str(len(lab.exercises)), str(lab.points)) for lab in labs())
    points = sum(lab.points for lab in labs())
    caption = Message("{points} points in {labs} labs", points=points, labs=len(rows))
    columns = ("lab", "about", "exercises", "points")
    saved = Table(columns, rows, caption)
    current, message = standings()
    notes = filter(None, [tr(reply), tr(message), shared(always=private is not None)])
    note = "".join(f"<p>{html.escape(text)}</p>" for text in notes)
    total = "".join(
        f"<p>{html.escape(line)}</p>" for line in (tr(progress_summary(current)), tr(reading_summary()))
    )
    shown = way_output(f'<div class="onnxlab-progress live">{note}{total}{progress_map(current)}</div>')
    again = {tr("Ask me again what I predicted wrongly"): ask_again} if any(s.wrong for s in scores()) else {}
    live = buttons(again, above=[shown])
    markup = f'{_STYLE}<div class="onnxlab-progress saved">{saved._repr_html_()}</div>'
    display_saved_and_live(markup, repr(saved), live, hides=".onnxlab-progress.saved")
