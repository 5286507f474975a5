"""The pins fit the ranges, fit each other, and say nothing about the machine they were compiled on."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from onnxlab.authoring.pins import parse_pins

ROOT = Path(__file__).parents[1]
COURSE = (ROOT / "requirements.txt").read_text()
TEST = (ROOT / "requirements-test.txt").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("wanted", PROJECT["dependencies"])
def test_every_range_of_the_course_holds_its_pin(wanted):
    requirement = Requirement(wanted)
    assert parse_pins(COURSE)[canonicalize_name(requirement.name)] in requirement.specifier


@pytest.mark.parametrize("wanted", PROJECT["optional-dependencies"]["test"])
def test_every_range_of_the_tests_holds_its_pin(wanted):
    requirement = Requirement(wanted)
    pins = parse_pins(COURSE) | parse_pins(TEST)
    assert pins[canonicalize_name(requirement.name)] in requirement.specifier


def test_no_package_is_pinned_twice():
    assert not parse_pins(COURSE).keys() & parse_pins(TEST).keys()


def test_the_course_itself_is_installed_last():
    assert COURSE.splitlines()[-1] == "-e ."
    assert "-r requirements.txt" in TEST.splitlines()


@pytest.mark.parametrize("text", [COURSE, TEST], ids=["course", "test"])
@pytest.mark.parametrize(
    "unwanted", ["://", "--index", "--find-links", "--extra-index", "nvidia", "triton", "cuda"]
)
def test_nothing_of_one_machine_is_pinned(text, unwanted):
    assert unwanted not in text


@pytest.mark.parametrize("text", [COURSE, TEST], ids=["course", "test"])
def test_every_line_is_one_exact_public_version(text):
    lines = [line for line in text.splitlines() if line[0] not in "#-"]
    assert len(parse_pins(text)) == len(lines)
    assert not [version for version in parse_pins(text).values() if "+" in version]
