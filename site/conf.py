"""Sphinx's settings, for one language; build.py says which in the environment."""

import json
import os
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

SITE = Path(os.environ["ONNXLAB_SITE"])
FOLDER = os.environ["ONNXLAB_SITE_LANGUAGE"]
REPOSITORY = os.environ.get("ONNXLAB_SITE_REPOSITORY", "")
ADDRESS = os.environ.get("ONNXLAB_SITE_ADDRESS", "")
OTHER = {"en": "zh", "zh": "en"}[FOLDER]
WORDS = json.loads((SITE / "words.json").read_text("utf-8"))[FOLDER]
SOURCE = Path(os.environ["ONNXLAB_SITE_SOURCE"])
# Written by build.py beside the sources: what each page is about, and where the other language's page is.
PAGES = json.loads((SOURCE / "pages.json").read_text("utf-8"))

project = html_title = WORDS["title"]
author = "the ONNX Lab authors"
project_copyright = author
language = {"en": "en", "zh": "zh_CN"}[FOLDER]
extensions = ["myst_nb", "sphinx_copybutton"]
exclude_patterns = ["_static"]
templates_path = [str(SITE / "templates")]

nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = WORDS["proof_show"]
nb_code_prompt_hide = WORDS["proof_hide"]
myst_heading_anchors = 3
copybutton_selector = "div.cell_input pre, div.highlight-default pre"
suppress_warnings = ["mystnb.unknown_mime_type", "myst.header"]

html_favicon = str(SITE / "page" / "icon.svg")
html_theme = "sphinx_book_theme"
html_baseurl = f"{ADDRESS}{FOLDER}/" if ADDRESS else ""
html_static_path = [str(SOURCE / "_static")]
html_css_files = ["site.css"]
html_js_files = [
    "words.js",
    *(
        (name, {"defer": "defer"})
        for name in ("live.js", "search.js", "run_here.js", "why.js", "keyboard.js")
    ),
]
html_copy_source = True
html_show_sourcelink = html_show_sphinx = html_use_index = html_domain_indices = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "footer_content_items": ["copyright.html"],
    "home_page_in_toc": True,
    "navbar_persistent": [],
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "repository_url": f"https://github.com/{REPOSITORY}" if REPOSITORY else "",
    "use_repository_button": bool(REPOSITORY),
}


def _add_context(_app: Sphinx, page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    about = PAGES.get(page, {})
    context |= {
        "words": WORDS,
        "address": ADDRESS,
        "folder": FOLDER,
        "other_folder": OTHER,
        "other_language": {"en": "en", "zh": "zh-CN"}[OTHER],
        "other_page": about.get("other", "index.html"),
        "description": about.get("description", WORDS["description"]),
    }


def _index_nothing(app: Sphinx) -> None:
    """Keep Sphinx from indexing every word for a search of its own, which the pages do not load."""
    app.builder.index_page = lambda *_: None
    app.builder.dump_search_index = lambda: None


def setup(app: Sphinx) -> None:
    """Give the templates their words, and leave the search to Pagefind."""
    app.connect("html-page-context", _add_context)
    app.connect("builder-inited", _index_nothing)
