"""What kills native code does not kill a notebook."""

import ctypes
import os
import sys
import time
from dataclasses import replace

import pytest
import torch

from onnxlab.labs.kit.checking import check
from onnxlab.labs.kit.exercise import exercise
from onnxlab.labs.kit.outcome import Status

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")

_, ASINH = exercise("asinh-symbolic")
_, UNPOOL = exercise("max-unpool-symbolic")


def rated(answer, record=ASINH):
    return check(record, {record.answers[0]: answer})


def axes_as_an_input(g, values, index, size):
    """As newer opsets have it. The exporter folds the constants of a node that opset 11 does not know."""
    begin, axes = (g.op("Constant", value_t=torch.tensor(value)) for value in ([0, 1], [1]))
    index = g.op("Add", index, g.op("Unsqueeze", begin, axes))
    return g.op("MaxUnpool", values, index, kernel_shape_i=[2, 2], strides_i=[2, 2])


def test_a_crash_in_torch_is_an_error_that_says_so():
    outcome = rated(axes_as_an_input, UNPOOL)
    assert outcome.status is Status.ERROR
    assert "signal 11 (SIGSEGV)" in outcome.message
    assert "This notebook goes on." in outcome.message


def test_an_answer_that_ends_its_process():
    outcome = rated(lambda g, x: os._exit(7))
    assert outcome.status is Status.ERROR
    assert "exit code 7" in outcome.message


def test_native_code_that_hangs_is_ended():
    started = time.monotonic()
    lock = ctypes.create_string_buffer(64)  # a pthread_mutex_t of zeros is one that is free

    def answer(g, x):
        ctypes.PyDLL(None).pthread_mutex_lock(lock)
        ctypes.PyDLL(None).pthread_mutex_lock(lock)  # waits for itself

    outcome = rated(answer, replace(ASINH, time_limit=0.5))
    assert outcome.status is Status.TIMED_OUT
    assert "native code" in outcome.message
    assert time.monotonic() - started < 20


def test_torchs_threads_work_before_and_after():
    """The pool of threads is started here, and is missing in the child: it must not wait for it."""
    x = torch.rand(600, 600)

    def answer(g, node):
        (x @ x).sum().sort()
        return g.op("Asinh", node)

    (x @ x).sum()
    assert rated(answer).passed
    assert (x @ x).isfinite().all()


def test_what_an_answer_changes_stays_in_the_child():
    calls = []

    def answer(g, x):
        calls.append(1)
        return g.op("Asinh", x)

    assert rated(answer).passed
    assert calls == []
