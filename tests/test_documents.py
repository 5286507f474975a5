"""The documents say what is there: links lead to files, and the map of the course has every chapter."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_to_one(document):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8"))
    broken = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_every_chapter_is_in_the_map_of_the_course(chapter):
    assert f"](notebooks/{chapter.name})" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"](notebooks/zh/{chapter.name})" in (ROOT / "README.zh.md").read_text(encoding="utf-8")
