"""The pages for a reader with an error message, or with wrong outputs and no message: one for each kind."""

import json
import re
import tomllib
from functools import cache
from itertools import groupby
from pathlib import Path

from mdit_py_plugins.anchors.index import slugify
from pages import Site

from onnxlab.diagnosis.messages import Answer, answers, sentences, shown, stages

__all__ = ["ERRORS", "error_pages"]

ERRORS = "errors"
"""The first page's name, and the folder of the others."""

_PIN = re.compile(r"^(torch|onnx|onnxruntime)==([\w.]+)", re.MULTILINE)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def error_pages(site: Site) -> dict[str, tuple[str, str]]:
    """Return description and source of each page by its name: the first one, and one for each kind."""
    pages = {ERRORS: (site.words["errors"]["text"], _first_page(site))}
    for kind in answers():
        description = f"{kind.title} - {_sentence(site, ' '.join(_general(kind.cause)))}"
        pages[f"{ERRORS}/{kind.name}"] = description.replace("\\", ""), _page(site, kind)
    return pages


def _first_page(site: Site) -> str:
    """Return the source of the first page: silent failures by symptom, then the messages of each stage."""
    words = site.words["errors"]
    silent = tomllib.loads((site.root / "site" / "silent.toml").read_text("utf-8"))["symptom"]
    parts = [
        f"# {words['title']}\n\n{words['text']}\n\n",
        '<div class="onnxlab-why"></div>\n\n',
        f"## {words['silent']}\n\n| {words['symptom']} | {words['section']} |\n|---|---|\n",
        *(f"| {row[site.language]} | {_link(site, row['chapter'], row['section'])} |\n" for row in silent),
        f"\n## {words['messages']}\n",
    ]
    order = list(stages())
    by_stage = sorted(answers(), key=lambda kind: order.index(kind.stage))
    for name, kinds in groupby(by_stage, key=lambda kind: kind.stage):
        parts.append(
            f"\n### {_sentence(site, stages()[name].title)}\n\n{site.translate(stages()[name].what)}\n\n"
        )
        parts += [f"- [{_escaped(kind.title)}]({ERRORS}/{kind.name}.md)\n" for kind in kinds]
    return "".join(parts)


def _page(site: Site, kind: Answer) -> str:
    """Return the source of a kind's page: its wordings, cause, cure, and the section that explains it."""
    words = site.words["errors"]
    texts = kind.texts if kind.certainty != "kind" else ()
    cause, cure = (_sentence(site, " ".join(_general(text))) for text in (kind.cause, kind.cure))
    pins = (site.root / "requirements.txt").read_text("utf-8")
    checked = ", ".join(f"{name} {version}" for name, version in _PIN.findall(pins))
    parts = [
        "---\norphan: true\n---\n",
        f"# {_escaped(kind.title)}\n\n",
        f"(message-{kind.name})=\n",
        f"{cause}\n\n**{words['cure']}** {cure}\n\n",
        f"{words['section']}: {_link(site, kind.chapter, kind.section, '../')}\n\n",
        *(f"- ``{shown(text)}``\n" for text in texts),
        f'\n<p class="onnxlab-trust">{words["checked"].format(versions=checked)}</p>\n\n',
        f"[{words['title']}](../{ERRORS}.md)\n",
    ]
    return "".join(parts)


def _general(text: str) -> list[str]:
    """Return the sentences of a cause or cure that need nothing of a message; all of them if none is left."""
    forms = [next((form for form in forms if "{" not in form), "") for forms in sentences(text)]
    return [form for form in forms if form] or [forms[0] for forms in sentences(text)]


def _sentence(site: Site, text: str) -> str:
    """Return a translated text as Markdown, with dots for gaps and a capital letter."""
    known = site.translate(text)
    if known == text:
        known = " ".join(site.translate(form) for forms in sentences(text) for form in forms)
    filled = re.sub(r"\{(\w+)\}", "\N{HORIZONTAL ELLIPSIS}", known)
    return _escaped(filled[:1].upper() + filled[1:])


def _escaped(text: str) -> str:
    """Return a text whose marks are no Markdown; code between backticks stays."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\*_\[\]<>#|$])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def _link(site: Site, chapter: str, section: str, up: str = "") -> str:
    """Return a link to a section, which is named by its English heading."""
    headings = _headings(site.path(f"notebooks/{chapter}"))
    if not section:
        return f"[{headings[0]}]({up}notebooks/{chapter}.ipynb)"
    english = _headings(site.root / "notebooks" / f"{chapter}.ipynb")
    heading = headings[english.index(section)]
    number = re.match(r"\d+[a-z]?", chapter)
    assert number is not None  # every chapter has one
    place = slugify(re.sub("[`*]", "", heading))
    return f"[{number[0]} · {heading}]({up}notebooks/{chapter}.ipynb#{place})"


@cache
def _headings(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return _HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
