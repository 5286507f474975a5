"""The way through the labs: buttons below a check, what comes next after a pass, and links to notebooks.

Nothing of it is saved with a notebook. It stands in an Output: there JupyterLab opens a link to a notebook in
a tab of its own and scrolls to the cell.
"""

import html
import json
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import ipywidgets
from IPython.core.getipython import get_ipython

from onnxlab.labs.kit.exercise import Exercise, Lab
from onnxlab.labs.kit.progress import Standing, standings
from onnxlab.notebook.labs.standings import go_on
from onnxlab.notebook.language import LANGUAGES, tr
from onnxlab.notebook.outputs import display_widget

_STYLE = """<style>
.onnxlab-way p { margin: 4px 0; }
.onnxlab-way .bar { display: inline-block; width: 120px; height: 8px; margin-right: 8px;
  vertical-align: middle; border: 1px solid rgba(128, 128, 128, .7); border-radius: 5px; overflow: hidden; }
.onnxlab-way .bar i { display: block; height: 100%; background: #2ea043; }
.onnxlab-way .card { display: inline-block; border: 2px solid #2ea043; border-radius: 8px; padding: 10px 24px;
  margin: 6px 0; }
.onnxlab-way .card strong { font-size: 1.2em; }
.onnxlab-way ul { list-style: none; margin: 6px 0; padding: 0; }
.onnxlab-way details { margin: 4px 0; }
.onnxlab-way details ul { margin-left: 24px; }
</style>"""


def display_buttons(actions: Mapping[str, Callable[[], None]]) -> None:
    """Show a row of buttons; what a button's action displays appears below the row.

    Args:
        actions: What each button does, by its label.
    """
    if get_ipython() is None:
        return
    below, buttons = ipywidgets.Output(), []
    for label, action in actions.items():
        button = ipywidgets.Button(description=label, layout={"width": "auto"})

        def act(_: object, action: Callable[[], None] = action) -> None:
            below.clear_output()
            with below:
                action()

        button.on_click(act)
        buttons.append(button)
    display_widget(ipywidgets.VBox([ipywidgets.HBox(buttons), below]))


def display_way_on(lab: Lab, record: Exercise) -> None:
    """Show, after a pass, how much of the lab is done, the next exercise, and a card when the lab is done."""
    if get_ipython() is not None:
        display_widget(way_output(way_on(lab, record)))


def way_output(markup: str) -> ipywidgets.Output:
    """Return a live output with a piece of the way."""
    data = {"text/html": f'{_STYLE}<div class="onnxlab-way">{markup}</div>'}
    return ipywidgets.Output(outputs=({"output_type": "display_data", "data": data, "metadata": {}},))


def way_on(lab: Lab, record: Exercise) -> str:
    """Return what stands below a passed check, as HTML."""
    current, _ = standings()
    of_lab = [standing for standing in current if standing.lab.name == lab.name]
    done = all(standing.passed for standing in of_lab)
    links = []
    if following := go_on(current, record):
        links.append(exercise_link(following, tr(f"Next: {tr(following.exercise.title)}")))
    if solution := notebook_path("solutions", lab.name):
        links.append(_link(solution, tr("Compare with a solution")))
    return (
        _card(lab) if done else f"<p>{bar(of_lab)} {tr('exercises in this lab')}</p>"
    ) + f"<p>{' · '.join(links)}</p>"


def progress_map(current: Sequence[Standing]) -> str:
    """Return where to go on, and a bar and the exercises of each lab, as HTML."""
    parts = []
    following = go_on(current)
    if following is not None:
        title = exercise_link(following, f"{following.lab.name}: {tr(following.exercise.title)}")
        parts.append(f"<p><strong>{html.escape(tr('Go on here:'))} {title}</strong></p>")
    for _, group in groupby(current, key=lambda standing: standing.lab.name):
        of_lab = list(group)
        lab, points = of_lab[0].lab, sum(standing.points for standing in of_lab)
        items = "".join(f"<li>{_item(standing)}</li>" for standing in of_lab)
        head = f"{lab.name}: {tr(lab.title)}"
        path = notebook_path("labs", lab.name)
        name = _link(path, head) if path else html.escape(head)
        shown = html.escape(tr(f"{points} of {lab.points} points"))
        opened = " open" if following is not None and following.lab.name == lab.name else ""
        summary = f"<summary>{bar(of_lab)} · {name} · {shown}</summary>"
        parts.append(f"<details{opened}>{summary}<ul>{items}</ul></details>")
    return "".join(parts)


def _item(standing: Standing) -> str:
    mark = "\u2713" if standing.passed else "\u2013"
    words = [tr(standing.word)] if not standing.passed else []
    if standing.last is not None and not standing.passed:
        words.append(tr(str(standing.last)))
    if standing.hints:
        words.append(tr(f"Hints: {standing.hints} of {len(standing.exercise.hints)}"))
    note = f" ({html.escape(', '.join(words))})" if words else ""
    return f"{mark} {exercise_link(standing, tr(standing.exercise.title))}{note}"


def bar(of_lab: Sequence[Standing]) -> str:
    """Return a bar that shows how many of a lab's exercises are passed, as HTML."""
    passed, count = sum(standing.passed for standing in of_lab), len(of_lab)
    width = f"{100 * passed // count}%"
    return f'<span class="bar"><i style="width: {width}"></i></span>{tr(f"{passed} of {count}")}'


def exercise_link(standing: Standing, label: str) -> str:
    """Return a link to an exercise's place in its notebook; the label alone where there is no notebook."""
    path = notebook_path("labs", standing.lab.name)
    return _link(path, label, _place(path, standing.exercise.id)) if path else html.escape(label)


def notebook_path(folder: str, name: str) -> Path | None:
    """Return a lab's notebook, looked for in this folder (for labs) and in the course around it, or None."""
    here = Path.cwd()
    if folder == "labs":
        # The notebook that runs may be a copy under another name.
        running = Path(os.environ.get("JPY_SESSION_NAME", ""))
        if running.name.startswith(name) and (path := here / running.name).is_file():
            return path
        if (path := here / f"{name}.ipynb").is_file():
            return path
    language = here.name if here.name in LANGUAGES else ""
    paths = (
        above / folder / edition / f"{name}.ipynb" for above in here.parents for edition in (language, "")
    )
    inside = (here / folder / f"{name}.ipynb",)
    return next((path for path in (*inside, *paths) if path.is_file()), None)


def _card(lab: Lab) -> str:
    titles = "".join(f"<li>\u2713 {html.escape(tr(record.title))}</li>" for record in lab.exercises)
    head = html.escape(tr(f"Lab passed: {tr(lab.title)}"))
    points = html.escape(tr(f"{lab.points} of {lab.points} points"))
    return f'<div class="card"><strong>{head}</strong><ul>{titles}</ul>{points} · ONNX Lab</div>'


def _link(path: Path, label: str, fragment: str = "") -> str:
    address = Path(os.path.relpath(path)).as_posix()
    return f'<a href="{html.escape(address + fragment)}">{html.escape(label)}</a>'


def _place(path: Path, exercise: str) -> str:
    """Return the fragment of the heading above an exercise's check; empty if it is not found."""
    try:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        heading = ""
        for cell in cells:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown" and source.startswith("## "):
                heading = f"#cell-id={cell['id']}"
            if cell["cell_type"] == "code" and f'check("{exercise}"' in source:
                return heading
    except (OSError, ValueError, KeyError, TypeError):  # a learner's file may be anything
        pass
    return ""
