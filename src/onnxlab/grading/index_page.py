"""The instructor's list of all students, with their points for each lab."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from onnxlab.errors import UnknownExercise
from onnxlab.grading.catalogue import lab
from onnxlab.grading.names import safe_name
from onnxlab.grading.page import escaped, page
from onnxlab.grading.plain_text import many

__all__ = ["index_page", "lab_title", "points_of"]


def index_page(
    students: Mapping[str, Mapping[str, tuple[int, int]]],
    failures: Mapping[tuple[str, str], str],
    ignored: Sequence[tuple[Path, str]],
) -> str:
    """Return the list.

    Args:
        students: Points and possible points, by student and lab.
        failures: What could not be graded and why, by student and lab.
        ignored: The files that were not taken, and why.
    """
    labs = sorted({name for each in students.values() for name in each})
    heads = "".join(
        f'<th class="number" title="{lab_title(name)}">{lab_title(name).partition(":")[0]}</th>'
        for name in labs
    )
    lines = []
    for student, marks in students.items():
        link = f"feedback/{quote(safe_name(student))}.html"
        cells = "".join(
            f'<td class="number">{points_of(*marks[name]) if name in marks else "&ndash;"}</td>'
            for name in labs
        )
        total = sum(points for points, _ in marks.values())
        lines.append(
            f'<tr><td><a href="{link}"><bdi>{escaped(student, 200)}</bdi></a></td>'
            f'<td class="number">{total}</td>{cells}</tr>'
        )
    parts = [
        f"<h1>Grades of {many(len(students), 'student')}</h1>",
        '<p>For the instructor. <a href="grades.csv">grades.csv</a>, '
        '<a href="summary.html">exercises and mistakes</a>. A dash: not submitted, and 0 in the total.</p>',
        f'<div class="wide"><table><tr><th>student</th><th class="number">total</th>{heads}</tr>'
        f"{''.join(lines)}</table></div>",
    ]
    if failures:
        parts.append("<h2>Not graded: the grader failed</h2><p>The next run tries these again.</p>")
        parts.append(
            _listing((f"{student}, {name}", why) for (student, name), why in sorted(failures.items()))
        )
    if ignored:
        parts.append("<h2>Files that were not taken</h2>")
        parts.append(_listing((str(path), why) for path, why in ignored))
    return page("Grades", "\n".join(parts))


def _listing(pairs: Iterable[tuple[str, str]]) -> str:
    items = "".join(f"<li><bdi>{escaped(what, 400)}</bdi>: {escaped(why, 400)}</li>" for what, why in pairs)
    return f"<ul>{items}</ul>"


def lab_title(name: str) -> str:
    """Return a lab's number and title, as HTML."""
    try:
        return f"{escaped(name.partition('_')[0].replace('lab', 'Lab '))}: {escaped(lab(name).title)}"
    except UnknownExercise:  # a lab that there is no more
        return escaped(name)


def points_of(points: int, possible: int) -> str:
    """Return how many points of how many."""
    return f"{points} of {possible}"
