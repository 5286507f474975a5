"""The pins fit the ranges and each other, and hold nothing of the machine that compiled them."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.author.pins import parse_pins

ROOT = Path(__file__).parents[1]
COURSE, CLASSROOM, TEST = (
    (ROOT / f"requirements{name}.txt").read_text() for name in ("", "-classroom", "-test")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
every_file = pytest.mark.parametrize("text", [COURSE, CLASSROOM, TEST], ids=["course", "classroom", "test"])


def fits(requirement: str, text: str) -> bool:
    parsed = Requirement(requirement)
    return parse_pins(text)[canonicalize_name(parsed.name)] in parsed.specifier


@pytest.mark.parametrize("requirement", PROJECT["dependencies"])
def test_every_range_of_the_course_holds_its_pin(requirement):
    assert fits(requirement, COURSE)


@pytest.mark.parametrize("requirement", EXTRAS["classroom"])
def test_every_range_of_a_class_holds_its_pin(requirement):
    assert fits(requirement, CLASSROOM)


@pytest.mark.parametrize("requirement", EXTRAS["test"] + EXTRAS["cluster"] + EXTRAS["backends"])
def test_every_range_of_the_tests_holds_its_pin(requirement):
    assert fits(requirement, TEST)


@every_file
def test_no_package_is_pinned_twice_and_the_course_itself_is_installed(text):
    lines = [line.partition("==")[0] for line in text.splitlines() if "==" in line and line[0] != "#"]
    assert len(lines) == len(set(lines))
    assert "-e ." in text.splitlines()


def test_each_file_holds_the_one_before_with_the_same_versions():
    course, classroom, test = (parse_pins(text).items() for text in (COURSE, CLASSROOM, TEST))
    assert course < classroom < test


@every_file
@pytest.mark.parametrize(
    "unwanted", ["://", "--index", "--find-links", "--extra-index", "nvidia", "triton", "cuda"]
)
def test_nothing_of_one_machine_is_pinned(text, unwanted):
    assert unwanted not in text


@every_file
def test_every_line_is_one_exact_public_version(text):
    lines = [line for line in text.splitlines() if line[0] not in "#-"]
    assert len(parse_pins(text)) == len(lines)
    assert not [version for version in parse_pins(text).values() if "+" in version]
