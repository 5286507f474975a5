"""The fuzzer itself: one seed gives one damage, a fault that is there is seen, a few trials find none."""

import io
import shutil
import sys
from random import Random

import numpy as np
import pytest

from onnxlab.labs.kit import work
from onnxlab.model import graph, load
from tests.support.graph_models import loop

if sys.platform != "linux":
    pytest.skip("each trial is a fork", allow_module_level=True)

from tools.fuzz.__main__ import main
from tools.fuzz.answers import fuzz_answers
from tools.fuzz.commands import fuzz_commands
from tools.fuzz.models import fuzz_models
from tools.fuzz.mutation import mutated
from tools.fuzz.notebooks import fuzz_notebooks

pytestmark = pytest.mark.slow


def test_one_seed_gives_the_same_damage_and_another_gives_another():
    data = loop().SerializeToString()
    models = [mutated(data, Random(f"1 {number}")) for number in range(200)]
    assert models == [mutated(data, Random(f"1 {number}")) for number in range(200)]
    assert len(set(models)) > 150


def test_twenty_damaged_models_are_drawn_or_refused(capsys):
    assert main(["models", "--trials", "20", "--every", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[2:9]] == ["0"] * 7
    assert sum(int(number) for number in lines[2].split()[-4:]) == 20


def test_the_commands_answer_or_refuse_damaged_models_and_messages(capsys):
    assert main(["commands", "--trials", "4"]) == 0
    rows = capsys.readouterr().out.splitlines()[2:8]
    assert [row.split()[-1] for row in rows] == ["0"] * 6


def test_a_command_that_stumbles_is_found(monkeypatch):
    monkeypatch.setattr(load, "load_external_data_for_model", lambda model, folder: 1 / 0)
    table = fuzz_commands(2, 1)
    assert any("ZeroDivisionError" in reason for _, reason in table.faults), str(table)


def test_a_fault_that_is_there_is_found(monkeypatch):
    monkeypatch.setattr(graph, "_dtype", lambda kind: {1: "float32"}[kind])
    table = fuzz_models(12, 1, every=0)
    assert any("KeyError" in reason for _, reason in table.faults)


def test_a_judge_that_stumbles_is_found(monkeypatch):
    monkeypatch.setattr(work, "_parse_array", lambda data: np.load(io.BytesIO(data)).shape)
    table = fuzz_answers(40, 1, every=9)
    assert any("tuple" in reason for _, reason in table.faults), str(table)


def test_damaged_notebooks_have_a_mark_or_a_reason():
    table = fuzz_notebooks(5, 1)
    assert not table.faults, str(table)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace records what is written")
def test_a_store_survives_power_cuts(capsys):
    assert main(["power", "--times", "20"]) == 0, capsys.readouterr().out
