"""The count of modules that a use enters."""

import sys

import pytest

from tools.module_calls import USES, calls_of, modules_in


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a grader's workers are no forks")
def test_the_processes_that_run_and_judge_a_submission_are_counted():
    modules = modules_in(calls_of(USES["onnxlab grade"]))
    assert {f"onnxlab_class.grading.worker.{name}" for name in ("client", "student", "judge")} <= modules
    assert "onnxlab.judges.lab04_asinh.asinh_symbolic" in modules
