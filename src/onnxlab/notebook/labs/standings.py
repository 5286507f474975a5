"""A learner's progress and the next hint as text, for notebooks and terminals: without torch or IPython."""

import os
from collections.abc import Sequence

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
    rows = [_row(standing) for standing in current]
    return table(rows, caption=progress_summary(current), bad=("tried",)), message


def progress_summary(current: Sequence[Standing]) -> str:
    """Return the points and the exercises passed, in one line."""
    total = sum(standing.exercise.points for standing in current)
    have = sum(standing.points for standing in current)
    passed = sum(standing.passed for standing in current)
    return tr(f"{have} of {total} points, {passed} of {len(current)} exercises passed")


def go_on(current: Sequence[Standing], after: Exercise | None = None) -> Standing | None:
    """Return the exercise to do next; None if all are passed.

    It is one of the same lab where one is left, the next before the earlier ones; else the next lab's.
    Without `after`, the lab is the first that was begun and is not finished.

    Args:
        current: How the learner stands with every exercise, in order.
        after: The exercise that was passed just now.
    """
    left = [standing for standing in current if not standing.passed]
    if after is None:
        finished = {standing.lab.name for standing in current} - {standing.lab.name for standing in left}
        begun = [s for s in current if s.attempts and s.lab.name not in finished]
        lab = begun[0].lab.name if begun else ""
        return next((s for s in left if s.lab.name == lab), left[0] if left else None)
    position = [standing.exercise.id for standing in current].index(after.id)
    later = [standing for standing in current[position:] if not standing.passed]
    same = [standing for standing in [*later, *left] if standing.lab.name == after.lab]
    return next(iter([*same, *later, *left]), None)


def next_text(current: Sequence[Standing]) -> str:
    """Return, for a terminal, what to do next and with which commands."""
    following = go_on(current)
    if following is None:
        return tr(f"Every exercise is passed: {progress_summary(current)}.")
    lab, record = following.lab, following.exercise
    number = lab.exercises.index(record) + 1
    lines = [
        tr(f"Next: {tr(record.title)}"),
        tr(f"Exercise {record.id}: {number} of {len(lab.exercises)} in this lab, {record.points} points."),
        tr(f"Write {tr(' and ').join(record.answers)} in the notebook {lab.name}.ipynb."),
        tr(f"Check at each save: onnxlab watch {lab.name}"),
        tr(f"A hint: onnxlab hint {record.id}"),
    ]
    return "\n".join(lines)


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
