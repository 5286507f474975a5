"""A silenced block shows nothing, and leaves everything as it was."""

import contextlib
import ctypes
import logging
import os
import subprocess
import sys
import warnings

import pytest

from onnxlab.exporters.silence import silenced


def test_what_python_and_c_print_is_captured(capfd):
    print("before")
    with silenced() as heard:
        print("from Python")
        print("to stderr", file=sys.stderr)
        os.write(1, b"to the descriptor\n")
        ctypes.CDLL(None).puts(b"buffered by C")
        subprocess.run(["echo", "from a child"], check=True)
    print("after")
    assert capfd.readouterr() == ("before\nafter\n", "")
    for text in ("from Python", "to stderr", "to the descriptor", "buffered by C", "from a child"):
        assert text in heard.text


def test_warnings_are_counted_by_class_and_first_line():
    with silenced() as heard:
        for detail in "abc":
            warnings.warn(f"careful\n{detail}", UserWarning, stacklevel=1)
        warnings.warn("careful", FutureWarning, stacklevel=1)
    assert [(n.category, n.message, n.count, n.source) for n in heard.notices] == [
        ("UserWarning", "careful", 3, "warning"),
        ("FutureWarning", "careful", 1, "warning"),
    ]


def test_warnings_that_were_already_shown_are_captured_again():
    def careless():
        warnings.warn("once", UserWarning, stacklevel=1)

    for _ in range(2):
        with silenced() as heard:
            careless()
        assert len(heard.notices) == 1


def test_an_error_filter_does_not_turn_warnings_into_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with silenced() as heard:
            warnings.warn("careful", UserWarning, stacklevel=1)
        with pytest.raises(UserWarning):
            warnings.warn("careful", UserWarning, stacklevel=1)
    assert len(heard.notices) == 1


@pytest.mark.parametrize("name", ["torch.onnx", "torch.fresh.logger", "onnxscript.rewriter", "onnx_ir"])
def test_log_messages_of_the_exporters_are_captured(name, capfd):
    with silenced() as heard:
        logging.getLogger(name).warning("kept at %d\nmore", 18)
        logging.getLogger(name).info("progress")
    assert [(n.category, n.message, n.source) for n in heard.notices] == [("log", "kept at 18", "log")]
    assert capfd.readouterr() == ("", "")


def test_other_loggers_are_left_alone(caplog):
    with silenced() as heard:
        logging.getLogger("somebody.else").warning("mine")
    assert heard.notices == ()
    assert caplog.messages == ["mine"]


def test_everything_is_as_before_also_after_an_error():
    def state():
        loggers = [logging.getLogger(name) for name in ("torch", "torch.onnx", "torch.export", "onnxscript")]
        return (
            sys.stdout,
            sys.stderr,
            os.fstat(1),
            os.fstat(2),
            list(warnings.filters),
            warnings.showwarning,
            [(logger.handlers, logger.propagate, logger.level, logger.disabled) for logger in loggers],
        )

    before = state()
    with contextlib.suppress(ZeroDivisionError), silenced() as heard:
        print("half")
        raise ZeroDivisionError
    assert state() == before
    assert heard.text == "half\n"


def test_it_may_be_nested():
    with silenced() as outer:
        print("one")
        with silenced() as inner:
            print("two")
        print("three")
    assert (outer.text, inner.text) == ("one\nthree\n", "two\n")


def test_a_process_without_a_console_can_use_it():
    code = (
        "import os; os.close(1); os.close(2)\n"
        "from onnxlab.exporters.silence import silenced\n"
        "with silenced() as heard: print('lost')\n"
        "os._exit(7 if heard.text == 'lost\\n' else 1)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 7
