"""Exports with a learner's code, and which line of it raised an error."""

import functools
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch
from onnxscript import opset20

from onnxlab.exporters.export import Exporter
from onnxlab.kit.checking import check
from onnxlab.kit.declared import RequestedExport, numbers, right_model, valid
from onnxlab.kit.exercise import Exercise, Judges
from onnxlab.kit.exporting import exported_or_stopped, learners_code, own_line, raised_by_stub
from onnxlab.kit.judging import require_exported
from onnxlab.kit.outcome import Wrong
from onnxlab.kit.samples import normal
from onnxlab.kit.work import Work
from onnxlab.message import Message

ROOT = Path(__file__).parents[2]

CHECKS = """
import torch
from onnxlab.kit.checking import check
from onnxlab.kit.exercise import exercise

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


class Sum(torch.nn.Module):
    def forward(self, x, y):
        return torch.asinh(x) + y


@pytest.mark.parametrize("function", [lambda x, y: torch.asinh(x) + y, Sum()], ids=["function", "module"])
def test_a_declared_translation_takes_part_in_an_export(function):
    export = RequestedExport(
        function,
        {"x": {0: "rows"}, "y": {0: "rows"}},
        lambda random: (normal(random, 2, 3), normal(random, 2, 3)),
        translation=torch.ops.aten.asinh.default,
    )
    sums = numbers(export, lambda random: (normal(random, 5, 3), normal(random, 5, 3)), look_at="Add.")
    expected = right_model(
        export,
        """<ir_version: 10, opset_import: ["" : 20]>
        plus (float[n, 3] x, float[n, 3] y) => (float[n, 3] z) { a = Asinh (x) z = Add (a, y) }""",
    )
    record = Exercise(
        id="asinh-plus",
        title="Translate asinh",
        minutes=5,
        answers=("asinh_plus",),
        parts=("a valid model", "right"),
        hints=("Which operator?", "Asinh", "`return op.Asinh(x)`"),
        torch_export=True,
        produce=export.produce,
        judges=Judges((valid(export), sums), expected),
    )
    assert check(record, {"asinh_plus": lambda x: opset20.Asinh(x)}).passed
    assert check(record, {"asinh_plus": lambda x: opset20.Sinh(x)}).first_failure.title == "right"


def test_a_failed_exports_reason_reaches_the_judge_as_a_message(tmp_path):
    class Spectrum(torch.nn.Module):
        def forward(self, x):
            return torch.fft.fft(x).real

    work = Work(tmp_path, [0])
    exported_or_stopped(work, "spectrum", Spectrum(), torch.ones(4), Exporter.TORCHSCRIPT)
    with pytest.raises(Wrong) as refused:
        require_exported(work, "spectrum")
    assert isinstance(refused.value.message, Message)
    assert "{exporter}" in refused.value.message.template
