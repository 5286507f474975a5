"""The two pages on targets: the same rows, each with a source, sections that exist, the record's counts."""

import re
from pathlib import Path

import nbformat
import pytest

from onnxlab import history

ROOT = Path(__file__).parents[1]
PAGES = {"en": ROOT / "docs" / "targets.md", "zh": ROOT / "docs" / "targets.zh.md"}
TARGETS = ("TensorRT", "CANN", "RKNN", "ncnn", "MNN", "TNN", "OpenVINO", "Paddle2ONNX")
WITHOUT = {"en": ("no public source found", "nothing claimed"), "zh": ("未找到公开出处", "无结论")}
NOT_TRIED = {"en": "not tried here", "zh": "未实测"}
CHAPTER = re.compile(r"\[(?:chapter \w+|\w+ 章)\]\((\.\./notebooks/[\w/]+\.ipynb)\)(?:, section |第 )(\d+)")
every_language = pytest.mark.parametrize("language", PAGES)


def tables(language: str) -> dict[str, list[list[str]]]:
    """The rows of each heading's table, without its head."""
    parts = re.split(r"^#+ (.+)$", PAGES[language].read_text("utf-8"), flags=re.MULTILINE)
    found = {}
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
        if rows:
            found[heading] = rows[2:]
    return found


def symptoms(language: str) -> list[str]:
    """The items of the list of symptoms."""
    return re.findall(r"^- .+(?:\n .+)*", PAGES[language].read_text("utf-8").split("\n## ")[1], re.MULTILINE)


def links(row: list[str]) -> list[str]:
    """What a row links to outside of the course."""
    return re.findall(r"\((https://[^)\s]+)\)", " ".join(row))


@pytest.mark.release  # who corrects one page need not read the other language
def test_both_pages_have_the_same_tables_and_sources():
    english, chinese = (list(tables(language).values()) for language in PAGES)
    assert len(english) == len(chinese) == len(TARGETS) + 1
    for rows, others in zip(english, chinese, strict=True):
        assert [links(row) for row in rows] == [links(row) for row in others]
        assert [len(row) for row in rows] == [len(row) for row in others]
    assert [links([item]) for item in symptoms("en")] == [links([item]) for item in symptoms("zh")]


@every_language
def test_every_target_is_there_and_every_row_has_a_source_or_says_that_it_has_none(language):
    by_heading = list(tables(language).items())[:-1]
    assert all(name in heading for name, (heading, _) in zip(TARGETS, by_heading, strict=True))
    for heading, rows in by_heading:
        for row in rows:
            assert len(row) == 3, row
            assert "](" in row[-1] or any(words in row[-1] for words in WITHOUT[language]), row
        *_, (_, answer, source) = rows
        assert (NOT_TRIED[language] in answer) == ("](" not in source), heading


@every_language
def test_every_symptom_has_threads_and_sections_that_exist(language):
    assert symptoms(language)
    for item in symptoms(language):
        assert links([item]), item
        sections = CHAPTER.findall(item)
        assert sections, item
        for file, number in sections:
            cells = nbformat.read(PAGES[language].parent / file, as_version=4).cells
            text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
            assert re.search(rf"^## {number}\. ", text, re.MULTILINE), (file, number)


def test_the_counts_of_files_are_those_of_the_record():
    models = history.back_ends()["models"].values()
    rows = {heading.partition(" ")[0]: answers[-1][1] for heading, answers in tables("en").items()}
    for program in ("OpenVINO", "MNN", "ncnn"):
        verdicts = [model["results"][program]["verdict"] for model in models]
        right, wrong, refused = (verdicts.count(word) for word in ("right", "wrong", "refused"))
        count = f"{right} of {len(models)} files right, {wrong} wrong, {refused} refused"
        assert rows[program].startswith(count), program


@pytest.mark.release
def test_both_pages_have_the_same_node_counts():
    english, chinese = (list(tables(language).values())[-1] for language in PAGES)
    for row, other in zip(english, chinese, strict=True):
        assert len(row) == len(other) == 7
        counts, others = (
            re.findall(r"\d+", re.sub(r"\*\*.+?\*\*", "", " ".join(cells[2:]))) for cells in (row, other)
        )
        assert len(counts) == 10
        assert counts == others
