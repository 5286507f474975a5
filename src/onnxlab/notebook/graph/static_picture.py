"""The still picture of a graph in the saved notebook: Netron's own layout, drawn without a browser.

Netron's reader, grapher and layout run in QuickJS (a JavaScript engine in a Python package) on a document
of a few lines (picture.js). The same model gives the same bytes on every machine: texts are measured with a
table of glyph widths, not with the fonts that happen to be installed.
"""

import base64
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import quickjs

from onnxlab.errors import OnnxLabError
from onnxlab.notebook.graph import netron_files
from onnxlab.notebook.graph.lean_model import LeanModel

# The stack is small enough for any thread of any system: beyond it, QuickJS gives up instead of crashing.
_STACK, _MEMORY, _SECONDS = 512 << 10, 1 << 30, 20


class PictureFailed(OnnxLabError):
    """Netron's layout could not draw a graph as a picture."""


@dataclass(frozen=True)
class Picture:
    """A graph as SVG, with its size in CSS pixels.

    Attributes:
        bottoms: Where each node of the main graph ends, measured from the top.
    """

    svg: str
    width: int
    height: int
    bottoms: tuple[int, ...] = ()

    @property
    def address(self) -> str:
        """The drawing as an address for an `<img>`, in which nothing can run."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg.encode()).decode()}"


def draw_picture(
    model: LeanModel, marks: Mapping[str, Mapping[str, Any]] | None = None, *, bodies: bool = True
) -> Picture:
    """Draw a graph.

    Args:
        model: The lean copy of the model.
        marks: What to add to a node, by its identifier: "stroke", "fill" and "rows" (see marks.js).
        bodies: Whether the bodies of Loop, If and Scan are drawn open.

    Raises:
        PictureFailed: Netron cannot read the model, or the drawing takes too much time or memory.
    """
    request = {
        "model": base64.b64encode(model.data).decode(),
        "operators": netron_files.operator_table(model.operators),
        "marks": dict(marks or {}),
        "bodies": bodies,
    }
    drawing = json.loads(_run(json.dumps(request)))
    if drawing["width"] is None:
        raise PictureFailed("There is nothing to draw.")
    width, height = round(drawing["width"]), round(drawing["height"])
    body = drawing["body"]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}">'
        f'<style>{_styles(body)}</style><rect width="100%" height="100%" fill="#fff"/>{body}</svg>'
    )
    return Picture(svg, width, height, tuple(drawing["bottoms"]))


@functools.cache
def _engine() -> quickjs.Context:
    """The JavaScript engine with Netron loaded; kept, because loading costs more than a small drawing."""
    scripts = [
        f"const FONT = {netron_files.own_file('font_widths.json')};",
        netron_files.own_file("netron_modules.js"),
        netron_files.own_file("marks.js"),
        netron_files.own_file("picture.js"),
        *map(netron_files.module_script, netron_files.PICTURE_MODULES),
    ]
    engine = quickjs.Context()
    engine.set_max_stack_size(_STACK)
    engine.set_memory_limit(_MEMORY)
    engine.eval("\n".join(scripts))
    return engine


def _run(request: str) -> str:
    """Call drawPicture() and wait for its promise."""
    engine = _engine()
    engine.set_time_limit(_SECONDS)
    try:
        engine.set("request", request)
        # The answer is joined from parts: QuickJS cannot hand a lazily concatenated string to Python.
        engine.eval(
            "globalThis.answer = globalThis.failure = null;"
            "drawPicture(JSON.parse(request)).then((text) => { answer = [text].concat(['']).join(''); },"
            " (error) => { failure = ['', error && error.message || error].join(''); }); null"
        )
        while engine.execute_pending_job():
            pass
        answer, failure = engine.eval("answer"), engine.eval("failure")
    except quickjs.JSException as error:
        _engine.cache_clear()  # an interrupted engine may hold half a graph
        answer, failure = None, str(error).splitlines()[0]
    if answer is None:
        raise PictureFailed(
            "The picture of this graph could not be drawn.", str(failure or "The drawing never finished.")
        )
    return str(answer)


def _styles(body: str) -> str:
    """Netron's CSS rules that apply to a drawing, with a font that every system has or can replace."""
    used = {name for names in re.findall(r' class="([^"]*)"', body) for name in names.split()}
    used |= {f"#{name}" for name in re.findall(r' id="([^"]*)"', body)}
    rules = []
    for selector, declarations in re.findall(
        r"^([^{}]+?)\s*\{([^}]*)\}", netron_files.stylesheet(), re.MULTILINE
    ):
        names = re.findall(r"#[\w-]+|(?<=\.)[\w-]+", selector)
        if all(name in used for name in names):
            rules.append(f"{selector}{{{_shorter(declarations)}}}")
    return "".join(rules)


def _shorter(declarations: str) -> str:
    declarations = re.sub(r"font-family:[^;]*", "font-family:Helvetica,Arial,sans-serif", declarations)
    declarations = re.sub(r"(user-select|text-rendering|pointer-events):[^;]*;?", "", declarations)
    return re.sub(r"\s*([:;,])\s*", r"\1", declarations).strip(" ;")
