"""The page for a reader with an error message, or with wrong outputs and no message."""

import json
import re
import tomllib
from functools import cache
from itertools import groupby
from pathlib import Path

from mdit_py_plugins.anchors.index import slugify
from pages import Site

__all__ = ["ERRORS", "error_page"]

ERRORS = "errors"
"""The page's name."""

_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def error_page(site: Site) -> str:
    """Return the page's source: silent failures by symptom, then each known message with cause and cure."""
    words = site.words["errors"]
    silent = tomllib.loads((site.root / "site" / "silent.toml").read_text("utf-8"))["symptom"]
    known = tomllib.loads((site.root / "src/onnxlab/assets/messages.toml").read_text("utf-8"))["message"]
    parts = [
        f"# {words['title']}\n\n{words['text']}\n\n",
        '<div class="onnxlab-why"></div>\n\n',
        f"## {words['silent']}\n\n| {words['symptom']} | {words['section']} |\n|---|---|\n",
        *(f"| {row[site.language]} | {_link(site, row['chapter'], row['section'])} |\n" for row in silent),
        f"\n## {words['messages']}\n",
    ]
    by_chapter = sorted(known, key=lambda row: (row["chapter"], row.get("section", "")))
    for chapter, rows in groupby(by_chapter, key=lambda row: row["chapter"]):
        parts.append(f"\n### {_headings(site.path(f'notebooks/{chapter}'))[0]}\n\n")
        for row in rows:
            place = f'<span id="{slugify(row["texts"][0])}"></span>'
            texts = "<br>".join(f"``{text}``" for text in row["texts"])
            where = _link(site, chapter, row.get("section", ""))
            cause, cure = site.translate(row["cause"]), site.translate(row["cure"])
            parts.append(f"- {place}{texts}<br>{cause} **{words['cure']}** {cure} {where}\n")
    return "".join(parts)


def _link(site: Site, chapter: str, section: str) -> str:
    """Return a link to a section, which is named by its English heading."""
    headings = _headings(site.path(f"notebooks/{chapter}"))
    if not section:
        return f"[{headings[0]}](notebooks/{chapter}.ipynb)"
    english = _headings(site.root / "notebooks" / f"{chapter}.ipynb")
    heading = headings[english.index(section)]
    number = re.match(r"\d+[a-z]?", chapter)
    assert number is not None  # every chapter has one
    place = slugify(re.sub("[`*]", "", heading))
    return f"[{number[0]} · {heading}](notebooks/{chapter}.ipynb#{place})"


@cache
def _headings(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return _HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
