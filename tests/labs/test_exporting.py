"""Whose line raised: the learner's, wherever the packages lie."""

import functools
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

from onnxlab.labs.kit.exporting import learners_code, own_line, raised_by_stub

ROOT = Path(__file__).parents[2]

CHECKS = """
import torch
from onnxlab.labs.kit.checking import check
from onnxlab.labs.kit.exercise import exercise

def nothing(g, x):
    pass

def library_refuses(g, x):
    torch.utils.data.Dataset()[0]  # raises NotImplementedError

def own(g, x):
    return g.oops()

for answer in (nothing, library_refuses, own):
    outcome = check(exercise("asinh-symbolic")[1], {"asinh_symbolic": answer})
    print(outcome.status, outcome.where, sep="|")
"""


@pytest.mark.slow
def test_packages_outside_the_environment_are_never_the_learners(tmp_path):
    """As with `pip install --user`: they lie neither under sys.prefix nor where sysconfig says."""
    site = tmp_path / "user" / "site-packages"
    site.parent.mkdir()
    site.symlink_to(sysconfig.get_path("purelib"), target_is_directory=True)
    script = tmp_path / "checks.py"
    script.write_text(CHECKS)
    paths = os.pathsep.join([str(ROOT / "src"), str(site)])
    done = subprocess.run(
        [sys._base_executable, script],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=True,
    )
    nothing, library, own = done.stdout.splitlines()
    assert nothing.startswith("incorrect|")
    assert library.startswith("error|line 10")
    assert own.startswith("error|line 13")


def raising(error: type[BaseException], *wrapped: object):
    """Return what a call raises, as it is caught in a check."""
    try:
        wrapped[0]()
    except error as caught:
        return caught
    pytest.fail("nothing was raised")


class Callable:
    def __call__(self):
        return self.missing


def plain():
    return None.missing


@functools.wraps(plain)
def wrapped(*arguments):
    return plain(*arguments)


@pytest.mark.parametrize(
    "answer",
    [plain, wrapped, Callable(), functools.partial(plain)],
    ids=["plain", "wrapped", "callable", "partial"],
)
def test_answers_of_every_kind(answer):
    error = raising(AttributeError, answer)
    with learners_code([answer]):
        assert ".missing" in own_line(error)


def test_code_that_is_nobodys_answer_is_not_blamed():
    error = raising(AttributeError, plain)
    assert own_line(error) == ""
    with learners_code([torch.nn.functional.gelu]):
        assert own_line(error) == ""


def test_a_librarys_function_as_an_answer_is_not_the_learners_code():
    def refuse():
        torch.utils.data.Dataset()[0]

    with learners_code([torch.utils.data.Dataset]):
        assert not raised_by_stub(raising(NotImplementedError, refuse))
