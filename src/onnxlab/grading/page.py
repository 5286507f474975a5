"""The pages that the grader writes: one file each, no script, nothing loaded, for light and dark screens."""

import html
import re

from onnxlab.grading.plain_text import plain
from onnxlab.labs.outcome import Status

__all__ = ["COLOURS", "escaped", "marked_up", "page"]

COLOURS = {
    Status.PASSED: "var(--passed)",
    Status.INCORRECT: "var(--incorrect)",
    Status.ERROR: "var(--error)",
    Status.TIMED_OUT: "var(--late)",
    Status.NOT_ATTEMPTED: "var(--open)",
}
"""What each status looks like; the word always stands beside it."""

# Nothing may run or be loaded, even if a student's text got through unescaped.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"

_STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --ground: #fff; --soft: #f3f4f6; --edge: #d0d7de;
  --faint: #59636e; --link: #0b5cad; --passed: #1a7f37; --incorrect: #cf222e; --error: #a04000;
  --late: #7a4fb5; --open: #6e7781 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --ground: #14181d; --soft: #1f252c; --edge: #3a424b; --faint: #9aa5b1;
    --link: #79b8ff; --passed: #3fb950; --incorrect: #ff7b72; --error: #f0a35e;
    --late: #c297ff; --open: #9198a1 }
}
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5em 1.2em 4em; max-width: 68em; background: var(--ground);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.6em; line-height: 1.25 }
h2 { margin-top: 2em; padding-bottom: .2em; border-bottom: 1px solid var(--edge) }
h3 { margin: 0 0 .3em; font-size: 1.08em }
p { margin: .4em 0 }
a { color: var(--link) }
.points { color: var(--faint); font-weight: normal; font-size: .85em; white-space: nowrap }
.status { color: var(--tone); font-weight: 600; white-space: nowrap }
section.exercise { border: 1px solid var(--edge); border-left: 4px solid var(--tone); border-radius: 6px;
  padding: .8em 1em; margin: 1em 0 }
ul.parts { list-style: none; margin: .5em 0; padding: 0 }
ul.parts li::before { content: attr(data-mark) " "; font-weight: 600 }
.aside { color: var(--faint) }
pre, code, dd { font-family: ui-monospace, monospace; font-size: .92em; overflow-wrap: anywhere }
pre { background: var(--soft); padding: .5em .7em; border-radius: 6px; white-space: pre-wrap; margin: .4em 0 }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15em 1em; margin: .6em 0 }
dt { color: var(--faint) }
dd { margin: 0; white-space: pre-wrap }
.graphs { display: flex; flex-wrap: wrap; gap: 1em; margin-top: .8em }
figure { flex: 1 1 20em; min-width: 0; margin: 0; border: 1px solid var(--edge); border-radius: 6px;
  padding: .6em; overflow-x: auto }
figure img { max-width: 100%; height: auto }
@media (prefers-color-scheme: dark) {
  figure { background: #242424 } figure img { filter: invert(.86) hue-rotate(180deg) } }
figcaption { color: var(--faint) }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; margin: 1em 0 }
th, td { text-align: left; padding: .35em .7em; border-bottom: 1px solid var(--edge); vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
td.number { white-space: nowrap }
.bar { display: flex; height: 1.1em; border-radius: 4px; overflow: hidden; background: var(--soft);
  min-width: 9em; margin-top: .2em }
.bar span { background: var(--tone) }
.key { display: flex; flex-wrap: wrap; gap: .2em 1.2em; padding: 0; list-style: none }
.key li::before { content: ""; display: inline-block; width: .8em; height: .8em; border-radius: 3px;
  background: var(--tone); margin-right: .4em }
tr.mistakes td { padding: 0 .7em .8em; color: var(--faint); overflow-wrap: anywhere }
tr.numbers td { border-bottom: 0 }
tr.numbers td:first-child { white-space: nowrap; width: 45% }
tr.mistakes ol { margin: 0; padding: 0; list-style: none }
tr.mistakes li { padding-left: 3.4em; text-indent: -3.4em }
tr.mistakes li span { display: inline-block; min-width: 3em; text-indent: 0; text-align: right;
  font-variant-numeric: tabular-nums }
@media (max-width: 48em) { th, td { padding: .35em .45em } }
@media (max-width: 34em) {
  body { padding: 1em .7em 3em } th, td { padding: .35em .25em } th.number { font-size: .72em }
  tr.numbers td:first-child { white-space: normal; width: auto } .bar { min-width: 5em } }
""".strip()


def page(title: str, body: str) -> str:
    """Return a whole page.

    Args:
        title: Its title, not escaped yet.
        body: What it shows, as HTML.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title, 200)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def escaped(text: object, most: int = 2000, *, lines: bool = False) -> str:
    """Return any text as it may stand in HTML, as content or as an attribute.

    Example:
        >>> escaped('<b onclick="x">')
        '&lt;b onclick=&quot;x&quot;&gt;'
    """
    return html.escape(plain(text, most, lines=lines))


def marked_up(text: object) -> str:
    """Return a message in which backticks set code apart.

    Example:
        >>> marked_up("`Resize` < 11")
        '<code>Resize</code> &lt; 11'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped(text))
