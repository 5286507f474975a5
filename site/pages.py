"""From the course's notebooks to the sources of the site's pages. Nothing is run."""

import json
import posixpath
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from onnxlab.kit.tracks import minutes_of, short_way

LANGUAGES = ("en", "zh")
STRUCTURE = "application/vnd.onnxlab.graph+json"
ATLAS = "atlas"
"""The name of the operator atlas's page."""

FIRST = "notebooks/00_start_here"
"""What Colab opens from a page that is no notebook."""

_CLASS = "packages/onnxlab-class/docs"
GUIDES = {
    **dict.fromkeys(
        ("targets", "gpu", "ordinary", "labs", "graph", "weights", "coverage", "versions"), "docs"
    ),
    **dict.fromkeys(("instructor", "grading", "kubernetes"), _CLASS),
}
"""The guides that the course refers to, each with its folder in the repository; on the site all are in docs/.
NAME.zh.md is the Chinese edition of one."""

_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_OTHER_EDITION = re.compile(r"^\[(?:English|Chinese · 中文|中文)\]\([^)]*\)\n\n?", re.MULTILINE)
_ROW = re.compile(r"^\| \[([^\]]+)\]\(\.\./((?:notebooks|labs)/[\w/]+\.ipynb)\) \| (.+) \|$", re.MULTILINE)
_CLAIM = re.compile(r"^ *(?:assert |with expect_)", re.MULTILINE)
_CHECK = re.compile(r'^check\("([\w-]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """A notebook on the site.

    Attributes:
        name: Where it lies below its language's folder, without an ending: "notebooks/02_trace_and_script".
        title: Its title.
        question: What it answers, as the course's map says.
        minutes: How long it takes, as it says itself.
    """

    name: str
    title: str
    question: str
    minutes: str


@dataclass(frozen=True)
class Site:
    """The site's pages in one language.

    Attributes:
        root: The course's repository.
        language: "en" or "zh".
        words: The site's own words in this language.
        repository: "owner/name" on GitHub, or "" where the course is not there.
        translate: Gives the translation of one of the package's texts.
        hints: The hints of each exercise.
        demos: The models that run in a page: the page, the name in run_here.js, and the cell before it.
    """

    root: Path
    language: str
    words: Mapping[str, Any]
    repository: str
    translate: Callable[[str], str]
    hints: dict[str, tuple[str, ...]] = field(default_factory=dict)
    demos: tuple[dict[str, str], ...] = ()

    def path(self, name: str) -> Path:
        """Return the file of a notebook in this language."""
        place = PurePosixPath(name)
        folder = place.parent if self.language == "en" else place.parent / self.language
        return self.root / folder / f"{place.name}.ipynb"

    def colab(self, name: str) -> str:
        """Return where Colab opens a notebook's copy that installs the course; "" without a repository."""
        copy = f"{self.repository}/blob/gh-pages/colab/{self.language}/{name}.ipynb"
        return f"https://colab.research.google.com/github/{copy}" if self.repository else ""

    def pages(self) -> list[Page]:
        """Return chapters and labs in the order of the course's map, which says what each of them answers."""
        course_map = (
            self.root / "docs" / ("course.md" if self.language == "en" else f"course.{self.language}.md")
        )
        pages = []
        for title, link, question in _ROW.findall(course_map.read_text("utf-8")):
            name = link.removesuffix(".ipynb").replace(f"/{self.language}/", "/")
            first = json.loads(self.path(name).read_text("utf-8"))["cells"][0]
            text = "".join(first["source"])
            heading = re.match(r"# (.+)", text)
            minutes = str(minutes_of(self.path(name)) or "")
            pages.append(Page(name, heading[1] if heading else title, question, minutes))
        return pages

    def notebook(self, name: str) -> dict[str, Any]:
        """Return a notebook as the source of its page."""
        notebook: dict[str, Any] = json.loads(self.path(name).read_text("utf-8"))
        cells: list[dict[str, Any]] = []
        first = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
        if "".join(first["source"]).startswith(("import ", "from ")):
            first["metadata"].setdefault("tags", []).append("imports")  # the search does not show these
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                text = cell["source"] if cells else _OTHER_EDITION.sub("", cell["source"], count=1)
                cell["source"] = self.linked(text, name)
            elif "proof" in cell["metadata"].get("tags", ()):
                cell["metadata"]["tags"].append("hide-input")
                kind = "proof" if _CLAIM.search(cell["source"]) else "code"
                labels = {f"code_prompt_{way}": self.words[f"{kind}_{way}"] for way in ("show", "hide")}
                cell["metadata"]["mystnb"] = labels
            for data in (output.get("data", {}) for output in cell.get("outputs", ())):
                if STRUCTURE in data:
                    if len(data[STRUCTURE]["panes"]) > 1:  # the theme makes room for it
                        cell["metadata"].setdefault("tags", []).append("full-width")
                    data["text/html"] = live_form(data)
                    del data[STRUCTURE]
            cells.append(cell)
            cells += self._hint_cells(cell)
            cells += self._demo_cells(name, cell)
        if name.startswith("labs/"):
            lab = self.path(name).relative_to(self.root).as_posix()
            text = self.words["run_lab"].format(lab=lab)
            cells.insert(1, _markdown(f"```{{note}}\n{text}\n```", "run-lab"))
        file = self.path(name).relative_to(self.root).as_posix()
        cells[0]["source"] = self.opened(cells[0]["source"], name, file)
        return {**notebook, "cells": cells}

    def doors(self, name: str, file: str) -> str:
        """Return what stands below a page's title: the ways to run it, and what it was checked with.

        Args:
            name: The page, without an ending.
            file: What it is made from, as a path in the repository.
        """
        log = ["git", "log", "-1", "--format=%cs", "--", file]
        try:
            date = subprocess.run(
                log, cwd=self.root, capture_output=True, text=True, check=False
            ).stdout.strip()
        except OSError:  # no git
            date = ""
        up = "../" * name.count("/")
        links = {self.words["run_it"]: f"{up}index.html#run-it-yourself"}
        ending = {"docs": ".md", "notebooks": ".ipynb", "labs": ".ipynb"}.get(posixpath.dirname(name))
        if ending:
            label = self.words["download"].format(file=f"{posixpath.basename(name)}{ending}")
            links[label] = f"{up}_sources/{name}{ending}"
        if self.repository:
            home = f"https://github.com/{self.repository}"
            runs = name if ending == ".ipynb" else FIRST
            links |= {
                self.words["open_colab"]: self.colab(runs),
                self.words["view_source"]: f"{home}/blob/main/{file}",
                self.words["report"]: f"{home}/issues/new?title={quote(f'{file}: ')}",
            }
        row = " ".join(
            f'<a href="{address}"{" download" if "_sources" in address else ""}>{label}</a>'
            for label, address in links.items()
        )
        checked = self.words["checked"].format(versions=self.versions)
        changed = self.words["changed"].format(date=date) if date else ""
        short = ""
        # The museum, which says no minutes, is to be skipped anyway.
        if name.startswith("notebooks/") and minutes_of(self.path(name)):
            text = self.translate(short_way(posixpath.basename(name)))
            text = re.sub(r"lab\d\d_\w+", rf'<a href="{up}labs/\g<0>.html">\g<0></a>', text)
            short = f"<p>{text}</p>"
        return f'<div class="onnxlab-doors"><p>{row}</p><p>{checked}{changed}</p>{short}</div>\n'

    def opened(self, text: str, name: str, file: str) -> str:
        """Return a page's Markdown with its doors below the title."""
        before, title, after = re.split(r"^(# .+)$", text, maxsplit=1, flags=re.MULTILINE)
        return f"{before}{title}\n\n{self.doors(name, file)}{after}"

    @property
    def versions(self) -> str:
        """The pinned packages that everything was checked with; the build's environment has none of them."""
        pins = (self.root / "requirements.txt").read_text("utf-8")
        return ", ".join(
            f"{package} {found[1]}"
            for package in ("torch", "onnx", "onnxruntime")
            if (found := re.search(rf"^{package}==([^\s;]+)", pins, re.MULTILINE))
        )

    def linked(self, text: str, name: str) -> str:
        """Return Markdown with its links led to the site's pages, to the repository, or taken away."""
        start = posixpath.dirname(name)
        folder = GUIDES.get(name.removeprefix("docs/"), start)
        if self.language != "en" and not name.startswith("docs/"):
            folder = f"{folder}/{self.language}"

        def resolved(match: re.Match[str]) -> str:
            label, target = match.groups()
            path, sign, anchor = target.partition("#")
            place = sign + anchor
            if target.startswith("#node=") and start != "docs":  # a guide shows only the form
                return f'<a class="reference internal" href="{target}">{label}</a>'
            if not path or "://" in target or target.startswith("mailto:"):
                return match[0]
            path = posixpath.normpath(posixpath.join(folder, path))
            language = "zh" if "/zh/" in path else "en"
            plain = path.replace("/zh/", "/").replace(".zh.md", ".md").replace(f"{_CLASS}/", "docs/")
            stem = plain.rpartition(".")[0]
            if stem.removeprefix("docs/") in self.guides():
                language = self.language
            if stem.split(".")[0] == "docs/course":  # the first page lists the chapters, too
                return f"[{label}]({posixpath.relpath('index.md', start)})"
            if path.endswith((".md", ".ipynb")) and self.is_page(stem):
                if language != self.language:
                    address = posixpath.relpath(f"../{language}/{stem}.html", start)
                    return f'<a class="reference external" href="{address}">{label}</a>'
                return f"[{label}]({posixpath.relpath(plain, start)}{place})"
            if self.repository:
                return f"[{label}](https://github.com/{self.repository}/blob/main/{path}{place})"
            return label

        return _LINK.sub(resolved, text)

    def is_page(self, name: str) -> bool:
        """Tell whether the site has a page of this name, in some language, as "docs/weights"."""
        folder, _, stem = name.rpartition("/")
        if folder == "docs":
            return stem in GUIDES
        return folder in ("notebooks", "labs") and self.path(name).is_file()

    def guides(self) -> dict[str, Path]:
        """Return the guides that there are in this language, each with its file."""
        ending = ".md" if self.language == "en" else f".{self.language}.md"
        files = {name: self.root / folder / f"{name}{ending}" for name, folder in GUIDES.items()}
        return {name: file for name, file in files.items() if file.is_file()}

    def guide(self, name: str) -> str:
        """Return a guide as the source of its page."""
        path = self.guides()[name]
        text = _OTHER_EDITION.sub("", path.read_text("utf-8"), count=1)
        file = path.relative_to(self.root).as_posix()
        return self.opened(self.linked(text, f"docs/{name}"), f"docs/{name}", file)

    def _demo_cells(self, name: str, cell: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            _markdown(
                f'<div class="onnxlab-run" data-demo="{row["demo"]}">'
                f"<p><strong>{self.words['run_here']}</strong> {self.words['demos'][row['demo']]}</p></div>",
                f"run-{row['demo']}",
            )
            for row in self.demos
            if (row["page"], row["after"]) == (name, cell["id"])
        ]

    def _hint_cells(self, cell: Mapping[str, Any]) -> list[dict[str, Any]]:
        if cell["cell_type"] != "code":
            return []
        label = self.words["hint"]
        return [
            _markdown(
                f"<details><summary>{label} {number}</summary>\n\n{self.translate(hint)}\n\n</details>",
                f"{exercise}-{number}",
            )
            for exercise in _CHECK.findall(cell["source"])
            for number, hint in enumerate(self.hints[exercise], 1)
        ]


def saved_outputs(path: Path, only: str = "") -> Iterator[dict[str, Any]]:
    """Yield the data of a saved notebook's outputs, by MIME type; of one cell, if that is named."""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if only in ("", cell["id"]):
            for output in cell.get("outputs", ()):
                yield output.get("data", {})


def live_form(data: Mapping[str, Any]) -> str:
    """Return a saved graph's picture with its structure behind it, in a script that nothing executes."""
    text = json.dumps(data[STRUCTURE], separators=(",", ":")).replace("<", "\\u003c")
    markup = "".join(data["text/html"])
    return f'{markup}<script type="application/json" class="onnxlab-structure">{text}</script>'


def hints(package: Path) -> dict[str, tuple[str, ...]]:
    """Return the hints of every exercise, from the labs' TOML files."""
    tables = [tomllib.loads(path.read_text("utf-8")) for path in sorted((package / "labs").glob("lab*.toml"))]
    return {row["id"]: tuple(row["hints"]) for table in tables for row in table["exercise"]}


def demos(table: Path) -> tuple[dict[str, str], ...]:
    """Return the rows of site/models.toml."""
    return tuple(tomllib.loads(table.read_text("utf-8"))["model"])


def _markdown(text: str, name: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name[:64], "metadata": {}, "source": text}
