"""Translated notebooks, made from the English ones and a catalogue, and the check of the catalogues."""

import ast
import copy
import html
import json
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import nbformat
import polib
import pytest

from onnxlab.course.notebooks import read, write
from onnxlab.language import Speech, is_pattern, speaking, speech
from onnxlab.tables import Table
from tools.author.running import execute
from tools.author.translation.catalogue import Source, merged, notebook_sources
from tools.author.translation.coverage import coverage_sources, translated_coverage
from tools.author.translation.edition import Edition, generated, written_by_hand
from tools.author.translation.edition import _translations as usable
from tools.author.translation.lint import Glossary, faults, page_faults
from tools.author.translation.outputs import shown_texts, template, templates, translate_output
from tools.author.translation.units import Kind, units

ROOT = Path(__file__).parents[3]
PAGES = sorted([*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "labs").glob("*.ipynb")])
GLOSSARY = Glossary(ROOT / "translations" / "zh" / "glossary.md")


def markdown(text: str) -> dict:
    return {"cell_type": "markdown", "source": text, "metadata": {}, "id": f"m{abs(hash(text)) % 10**6}"}


def code(text: str, *outputs: dict) -> dict:
    cell = {"cell_type": "code", "source": text, "metadata": {}, "id": f"c{abs(hash(text)) % 10**6}"}
    return {**cell, "outputs": list(outputs), "execution_count": 1}


def notebook(*cells: dict) -> dict:
    return nbformat.from_dict({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def translated(cells: list[dict], words: dict[str, str], path: str = "notebooks/01_a.ipynb") -> list[dict]:
    edition = generated(notebook(*cells), PurePosixPath(path), words, "zh", lambda name: "zh" in name)
    return edition["cells"]


# ---------------------------------------------------------------- the committed edition

SPEAKS = 'import onnxlab\n\nonnxlab.speak("zh")\n\n'


class Wordless(ast.NodeTransformer):
    """Takes out docstrings, questions and captions; comments are not in the tree."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        name = getattr(node.func, "id", "")
        if name == "predict" and node.args:
            node.args[0] = ast.Constant("")
        for word in node.keywords:
            if (name, word.arg) in (("predict_grid", "question"), ("table", "caption")):
                word.value = ast.Constant("")
        self.generic_visit(node)
        return node

    def _without_docstring(self, node):
        if ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
        self.generic_visit(node)
        return node

    visit_FunctionDef = visit_ClassDef = _without_docstring  # noqa: N815  # names that ast asks for


def code_without_words(source: str) -> str:
    """Return a cell's code in one normal form; the source itself where it is not Python alone."""
    source = source.removeprefix(SPEAKS)
    try:
        return ast.dump(Wordless().visit(ast.parse(source)))
    except SyntaxError:
        return source


@pytest.fixture(scope="module")
def committed() -> Edition:
    return Edition(ROOT, "zh")


@pytest.mark.slow
def test_no_translation_is_wrong_and_no_file_out_of_step(committed):
    assert list(committed.faults()) == []


@pytest.mark.release
def test_no_text_is_untranslated(committed):
    assert list(committed.untranslated()) == []


def test_words_with_a_context_are_listed_for_a_reader(committed):
    words = [line.split("\t") for line in committed.words_in_context()]
    assert all(len(word) == 4 for word in words)
    assert ["{graph}", "quantised", "\u91cf\u5316\u540e"] in [word[:3] for word in words]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_translated_notebook_has_the_code_and_the_cells_of_the_english_one(page):
    english, chinese = read(page)["cells"], read(page.parent / "zh" / page.name)["cells"]
    assert [cell["id"] for cell in chinese] == [cell["id"] for cell in english]
    assert [cell["metadata"] for cell in chinese] == [cell["metadata"] for cell in english]
    for ours, theirs in zip(english, chinese, strict=True):
        assert ours["cell_type"] == theirs["cell_type"]
        if ours["cell_type"] == "code":
            assert code_without_words(theirs["source"]) == code_without_words(ours["source"])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_link_of_a_translated_notebook_leads_to_a_file(page):
    page_in_chinese = page.parent / "zh" / page.name
    text = "\n".join(
        cell["source"] for cell in read(page_in_chinese)["cells"] if cell["cell_type"] == "markdown"
    )
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"`[^`]*`", "", text))
    assert not [link for link in links if "://" not in link and not (page_in_chinese.parent / link).exists()]
    assert f"../{page.name}" in links  # the same page in English


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_saved_table_says_what_a_chinese_run_makes_of_it(page):
    pairs = zip(read(page)["cells"], read(page.parent / "zh" / page.name)["cells"], strict=True)
    outputs = [
        (cell["id"], *pair)
        for cell, zh in pairs
        for pair in zip(cell.get("outputs", ()), zh.get("outputs", ()), strict=True)
    ]
    for cell, ours, theirs in outputs:
        match = re.search(
            r'<table class="onnxlab-table">(.*?)</table>', ours.get("data", {}).get("text/html", ""), re.S
        )
        if match is None or "onnxlab-slider" in ours["data"]["text/html"] or cell in MADE_OF_MESSAGES:
            continue
        rows = [tuple(cells_of_row(row)) for row in match[1].split("<tr>")[1:]]
        with speaking(speech("zh")):
            live = repr(Table(rows[0], tuple(rows[1:])))
        assert theirs["data"]["text/plain"].endswith(live)


def cells_of_row(row: str) -> list[str]:
    cells = re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", row, re.S)
    return [html.unescape(re.sub("</?code>", "`", cell).replace("<br>", "\n")) for cell in cells]


MADE_OF_MESSAGES = ("c2000056", "c2000062")  # of the doctor and the clinic: a finished sentence has no values


# ---------------------------------------------------------------- catalogues


BEFORE = (
    markdown("# A title"),
    markdown("The exporter writes one node for each operator."),
    markdown("Look at the graph."),
)


def catalogue(*cells: dict, old: polib.POFile | None = None) -> polib.POFile:
    return merged(old or polib.POFile(), notebook_sources(notebook(*cells)), "zh")


@pytest.fixture
def full() -> polib.POFile:
    new = catalogue(*BEFORE)
    for entry in new:
        entry.msgstr = f"\u8bd1{entry.msgid}"
    return new


def state(new: polib.POFile) -> tuple[int, int, int]:
    return len(new.fuzzy_entries()), len(new.untranslated_entries()), len(new.obsolete_entries())


def test_a_changed_word_makes_one_entry_fuzzy_and_keeps_what_it_was(full):
    new = catalogue(
        BEFORE[0], markdown("The exporter writes two nodes for each operator."), BEFORE[2], old=full
    )
    assert state(new) == (1, 0, 0)
    (entry,) = new.fuzzy_entries()
    assert entry.previous_msgid == "The exporter writes one node for each operator."
    assert entry.msgstr == f"\u8bd1{entry.previous_msgid}"


def test_a_new_cell_is_missing(full):
    new = catalogue(*BEFORE, markdown("Quite another sentence, on quantisation and on speed."), old=full)
    assert state(new) == (0, 1, 0)


def test_a_removed_cell_is_obsolete_until_it_comes_back(full):
    gone = catalogue(*BEFORE[:2], old=full)
    assert state(gone) == (0, 0, 1)
    assert state(catalogue(*BEFORE, old=gone)) == (0, 0, 0)


def test_a_moved_cell_costs_nothing(full):
    new = catalogue(BEFORE[2], BEFORE[0], BEFORE[1], old=full)
    assert state(new) == (0, 0, 0)
    assert new[0].msgid == "Look at the graph."


def test_a_renamed_variable_costs_nothing():
    old = merged(polib.POFile(), [Source("{a} of {b} nodes, {a} edges", "message", "x.py")], "zh")
    old[0].msgstr = "{b} \u4e2a {a}"
    renamed = merged(old, [Source("{left} of {total} nodes, {left} edges", "message", "x.py")], "zh")
    assert state(renamed) == (0, 0, 0)
    assert renamed[0].msgstr == "{total} \u4e2a {left}"
    reworded = merged(old, [Source("{left} of {total} nodes, {left} links", "message", "x.py")], "zh")
    assert state(reworded) == (1, 0, 0)


def test_a_fuzzy_translation_is_not_used_and_the_check_says_so(full):
    new = catalogue(BEFORE[0], markdown("The exporter writes two nodes for each operator."), old=full)
    assert {entry.msgid for entry in new.translated_entries()} == {"A title"}


def test_a_translation_with_an_unknown_gap_is_not_used():
    catalogue = polib.POFile()
    catalogue.append(polib.POEntry(msgid="{nodes} nodes", msgstr="{node} 个节点"))
    catalogue.append(polib.POEntry(msgid="{nodes} edges", msgstr="{nodes} 条边"))
    assert usable(catalogue) == {"{nodes} edges": "{nodes} 条边"}


def test_a_catalogue_survives_being_written_and_read(full, tmp_path):
    changed = catalogue(*BEFORE[:2], markdown("Look at this graph!"), old=full)
    path = tmp_path / "a.po"
    changed.save(str(path))
    again = merged(polib.pofile(str(path)), notebook_sources(notebook(*BEFORE)), "zh")
    assert state(again) == (1, 0, 0)


# ---------------------------------------------------------------- units of translation


def test_the_units_of_markdown_are_paragraphs_items_and_cells():
    table = "| a word | `code` |\n|---|---|\n| one | 2 |"
    source = f"## A heading\n\nA paragraph\nof two lines.\n\n- an item\n\n{table}"
    text_units = units(markdown(source))
    assert [unit.text for unit in text_units] == [
        "A heading",
        "A paragraph of two lines.",
        "an item",
        "a word",
        "one",
    ]


def test_the_summary_of_a_folded_answer_counts():
    (summary, text) = units(markdown("<details><summary>An answer</summary>\n\nYes.\n\n</details>"))
    assert (summary.text, text.text) == ("An answer", "Yes.")


def test_the_units_of_code_are_comments_docstrings_questions_and_captions():
    source = (
        'def f():\n    """What it does."""\n\n\n'
        "# a comment that\n# goes on\n"
        'guess = predict("What?", ["one", "two"])  # noqa\n'
        'table(rows, caption="A caption", good=["fine"])\nprint("not this")'
    )
    assert [(unit.kind, unit.text) for unit in units(code(source))] == [
        (Kind.DOCSTRING, "What it does."),
        (Kind.COMMENT, "a comment that goes on"),
        (Kind.QUESTION, "What?"),
        (Kind.CAPTION, "A caption"),
    ]


def test_an_f_string_is_a_pattern_with_named_gaps():
    def pattern(source: str) -> list[str]:
        return list(templates(ast.parse(source, mode="eval").body))

    assert pattern("f'{len(names):,} names in {where}'") == ["{len_names} names in {where}"]
    assert pattern("'a' if x else f'b {{1}} {c}'") == ["a", "b {{1}} {c}"]
    assert template(ast.parse("'{not a gap}'", mode="eval").body) == "{not a gap}"
    assert pattern("3") == []


# ---------------------------------------------------------------- translated notebooks


def test_translations_replace_their_texts_and_the_rest_stays():
    cells = [
        markdown("# A title\n\nSome *words*, and `code`."),
        code('x = 1  # a comment\nguess = predict("What \\"is\\" it?", ["a", "b"])'),
    ]
    words = {
        "A title": "\u6807\u9898",
        "a comment": "\u6ce8\u91ca",
        'What "is" it?': "\u201c\u662f\u201d\u4ec0\u4e48\uff1f",
    }
    first, second = translated(cells, words)
    assert first["source"] == "# \u6807\u9898\n\nSome *words*, and `code`. <sup>\u82f1\u6587</sup>"
    assert second["source"] == (
        'import onnxlab\n\nonnxlab.speak("zh")\n\n'
        "x = 1  # \u6ce8\u91ca\n"
        'guess = predict("\u201c\u662f\u201d\u4ec0\u4e48\uff1f", ["a", "b"])'
    )
    assert [first["id"], second["id"]] == [cells[0]["id"], cells[1]["id"]]


def test_links_lead_where_they_led_and_to_translated_pages():
    text = (
        "[a](02_b.ipynb) [b](../docs/coverage.md) [c](../labs/lab01_x.ipynb#top) [d](https://onnx.ai) "
        "[Chinese \u00b7 \u4e2d\u6587](../notebooks/zh/01_a.ipynb)"
    )

    def exists(name: str) -> bool:
        return name in ("notebooks/zh/02_b.ipynb", "labs/zh/lab01_x.ipynb", "notebooks/zh/01_a.ipynb")

    edition = generated(notebook(markdown(text)), PurePosixPath("notebooks/01_a.ipynb"), {}, "zh", exists)
    assert edition["cells"][0]["source"] == (
        "[a](02_b.ipynb) [b](../../docs/coverage.md) [c](../../labs/zh/lab01_x.ipynb#top) "
        "[d](https://onnx.ai) [English](../01_a.ipynb) <sup>\u82f1\u6587</sup>"
    )


def test_a_text_without_a_translation_has_a_mark_and_a_heading_and_code_have_none():
    cells = [markdown("# A title\n\nOne.\n\n- two\n- three"), code("x = 1  # a comment")]
    first, second = translated(cells, {"two": "\u4e8c"})
    mark = " <sup>\u82f1\u6587</sup>"
    assert first["source"] == f"# A title\n\nOne.{mark}\n\n- \u4e8c\n- three{mark}"
    assert second["source"] == f"{SPEAKS}x = 1  # a comment"


def test_a_word_has_the_translation_of_the_place_in_which_it_stands():
    rows = [["what", "p50"], ["runs", "10 ms"]]
    table = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    shown = {"text/html": f'<table class="onnxlab-table">{table}</table>', "text/plain": ""}
    pictures = "<figure><figcaption>runs</figcaption></figure>"
    alt = '<img alt="Graph of runs: 3 Relu">'
    graph = {
        "text/html": f'<div class="onnxlab-graph">{alt}{pictures}</div>',
        "text/plain": "Graph(runs, 3 nodes)",
    }
    contexts = {"what | p50": {"runs": "\u4e00"}, "{graph}": {"runs": "\u4e8c"}}
    with speaking(Speech({"runs": "\u4e09", "3 nodes": "3"}, {}, contexts=contexts)):
        for data in (shown, graph):
            translate_output({"output_type": "display_data", "data": data}, "", {})
    assert "<td>\u4e00</td>" in shown["text/html"]
    assert "\u4e00" in shown["text/plain"]
    assert "<figcaption>\u4e8c</figcaption>" in graph["text/html"]
    assert 'alt="Graph of \u4e8c: 3 Relu"' in graph["text/html"]
    assert graph["text/plain"] == "Graph(\u4e8c\uff0c3)"


def test_the_names_of_graphs_and_the_cases_of_a_live_note_are_texts():
    cell = code(
        'for spin, label in (("1", "many threads"), ("0", "one thread")):\n'
        '    live_note(f"{label}: slow")\ngraph(model, other, names=("as it runs", "float32"))'
    )
    assert {(text, where) for _, text, where in shown_texts(notebook(cell), ())} == {
        ("many threads", ""),
        ("one thread", ""),
        ("{label}: slow", ""),
        ("as it runs", "{graph}"),
        ("float32", "{graph}"),
    }


def test_a_printed_card_of_the_clinic_is_translated_but_for_its_code():
    text = "index-put (TorchScript)\nIt is wrong.\nReported in pytorch#1.\nclass It is wrong.\n"
    output = {"output_type": "stream", "name": "stdout", "text": text}
    words = {"It is wrong.": "\u9519", "Reported in {threads}.": "\u6765\u6e90 {threads}"}
    with speaking(Speech(words, {"Reported in {threads}.": words["Reported in {threads}."]})):
        translate_output(output, 'print(patient("index-put"))', {})
    assert output["text"].split("\n")[1:4] == ["\u9519", "\u6765\u6e90 pytorch#1", "class It is wrong."]


CHAPTER = (
    markdown("# A chapter"),
    code(
        "from onnxlab import clinic, doctor, expect_error, graph, patient, predict, predict_grid, table\n"
        "import onnx"
    ),
    code('guess = predict("Does it pass?", ["yes", "no"])'),
    code(
        'rows = [{"model": "static", "answer": "right"}, {"model": "x`y`", "answer": "wrong: 3"}]\n'
        'table(rows, caption="A caption")'
    ),
    code('guess.reveal("yes")\ngrid = predict_grid(["static"], ["answer"], ["right", "wrong"])'),
    code('grid.reveal({("static", "answer"): "wrong"})'),
    code(
        'with expect_error(KeyError, "inner"):\n    try:\n        {}["inner"]\n'
        '    except KeyError as error:\n        raise ValueError("outer") from error'
    ),
    code(
        "head = '<ir_version: 8, opset_import: [\"\": %d]> g (float[n] x) => (float[n] y) { y = %s (x) }'\n"
        "model, other = (onnx.parser.parse_model(head % one) for one in ((9, 'Relu'), (20, 'Abs')))\n"
        'graph(model, other, names=["static", "dynamic"])'
    ),
    code("graph(model, highlight=['nowhere'])"),
    code("doctor(model)"),
    code("card = patient('index-put')\nprint(card)\nclinic()"),
    code("card.check('load', card.module)"),
    code('loads = predict("Does it load?", ["runs", "an error"])'),
    code('loads.reveal("an error")'),
    code("graph(model, other)"),
    code(
        "names = 'Relu Abs Neg Exp Log Sqrt Sin Cos Tan Floor Ceil Sign Erf Tanh'.split()\n"
        "nodes = ' '.join(f'x{i + 1} = {name} (x{i})' for i, name in enumerate(names))\n"
        "head = '<ir_version: 8, opset_import: [\"\": 18]> g (float[n] x0) => (float[n] x14)'\n"
        "graph(onnx.parser.parse_model(head + ' { ' + nodes + ' }'))"
    ),
)
WORDS = {"Does it pass?": "\u80fd\u901a\u8fc7\u5417\uff1f", "A caption": "\u6807\u9898", "from": "\u4ece"}


COVERAGE = """# A title

[Chinese \u00b7 \u4e2d\u6587](coverage.zh.md)

Two
lines.

| statement | where | verdict | cell |
|---|---|---|---|
| a loop stays | 02: *Where?*, *Why?*; 99: *Old* | outdated since torch 1.10 at the latest: it is `Loop` | \
[02#a1](../notebooks/02_a.ipynb) |
| a view | - | not tested here | - |
"""


def test_coverage_is_translated_row_by_row_with_the_headings_of_the_chapters():
    texts = [source.text for source in coverage_sources(COVERAGE)]
    assert texts[:6] == ["A title", "Two lines.", "statement", "where", "verdict", "cell"]
    assert texts[6:] == [
        *("a loop stays", "outdated since", "at the latest", "it is `Loop`"),
        *("a view", "not tested here"),
    ]
    words = {text: f"<{text}>" for text in texts}
    chapters = {"02": {"1. Where?": "1. W", "2. Why?": "2. Y"}, "99": {}}
    lines = translated_coverage(COVERAGE, words, chapters, "zh", "!").splitlines()
    assert lines[:5] == ["# <A title>", "", "[English](coverage.md)", "", "<Two lines.>"]
    assert lines[8:10] == [
        "| <a loop stays> | 02\uff1a*W*\u3001*Y*\uff1b99\uff1a*Old!* "
        "| <outdated since> torch 1.10<at the latest>\uff1a<it is `Loop`> "
        "| [02#a1](../notebooks/zh/02_a.ipynb) |",
        "| <a view> | - | <not tested here> | - |",
    ]
    lines = translated_coverage(COVERAGE, {}, {}, "zh", "!").splitlines()
    assert [lines[0], lines[4], lines[9]] == [
        "# A title",
        "Two lines.!",
        "| a view! | - | not tested here! | - |",
    ]


def test_what_a_statement_quotes_is_free_and_the_rest_is_not():
    entry = polib.POEntry(msgid="a graph", msgstr="\u201c\u6ca1\u6709Graph\u201d", comment="statement")
    assert list(faults(entry, GLOSSARY)) == []
    entry.msgstr = "\u6ca1\u6709Graph"
    assert list(faults(entry, GLOSSARY)) == ["no space: \u6709G"]


@pytest.mark.slow
def test_a_translated_notebook_shows_what_its_outputs_say_and_only_in_its_language(tmp_path):
    folder = tmp_path / "notebooks" / "zh"
    folder.mkdir(parents=True)
    english = execute(notebook(*copy.deepcopy(CHAPTER)), tmp_path / "notebooks" / "a.ipynb")
    texts = speech("zh").texts
    patterns = {text: texts[text] for text in texts if is_pattern(text)}
    with speaking(Speech(texts | WORDS, patterns, contexts=speech("zh").contexts)):
        edition = generated(english, PurePosixPath("notebooks/a.ipynb"), WORDS, "zh", lambda _: False)
    write(edition, folder / "a.ipynb")
    shown = [output.get("data", output) for cell in edition["cells"] for output in cell.get("outputs", [])]
    outputs = str([{kind: text for kind, text in data.items() if "+json" not in kind} for data in shown])
    for word in ("symptom", "Reported in", "what to do", "repair", "wrong", "risks"):
        assert word not in re.sub(r"<style>.*?</style>|src=\S+", "", outputs), word
    for word in ("yes", "Answer", "caused by", "nodes", "removed", "Nothing in the graph", "more operators"):
        assert word not in re.sub(r"<style>.*?</style>|src=\S+", "", outputs), word
    edition["cells"][1]["source"] = edition["cells"][1]["source"].replace('onnxlab.speak("zh")', "")
    write(edition, folder / "in_english.ipynb")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval",
        "--nbval-current-env",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    pages = [str(folder / name) for name in ("a.ipynb", "in_english.ipynb")]
    done = subprocess.run([*command, *pages], cwd=ROOT, capture_output=True, text=True)
    failed = re.findall(r"^FAILED \S*?(\w+)\.ipynb", done.stdout, re.MULTILINE)
    assert set(failed) == {"in_english"}, done.stdout
    assert len(failed) >= 6  # every cell that shows something


# ---------------------------------------------------------------- rules for translations


@pytest.mark.parametrize(
    ("english", "chinese", "fault"),
    [
        ("**Look.** Two nodes.", "**\u770b\u4e00\u770b**\u3002\u4e24\u4e2a\u8282\u70b9\u3002", ""),
        ("**Look.** Two nodes.", "**\u770b\u4e00\u770b\u3002**\u4e24\u4e2a\u8282\u70b9\u3002", "emphasis"),
        ("`Loop` runs 3 times.", "`Loop` \u8fd0\u884c 3 \u6b21\u3002", ""),
        ("`Loop` runs 3 times.", "\u5faa\u73af\u8fd0\u884c 3 \u6b21\u3002", "code"),
        ("`Loop` runs 3 times.", "`Loop` \u8fd0\u884c\u4e09\u6b21\u3002", "numbers"),
        ("See [this](a.md).", "\u89c1[\u8fd9\u91cc](b.md)\u3002", "links"),
        ("It is so.", "\u662f\u8fd9\u6837,\u771f\u7684\u3002", "half-width"),
        ("It is torch.", "\u8fd9\u662ftorch\u3002", "no space"),
        ("**So.** One.", "**\u8fd9\u6837\u3002** \u4e00\u3002", "within emphasis"),
        ("An operator.", "\u4e00\u4e2a\u8fd0\u7b97\u7b26\u3002", "\u8fd0\u7b97\u7b26"),
        ("A tensor.", "\u4e00\u4e2a\u6570\u7ec4\u3002", "tensor"),
        ("You see it.", "\u60a8\u770b\u5230\u4e86\u3002", "\u60a8"),
    ],
)
def test_what_a_translation_loses_or_writes_badly_is_said(english, chinese, fault):
    messages = list(faults(polib.POEntry(msgid=english, msgstr=chinese, comment="text"), GLOSSARY))
    assert bool(messages) == bool(fault)
    assert fault in "; ".join(messages)


def test_the_gaps_of_a_pattern_are_kept_but_not_english_endings():
    def messages(chinese: str) -> list[str]:
        entry = polib.POEntry(msgid="{name} has {n} node{s}.", msgstr=chinese, comment="message")
        return list(faults(entry, GLOSSARY))

    assert not messages("{name} \u6709 {n} \u4e2a\u8282\u70b9\u3002")
    assert "gaps" in messages("{nme} \u6709 {n} \u4e2a\u8282\u70b9\u3002")[0]


@pytest.mark.parametrize("wrong", ["两种导出器", "便携电脑", "准确率 98 %", "一台笔记本"])
def test_the_glossary_keeps_one_word_for_a_thing(wrong):
    glossary = Glossary(ROOT / "translations" / "zh" / "glossary.md")
    right = {"两种导出器": "两个导出器", "便携电脑": "笔记本电脑", "准确率 98 %": "准确率 98%"}
    assert list(faults(polib.POEntry(msgid="A text: 98", msgstr=wrong, comment="shown"), glossary))
    if wrong in right:
        entry = polib.POEntry(msgid="A text: 98", msgstr=right[wrong], comment="shown")
        assert not [fault for fault in faults(entry, glossary) if "numbers" not in fault]


@pytest.mark.release
@pytest.mark.parametrize("page", sorted(ROOT.glob("*/zh/*.ipynb")), ids=lambda path: path.stem)
def test_no_sentence_of_the_package_stands_in_english_in_a_chinese_notebook(page):
    """Also within a longer line, which is not looked up whole."""
    shown = [
        "".join(data.get(kind, ""))
        for cell in json.loads(page.read_text("utf-8"))["cells"]
        for output in cell.get("outputs", [])
        for data in [output.get("data", {})]
        for kind in ("text/html", "text/plain")
    ]
    text = html.unescape("\n".join(shown))
    sentences = [
        source for source, chinese in speech("zh").texts.items() if len(source) > 30 and source != chinese
    ]
    assert [sentence for sentence in sentences if sentence in text] == []


def test_a_quoted_word_of_a_table_is_the_one_that_is_shown():
    entry = polib.POEntry(msgid="Look at `wrong`.", msgstr="\u770b `\u9519\u8bef`\u3002", comment="text")
    assert list(faults(entry, GLOSSARY, {"wrong": "\u9519\u8bef"})) == []
    assert list(faults(entry, GLOSSARY, {"wrong": "\u9519"})) == ["code differ: wrong, \u9519\u8bef"]


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("**\u63d0\u524d**\uff1a\u5b66\u5458 `a,b` [x](a.md)\u3002", ""),
        ("**\u63d0\u524d\uff1a**\u5b66\u5458", "bold that is not bold"),
        ("\u662f\u8fd9\u6837,\u771f\u7684\u3002", "half-width"),
        ("\u65e7\u7684\u5f15\u64ce\u4f1a\u62d2\u7edd", "\u62d2\u7edd"),
        ("```\n\u662f,\u8fd9\u6837\n```", ""),
    ],
)
def test_a_page_that_is_written_by_hand_is_read_too(page, fault, tmp_path):
    assert bool(list(page_faults(page, GLOSSARY))) == bool(fault)
    assert fault in "; ".join(page_faults(page, GLOSSARY))


def test_the_pages_that_are_read_are_those_that_nobody_generates():
    read = dict(written_by_hand(ROOT, "zh"))
    assert {"README.zh.md", "docs/install.zh.md", "site/glossary.toml", "site/words.json"} <= set(read)
    assert "packages/onnxlab-class/docs/instructor.zh.md" in read
    assert "docs/coverage.zh.md" not in read
    assert len(read["site/silent.toml"]) > 100
