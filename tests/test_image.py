"""The Dockerfile and the values for a cluster, as far as they can be tested without building an image."""

import json
import os
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.support.torch_wheel import make_torch
from tools.author.pins import parse_pins

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
VALUES = yaml.safe_load((ROOT / "docs" / "kubernetes.yaml").read_text())
COPIED = [name for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()]


@pytest.mark.parametrize("name", COPIED)
def test_files_that_the_image_copies_exist_and_are_sent_to_the_builder(name):
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert subprocess.check_output(["git", "ls-files", name], cwd=ROOT)
    assert f"!{name}" in rules
    assert not [rule for rule in rules[rules.index("*") + 1 :] if rule[0] != "!" and fnmatch(name, rule)]


def test_no_solution_is_sent_to_the_builder():
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert sent == set(COPIED)
    assert not sent & {"solutions", "tests", ".git"}


def test_the_images_python_is_one_that_the_course_supports():
    (python,) = re.findall(r"^FROM python:([\d.]+)-", DOCKERFILE, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert python in SpecifierSet(project["requires-python"])


def test_the_small_torch_is_the_pinned_one():
    (command,) = re.findall(r"\$\((grep [^)]*)\)", DOCKERFILE)
    requirement = subprocess.check_output(["sh", "-c", command], cwd=ROOT, text=True)
    assert requirement == f"torch=={parse_pins((ROOT / 'requirements.txt').read_text())['torch']}\n"


def test_a_mirror_is_named_before_pip_runs_and_none_is_built_in():
    before_pip = DOCKERFILE[: DOCKERFILE.index("pip install")]
    for variable in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        assert re.search(rf"^ARG {variable}$", before_pip, re.MULTILINE), (
            "with a default it would always be set"
        )
        assert not re.search(rf"{variable}=", DOCKERFILE), "it would stay in the image"


@pytest.mark.slow
@pytest.mark.parametrize("place", ["page of links", "index"])
def test_the_small_torch_comes_from_the_mirror_that_a_build_names(tmp_path, place):
    [command] = re.findall(r"^RUN (if .*?\bfi)$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    version = parse_pins((ROOT / "requirements.txt").read_text())["torch"] + "+cpu"
    mirror, ordinary = tmp_path / "mirror", tmp_path / "ordinary" / "torch"
    ordinary.mkdir(parents=True)
    make_torch(ordinary, version.removesuffix("+cpu"))
    builds = mirror / "torch" if place == "index" else mirror
    builds.mkdir(parents=True)
    make_torch(builds, version)
    for folder in (ordinary, builds):
        [wheel] = folder.glob("*.whl")
        (folder / "index.html").write_text(f'<!DOCTYPE html><a href="{wheel.name}">{wheel.name}</a>')
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    variables = {
        "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_EXTRA_INDEX_URL": (tmp_path / "ordinary").as_uri(),
        "TORCH_INDEX": mirror.as_uri(),
    }
    subprocess.run(["sh", "-ec", command], cwd=ROOT, env=variables, check=True, capture_output=True)
    [metadata] = (tmp_path / "venv").glob("lib/*/site-packages/torch-*.dist-info")
    assert metadata.name == f"torch-{version}.dist-info"


def test_jupyterlab_asks_nobody_for_news_in_the_image():
    written = "".join(re.findall(r"'(\{.*?|[^'%]*\}\})'", DOCKERFILE))
    assert json.loads(written)["LabApp"]["news_url"] is None


def test_the_values_name_the_image_and_the_home_of_the_dockerfile():
    singleuser = VALUES["singleuser"]
    assert singleuser["uid"] == int(re.findall(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)[0])
    assert singleuser["storage"]["homeMountPath"] in DOCKERFILE
    assert (ROOT / singleuser["defaultUrl"].removeprefix("/lab/tree/")).exists()
    assert singleuser["lifecycleHooks"]["postStart"]["exec"]["command"][-1].startswith(
        "python -m onnxlab.course.workbook /opt/onnxlab "
    )


def test_the_dev_container_builds_the_same_image():
    folder = ROOT / ".devcontainer"
    build = json.loads((folder / "devcontainer.json").read_text())["build"]
    assert (folder / build["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (folder / build["context"]).resolve() == ROOT
