"""The map lists every chapter in order, and the first page names the four subjects by their own words."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
CHAPTERS = sorted(path.name for path in NOTEBOOKS.glob("[0-9][0-9]*.ipynb"))
ROW = re.compile(
    r"^\| \[(?P<title>\d\d\w? [^\]]+)\]\(\.\./notebooks/(?:zh/)?(?P<file>\w+\.ipynb)\) \|", re.MULTILINE
)
SUBJECTS = {
    "trace versus script": "02_",
    "`Loop` and `If` nodes": "02_",
    "`dynamic_axes`": "04_",
    "`torch.onnx.is_in_onnx_export()`": "05_",
    "`.item()`": "06_",
}
# What the map, and so the first page of the web site, says of a chapter in any language.
WORDS = {
    "02_": ("trace", "script", "`Loop`"),
    "04_": ("`dynamic_axes`",),
    "05_": ("`is_in_onnx_export()`",),
    "06_": ("`.item()`",),
}


@pytest.mark.parametrize("name", ["docs/course.md", "docs/course.zh.md"])
def test_the_map_links_the_chapters_that_exist(name):
    listed = [row["file"] for row in ROW.finditer((ROOT / name).read_text(encoding="utf-8"))]
    assert listed == CHAPTERS, f"put the chapter into the table of {name}"


@pytest.mark.parametrize(("name", "folder"), [("docs/course.md", "."), ("docs/course.zh.md", "zh")])
def test_the_map_has_the_chapters_own_titles(name, folder):
    rows = list(ROW.finditer((ROOT / name).read_text(encoding="utf-8")))
    first_cells = [nbformat.read(NOTEBOOKS / folder / row["file"], as_version=4).cells[0] for row in rows]
    titles = [cell.source.splitlines()[0].removeprefix("# ").replace(" · ", " ", 1) for cell in first_cells]
    assert [row["title"] for row in rows] == titles


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_leads_from_the_first_page_to_its_chapter(subject):
    cells = nbformat.read(NOTEBOOKS / "00_start_here.ipynb", as_version=4).cells
    rows = [line for cell in cells for line in cell.source.splitlines() if line.startswith("|")]
    assert any(subject in row and f"({SUBJECTS[subject]}" in row for row in rows)


@pytest.mark.parametrize("name", ["docs/course.md", "docs/course.zh.md"])
@pytest.mark.parametrize("chapter", WORDS)
def test_the_map_names_the_subject_of_a_chapter(name, chapter):
    lines = (ROOT / name).read_text("utf-8").splitlines()
    [row] = [line for line in lines if f"/{chapter}" in line and ROW.match(line)]
    for word in WORDS[chapter]:
        assert word.lower() in row.lower()


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_readme_leads_to_each_subject_by_its_own_words(name):
    lines = (ROOT / name).read_text("utf-8").splitlines()
    for chapter, words in WORDS.items():
        row = " ".join(line for line in lines if f"/{chapter}" in line)
        assert all(word.lower() in row.lower() for word in words), chapter
