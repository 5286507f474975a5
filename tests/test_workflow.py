"""The workflow for GitHub runs the README's command on what the course supports."""

from pathlib import Path

import yaml

import course

ROOT = Path(__file__).parents[1]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
JOB = WORKFLOW["jobs"]["tests"]
MATRIX = JOB["strategy"]["matrix"]


def test_every_supported_python_runs_and_every_system_with_the_newest():
    versions = {*MATRIX["python"], *(more["python"] for more in MATRIX["include"])}
    assert versions == {f"3.{minor}" for minor in range(course.OLDEST[1], course.NEWEST[1] + 1)}
    assert MATRIX["python"] == [f"3.{course.NEWEST[1]}"]
    assert {name.partition("-")[0] for name in MATRIX["system"]} == {"ubuntu", "macos", "windows"}


def test_it_runs_the_readmes_second_command():
    last = JOB["steps"][-1]
    assert (last["shell"], last["run"]) == ("bash", "bash .ci/run")
    assert "exec python3 course.py test" in (ROOT / ".ci" / "run").read_text()


def test_it_may_only_read():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "permissions" not in JOB
