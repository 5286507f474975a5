"""Pages made from others: the glossary, and a sheet to print with all summaries and recipes."""

import json
import re
import tomllib
from typing import Any

from pages import Site

from onnxlab.kit.tracks import notebook_of, tracks

__all__ = ["GLOSSARY", "SHEET", "glossary_page", "reading_paths", "sheet_page", "terms"]

GLOSSARY, SHEET = "glossary", "sheet"
"""The pages' names."""

_SECTION = re.compile(r"^## ", re.MULTILINE)


def terms(site: Site) -> list[dict[str, Any]]:
    """Return the glossary in a site's language: the term, the words that stand for it, and its text."""
    rows = tomllib.loads((site.root / "site" / "glossary.toml").read_text("utf-8"))["term"]
    language = site.language
    return [{"term": row[language], "words": row["words"], "text": row[f"{language}_text"]} for row in rows]


def glossary_page(site: Site) -> str:
    """Return the glossary's source."""
    rows = sorted(terms(site), key=lambda row: row["term"].lower())
    columns = f"| {site.words['term']} | {site.words['meaning']} |\n|---|---|\n"
    title = f"# {site.words['glossary']}\n\n{columns}"
    return title + "".join(f"| **{row['term']}** | {row['text']} |\n" for row in rows)


def reading_paths(site: Site) -> str:
    """Return the ways through the course as Markdown, each with its time."""
    lines = []
    for track in tracks().values():
        links = []
        for step in track.steps:
            name = notebook_of(step).with_suffix("").as_posix()
            number = re.match(r"lab\d+|\d+[a-z]?", step)
            assert number is not None  # every notebook begins with one
            # A new chapter has no translation yet.
            links.append(f"[{number[0]}]({name}.ipynb)" if site.is_page(name) else number[0])
        hours = site.words["hours"].format(hours=f"{track.minutes / 60:.1f}")
        lines.append(f"| **{track.titles[site.language]}** | {' → '.join(links)} | {hours} |")
    columns = " | ".join(site.words[name] for name in ("path", "path_chapters", "path_time"))
    return f"| {columns} |\n|---|---|---|\n" + "\n".join(lines) + "\n"


def sheet_page(site: Site) -> str:
    """Return the sheet's source: of each chapter its summary, and the cells of its recipe."""
    parts = [f"# {site.words['sheet']}\n\n{site.words['sheet_text']}\n"]
    for page in site.pages():
        if not page.name.startswith("notebooks/"):
            continue
        cells = json.loads(site.path(page.name).read_text("utf-8"))["cells"]
        originals = json.loads((site.root / f"{page.name}.ipynb").read_text("utf-8"))["cells"]
        english = {cell["id"]: "".join(cell["source"]) for cell in originals}
        parts.append(f"\n## [{page.title}]({page.name}.ipynb)\n\n")
        inside = False
        recipe: list[str] = []
        for cell in cells:  # a translation may be older than its original, and lack cells of it
            text, plain = "".join(cell["source"]), english.get(cell["id"], "")
            if cell["cell_type"] == "markdown" and _SECTION.search(plain):
                inside = bool(re.search(r"^## .*recipe", plain, re.MULTILINE | re.IGNORECASE))
                if "## Summary" in plain:
                    summary = re.split(r"^## .*$", text, flags=re.MULTILINE)[-1]
                    bullets = re.split(r"\n\*\*", summary)[0].strip()  # before the links to labs
                    parts += [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", bullets) + "\n", *recipe]
            elif inside and "proof" not in cell["metadata"].get("tags", ()) and text.startswith("def "):
                recipe.append(f"\n```python\n{text}\n```\n")
    course = "course.md" if site.language == "en" else f"course.{site.language}.md"
    home = (site.root / "docs" / course).read_text("utf-8").rpartition("\n## ")[2]
    parts.append("\n## " + site.linked(home, "docs/course").replace("](../", "]("))
    return "".join(parts)
