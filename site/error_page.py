"""The pages for a reader with an error message, or with wrong outputs and no message: one for each kind."""

import html
import json
import re
import tomllib
from functools import cache
from itertools import groupby
from pathlib import Path

from mdit_py_plugins.anchors.index import slugify
from pages import Site

from onnxlab.diagnosis.messages import Answer, answers, sentences, shown, stages

ERRORS = "errors"
"""The first page's name, and the folder of the others."""

TITLE, NAME, DESCRIPTION, BODY = "ONNXLABTITLE", "onnxlabname", "ONNXLABDESCRIPTION", "ONNXLABBODY"
"""What stands in the page of a kind that Sphinx makes, to be replaced."""

_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def error_pages(site: Site) -> dict[str, tuple[str, str]]:
    """Return description and source of Sphinx's pages by name: the first one, and one for all kinds."""
    source = f"---\norphan: true\n---\n# {TITLE}\n\n{BODY}\n"
    return {
        ERRORS: (site.words["errors"]["text"], _first_page(site)),
        f"{ERRORS}/{NAME}": (DESCRIPTION, source),
    }


def write_kinds(site: Site, folder: Path) -> None:
    """Write the page of each kind from the one that Sphinx made: hundreds would take it a minute."""
    template = folder / ERRORS / f"{NAME}.html"
    page = template.read_text("utf-8")
    template.unlink()
    (folder / "_sources" / ERRORS / f"{NAME}.md").unlink()
    for kind in answers():
        description = f"{kind.title} - {_sentence(site, ' '.join(_general(kind.cause)))}"
        gaps = {
            TITLE.lower(): kind.name,
            TITLE: html.escape(kind.title),
            NAME: kind.name,
            DESCRIPTION: html.escape(description),
            f"<p>{BODY}</p>": _body(site, kind),
        }
        parts = re.split(f"({'|'.join(gaps)})", page)
        text = "".join(gaps.get(part, part) for part in parts)
        (folder / ERRORS / f"{kind.name}.html").write_text(text, "utf-8")


def _first_page(site: Site) -> str:
    """Return the source of the first page: silent failures by symptom, then the messages of each stage."""
    words = site.words["errors"]
    silent = tomllib.loads((site.root / "site" / "silent.toml").read_text("utf-8"))["symptom"]
    parts = [
        f"# {words['title']}\n\n{words['text']}\n\n",
        '<div class="onnxlab-why"></div>\n\n',
        f"## {words['silent']}\n\n| {words['symptom']} | {words['section']} |\n|---|---|\n",
    ]
    for row in silent:
        title, page, anchor = section_place(site, row["chapter"], row["section"])
        parts.append(f"| {row[site.language]} | [{title}]({page}.ipynb{anchor}) |\n")
    parts.append(f"\n## {words['messages']}\n")
    order = list(stages())
    by_stage = sorted(answers(), key=lambda kind: order.index(kind.stage))
    for name, kinds in groupby(by_stage, key=lambda kind: kind.stage):
        heading = _sentence(site, stages()[name].title)
        parts.append(f"\n### {heading}\n\n{site.translate(stages()[name].what)}\n\n")
        links = (f'<a href="{ERRORS}/{kind.name}.html">{html.escape(kind.title)}</a>' for kind in kinds)
        parts.append(f'<ul class="simple">{"".join(f"<li><p>{link}</p></li>" for link in links)}</ul>\n')
    return "".join(parts)


def _body(site: Site, kind: Answer) -> str:
    """Return what a kind's page says as HTML: cause, fix, the section that explains it, wordings."""
    words = site.words["errors"]
    cause, fix = (_code(_sentence(site, " ".join(_general(text)))) for text in (kind.cause, kind.fix))
    title, page, anchor = section_place(site, kind.chapter, kind.section)
    texts = kind.texts if kind.certainty != "kind" else ()
    wordings = "".join(f"<li><p>{_code(f'`{shown(text)}`')}</p></li>" for text in texts)
    clinic = next(site.root.glob("notebooks/*_clinic.ipynb")).stem
    card = f'<a href="../notebooks/{clinic}.html"><code>patient("{kind.patient}")</code></a>'
    return "\n".join(
        [
            f'<p id="message-{kind.name}">{cause}</p>',
            f"<p><strong>{words['fix']}</strong> {fix}</p>",
            f'<p>{words["section"]}: <a href="../{page}.html{anchor}">{_code(title)}</a></p>',
            f"<p>{words['patient'].format(card=card)}</p>" if kind.patient else "",
            f'<ul class="simple">{wordings}</ul>' if wordings else "",
            f'<p><a href="../{ERRORS}.html">{words["title"]}</a></p>',
        ]
    )


def _general(text: str) -> list[str]:
    """Return the sentences of a cause or fix that need nothing of a message; all of them if none is left."""
    forms = [next((form for form in forms if "{" not in form), "") for forms in sentences(text)]
    return [form for form in forms if form] or [forms[0] for forms in sentences(text)]


def _sentence(site: Site, text: str) -> str:
    """Return a translated text with dots for gaps and a capital letter."""
    known = site.translate(text)
    if known == text:
        known = " ".join(site.translate(form) for forms in sentences(text) for form in forms)
    filled = re.sub(r"\{(\w+)\}", "\N{HORIZONTAL ELLIPSIS}", known)
    return filled[:1].upper() + filled[1:]


def _code(text: str) -> str:
    """Return a text as HTML, with code between backticks."""
    return re.sub(
        "`([^`]+)`", r'<code class="docutils literal notranslate">\1</code>', html.escape(text, quote=False)
    )


def section_place(site: Site, chapter: str, section: str) -> tuple[str, str, str]:
    """Return title, page and anchor of a section, which is named by its English heading.

    A translation that is older than its original can have other sections: then it is its whole page.
    """
    page = f"notebooks/{chapter}"
    headings = _headings(site.path(page))
    if not section:
        return headings[0], page, ""
    english = _headings(site.root / "notebooks" / f"{chapter}.ipynb")
    place = english.index(section)
    if len(headings) != len(english):
        return headings[0], page, ""
    heading = headings[place]
    number = re.match(r"\d+[a-z]?", chapter)
    assert number is not None  # every chapter has one
    return f"{number[0]} \N{MIDDLE DOT} {heading}", page, f"#{slugify(re.sub('[`*]', '', heading))}"


@cache
def _headings(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return _HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
