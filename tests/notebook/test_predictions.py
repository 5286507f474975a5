import json
import time
from pathlib import Path
from threading import Thread, current_thread
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from onnxlab.errors import ClaimBroken
from onnxlab.language import speak
from onnxlab.notebook.labs.standings import predictions_table
from onnxlab.notebook.predict import answers, prediction
from onnxlab.notebook.predict.prediction import ask_again, predict, predict_grid
from tools.author.predictions import LIST, predictions

VIEW = "application/vnd.jupyter.widget-view+json"
ROWS, COLUMNS, CHOICES = ["static", "dynamic"], ["batch of 1", "batch of 2"], ["runs", "fails"]
ANSWERS = {
    ("static", "batch of 1"): "runs",
    ("static", "batch of 2"): "fails",
    ("dynamic", "batch of 1"): "runs",
    ("dynamic", "batch of 2"): "runs",
}

SUBSHELLS = SimpleNamespace(_supports_kernel_subshells=True)

TWICE = """
guess, grid = predict("What?", ["a", "b"]), predict_grid(["r"], ["c"], ["x", "y"])
guess.reveal("b")
grid.reveal({("r", "c"): "y"})
"""
CELLS = [
    "from onnxlab import predict, predict_grid",
    "guess = predict('What?', ['a', 'b'])",
    "predict('What?', ['a', 'b'])",
    "again = predict('What?', ['a', 'b'])\nagain",
    "guess",
    TWICE,
    TWICE,
]


@pytest.fixture(scope="module")
def shown():
    """The cells' outputs: for each cell a list of mime bundles."""
    shell, outputs = InteractiveShell.instance(), []
    try:
        for source in CELLS:
            with capture_output() as captured:
                shell.run_cell(source, store_history=True).raise_error()
            outputs.append([output.data for output in captured.outputs])
    finally:
        InteractiveShell.clear_instance()
    return outputs


def test_a_question_is_two_outputs_and_only_the_second_is_a_widget(shown):
    assert [sorted(data) for data in shown[1]] == [["text/html", "text/plain"], [VIEW]]
    assert shown[1][0]["text/plain"] == "Predict: What?\n  - a\n  - b"


def test_as_the_last_expression_it_is_shown_once(shown):
    assert [len(outputs) for outputs in shown[1:4]] == [2, 2, 2]


def test_asked_for_in_another_cell_it_is_shown_again(shown):
    assert shown[4][0] == shown[1][0]
    assert shown[4][1][VIEW]["model_id"] == shown[1][1][VIEW]["model_id"]


def test_saved_forms_are_the_same_on_every_run(shown):
    first, second = ([data for data in outputs if VIEW not in data] for outputs in shown[5:7])
    assert first == second
    assert len(first) == 4
    assert first[2]["text/plain"] == "Answer: b"


@pytest.mark.parametrize(
    ("clicked", "message"),
    [("", "\nAnswer: 3"), ("1", "You said: 1. It is: 3"), ("3", "You said: 3. That is right.")],
)
def test_it_says_what_was_said_and_what_is(capsys, clicked, message):
    guess = predict("How often?", [1, 3])
    assert guess.chosen is None
    guess._widget.chosen = clicked
    guess.reveal(3)
    assert capsys.readouterr().out.rstrip().endswith(message)
    assert guess._widget.actual == "3"


def test_an_answer_that_is_no_option_breaks_the_claim():
    guess = predict("How often?", [1, 3])
    with pytest.raises(ClaimBroken, match=r"'2'.*none of the options: 1, 3"):
        guess.reveal(2)
    assert guess._widget.actual == ""


@pytest.mark.parametrize("options", [[], ["a"], ["a", "a"]])
def test_a_question_needs_something_to_choose_from(options):
    with pytest.raises(ValueError, match="different options"):
        predict("What?", options)


def test_what_is_written_is_escaped():
    saved = predict("<b>?", ["<i>", "x"]).saved()
    assert "&lt;b&gt;?" in saved
    assert "&lt;i&gt;" in saved
    assert "<b>" not in saved


def test_the_grid_without_predictions_has_no_score(capsys):
    grid = predict_grid(ROWS, COLUMNS, CHOICES)
    capsys.readouterr()
    grid.reveal(ANSWERS)
    assert capsys.readouterr().out.splitlines() == [
        "         batch of 1  batch of 2",
        "static   runs        fails",
        "dynamic  runs        runs",
    ]


def test_the_grid_counts_only_what_was_predicted(capsys):
    grid = predict_grid(ROWS, COLUMNS, CHOICES)
    grid._widget.chosen = [["runs", "runs"], ["", "runs"]]
    assert grid.chosen == {
        ("static", "batch of 1"): "runs",
        ("static", "batch of 2"): "runs",
        ("dynamic", "batch of 2"): "runs",
    }
    capsys.readouterr()
    grid.reveal(ANSWERS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split("  ")[-1] == "\u2717 fails (you said runs)"
    assert lines[-1] == "2 of 3 predictions right."


@pytest.mark.parametrize(
    "answers", [{}, {**ANSWERS, ("static", "batch of 2"): "explodes"}, dict(list(ANSWERS.items())[1:])]
)
def test_a_grid_needs_an_answer_for_every_cell(answers):
    with pytest.raises(ClaimBroken, match="not one of: runs, fails"):
        predict_grid(ROWS, COLUMNS, CHOICES).reveal(answers)


@pytest.mark.parametrize("parts", [([], COLUMNS, CHOICES), (ROWS, [], CHOICES), (ROWS, COLUMNS, ["x", "x"])])
def test_an_empty_grid_is_refused(parts):
    with pytest.raises(ValueError, match="needs rows, columns"):
        predict_grid(*parts)


def test_a_question_that_is_asked_again_knows_the_click_even_one_that_comes_late(capsys):
    first, second = (predict("Once more?", ["a", "b"]) for _ in range(2))
    first._widget._handle_custom_msg({"chosen": "b"}, [])  # what the page sends
    assert second._widget.chosen == second.chosen == "b"
    third = predict("Once more?", ["a", "b"])
    assert third._widget.chosen == third.chosen == "b"
    third.reveal("b")
    assert capsys.readouterr().out.endswith("You said: b. That is right.\n")
    assert predict("Once more?", ["a", "b", "c"]).chosen is None


def test_a_grid_that_is_asked_again_knows_the_clicks():
    grid = predict_grid(ROWS, COLUMNS, CHOICES, question="Once more?")
    grid._widget._handle_custom_msg({"chosen": [["runs", ""], ["", ""]]}, [])
    again = predict_grid(ROWS, COLUMNS, CHOICES, question="Once more?")
    assert again.chosen == {("static", "batch of 1"): "runs"}
    assert again._widget.chosen == [["runs", ""], ["", ""]]
    assert predict_grid(ROWS, COLUMNS, CHOICES, question="Another?").chosen == {}


def test_a_reveal_waits_for_a_click_behind_one_that_is_still_being_written(monkeypatch, capsys):
    """JupyterLab's clicks are handled in a thread beside the cell's, and a slow disk holds that thread up."""
    guess = predict("Slow disk?", ["a", "b"])
    monkeypatch.setattr(prediction, "get_ipython", lambda: SimpleNamespace(kernel=SUBSHELLS))
    page = Thread(target=lambda: [click(guess, chosen) for chosen in "ab"])
    monkeypatch.setattr(answers, "keep", lambda *_entry: time.sleep(1.5 if current_thread() is page else 0))
    page.start()
    guess.reveal("b")
    page.join()
    assert capsys.readouterr().out.endswith("You said: b. That is right.\n")


def test_a_saved_question_does_not_look_like_buttons():
    rules = predict("What?", ["a", "b"]).saved()
    assert not [rule for rule in rules.splitlines() if " li {" in rule and "border" in rule]


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """A learner's own file, a page that shows the notebook, and a chapter with two questions.

    Returns a function that ends the visit: the kernel forgets its questions.
    """
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))
    monkeypatch.setenv("JPY_SESSION_NAME", "04.ipynb")
    grid = "Predict: Who?\n         batch of 1  batch of 2\nstatic   ?           ?\ndynamic  ?           ?"
    texts = ["Predict: How often?\n  - 1\n  - 3", grid]
    monkeypatch.setattr(answers, "_questions", lambda: {"04_chapter": list(map(answers.key, texts))})
    monkeypatch.setattr(prediction, "_RECORDS", prediction.defaultdict(prediction._Record))
    return prediction._RECORDS.clear


def click(question, chosen):
    question._widget._handle_custom_msg({"chosen": chosen}, [])  # what the page sends


def test_a_folder_that_an_instructor_reads_gets_no_predictions(monkeypatch, tmp_path):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "ada.json"))
    assert tmp_path not in answers.answers_file().parents


def test_a_choice_is_there_at_a_later_visit(visits, capsys):
    click(predict("How often?", [1, 3]), "3")
    click(predict_grid(ROWS, COLUMNS, CHOICES, question="Who?"), [["runs", ""], ["", "fails"]])
    visits()
    guess = predict("How often?", [1, 3])
    assert guess._widget.chosen == guess.chosen == "3"
    grid = predict_grid(ROWS, COLUMNS, CHOICES, question="Who?")
    assert grid._widget.chosen == [["runs", ""], ["", "fails"]]
    assert predict("How often?", [1, 2]).chosen is None, "another question"
    guess.reveal(3)
    assert capsys.readouterr().out.endswith("You said: 3. That is right.\n")


def test_outside_of_a_page_nothing_is_remembered(visits, monkeypatch, capsys):
    guess = predict("How often?", [1, 3])
    click(guess, "3")
    visits()
    monkeypatch.delenv("JPY_SESSION_NAME")
    guess = predict("How often?", [1, 3])
    guess.reveal(3)
    assert capsys.readouterr().out.endswith("\nAnswer: 3\n")


def test_right_and_wrong_are_counted_by_chapter_and_shown_in_its_questions(visits):
    guess, grid = predict("How often?", [1, 3]), predict_grid(ROWS, COLUMNS, CHOICES, question="Who?")
    assert "0 of 2 right, 0 wrong, 2 open" in guess._widget.score
    assert predict("Of no chapter?", [1, 3])._widget.score == ""
    assert predictions_table() is None
    click(guess, "1")
    click(grid, [["runs", "fails"], ["runs", "runs"]])
    assert "0 of 2 right, 0 wrong" in guess._widget.score, "nothing is out yet"
    guess.reveal(3)
    grid.reveal(ANSWERS)
    for question in (guess, grid):
        assert question._widget.score == "Predictions in this chapter: 1 of 2 right, 1 wrong, 0 open."
    assert "04_chapter  1/2                1      0" in repr(predictions_table())


def test_a_grid_is_right_only_as_a_whole(visits):
    grid = predict_grid(ROWS, COLUMNS, CHOICES, question="Who?")
    click(grid, [["runs", ""], ["", ""]])
    grid.reveal(ANSWERS)
    assert "0 of 2 right, 1 wrong" in grid._widget.score


def test_a_wrong_one_is_asked_again_in_its_place_and_counted_anew(visits):
    guess = predict("How often?", [1, 3])
    click(guess, "1")
    guess.reveal(3)
    assert "1 wrong" in guess._widget.score
    click(guess, "")  # the button
    assert "1 wrong" in guess._widget.score
    click(guess, "3")
    assert "1 of 2 right, 0 wrong" in guess._widget.score


def test_all_wrong_ones_are_asked_again(visits, capsys):
    guess, grid = predict("How often?", [1, 3]), predict_grid(ROWS, COLUMNS, CHOICES, question="Who?")
    click(guess, "1")
    click(grid, [["fails", "fails"], ["runs", "runs"]])
    guess.reveal(3)
    grid.reveal(ANSWERS)
    visits()
    capsys.readouterr()
    ask_again()
    assert capsys.readouterr().out.count("Predict: ") == 2
    again = [record.widget for record in prediction._RECORDS.values()]
    assert [widget.again for widget in again] == [True, True]
    assert [widget.chosen for widget in again] == ["", [["", ""], ["", ""]]]
    again[0]._handle_custom_msg({"chosen": "3"}, [])
    again[1]._handle_custom_msg({"chosen": [["runs", "fails"], ["runs", "runs"]]}, [])
    assert again[0].score.startswith("Predictions in this chapter: 2 of 2 right")
    ask_again()
    assert capsys.readouterr().out == "No prediction is wrong.\n"


def test_the_answers_are_the_same_in_both_languages(visits):
    click(predict("How often?", [1, 3]), "3")
    visits()
    speak("zh")
    try:
        assert predict("How often?", [1, 3]).chosen == "3"
    finally:
        speak("en")


@pytest.mark.parametrize("content", ["{", '{"x": 1}', "[]"])
def test_a_damaged_file_of_answers_ends_nothing(visits, content):
    answers.answers_file().write_text(content)
    guess = predict("How often?", [1, 3])
    click(guess, "3")
    guess.reveal(3)
    assert "1 of 2 right" in guess._widget.score


def test_where_the_file_cannot_be_written_a_prediction_works_as_before(visits, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "file" / "progress.json"))
    guess = predict("How often?", [1, 3])
    click(guess, "3")
    guess.reveal(3)
    assert guess.chosen == "3"


def test_the_list_of_predictions_is_that_of_the_chapters():
    root = Path(__file__).parents[2]
    listed = json.loads((root / LIST).read_text("utf-8"))
    assert listed == predictions(root), "run: python -m tools.author sync"
    keys = [key for questions in listed.values() for key in questions]
    assert len(keys) == len(set(keys)), "one question is asked twice"
