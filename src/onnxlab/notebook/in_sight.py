"""What a person waits for stays in sight: a verdict after Shift+Enter, and what a button shows.

Only a widget that was made by a run moves the page, and once: never a notebook that is opened again.
"""

from pathlib import Path

import anywidget
import traitlets

SCRIPT = Path(__file__).with_name("in_sight.js").read_text("utf-8")
"""The functions `bringIntoSight`, `verdictOf` and `bringVerdictIntoSight`, for the scripts of widgets."""


class InSight(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget ships no types
    """Stands below what is to be seen: a cell's report, or what a click has put out."""

    _esm = (
        SCRIPT
        + """
export default { render: ({ model, el }) => {
  if (!model.get('fresh')) return;
  model.set('fresh', false);
  model.save_changes();
  const report = () => verdictOf(el.closest('.jp-Cell'), '.onnxlab-report');
  bringIntoSight(model.get('clicked') ? () => el.closest('.jp-OutputArea') : report);
} };
"""
    )
    clicked = traitlets.Bool(False).tag(sync=True)
    fresh = traitlets.Bool(True).tag(sync=True)
