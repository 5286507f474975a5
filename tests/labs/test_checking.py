"""What a learner's code can do to a check, and what the check then says."""

import contextlib
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from onnxlab.errors import UnknownExercise
from onnxlab.exporters.symbolics import rule_opsets
from onnxlab.kit.checking import check, judge, load_judges, questions_seed
from onnxlab.kit.exercise import Judges, exercise, lab, labs
from onnxlab.kit.exporting import require_type
from onnxlab.kit.outcome import Outcome, Status, Wrong
from onnxlab.kit.producing import load_produce
from onnxlab.kit.work import Work

_, ASINH = exercise("asinh-symbolic")
QUICK = replace(ASINH, time_limit=0.5)


def rated(answer, record=ASINH) -> Outcome:
    return check(record, {"asinh_symbolic": answer})


def right(g, x):
    return g.op("Asinh", x)


def test_error_names_the_learners_line_not_ours():
    def answer(g, x):
        y = x
        return y.no_such_attribute

    outcome = rated(answer)
    assert outcome.status is Status.ERROR
    assert outcome.where.endswith("return y.no_such_attribute")
    assert "no_such_attribute" in outcome.message
    assert "Traceback" not in outcome.message


def test_error_inside_a_library_is_blamed_on_the_line_that_called_it():
    def answer(g, x):
        return torch.ones(2) @ torch.ones(3)

    assert "torch.ones(2) @ torch.ones(3)" in rated(answer).where


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), RecursionError("deep"), MemoryError()])
def test_nothing_that_is_raised_comes_out(error):
    def answer(g, x):
        raise error

    assert rated(answer).status is Status.ERROR


def test_an_error_whose_text_cannot_be_had():
    class Spiteful(Exception):
        def __str__(self) -> str:
            raise ValueError

    def answer(g, x):
        raise Spiteful

    assert rated(answer).message.startswith("Spiteful. ")


def test_an_interrupt_is_the_learners_own():
    def answer(g, x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rated(answer)


def sleeping(g, x):
    time.sleep(60)


def looping(*caught):
    def answer(g, x):
        while True:
            with contextlib.suppress(*caught):
                time.sleep(0.01)

    return answer


@pytest.mark.parametrize(
    "answer", [looping(), looping(Exception), sleeping], ids=["loops", "catches every Exception", "sleeps"]
)
def test_endless_answer_is_left(answer):
    started = time.monotonic()
    outcome = rated(answer, QUICK)
    assert outcome.status is Status.TIMED_OUT
    assert time.monotonic() - started < 50
    assert "0.5 seconds" in outcome.message
    assert rated(right).passed  # the process is as usable as before


def test_what_is_printed_is_counted_and_its_end_is_kept(capsys):
    def answer():
        for _ in range(1000):
            print("x" * 99)
        sys.stderr.write("!")
        warnings.warn("a warning is not printed", stacklevel=1)

    plain = replace(
        ASINH, produce=lambda answers, work, random: answers["asinh_symbolic"](), parts=(), judges=Judges(())
    )
    outcome = rated(answer, plain)
    assert outcome.passed
    assert outcome.printed == 100_001
    assert len(outcome.tail) == 2000
    assert outcome.tail.endswith("x\n!")
    assert capsys.readouterr() == ("", "")


def test_rules_random_numbers_and_modes_are_as_before():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)

    def answer(g, x):
        torch.onnx.register_custom_op_symbolic("aten::relu", lambda g, x: g.op("Neg", x), 9)
        torch.onnx.register_custom_op_symbolic("aten::cosh", lambda g, x: g.op("Cosh", x), 9)
        torch.manual_seed(99)
        np.random.seed(99)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        return g.op("Asinh", x)

    before = rule_opsets("aten::relu"), rule_opsets("aten::cosh")
    numbers = np.random.get_state()[1].copy()
    rated(answer)
    assert (rule_opsets("aten::relu"), rule_opsets("aten::cosh")) == before
    assert torch.equal(torch.rand(1), expected)
    assert (np.random.get_state()[1] == numbers).all()
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled()


def test_outcome_repeats_with_the_seed_and_differs_without():
    def answer(g, x):
        return g.op("Atan", x)

    first, again = (check(ASINH, {"asinh_symbolic": answer}, 5) for _ in range(2))
    other = check(ASINH, {"asinh_symbolic": answer}, 6)
    assert first.first_failure.difference == again.first_failure.difference
    assert first.first_failure.difference != other.first_failure.difference


def test_judging_needs_no_code_of_the_learner(tmp_path):
    work = Work(tmp_path, questions_seed(ASINH, 3))
    load_produce(ASINH)({"asinh_symbolic": right}, work, work.questions())
    assert all(finding.holds for finding in judge(ASINH, Work(tmp_path, questions_seed(ASINH, 3)), 3))


def test_nothing_made_gives_nothing(tmp_path):
    for lab_record in labs():
        for record in lab_record.exercises:
            findings = judge(record, Work(tmp_path, questions_seed(record, 0)), 0)
            assert not all(finding.holds for finding in findings), record.id
            assert all(finding.message for finding in findings if not finding.holds), record.id


@pytest.mark.slow
@pytest.mark.parametrize(
    "junk",
    [
        b"junk",
        b"null",
        *(
            pytest.param(junk, marks=pytest.mark.release)
            for junk in (b"", b"\x08\x07", b'{"a": 1}', b"[1, 2, null]", b'"text"')
        ),
    ],
)
def test_junk_in_the_folder_is_refused(tmp_path, junk):
    """Whatever a submission writes in place of the files, a judge says so and does not raise."""
    for lab_record in labs():
        for record in lab_record.exercises:
            folder = tmp_path / record.id
            folder.mkdir()
            work = Work(folder, questions_seed(record, 0))
            for name in {*_names_read(record), "anything"}:
                (folder / name).write_bytes(junk)
            findings = judge(record, work, 0)
            assert not all(finding.holds for finding in findings), record.id


def _names_read(record) -> set[str]:
    """The names of the files that an exercise's judges ask for."""
    files: set[str] = set()

    class Listening(Work):
        def _read(self, name: str, kind: str) -> bytes:
            files.add(f"{name}.{kind}")
            raise Wrong("missing")

    for judge_part in load_judges(record).parts:
        try:
            judge_part(Listening(Path(), 0), np.random.default_rng(0))
        except Wrong:
            continue
    return files


def test_missing_answer_and_unknown_names():
    with pytest.raises(UnknownExercise, match="asinh_symbolic was not given"):
        check(ASINH, {})
    with pytest.raises(UnknownExercise, match="Did you mean 'asinh-symbolic'"):
        exercise("asinh_symbolc")
    with pytest.raises(UnknownExercise, match="There is no lab 'lab77'"):
        lab("lab77")


@pytest.mark.parametrize("answer", [None, 3, torch.nn.ReLU()])
def test_what_is_no_function_is_refused(answer):
    outcome = rated(answer)
    assert outcome.status in (Status.INCORRECT, Status.ERROR)
    assert outcome.first_failure or outcome.message


def test_require_type_names_what_came():
    with pytest.raises(Wrong, match=r"answer\(\) returned int \(3\); a Module or Tensor was expected"):
        require_type(3, (torch.nn.Module, torch.Tensor), "answer()")


def test_outcome_as_json_is_plain():
    data = rated(lambda g, x: g.op("Atan", x)).as_json()
    assert data["status"] == "incorrect"
    assert data["findings"][1]["difference"].keys() == {"given", "expected", "got"}
    assert "evidence" not in str(data)
