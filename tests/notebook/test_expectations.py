import logging
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
import torch

from onnxlab.errors import ClaimBroken
from onnxlab.notebook.expectations import expect_error, expect_warning, plain_lines, quiet_exporters

LOGGER = "torch.onnx._internal.exporter._registration"


def test_the_required_error_is_printed_and_swallowed(capsys):
    with expect_error(RuntimeError, "shapes", lines=1):
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert capsys.readouterr().out == (
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)\n"
    )


def test_a_second_line_is_indented(capsys):
    with expect_error(ValueError, "second"):
        raise ValueError("first\n\n   second\nthird")
    assert capsys.readouterr().out == "ValueError: first\n  second\n"


@pytest.mark.parametrize(
    ("outer", "shown"),
    [
        ("Failed to export.\nNext steps: ...", "Failed to export."),
        ("Failed to export.\n'weight'", "Failed to export."),  # the outer error quotes its cause
        (
            "This is step 1/3. Next steps:\n- Try again",
            "This is step 1/3.",
        ),  # announces steps that are not shown
    ],
)
def test_a_cause_counts_and_both_are_shown(capsys, outer, shown):
    with expect_error(KeyError, "weight", lines=1):
        try:
            {}["weight"]
        except KeyError as cause:
            raise RuntimeError(outer) from cause
    assert capsys.readouterr().out == f"RuntimeError: {shown}\n  caused by KeyError: 'weight'\n"


@pytest.mark.parametrize(
    ("lines", "printed"),
    [
        (1, "ValueError: maximum: 13\n"),
        (2, "ValueError: where\n  maximum: 13\n"),
        (3, "ValueError: what\n  where\n"),
    ],
)
def test_the_line_with_the_required_text_is_printed(capsys, lines, printed):
    with expect_error(ValueError, "maximum", lines=lines):
        raise ValueError("what\nwhere\nmaximum: 13\nadvice")
    assert capsys.readouterr().out.startswith(printed)


@pytest.mark.parametrize("after", ["", ", see " + "y" * 500])
def test_a_long_line_is_shortened_around_the_required_text(capsys, after):
    with expect_error(ValueError, "IR version: 14", lines=1):
        raise ValueError("x" * 500 + " Unsupported model IR version: 14, maximum: 13" + after)
    printed = capsys.readouterr().out
    assert printed.startswith("ValueError: ...xxx")
    assert "Unsupported model IR version: 14, maximum: 13" in printed
    assert len(printed) <= len("ValueError: ") + 160 + 1


def test_the_line_of_a_warning_with_the_required_text_is_printed(capsys):
    with expect_warning(UserWarning, "axis 2"):
        warnings.warn("in forward\naxis 2 is ignored", UserWarning, stacklevel=1)
    assert capsys.readouterr().out == "UserWarning: axis 2 is ignored\n"


def test_what_a_failing_block_dumps_to_stderr_is_hidden_and_only_there(capsys, caplog):
    with expect_error(ValueError, "bad"):
        print("def forward(...): half a graph", file=sys.stderr)
        logging.getLogger("anything").error("a log line")
        raise ValueError("bad")
    assert capsys.readouterr().err == ""
    assert not caplog.records
    logging.getLogger("anything").error("afterwards")
    assert "afterwards" in caplog.text


def test_what_c_code_writes_is_hidden_and_only_there(capfd, tmp_path):
    model = torch.nn.Conv2d(3, 3, 3)
    options = {"dynamo": False, "input_names": ["in"], "dynamic_axes": {"in": {4: "depth"}}}
    with expect_error(RuntimeError, "no more than the shape dimension"):
        torch.onnx.export(model, (torch.ones(1, 3, 8, 8),), tmp_path / "m.onnx", **options)
    os.write(1, b"afterwards")
    captured = capfd.readouterr()
    assert captured.out.startswith("RuntimeError: Dynamic shape axis")
    assert captured.out.endswith("for depth\nafterwards")
    assert captured.err == ""


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (TypeError("no shapes"), "TypeError was raised"),
        (ValueError("other words"), "does not contain 'shapes'"),
    ],
)
def test_anything_else_breaks_the_claim(raised, message):
    with pytest.raises(ClaimBroken, match=message), expect_error(ValueError, "shapes"):
        raise raised


def test_a_block_that_does_not_fail_breaks_the_claim():
    with pytest.raises(ClaimBroken, match="ran without an error"), expect_error(ValueError, "shapes"):
        torch.ones(2)


def test_stopping_the_cell_is_never_an_answer():
    with pytest.raises(KeyboardInterrupt), expect_error(BaseException, ""):
        raise KeyboardInterrupt


def test_the_required_warning_is_printed_and_others_are_counted(capsys):
    with expect_warning(UserWarning, "axis 2"):
        for _ in range(2):
            warnings.warn("axis 2 is ignored\nsecond line", UserWarning, stacklevel=1)
        warnings.warn("something else", RuntimeWarning, stacklevel=1)
    assert capsys.readouterr().out == (
        "UserWarning (2 times): axis 2 is ignored\n(1 more warning not shown)\n"
    )


def test_a_missing_warning_breaks_the_claim():
    with pytest.raises(ClaimBroken, match="instead: RuntimeWarning"), expect_warning(UserWarning, "axis"):
        warnings.warn("axis", RuntimeWarning, stacklevel=1)


def test_an_error_in_the_block_is_not_hidden_by_the_missing_warning():
    with pytest.raises(ZeroDivisionError), expect_warning(UserWarning, "axis"):
        1 / 0  # noqa: B018


def test_the_exporters_own_noise_is_not_counted(capsys, tmp_path):
    with expect_warning(torch.jit.TracerWarning, "Python integer"):
        torch.onnx.export(_Int(), (torch.ones(2, 3),), tmp_path / "m.onnx", dynamo=False)
    assert (
        capsys.readouterr()
        .out.splitlines()[0]
        .startswith("TracerWarning: Converting a tensor to a Python integer")
    )


def test_what_differs_between_machines_is_removed():
    folder = Path(tempfile.gettempdir()) / "tmpabc123" / "deep"
    text = (
        f"\x1b[96mstep\x1b[0m <Graph object at 0x7f12ab34> in {folder / 'm.onnx'}, node /conv/Conv, "
        f"{torch.__file__}:3, {Path.home() / 'x' / 'y.py'}, /onnxruntime_src/core/tensor.cc:46 "
    )
    assert plain_lines(text, 1) == [
        "step <Graph object> in .../m.onnx, node /conv/Conv, .../__init__.py:3, .../y.py, .../tensor.cc:46"
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at /tmp/ipykernel_4711/123456.py:3", ["at <cell>:3"]),
        ("see https://pytorch.org/docs/stable/onnx.html", ["see https://pytorch.org/docs/stable/onnx.html"]),
        ("\n" + "x" * 500 + "\n\nsecond\nthird", ["x" * 157 + "...", "second"]),
        ("No.\nNext steps:\n- Try again", ["No."]),  # no line announces steps that are not shown
        ("No. Next steps:\n- Try again", ["No. Next steps:", "- Try again"]),
    ],
)
def test_two_plain_lines_of_a_message(text, shown):
    assert plain_lines(text, 2) == shown


NOISY = """
import sys, tempfile, torch, warnings
from onnxlab.notebook.expectations import quiet_exporters
class Int(torch.nn.Module):
    def forward(self, x):
        return x * int(x.shape[0])
folder = tempfile.mkdtemp()
for stage in ("noisy", "quiet"):
    if stage == "quiet":
        print("quiet from here", file=sys.stderr)
        quiet_exporters()  # also lets every warning be shown once more
    for dynamo in (True, False):
        torch.onnx.export(Int(), (torch.ones(2, 3),), folder + "/m.onnx", dynamo=dynamo, verbose=False)
    torch.jit.trace(torch.nn.ReLU(), torch.ones(2))
    warnings.warn("mine", UserWarning)
"""


@pytest.mark.slow
def test_in_a_fresh_process_only_the_noise_is_hidden():
    done = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, text=True, check=True)
    noisy, quiet = done.stderr.split("quiet from here\n")
    for noise in ("torchvision is not installed", "LeafSpec", "legacy TorchScript-based"):
        assert noise in noisy
        assert noise not in quiet
    assert "torch.jit.trace" not in quiet
    assert "TracerWarning: Converting a tensor to a Python integer" in quiet
    assert "UserWarning: mine" in quiet
    assert "DeprecationWarning" not in quiet
    assert quiet.count("Warning: ") == 3  # and the lines of code, which Python 3.13 knows here, too


def test_asking_twice_changes_nothing():
    logger = logging.getLogger(LOGGER)
    with warnings.catch_warnings():
        quiet_exporters()
        before = len(warnings.filters), len(logger.filters)
        quiet_exporters()
        assert (len(warnings.filters), len(logger.filters)) == before


def test_other_lines_of_the_same_logger_still_show(caplog):
    quiet_exporters()
    logger = logging.getLogger(LOGGER)
    with caplog.at_level(logging.WARNING, LOGGER):
        logger.warning("torchvision is not installed. Skipping torchvision::nms")
        logger.warning("something new")
    assert [r.getMessage() for r in caplog.records] in ([], ["something new"])
    assert logger.filter(logging.makeLogRecord({"msg": "something new"}))
    assert not logger.filter(logging.makeLogRecord({"msg": "torchvision is not installed. Skipping x"}))


class _Int(torch.nn.Module):
    def forward(self, x):
        return x * int(x.shape[0])


def test_a_process_without_a_terminal_can_expect_an_error():
    source = (
        "import os, sys\nos.close(1)\nos.close(2)\nsys.stdout = sys.stderr = open('out', 'w')\n"
        "from onnxlab.notebook.expectations import expect_error\n"
        "with expect_error(ZeroDivisionError, 'by zero'):\n    1 / 0\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", source], cwd=folder)
        assert done.returncode == 0
        assert (Path(folder) / "out").read_text() == "ZeroDivisionError: division by zero\n"
