"""What all chapters write in one way: time, numbered sections, and at the end labs and the next chapter."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted([*ROOT.glob("notebooks/[0-9]*.ipynb"), *ROOT.glob("notebooks/zh/[0-9]*.ipynb")])
TIME = re.compile(
    r"^(\*\*Time:\*\* \d+ minutes\. \*\*Before this:\*\* "
    r"|\*\*用时\*\*\uff1a\d+ 分钟。\*\*预备知识\*\*\uff1a)",
    re.MULTILINE,
)
LABS = re.compile(r"^(?:\*\*Labs:\*\* |\*\*实验\*\*\uff1a)(.+(?:\n.+)*)", re.MULTILINE)
NEXT = re.compile(
    r"^(?:\*\*Next:\*\* |\*\*下一章\*\*\uff1a)(?:\[\d\d[a-z]? |you have|课程到此)", re.MULTILINE
)
LINK = re.compile(r"\[lab\d\d\]\((?:\.\./)+labs/(?:zh/)?lab\d\d_\w+\.ipynb\)")


@pytest.fixture(params=CHAPTERS, ids=lambda path: f"{path.parent.name}-{path.stem.partition('_')[0]}")
def texts(request) -> list[str]:
    """The text cells of one chapter."""
    cells = nbformat.read(request.param, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


def test_a_chapter_says_its_time_and_what_comes_before(texts):
    assert TIME.search(texts[0])


def test_sections_are_numbered_and_the_summary_is_the_last(texts):
    headings = [heading for text in texts for heading in re.findall(r"^## (.+)", text, re.MULTILINE)]
    assert headings.pop() in ("Summary", "小结")
    numbers = [int(re.match(r"(\d+)\. \S", heading)[1]) for heading in headings]
    assert numbers[0] in (0, 1)  # 0 is an overview that other sections do not count
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_chapter_ends_with_links_to_labs_and_to_the_next_chapter(texts):
    assert len(NEXT.findall(texts[-1])) == 1
    [labs] = LABS.findall(texts[-1])
    assert LINK.search(labs)
    assert "lab0" not in LINK.sub("", labs)
