"""What every prediction shares: a clickable widget, and a saved form for a notebook without a kernel."""

import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython

from onnxlab.notebook.language import script_words
from onnxlab.notebook.outputs import display_saved_and_live

__all__ = ["PredictionWidget", "SavedAndLive", "boxed"]

_HERE = Path(__file__).parent
# As long as nobody notices; a thread needs a few milliseconds. In many naps, because each of them ends later
# where the machine is busy: the whole lasts longer just where the other thread needs longer.
_NAPS, _SECONDS = 50, 0.005
_NAPS_AFTER_CLICKS = 150  # more may be on their way
_MOST_NAPS = 2000  # where clicks are still coming in


class PredictionWidget(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget ships no types
    """The base of the clickable forms; each adds its script and its state."""

    _css = _HERE / "predict.css"
    words = traitlets.Dict().tag(sync=True)
    chosen: Any

    def __init__(self, **state: object) -> None:
        super().__init__(words=script_words(), **state)
        self._told: Any = None
        self._heard = 0
        self.on_msg(self._on_click)

    @property
    def latest(self) -> Any:  # noqa: ANN401  # text for a choice, rows of texts for a grid
        """What was clicked last.

        The state `chosen` may still be on its way: the front end holds a change back until the one before it
        has been answered, and a cell that is run meanwhile comes first. A message is never held back. It can
        only be late: JupyterLab has it handled in a thread beside the cell's (a subshell); see `settle`.
        """
        return self.chosen if self._told is None else self._told

    def settle(self) -> None:
        """Let clicks that were sent before this cell be handled, where another thread does that."""
        if getattr(getattr(get_ipython(), "kernel", None), "_supports_kernel_subshells", False):
            left, heard = _NAPS_AFTER_CLICKS if self._heard else _NAPS, self._heard
            for _ in range(_MOST_NAPS):
                time.sleep(_SECONDS)
                left -= 1
                if heard != self._heard:  # where one came late, so may the next
                    left, heard = _NAPS_AFTER_CLICKS, self._heard
                if not left:
                    return

    def _on_click(self, _widget: object, content: dict[str, Any], _buffers: object) -> None:
        self._told = content.get("chosen", self._told)
        self._heard += 1


class SavedAndLive:
    """A prediction that the call which makes it shows, and that a later cell can show again."""

    _widget: PredictionWidget
    _shown_in: int | None = None

    def saved(self) -> str:
        """The HTML that stays in the saved notebook."""
        raise NotImplementedError

    def show(self) -> None:
        """Display the saved form and the widget."""
        self._shown_in = _cell()
        display_saved_and_live(self.saved(), repr(self), self._widget)

    def _ipython_display_(self) -> None:
        # `predict(...)` as the last line of a cell has been shown by the call already.
        if self._shown_in is None or self._shown_in != _cell():
            self.show()


def boxed(body: str, kind: str) -> str:
    """HTML in the frame of a prediction; its kind is "saved" or "answer"."""
    return f'<style>{_style()}</style><div class="onnxlab-predict {kind}">{body}</div>'


@lru_cache(maxsize=1)
def _style() -> str:
    return (_HERE / "predict.css").read_text("utf-8")


def _cell() -> int | None:
    shell = get_ipython()
    return None if shell is None else shell.execution_count
