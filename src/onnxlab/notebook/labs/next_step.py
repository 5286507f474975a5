"""The way through the labs: buttons below a check, what comes next after a pass, and links to notebooks.

Nothing of it is saved with a notebook. It stands in an Output: there JupyterLab opens a link to a notebook in
a tab of its own and scrolls to the cell.
"""

import html
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ipywidgets
from IPython.core.getipython import get_ipython
from IPython.display import display

from onnxlab.kit.exercise import Exercise, Lab
from onnxlab.kit.progress import Standing, standings
from onnxlab.kit.solutions import solution
from onnxlab.kit.tracks import short_way
from onnxlab.language import LANGUAGES, tr
from onnxlab.notebook.labs.places import place
from onnxlab.notebook.labs.standings import course_path, go_on, is_done, path_notes
from onnxlab.notebook.outputs import InSight, display_widget
from onnxlab.notebook.predict.answers import Score

_STYLE = """<style>
.onnxlab-way p { margin: 4px 0; }
.onnxlab-way .bar { display: inline-block; width: 120px; height: 8px; margin-right: 8px;
  vertical-align: middle; border: 1px solid rgba(128, 128, 128, .7); border-radius: 5px; overflow: hidden; }
.onnxlab-way .bar i { display: block; height: 100%; background: #2ea043; }
.onnxlab-way .card { display: inline-block; border: 2px solid #2ea043; border-radius: 8px; padding: 10px 24px;
  margin: 6px 0; }
.onnxlab-way .card strong { font-size: 1.2em; }
.onnxlab-way a.go { display: inline-block; padding: 4px 14px; border: 1px solid #2ea043; border-radius: 6px;
  font-weight: 600; text-decoration: none; }
.onnxlab-way a.go:hover { background: rgba(46, 160, 67, .15); }
.onnxlab-way ul { list-style: none; margin: 6px 0; padding: 0; }
.onnxlab-way details { margin: 4px 0; }
.onnxlab-way details ul { margin-left: 24px; }
</style>"""


def display_buttons(
    actions: Mapping[str, Callable[[], None]], *, above: Sequence[ipywidgets.DOMWidget] = ()
) -> None:
    """Show `buttons` in a running notebook."""
    if get_ipython() is not None:
        display_widget(buttons(actions, above=above))


def buttons(
    actions: Mapping[str, Callable[[], None]], *, above: Sequence[ipywidgets.DOMWidget] = ()
) -> ipywidgets.VBox:
    """Return a row of buttons; what a button's action displays appears in a place of its own below it."""
    row, places = [], []
    for label, action in actions.items():
        button = ipywidgets.Button(description=label, layout={"width": "auto"})
        place = ipywidgets.Output()

        def act(_: object, action: Callable[[], None] = action, place: ipywidgets.Output = place) -> None:
            place.clear_output()
            with place:
                action()
                display_widget(InSight(clicked=True))

        button.on_click(act)
        row.append(button)
        places.append(place)
    return ipywidgets.VBox([*above, ipywidgets.HBox(row), *places, InSight()])


def display_way_on(lab: Lab, record: Exercise) -> None:
    """Show, after a pass, how much of the lab is done, what comes next, a card, and a solution on request."""
    if get_ipython() is None:
        return
    actions = {}
    if code := solution(record):
        shown = {"text/markdown": f"```python\n{code}\n```", "text/plain": code}
        actions[tr("Compare with a solution")] = lambda: display(shown, raw=True)
    display_buttons(actions, above=[way_output(way_on(lab, record))])


def way_output(markup: str) -> ipywidgets.Output:
    """Return a live output with a piece of the way."""
    data = {"text/html": f'{_STYLE}<div class="onnxlab-way">{markup}</div>'}
    return ipywidgets.Output(outputs=({"output_type": "display_data", "data": data, "metadata": {}},))


def way_on(lab: Lab, record: Exercise) -> str:
    """Return what stands below a passed check, as HTML."""
    current, _ = standings()
    of_lab = [standing for standing in current if standing.lab.name == lab.name]
    following = go_on(current, record)
    link = f"<p>{_step_link(following)}</p>" if following else ""
    return (_card(lab) if is_done(of_lab) else f"<p>{bar(of_lab)} {tr('exercises in this lab')}</p>") + link


def progress_map(current: Sequence[Standing]) -> str:
    """Return where to go on, and how the learner stands with each chapter and each lab, as HTML."""
    following = go_on(current, chapter=notebook_here().stem)
    parts = [f"<p>{_step_link(following)}</p>"] if following else []
    notes = path_notes(current)
    if isinstance(following, Score):
        notes.append(tr(short_way(following.chapter)))
    parts += [f"<p>{html.escape(note)}</p>" for note in notes]
    for step in course_path(current):
        if isinstance(step, Score):
            mark = "\u2713" if is_done(step) else "\u2013"
            answered = tr(
                "{total} of {step.total} predictions answered, {step.right} right",
                total=step.total - step.open,
                step=step,
            )
            parts.append(f"<p>{mark} {_chapter_link(step, step.chapter)} · {html.escape(answered)}</p>")
            continue
        lab, points = step[0].lab, sum(standing.points for standing in step)
        items = "".join(f"<li>{_item(standing)}</li>" for standing in step)
        head = f"{lab.name}: {tr(lab.title)}"
        path = notebook_path("labs", lab.name)
        name = _link(path, head) if path else html.escape(head)
        shown = html.escape(tr("{points} of {lab.points} points", points=points, lab=lab))
        opened = " open" if isinstance(following, Standing) and following.lab.name == lab.name else ""
        summary = f"<summary>{bar(step)} · {name} · {shown}</summary>"
        parts.append(f"<details{opened}>{summary}<ul>{items}</ul></details>")
    return "".join(parts)


def _step_link(step: Standing | Score) -> str:
    """Return a link to what comes next; its label alone where there is no notebook."""
    if isinstance(step, Score):
        return _chapter_link(step, tr("Go on: {step.chapter}", step=step), "go")
    return exercise_link(
        step, tr("Go on: {step.lab.name}, {title}", step=step, title=tr(step.exercise.title)), "go"
    )


def _item(standing: Standing) -> str:
    mark = "\u2713" if standing.passed else "\u2013"
    words = [tr(standing.word)] if not standing.passed else []
    if standing.last is not None and not standing.passed:
        words.append(tr(str(standing.last)))
    if standing.hints:
        words.append(
            tr("Hints: {standing.hints} of {count}", standing=standing, count=len(standing.exercise.hints))
        )
    note = f" ({html.escape(', '.join(words))})" if words else ""
    return f"{mark} {exercise_link(standing, tr(standing.exercise.title))}{note}"


def bar(of_lab: Sequence[Standing]) -> str:
    """Return a bar that shows how many of a lab's exercises are passed, as HTML."""
    passed, count = sum(standing.passed for standing in of_lab), len(of_lab)
    width = f"{100 * passed // count}%"
    text = tr("{passed} of {count}", passed=passed, count=count)
    return f'<span class="bar"><i style="width: {width}"></i></span>{text}'


def exercise_link(standing: Standing, label: str, kind: str = "") -> str:
    """Return a link to an exercise's place in its notebook; the label alone where there is no notebook."""
    path = notebook_path("labs", standing.lab.name)
    return _link(path, label, place(path, standing.exercise.id), kind) if path else html.escape(label)


def _chapter_link(score: Score, label: str, kind: str = "") -> str:
    path = notebook_path("notebooks", score.chapter)
    return _link(path, label, "", kind) if path else html.escape(label)


def notebook_here() -> Path:
    """Return the path of the notebook that runs; where that is not known, a name in the working directory.

    Links are relative to its folder, and a chapter works in a temporary one.
    """
    shell = get_ipython()
    in_code = shell.user_ns.get("__vsc_ipynb_file__", "") if shell else ""
    running = Path(os.environ.get("JPY_SESSION_NAME", in_code))
    known = running.is_absolute() and running.parent.is_dir()
    return running if known else Path.cwd() / (running.name or "unknown.ipynb")


def notebook_path(folder: str, name: str) -> Path | None:
    """Return a notebook of the course, looked for beside the one that runs and in the course around it."""
    running = notebook_here()
    here = running.parent
    # The notebook that runs may be a copy under another name.
    if running.name.startswith(name) and running.is_file():
        return running
    language = here.name if here.name in LANGUAGES else ""
    paths = (
        above / folder / edition / f"{name}.ipynb"
        for above in (here, *here.parents)
        for edition in (language, "")
    )
    return next((path for path in (here / f"{name}.ipynb", *paths) if path.is_file()), None)


def _card(lab: Lab) -> str:
    titles = "".join(f"<li>\u2713 {html.escape(tr(record.title))}</li>" for record in lab.exercises)
    head = html.escape(tr("Lab passed: {title}", title=tr(lab.title)))
    points = html.escape(tr("{lab.points} of {lab.points} points", lab=lab))
    return f'<div class="card"><strong>{head}</strong><ul>{titles}</ul>{points} · ONNX Lab</div>'


def _link(path: Path, label: str, fragment: str = "", kind: str = "") -> str:
    address = Path(os.path.relpath(path, notebook_here().parent)).as_posix()
    return f'<a class="{kind}" href="{html.escape(address + fragment)}">{html.escape(label)}</a>'


def section_link(chapter: str, section: str) -> str:
    """Return a link to a section of a chapter; empty where there is no notebook."""
    path = notebook_path("notebooks", chapter)
    return _link(path, f"{chapter}: {section}", place(path, section=section)) if path else ""
