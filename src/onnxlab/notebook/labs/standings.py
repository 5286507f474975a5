"""A learner's progress and the next hint as text, for notebooks and terminals: without torch or IPython."""

import os

from onnxlab.labs.kit import progress
from onnxlab.labs.kit.exercise import Exercise
from onnxlab.labs.kit.progress import Standing, is_private, standings
from onnxlab.notebook.language import tr
from onnxlab.notebook.predict.answers import scores
from onnxlab.notebook.tables import Table, table


def next_hint(record: Exercise) -> str:
    """Return the next hint of an exercise, and record that it was given."""
    number, text = progress.next_hint(record)
    return tr(f"Hint {number} of {len(record.hints)}: {text}")


def progress_table() -> tuple[Table, str]:
    """Return a row for each exercise, and a message if the file with the progress was damaged."""
    current, message = standings()
    total = sum(standing.exercise.points for standing in current)
    have = sum(standing.points for standing in current)
    passed = sum(standing.passed for standing in current)
    caption = f"{have} of {total} points, {passed} of {len(current)} exercises passed"
    return table([_row(standing) for standing in current], caption=caption, bad=("tried",)), message


def predictions_table() -> Table | None:
    """Return a row for each chapter in which something was predicted; None without any."""
    answered = [score for score in scores() if score.right or score.wrong]
    rows = [
        {
            tr("chapter"): score.chapter,
            tr("predictions right"): f"{score.right}/{score.total}",
            tr("wrong"): score.wrong,
            tr("open"): score.total - score.right - score.wrong,
        }
        for score in answered
    ]
    again = tr("To be asked the wrong ones again, call ask_again() in a cell.")
    return table(rows, caption=again if any(score.wrong for score in answered) else "") if rows else None


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
