"""Failures as data: causes, message and stage."""

import pytest

from onnxlab.exporters.export import Stage, failure


def raised(function):
    try:
        function()
    except Exception as error:
        return error
    pytest.fail("nothing was raised")


def test_causes_are_listed_from_the_outside_in():
    def chained():
        try:
            try:
                raise KeyError("innermost")
            except KeyError as error:
                raise ValueError("inner\nmore of it") from error
        except ValueError:
            raise RuntimeError("outer")  # noqa: B904 - the implicit chain is what is tested

    chain = failure(raised(chained))
    assert (chain.error, chain.message) == ("RuntimeError", "outer")
    assert chain.causes == ("ValueError: inner", "KeyError: 'innermost'")


def test_a_suppressed_cause_is_not_listed():
    def hidden():
        try:
            raise KeyError("detail")
        except KeyError:
            raise ValueError("told") from None

    assert failure(raised(hidden)).causes == ()


def test_a_circular_chain_ends():
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    assert failure(first).causes == ("ValueError: two",)


def test_colours_are_removed():
    assert failure(ValueError("\x1b[96mstep 1/3\x1b[0m failed")).message == "step 1/3 failed"


def test_an_error_outside_of_the_exporters_is_capture():
    assert failure(ValueError("bad argument")).stage is Stage.CAPTURE
    assert failure(ValueError("bad argument"), Stage.RUN).stage is Stage.RUN


def test_a_function_of_the_same_name_elsewhere_does_not_decide():
    def save():
        raise OSError("disk full")

    assert failure(raised(save)).stage is Stage.CAPTURE


def test_an_empty_message_is_possible():
    assert failure(ZeroDivisionError()).message == ""
