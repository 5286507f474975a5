"""What a Chinese reader sees in English, a picture or a menu, has its Chinese words in the text beside it."""

import ast
import json
import re
from importlib.metadata import files
from pathlib import Path

import pytest

pytestmark = pytest.mark.release

CHAPTERS = sorted(Path(__file__).parents[2].glob("notebooks/zh/*.ipynb"))
NAMES = {"float32", "float16", "bfloat16", "ONNX Runtime", "PyTorch"}
START = re.compile(r"[^:(]+?(?= \d|[:(]|$)")
"""What the text repeats of a label: the words before a figure, a colon or a unit in brackets."""
MENU = re.compile(r"\*([A-Z][\w >]+ > [\w >]+)\*\uff08\u4e2d\u6587\u754c\u9762\uff1a([^\uff09]+)\uff09")


def labels(source: str) -> list[str]:
    """Return the words that a cell writes into its picture as `title`, `label`, `xlabel` or `ylabel`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    given = [
        word for call in calls for word in call.keywords if word.arg in ("title", "label", "xlabel", "ylabel")
    ]
    texts = [word.value.value for word in given if isinstance(word.value, ast.Constant)]
    return [" ".join(str(text).split("\n")) for text in texts if text]


def pictures(path: Path) -> list[tuple[list[str], str]]:
    """Return, for each picture of a chapter, its words and the text below it."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    found = []
    for at, cell in enumerate(cells):
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", ())):
            below = next(one for one in cells[at + 1 :] if one["cell_type"] == "markdown")
            found.append((labels("".join(cell["source"])), "".join(below["source"])))
    return found


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_words_of_a_picture_are_in_the_chinese_text_below_it(path):
    for words, below in pictures(path):
        assert [
            word for word in words if START.match(word)[0].strip() not in below and word not in NAMES
        ] == []


def test_pictures_have_words():
    assert sum(len(words) for path in CHAPTERS for words, _ in pictures(path)) > 10


def test_the_menus_of_chapter_00_are_those_of_the_language_pack():
    listed = files("jupyterlab-language-pack-zh-CN") or ()
    [pack] = [file for file in listed if file.name == "jupyterlab.json"]
    words = json.loads(Path(pack.locate()).read_text("utf-8"))
    translated = {key.split("\x04")[-1].rstrip("\u2026"): value[0] for key, value in words.items() if key}
    cells = json.loads(CHAPTERS[0].read_text("utf-8"))["cells"]
    menus = MENU.findall("".join("".join(cell["source"]) for cell in cells))
    assert len(menus) == 2
    for english, chinese in menus:
        assert [translated[word] for word in english.split(" > ")] == chinese.split(" > ")
