import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from onnxlab.authoring.cleaning import METADATA, WIDGET_VIEW, clean


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
    for cell, given in zip(notebook["cells"], ["my-cell", "my-cell", ""], strict=True):
        cell["id"] = given
    first = [cell["id"] for cell in clean(notebook)["cells"]]
    assert first[0] == "my-cell"
    assert len(set(first)) == 3
    assert first == [cell["id"] for cell in clean(notebook)["cells"]]


@pytest.mark.parametrize("times", [1, 2])
def test_cleaning_twice_gives_the_same_and_the_argument_is_left_alone(times):
    notebook = one_cell(new_output("stream", name="stdout", text="a"), metadata={"scrolled": True})
    before = nbformat.writes(notebook)
    once = clean(notebook)
    result = once
    for _ in range(times):
        result = clean(result)
    assert result == once
    assert nbformat.writes(notebook) == before
