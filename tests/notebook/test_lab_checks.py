"""What a learner sees of a check, in a notebook and in a terminal."""

import html
import re
from functools import cache

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from onnxlab.errors import NotPassed, UnknownExercise
from onnxlab.kit import checking
from onnxlab.kit.exercise import exercise
from onnxlab.kit.outcome import Outcome, Status
from onnxlab.language import speaking, speech
from onnxlab.notebook.labs import checks as lab_checks
from onnxlab.notebook.labs.checks import case, check, hint, report_html, report_text, require
from onnxlab.notebook.labs.progress import progress, progress_table
from onnxlab.runtime.session import open_session

LAB, ASINH = exercise("asinh-symbolic")


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("ONNXLAB_STATE", str(tmp_path / "progress.json"))


def right(g, x):
    return g.op("Asinh", x)


def wrong(g, x):
    return g.op("Atan", x)


def raising(g, x):
    return g.oops("<script>alert(1)</script>")


def untouched(g, x):
    raise NotImplementedError


@cache
def outcome_of(answer):
    return checking.check(ASINH, {"asinh_symbolic": answer})


@pytest.mark.parametrize("answer", [right, wrong, raising, untouched])
def test_html_says_what_the_text_says(answer):
    outcome = outcome_of(answer)
    plain = html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", report_html(ASINH, outcome), flags=re.S))
    words = set(re.findall(r"[\w.]+", plain))
    text = report_text(ASINH, outcome)
    assert set(re.findall(r"[\w.]+", text)) <= words


def test_a_counterexample_has_labels_in_chinese_too():
    outcome, chinese = outcome_of(wrong), speech("zh")
    english = report_text(ASINH, outcome)
    with speaking(chinese):
        text, markup = report_text(ASINH, outcome), report_html(ASINH, outcome)
    for label in ("for:", "right is:", "yours gives:"):
        assert f"\n  {label} " in english
        assert label not in text + markup
        assert f"\n  {chinese(label)} " in text
        assert f"<dt>{chinese(label)}</dt>" in markup


def test_the_last_lines_that_an_answer_printed_are_shown():
    def chatty(g, x):
        for number in range(30):
            print(f"line <{number}>")
        return g.op("Atan", x)

    outcome = outcome_of(chatty)
    text, markup = report_text(ASINH, outcome), report_html(ASINH, outcome)
    heading = "characters while it was checked. The last lines:"
    assert f"{heading}\n  line <20>\n" in text
    assert "<pre>line &lt;20&gt;\nline &lt;21&gt;" in markup
    assert "line <19>" not in text
    assert "Your code printed" not in report_text(ASINH, outcome_of(right))


def test_html_escapes_what_comes_from_the_answer():
    markup = report_html(ASINH, outcome_of(raising))
    assert "<script>" not in markup
    assert "&lt;script&gt;" in markup


@pytest.fixture
def shown(monkeypatch):
    views = []
    monkeypatch.setattr(lab_checks, "display", views.append)
    return views


def test_failed_check_shows_the_learners_own_graph_alone(shown, capsys):
    check("asinh-symbolic", wrong)
    assert len(shown) == 1
    assert re.fullmatch(r"Graph\(yours, \d+ nodes?\)", repr(shown[0]))
    assert 'check("asinh-symbolic", asinh_symbolic, show="right model")' in capsys.readouterr().out


def test_a_right_model_is_shown_on_request_and_counts_as_the_last_hint(shown, capsys):
    check("asinh-symbolic", wrong, show="right model")
    assert len(shown) == 1
    assert re.fullmatch(r"Graph\(yours, \d+ nodes? \| right, \d+ nodes?\)", repr(shown[0]))
    hint("asinh-symbolic")
    assert "Hint 3 of 3" in capsys.readouterr().out


NAMED = re.escape('check("asinh-symbolic", asinh_symbolic)')


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: check("asinh"), "Did you mean 'asinh-symbolic'"),
        (lambda: hint("asinh"), "Did you mean 'asinh-symbolic'"),
        (lambda: check("asinh-symbolic"), f"none given.*Call {NAMED}"),
        (lambda: check("asinh-symbolic", right, right), f"2 given.*Call {NAMED}"),
        (lambda: check(right, "asinh-symbolic"), f"a function was passed.*{NAMED}"),
        (lambda: check("asinh-symbolic", wrong, show="solution"), 'write show="right model"'),
    ],
    ids=["unknown", "no such hint", "no answer", "two answers", "exchanged", "nothing to show"],
)
def test_a_wrong_call_is_a_message_without_a_traceback(call, says, shown, capsys):
    call()
    assert re.search(says, capsys.readouterr().out, re.DOTALL)
    assert shown == []


def test_the_failing_case_can_be_run_again(capsys):
    with pytest.raises(UnknownExercise, match="Run check"):
        case("asinh-translation")
    check("asinh-symbolic", wrong)
    assert 'from onnxlab import case; case("asinh-symbolic")' in capsys.readouterr().out
    failing = case("asinh-symbolic")
    session, [x] = open_session(failing["model"]), failing["inputs"]
    first, *_ = session.run(None, {session.get_inputs()[0].name: x})
    assert abs(first - np.arcsinh(x)).max() > 1e-5
    assert "inputs: (float32" in repr(failing)
    check("asinh-symbolic", right)
    with pytest.raises(UnknownExercise):
        case("asinh-symbolic")
    with pytest.raises(UnknownExercise, match="Did you mean"):
        case("asinh")


def test_progress_follows_checks_and_hints(capsys):
    check("asinh-symbolic", wrong)
    hint("asinh-symbolic")
    row = next(row for row in progress_table()[0].rows if row[1] == "asinh-symbolic")
    assert row[2:] == ("tried", "incorrect", "0 of 2", "1 of 3")
    check("asinh-symbolic", right)
    capsys.readouterr()
    progress()
    assert re.search(r"asinh-symbolic +passed +2 of 2 +1 of 3", capsys.readouterr().out)


def test_progress_says_who_sees_it_in_a_class_only(capsys, monkeypatch):
    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
    progress()
    assert "instructor" not in capsys.readouterr().out
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    progress()
    assert "shows how you stand" in capsys.readouterr().out
    progress(private=True)
    progress()
    assert capsys.readouterr().out.count("leaves you out") == 2
    monkeypatch.delenv("JUPYTERHUB_USER")
    progress(private=False)
    assert "shows how you stand" in capsys.readouterr().out


def test_hidden_test_raises_unless_passed():
    require("asinh-symbolic", right)
    for answer in (wrong, raising, untouched):
        with pytest.raises(NotPassed, match="0 of 2 points"):
            require("asinh-symbolic", answer)
    with pytest.raises(UnknownExercise):
        require("asinh-symbolic")


def test_hidden_test_draws_a_new_seed_each_time(monkeypatch):
    seeds = []
    real = checking.check
    monkeypatch.setattr(checking, "check", lambda *a: seeds.append(a[2]) or real(*a))
    require("asinh-symbolic", right)
    require("asinh-symbolic", right)
    monkeypatch.setenv("ONNXLAB_SEED", "17")
    require("asinh-symbolic", right)
    assert len(set(seeds)) == 3
    assert seeds[2] == 17


def test_a_check_leaves_torch_as_it_was():
    before = torch.get_rng_state()
    check("asinh-symbolic", wrong)
    assert torch.equal(torch.get_rng_state(), before)


def test_case_and_hint_without_a_name_are_about_the_exercise_checked_last(capsys, monkeypatch):
    monkeypatch.setattr(lab_checks, "_last_checked", "")
    hint()
    assert 'Name one, as hint("asinh-symbolic").' in capsys.readouterr().out
    with pytest.raises(UnknownExercise, match="none was checked yet"):
        case()
    check("asinh-symbolic", wrong)
    assert case() is case("asinh-symbolic")
    capsys.readouterr()
    hint()
    assert "Hint 1 of 3" in capsys.readouterr().out


def test_a_case_that_is_not_there_is_a_message_without_a_traceback(capsys):
    shell = InteractiveShell.instance()
    shell.run_cell('from onnxlab import case\ncase("asinh")')
    printed = capsys.readouterr().out
    assert "Did you mean 'asinh-symbolic'" in printed
    assert "Traceback" not in printed
    assert "exercise.py" not in printed


def test_unrelated_exercises_are_not_suggested(capsys):
    hint("quantum-gate")
    assert "Did you mean" not in capsys.readouterr().out


def test_the_last_line_of_a_passed_check_is_there_in_chinese():
    with speaking(speech("zh")):
        last = report_text(ASINH, Outcome(ASINH.id, Status.PASSED, 2, 2)).splitlines()[-1]
    assert not re.search("Compare|Checked", last)
    assert "torch 2." in last
