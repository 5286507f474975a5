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
KEYWORDS = re.compile(r"\n\n(?:\*\*Keywords:\*\* (.+)\.|\*\*关键词\*\*\uff1a(.+)。)\Z")
NAME = re.compile(r"\w+[._]\w[\w.]*")  # of a function, an argument, a file
FEWEST_KEYWORDS = 8
LINK = re.compile(r"\[lab\d\d\]\((?:\.\./)+labs/(?:zh/)?lab\d\d_\w+\.ipynb\)")


@pytest.fixture(params=CHAPTERS, ids=lambda path: f"{path.parent.name}-{path.stem.partition('_')[0]}")
def texts(request) -> list[str]:
    """The text cells of one chapter."""
    cells = nbformat.read(request.param, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


def test_a_chapter_says_its_time_and_what_comes_before(texts):
    assert TIME.search(texts[0]) or texts[0].startswith("# 99")  # a page to look things up


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


def keywords(text: str) -> list[str]:
    """The words that people type, from the line that ends a chapter's last cell."""
    match = KEYWORDS.search(text)
    return re.split(", |、", match[1] or match[2]) if match else []


def test_a_chapter_ends_with_the_words_that_people_type(texts):
    words = keywords(texts[-1])
    assert len(set(words)) == len(words) >= FEWEST_KEYWORDS


@pytest.mark.release
@pytest.mark.parametrize("path", sorted(ROOT.glob("notebooks/[0-9]*.ipynb")), ids=lambda path: path.stem[:3])
def test_the_chinese_line_has_the_names_of_the_english_one_and_words_of_its_own(path):
    english, chinese = (
        keywords(nbformat.read(edition, as_version=4).cells[-1].source)
        for edition in (path, path.parent / "zh" / path.name)
    )
    assert not {name for word in english for name in NAME.findall(word)} - set(
        NAME.findall(" ".join(chinese))
    )
    assert re.search("[\u4e00-\u9fff]", "".join(chinese))
