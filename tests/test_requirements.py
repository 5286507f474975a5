"""The pins fit the ranges and each other, and hold nothing of the machine that compiled them."""

import re
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.author.pins import parse_pins

ROOT = Path(__file__).parents[1]
COURSE, CLASSROOM, TEST = (
    (ROOT / file).read_text()
    for file in ("requirements.txt", "requirements/class.txt", "requirements/test.txt")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CLASS = tomllib.loads((ROOT / "packages" / "onnxlab-class" / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"] | CLASS["optional-dependencies"]
every_file = pytest.mark.parametrize("text", [COURSE, CLASSROOM, TEST], ids=["course", "classroom", "test"])


def fits(requirement: str, text: str) -> bool:
    parsed = Requirement(requirement)
    return parse_pins(text)[canonicalize_name(parsed.name)] in parsed.specifier


@pytest.mark.parametrize(
    ("requirements", "text"),
    [
        (PROJECT["dependencies"], COURSE),
        ([line for line in requires("onnxlab-class") if not re.match("onnxlab|.*extra", line)], COURSE),
        (EXTRAS["classroom"], CLASSROOM),
        (EXTRAS["test"] + EXTRAS["cluster"] + EXTRAS["backends"], TEST),
    ],
    ids=["course", "grader", "class", "tests"],
)
def test_every_range_holds_its_pin(requirements, text):
    assert requirements
    assert [requirement for requirement in requirements if not fits(requirement, text)] == []


def test_the_two_packages_have_one_version_and_one_requires_the_other_in_it():
    assert version("onnxlab") == version("onnxlab-class") == PROJECT["version"]
    assert f"onnxlab=={PROJECT['version']}" in requires("onnxlab-class")
    assert "onnxlab-class" not in {Requirement(line).name for line in requires("onnxlab")}


def test_what_a_learner_installs_has_no_package_of_a_class_or_a_cluster():
    learners = {Requirement(line).name for line in PROJECT["dependencies"]}
    servers = {Requirement(line).name for kind in CLASS["optional-dependencies"].values() for line in kind}
    assert learners & servers == {"ipykernel"}  # which a class needs newer


@every_file
def test_no_package_is_pinned_twice(text):
    lines = [line.partition("==")[0] for line in text.splitlines() if "==" in line and line[0] != "#"]
    assert len(lines) == len(set(lines))


def test_a_learner_installs_one_of_the_two_packages():
    editable = [re.findall(r"^-e (\S+)", text, re.MULTILINE) for text in (COURSE, CLASSROOM, TEST)]
    assert editable == [["."], [".", "packages/onnxlab-class"], [".", "packages/onnxlab-class"]]


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
