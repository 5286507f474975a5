"""A class in Chinese: a lab of the Chinese edition is graded, and its pages are in Chinese."""

import json
import re

import pytest

from class_support.small_class import ROOT
from onnxlab import cli
from onnxlab.language import speak

LAB = "lab07_pooling_indices"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The results of one learner, whose second answer in the Chinese lab is wrong."""
    folder = tmp_path_factory.mktemp("chinese")
    (folder / "in" / "ada").mkdir(parents=True)
    lab = json.loads((ROOT / "labs" / "zh" / f"{LAB}.ipynb").read_text("utf-8"))
    solution = json.loads((ROOT / "solutions" / f"{LAB}.ipynb").read_text("utf-8"))
    answers = {
        cell["metadata"]["nbgrader"]["grade_id"]: cell["source"]
        for cell in solution["cells"]
        if cell["metadata"].get("nbgrader", {}).get("solution")
    }
    for cell in lab["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in answers and name != "max-unpool-symbolic":
            cell["source"] = answers[name]
        elif name == "max-unpool-symbolic":
            wrong = [line.replace("global_index, shape", "index, shape") for line in answers[name]]
            assert wrong != answers[name]
            cell["source"] = wrong
    (folder / "in" / "ada" / f"{LAB}.ipynb").write_text(json.dumps(lab), "utf-8")
    arguments = ["grade", str(folder / "in"), "--out", str(folder / "out"), "--language", "zh"]
    assert cli.main(arguments) == 0
    return folder / "out"


@pytest.fixture(autouse=True)
def english_again():
    yield
    speak("en")


def words(page: str) -> list[str]:
    """The English words of a page that are no code, path or name."""
    text = re.sub(r"<(style|pre|code|title)[ >].*?</\1>|<bdi>.*?</bdi>", " ", page, flags=re.DOTALL)
    return re.findall(r"[A-Za-z]{3,}", re.sub(r"<[^>]*>", " ", text))


@pytest.mark.release
def test_a_page_in_chinese_has_no_english_words_but_names(out):
    page = (out / "feedback" / "ada.html").read_text("utf-8")
    assert '<html lang="zh">' in page
    assert "你的模型" in page
    assert "已通过" in page
    assert set(words(page)) <= {"Lab", "ONNX", "Runtime", "PyTorch", "opset", "batch", "max", "unpool"}
