import pytest

from onnxlab.tables import table

ROWS = [
    {"model": "static", "batch of 2": "error: axis 0"},
    {"model": "dynamic", "batch of 2": "ok", "note": "new"},
]


def test_columns_come_in_order_of_appearance_and_gaps_stay_empty():
    shown = table(ROWS)
    assert shown.columns == ("model", "batch of 2", "note")
    assert shown.rows == (("static", "error: axis 0", ""), ("dynamic", "ok", "new"))


def test_chosen_columns_only():
    assert table(ROWS, ["note", "model"]).rows == (("", "static"), ("new", "dynamic"))


def test_plain_text_is_aligned_and_has_no_trailing_blanks():
    lines = repr(table(ROWS, ["model", "batch of 2"], caption="Who runs?")).splitlines()
    assert lines == [
        "Who runs?",
        "model    batch of 2",
        "-------  -------------",
        "static   error: axis 0",
        "dynamic  ok",
    ]


def test_line_breaks_in_a_cell_become_lines():
    assert repr(table([{"a": "x\ny", "b": 1}])).splitlines() == ["a  b", "-  -", "x  1", "y"]


def test_marks_are_coloured_only_as_whole_words_at_the_start():
    shown = table(
        [
            {"a": "ok"},
            {"a": "okay"},
            {"a": "not ok"},
            {"a": True},
            {"a": False},
            {"a": "Error: rank"},
            {"a": ""},
        ]
    )
    assert [shown.tone(row[0]) for row in shown.rows] == ["good", "", "", "good", "bad", "bad", ""]
    assert shown._repr_html_().count('class="good"') == 2
    assert shown._repr_html_().count('class="bad"') == 2


def test_own_marks_replace_the_default_ones():
    shown = table([{"a": "kept", "b": "ok"}], good=("kept",), bad=())
    assert [shown.tone(cell) for cell in shown.rows[0]] == ["good", ""]


def test_a_coloured_cell_always_begins_with_a_word():
    with pytest.raises(ValueError, match="give words"):
        table([{"a": ""}], bad=("",))


def test_html_is_escaped_everywhere_and_backticks_are_code():
    shown = table([{"<b>": "<script>`a<b`"}], caption="x & y")._repr_html_()
    assert "&lt;script&gt;<code>a&lt;b</code>" in shown
    assert '<th scope="col">&lt;b&gt;</th>' in shown
    assert "x &amp; y" in shown
    assert "<script>" not in shown


def test_floats_are_rounded_and_an_empty_table_is_no_error():
    assert table([{"psnr": 31.23456789, "n": 3}]).rows == (("31.23", "3"),)
    assert "<table" in table([])._repr_html_()
