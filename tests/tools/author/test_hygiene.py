import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from onnxlab.course.cleaning import WIDGET_VIEW, clean
from onnxlab.course.fresh import METADATA
from tools.author.hygiene import check

PROSE = "# Title\nYou will\n- see\n\n## Summary\n- seen\n\n**Next:** more"


@pytest.fixture
def rules(write_notebook):
    """Give a function that writes a notebook and returns the rules it breaks, as (cell, rule)."""

    def broken(*cells, name="notebooks/chapter.ipynb", metadata=METADATA, prose=PROSE):
        path = write_notebook([new_markdown_cell(prose), *cells], name)
        notebook = json.loads(path.read_text())
        notebook["metadata"] = metadata
        path.write_text(json.dumps(notebook))
        return [(violation.cell, violation.rule) for violation in check(path)]

    return broken


def ran(source, *outputs, count=1, **fields):
    return new_code_cell(source, outputs=list(outputs), execution_count=count, **fields)


def stdout(text):
    return new_output("stream", name="stdout", text=text)


def test_a_clean_chapter_breaks_no_rule(rules):
    assert rules(ran("print(1)", stdout("1\n")), ran("x = '/conv1/Conv_output_0'", count=2)) == []


STDERR = new_output("stream", name="stderr", text="UserWarning: old")
ERROR = new_output("error", ename="ValueError", evalue="no", traceback=[])


@pytest.mark.parametrize(
    ("rule", "cell"),
    [
        ("count", ran("x = 1", count=None)),
        ("count", ran("x = 1", count=2)),
        ("stderr", ran("x", STDERR)),
        ("error", ran("x", ERROR)),
        *(("no output", ran(source)) for source in ("print(1)", "x = 1\ngraph(x)", "display(x)")),
        ("not compared", ran("# NBVAL_IGNORE_OUTPUT\nx")),
        ("not compared", ran("x", metadata={"tags": ["nbval-skip"]})),
        ("empty cell", new_code_cell("")),
        ("machine path", ran("x", stdout("/home/ada/model.onnx"))),
        ("machine path", ran("x", stdout("saved to /tmp/xyz/m.onnx"))),
        ("machine path", ran("x", stdout(r"C:\\Users\\ada"))),
        ("machine path", ran("x", stdout("lib/site-packages/torch/onnx"))),
        ("machine path", ran("x", stdout("(/root/x)"))),
        ("local address", new_markdown_cell("See http://localhost:8888/lab")),
        ("local address", new_markdown_cell("See 127.0.0.1:5000")),
        ("local address", new_markdown_cell("See file:///x")),
    ],
)
def test_a_cell_that_breaks_a_rule_is_named(rules, rule, cell):
    assert rules(cell) == [(2, rule)]


def test_a_widget_view_and_widget_state(rules):
    view = new_output("display_data", {WIDGET_VIEW: {"model_id": "1"}})
    assert rules(ran("x", view), metadata={**METADATA, "widgets": {}}) == [
        (None, "widget state"),
        (2, "widget view"),
    ]


def test_twenty_lines_are_allowed_and_twenty_one_are_not(rules):
    assert rules(ran("x = 1\n" * 20)) == []
    assert rules(ran("x = 1\n" * 21)) == [(2, "long cell")]


def test_what_a_picture_holds_is_not_read_as_a_path(rules):
    page = "<img src='data:image/svg+xml;base64,abc/tmp/xyz/home/x=='>"
    assert rules(ran("x", new_output("display_data", {"text/html": page, "image/png": "/tmp/abc"}))) == []


@pytest.mark.parametrize("prose", [PROSE.replace("# Title\n", "", 1), PROSE + "\n\n# Second"])
def test_none_or_two_titles(rules, prose):
    assert rules(prose=prose) == [(None, "title")]


def test_a_comment_in_a_code_fence_is_no_title(rules):
    assert rules(prose=PROSE + "\n```python\n# a comment\n```\n") == []


@pytest.mark.parametrize(
    ("text", "rule"), [("You will", "opening"), ("Summary", "closing"), ("Next", "closing")]
)
def test_what_a_chapter_begins_and_ends_with(rules, text, rule):
    assert rules(prose=PROSE.replace(text, "Other")) == [(None, rule)]


def test_a_print_inside_a_function_needs_no_output(rules):
    assert rules(ran("def f():\n    print(1)")) == []


def test_the_time_of_a_run_and_foreign_metadata(rules):
    timed = ran("x", metadata={"execution": {"shell.execute_reply": "now"}})
    violations = rules(timed, metadata={"kernelspec": {"name": "conda"}, "toc": {}})
    assert violations == [(None, "kernel"), (None, "metadata"), (2, "timing")]


def test_a_lab_is_empty_and_needs_no_summary(rules):
    lab = {"name": "labs/lab.ipynb", "prose": "# Lab"}
    assert rules(new_code_cell("print(1)"), **lab) == []
    assert rules(ran("print(1)", stdout("1")), **lab) == [(2, "not empty")]


def one_cell(*outputs, **fields):
    return new_notebook(cells=[new_code_cell("x", outputs=list(outputs), execution_count=7, **fields)])


def test_metadata_is_reduced_to_the_kernel_and_the_language():
    notebook = one_cell(
        metadata={"execution": {"iopub.status.busy": "now"}, "tags": ["keep"], "scrolled": True}
    )
    notebook.metadata = {"widgets": {"state": {}}, "kernelspec": {"name": "conda-env"}, "toc": 1}
    cleaned = clean(notebook)
    assert cleaned["metadata"] == METADATA
    assert cleaned["cells"][0]["metadata"] == {"tags": ["keep"]}
    nbformat.validate(cleaned)


def test_the_code_of_a_proof_is_folded_and_no_other():
    proof, lesson = clean(
        new_notebook(
            cells=[
                new_code_cell("assert x", metadata={"tags": ["proof"]}),
                new_code_cell("x = 1", metadata={"jupyter": {"source_hidden": True}}),
            ]
        )
    )["cells"]
    assert proof["metadata"] == {"tags": ["proof"], "jupyter": {"source_hidden": True}}
    assert lesson["metadata"] == {}


def test_counts_run_from_one_and_empty_cells_have_none():
    notebook = new_notebook(
        cells=[
            new_code_cell("a", execution_count=5),
            new_code_cell(" "),
            new_code_cell("b", execution_count=9),
        ]
    )
    assert [cell["execution_count"] for cell in clean(notebook)["cells"]] == [1, None, 2]


def test_an_execute_result_has_the_count_of_its_cell():
    cleaned = clean(one_cell(new_output("execute_result", {"text/plain": "1"}, execution_count=7)))
    assert cleaned["cells"][0]["outputs"][0]["execution_count"] == 1


def test_a_widget_view_alone_is_dropped_and_beside_others_only_the_view_is_taken_out():
    cleaned = clean(
        one_cell(
            new_output("display_data", {WIDGET_VIEW: {"model_id": "1"}}),
            new_output("display_data", {WIDGET_VIEW: {"model_id": "2"}, "text/html": "<b>2</b>"}),
        )
    )
    assert [output["data"] for output in cleaned["cells"][0]["outputs"]] == [{"text/html": "<b>2</b>"}]


def test_neighbouring_pieces_of_a_stream_are_joined_and_the_order_with_displays_is_kept():
    cleaned = clean(
        one_cell(
            new_output("stream", name="stdout", text="a\n"),
            new_output("stream", name="stdout", text="b\n"),
            new_output("display_data", {"text/plain": "picture"}),
            new_output("stream", name="stdout", text="c\n"),
        )
    )
    assert [output.get("text") for output in cleaned["cells"][0]["outputs"]] == ["a\nb\n", None, "c\n"]


def test_an_overwritten_progress_line_is_dropped():
    cleaned = clean(one_cell(new_output("stream", name="stdout", text="10%\r50%\rdone\n")))
    assert cleaned["cells"][0]["outputs"][0]["text"] == "done\n"


def test_empty_cells_at_the_end_are_dropped():
    notebook = new_notebook(cells=[new_code_cell("a"), new_code_cell(""), new_markdown_cell(" ")])
    assert [cell["source"] for cell in clean(notebook)["cells"]] == ["a"]


def test_an_id_stays_when_cells_are_edited_and_put_in():
    # docs/coverage.md points at cells by their ids.
    notebook = clean(new_notebook(cells=[new_code_cell("a", id="0123abcd")]))
    notebook["cells"][0]["source"] = "b"
    notebook["cells"].insert(0, new_code_cell("c", id="4567cdef"))
    assert [cell["id"] for cell in clean(notebook)["cells"]] == ["4567cdef", "0123abcd"]


def test_a_missing_or_doubled_id_follows_from_the_text():
    notebook = new_notebook(cells=[new_code_cell("a"), new_code_cell("b"), new_code_cell("b")])
    for cell, cell_id in zip(notebook["cells"], ["my-cell", "my-cell", ""], strict=True):
        cell["id"] = cell_id
    first = [cell["id"] for cell in clean(notebook)["cells"]]
    assert first[0] == "my-cell"
    assert len(set(first)) == 3
    assert first == [cell["id"] for cell in clean(notebook)["cells"]]


def test_cleaning_twice_gives_the_same_and_the_argument_is_left_alone():
    notebook = one_cell(new_output("stream", name="stdout", text="a"), metadata={"scrolled": True})
    before = nbformat.writes(notebook)
    once = clean(notebook)
    assert clean(once) == once
    assert nbformat.writes(notebook) == before
