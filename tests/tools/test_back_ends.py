"""What judges the programs, and that the record still says what the installed ones do."""

import sys

import numpy as np
import pytest

from onnxlab import history
from tools.back_ends.__main__ import HERE, measure
from tools.back_ends.models import Files, by_hand, pooling
from tools.back_ends.runners import RUNNERS, judge, plain

RECORD = history.back_ends()


def test_numbers_within_the_tolerance_are_right():
    assert judge([[np.array([1.0, 2.0005])]], [[np.array([1.0, 2.0])]]) == {"verdict": "right", "says": ""}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.array([1.0, 2.1]), "1 2.1, expected 1 2"),
        (np.array([1.0, np.nan]), "1 nan, expected 1 2"),
        (np.array([[1.0, 2.0]]), "shape (1, 2), (2,) expected"),
    ],
)
def test_other_numbers_and_shapes_are_wrong_and_said(value, says):
    assert judge([[value]], [[np.array([1.0, 2.0])]]) == {"verdict": "wrong", "says": says}


def test_a_missing_output_is_wrong():
    assert judge([[]], [[np.zeros(1)]])["verdict"] == "wrong"


def test_a_message_says_nothing_of_the_machine():
    assert plain("\x1b[31mbad\x1b[0m  file /somewhere/else/a.cpp:12") == "bad file a.cpp:12"


def test_the_record_has_every_program():
    assert list(RECORD["versions"]) == ["torch", *RUNNERS]
    for name, model in RECORD["models"].items():
        assert list(model["results"]) == list(RUNNERS), name
        for result in model["results"].values():
            assert result["verdict"] in {"right", "wrong", "refused"}
            assert bool(result["says"]) == (result["verdict"] != "right")


@pytest.mark.slow
def test_the_installed_programs_still_do_what_is_recorded(tmp_path):
    files = Files(tmp_path)
    for write in (pooling, by_hand):
        write(files)
    assert files.titles.items() <= {name: model["shows"] for name, model in RECORD["models"].items()}.items()
    for name in ("function", "function_inlined", "indices_raw", "indices_D"):
        for program in HERE:
            verdict = measure(program, sys.executable, tmp_path, name)["verdict"]
            assert verdict == RECORD["models"][name]["results"][program]["verdict"], (program, name)
