"""`slider()`: shows what a function returns for a number; the saved notebook keeps the first number's."""

import base64
import html
from collections.abc import Callable
from functools import cache

import ipywidgets

from onnxlab.language import tr
from onnxlab.notebook.outputs import display_saved_and_live, hiding_css

_STYLE = f"""<style>
.onnxlab-slider {{ display: flex; flex-wrap: wrap; gap: 8px 24px; align-items: flex-start; }}
.onnxlab-slider p {{ flex-basis: 100%; margin: 4px 0; }}{hiding_css("onnxlab-slider")}
</style>"""


def slider(
    show: Callable[[float], object],
    start: float,
    least: float,
    most: float,
    *,
    step: float = 1,
    name: str = "n",
) -> None:
    """Show a slider, and below it what a function returns for the slider's number.

    The saved notebook holds what the function returns for the first number.

    Args:
        show: Called with a number; returns text, something that a notebook can show as HTML or as a PNG
            picture, or a tuple of these: text takes a line, the rest stands side by side.
        start: The first number.
        least: The smallest number.
        most: The largest number.
        step: From one number to the next. With whole numbers, `show` is called with whole numbers.
        name: What to call the number.

    >>> slider(lambda n: f"{n} x {n}", 2, 0, 9)
    2 x 2
    """
    integral = all(isinstance(number, int) for number in (start, least, most, step))
    kind = ipywidgets.IntSlider if integral else ipywidgets.FloatSlider
    handle = kind(value=start, min=least, max=most, step=step, description=tr(name))

    @cache
    def parts(number: float) -> tuple[object, ...]:
        shown = show(number)
        return shown if isinstance(shown, tuple) else (shown,)

    saved, live = (f'<div class="onnxlab-slider {form}">' for form in ("saved", "live"))
    first = "".join(map(_markup, parts(start)))
    view = ipywidgets.HTML(f"{live}{first}</div>")

    def redraw(change: dict[str, float]) -> None:
        view.value = f"{live}{''.join(map(_markup, parts(change['new'])))}</div>"

    handle.observe(redraw, "value")
    here = tr(
        "Here for {label} = {start}. With a running kernel, a slider stands in this place.",
        label=name,  # a gap called name would stay English
        start=start,
    )
    hint = f"<p><em>{here}</em></p>"
    # An image's text is an address in memory, another one in each run.
    text = "\n".join(tr(str(part)) for part in parts(start) if not hasattr(part, "_repr_png_"))
    display_saved_and_live(
        f"{_STYLE}{saved}{first}{hint}</div>",
        text,
        ipywidgets.VBox([handle, view]),
        hides=".onnxlab-slider.saved",
    )


def _markup(part: object) -> str:
    if isinstance(part, str):
        return f"<p>{html.escape(tr(part))}</p>"
    if hasattr(part, "_repr_html_"):
        return f"<div>{part._repr_html_()}</div>"
    if hasattr(part, "_repr_png_"):
        return f'<img alt="" src="data:image/png;base64,{base64.b64encode(part._repr_png_()).decode()}">'
    return f"<pre>{html.escape(str(part))}</pre>"
