"""A program that raises or logs a message, run without and with what `onnxlab why` advises."""

import io
import logging
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

import pytest

from onnxlab.diagnosis.messages import explain
from tests.diagnosis.page_answers import require_same

Program = Callable[[bool], object]
"""It is told whether to follow the advice."""


def heard(program: Program, capfd: pytest.CaptureFixture[str], *, fixed: bool) -> list[str]:
    """Run a program; return its traceback, or its warnings and each line that it printed or logged."""
    printed = io.StringIO()
    handler = logging.StreamHandler(printed)
    logging.getLogger().addHandler(handler)
    capfd.readouterr()
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(printed), redirect_stderr(printed):
        warnings.simplefilter("always")
        try:
            program(fixed)
        except Exception as error:
            return ["".join(traceback.format_exception(error))]
        finally:
            logging.getLogger().removeHandler(handler)
    lines = (printed.getvalue() + "".join(capfd.readouterr())).splitlines()
    return [f"{one.category.__name__}: {one.message}" for one in caught] + lines


def check(kind: str, program: Program, capfd: pytest.CaptureFixture[str]) -> None:
    """Assert that a program says what is of a kind, and does not where it follows the advice."""
    said = heard(program, capfd, fixed=False)
    kinds = [answer.name for text in said for answer in explain(text)[:1]]
    assert kind in kinds, (kinds, said[0][-2000:] if said else "nothing was said")
    for text in said:
        require_same(text)
    after = heard(program, capfd, fixed=True)
    assert not any(text.startswith("Traceback") for text in after), after[0][-2000:]
    assert kind not in [answer.name for text in after for answer in explain(text)[:1]], after
