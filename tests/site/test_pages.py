"""From notebooks and guides to the sources of the site's pages, in an environment that cannot build them."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = json.loads((ROOT / "site" / "words.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def pages():
    """The module site/pages.py, which no package holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "site")
        yield importlib.import_module("pages")
        for path in (ROOT / "site").glob("*.py"):
            sys.modules.pop(path.stem, None)


@pytest.fixture(scope="module")
def sites(pages):
    """The site in each language, without a repository."""
    hints = pages.hints(ROOT / "src" / "onnxlab")
    return [pages.Site(ROOT, name, words, "", lambda text: text, hints) for name, words in WORDS.items()]


FOLDED = {"en": ("Show the code", "Show the proof"), "zh": ("查看代码", "查看验证代码")}
HERE, THERE = "[a]({})", '<a class="reference external" href="{}">a</a>'
CLASS = "../packages/onnxlab-class/docs"


@pytest.mark.parametrize(
    ("language", "page", "target", "link"),
    [
        ("en", "notebooks/01_x", "02_trace_and_script.ipynb#s", HERE.format("02_trace_and_script.ipynb#s")),
        ("zh", "notebooks/01_x", "02_trace_and_script.ipynb", HERE.format("02_trace_and_script.ipynb")),
        ("en", "notebooks/01_x", "../labs/lab05_bitshift.ipynb", HERE.format("../labs/lab05_bitshift.ipynb")),
        ("zh", "labs/lab05_x", "../../notebooks/zh/20_clinic.ipynb", HERE.format("../notebooks/20_clinic.ipynb")),
        # The other language's edition of this page.
        ("en", "labs/lab05_x", "zh/lab05_bitshift.ipynb", THERE.format("../../zh/labs/lab05_bitshift.html")),
        ("zh", "labs/lab05_x", "../lab05_bitshift.ipynb", THERE.format("../../en/labs/lab05_bitshift.html")),
        # Guides: in the reader's language where there is one.
        ("en", "notebooks/01_x", "../docs/targets.md#s", HERE.format("../docs/targets.md#s")),
        ("zh", "notebooks/01_x", "../../docs/targets.md", HERE.format("../docs/targets.md")),
        ("zh", "notebooks/01_x", "../../docs/weights.md", THERE.format("../../en/docs/weights.html")),
        ("zh", "docs/targets", "coverage.zh.md", HERE.format("coverage.md")),
        ("en", "docs/labs", f"{CLASS}/grading.md#s", HERE.format("grading.md#s")),
        ("en", "docs/grading", "instructor.md", HERE.format("instructor.md")),
        ("en", "docs/instructor", "../../../docs/labs.md", HERE.format("labs.md")),
        ("zh", "docs/instructor", "../../../labs/zh/lab05_bitshift.ipynb", HERE.format("../labs/lab05_bitshift.ipynb")),
        ("zh", "docs/instructor", "kubernetes.md", THERE.format("../../en/docs/kubernetes.html")),
        # What is no page is in the repository, if that has an address.
        ("en", "docs/kubernetes", "kubernetes.yaml", HERE.format("HOME/packages/onnxlab-class/docs/kubernetes.yaml")),
        ("zh", "notebooks/01_x", "../../CHANGELOG.md#s", HERE.format("HOME/CHANGELOG.md#s")),
        ("en", "notebooks/01_x", "https://onnx.ai", HERE.format("https://onnx.ai")),
        ("en", "notebooks/01_x", "#s", HERE.format("#s")),
        ("en", "notebooks/01_x", "#node=3", '<a class="reference internal" href="#node=3">a</a>'),
        ("en", "docs/graph", "#node=3", HERE.format("#node=3")),
    ],
)  # fmt: skip
def test_a_link_leads_to_a_page_in_its_language_or_to_the_repository(pages, language, page, target, link):
    for repository in ("", "owner/name"):
        site = pages.Site(ROOT, language, WORDS[language], repository, lambda text: text)
        home = f"https://github.com/{repository}/blob/main"
        expected = link.replace("HOME", home) if repository or "HOME" not in link else "a"
        assert site.linked(f"[a]({target})", page) == expected


def test_every_guide_that_a_guide_names_has_its_page(sites):
    for site in sites:
        assert {"targets", "coverage", "instructor", "grading"} <= set(site.guides())
        for name in site.guides():
            assert ".zh.md" not in site.guide(name)


def test_labs_show_hints_and_no_solutions(sites):
    for site in sites:
        for path in sorted((ROOT / "labs").glob("lab*.ipynb")):
            text = "\n".join(cell["source"] for cell in site.notebook(f"labs/{path.stem}")["cells"])
            checks = len(re.findall(r'"check\(\\"', path.read_text("utf-8")))
            for number in (1, 3):
                assert text.count(f"<summary>{site.words['hint']} {number}</summary>") == checks > 0
            assert "YOUR CODE HERE" in text


def test_a_folded_cell_is_called_what_it_is(sites):
    """A folded cell that asserts is a proof; one that only imports or defines something is code."""
    claim = re.compile(r"^ *(?:assert |with expect_)", re.MULTILINE)
    for site, (code, proof) in zip(sites, FOLDED.values(), strict=True):
        cells = site.notebook("notebooks/05_export_only_code")["cells"]
        folded = [cell for cell in cells if "hide-input" in cell["metadata"].get("tags", ())]
        assert [cell["metadata"]["mystnb"]["code_prompt_show"] for cell in folded] == [
            proof if claim.search(cell["source"]) else code for cell in folded
        ]
        assert len(folded) > 3


def test_a_chapter_says_what_lets_a_reader_skip_it(sites):
    for site in sites:
        doors = [
            site.doors(name, "") for name in ("notebooks/04_dynamic_shapes", "notebooks/12_modern_exporter")
        ]
        assert '<a href="../labs/lab02_dynamic_shapes.html">lab02_dynamic_shapes</a>' in doors[0]
        assert "Get its last 3 predictions right" in doors[1]
        assert "Know this" not in site.doors("notebooks/99_museum", "")


def test_the_chinese_of_a_script_has_the_gaps_of_the_english():
    gap = re.compile(r"\{[^{}]+\}")
    known = [pair for pair in WORDS["zh"]["page"].items() if isinstance(pair[1], str)]
    assert [pair for pair in known if set(gap.findall(pair[0])) != set(gap.findall(pair[1]))] == []


@pytest.mark.release
def test_no_text_of_the_page_of_ones_own_file_is_untranslated():
    """Each stands in words.json or among the package's texts."""
    package = json.loads((ROOT / "src/onnxlab/assets/languages/zh.json").read_text("utf-8"))
    text = re.compile(r"""\b(?:tr|refuse)\((["'])((?:(?!\1).)+)\1""")
    scripts = [path.read_text("utf-8") for path in (ROOT / "site" / "page" / "open").glob("*.js")]
    shown = {match[2] for script in scripts for match in text.finditer(script)}
    assert len(shown) > 100
    assert shown - WORDS["zh"]["page"].keys() - package["texts"].keys() == set()
