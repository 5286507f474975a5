"""The files for a cluster: in step with the pins, and right as far as that can be seen without one."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from starter.cpu_torch import CPU_INDEX

from onnxlab import cli
from onnxlab.authoring.cluster_files import CHART, HUB, PYTHON, ClusterFilesBroken, out_of_sync, pinned, sync

ROOT = Path(__file__).parents[2]
FILES = ROOT / "docs" / "kubernetes"
DOCKERFILE = (FILES / "Dockerfile").read_text()
VALUES = yaml.safe_load((FILES / "values.yaml").read_text())
MANIFESTS = [
    each for name in ("class.yaml", "grading.yaml") for each in yaml.safe_load_all((FILES / name).read_text())
]
PODS = [
    (each["metadata"]["name"], each["spec"]["template"])
    for each in MANIFESTS
    if each["kind"] in ("Deployment", "Job")
]
CONTAINERS = [
    (f"{name}/{each['name']}", template, each)
    for name, template in PODS
    for each in [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]
]

# The keys of the chart's values that our file uses, with the types that its schema gives them, and nothing
# else of that schema (chart 4). A set is a choice, a dict an object that takes no other keys, ANY is free.
TEXT, NUMBER, YES_NO, ANY = (str,), (int, float), (bool,), (object,)
POLICY_RULES = dict.fromkeys(
    (
        "cloudMetadataServer",
        "dnsPortsCloudMetadataServer",
        "dnsPortsKubeSystemNamespace",
        "dnsPortsPrivateIPs",
        "nonPrivateIPs",
        "privateIPs",
    ),
    YES_NO,
)
SCHEMA = {
    "hub": {
        "config": ANY,
        "services": ANY,
        "concurrentSpawnLimit": (int,),
        "activeServerLimit": (int,),
    },
    "proxy": {
        "https": {
            "enabled": YES_NO,
            "type": {"letsencrypt", "manual", "offload", "secret"},
            "hosts": (list,),
            "letsencrypt": {"contactEmail": TEXT, "acmeServer": TEXT},
        },
    },
    "singleuser": {
        "image": {"name": TEXT, "tag": TEXT, "pullPolicy": {"IfNotPresent", "Always", "Never"}},
        "cmd": (str, list),
        "defaultUrl": TEXT,
        "uid": (int,),
        "fsGid": (int,),
        "allowPrivilegeEscalation": YES_NO,
        "startTimeout": (int,),
        "memory": {"limit": (int, float, str), "guarantee": (int, float, str)},
        "cpu": {"limit": NUMBER, "guarantee": NUMBER},
        "extraEnv": ANY,
        "profileList": (list,),
        "storage": {
            "type": {"dynamic", "static", "none"},
            "homeMountPath": TEXT,
            "static": {"pvcName": TEXT, "subPath": TEXT},
        },
        "initContainers": (list,),
        "networkPolicy": {
            "enabled": YES_NO,
            "egressAllowRules": POLICY_RULES,
            "interNamespaceAccessLabels": {"accept", "ignore"},
        },
    },
    "cull": {"enabled": YES_NO, "timeout": (int,), "every": (int,), "users": YES_NO, "maxAge": (int,)},
    "prePuller": {"hook": {"enabled": YES_NO}, "continuous": {"enabled": YES_NO}},
    "scheduling": {"userScheduler": {"enabled": YES_NO}},
}


def refused(value, schema, path="values"):
    """What of a value its schema does not take."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            return [f"{path} is no object"]
        unknown = [f"{path}.{key} is not in the chart" for key in value if key not in schema]
        known = [refused(value[key], schema[key], f"{path}.{key}") for key in value if key in schema]
        return unknown + [line for lines in known for line in lines]
    if isinstance(schema, set):
        return [] if value in schema else [f"{path} is {value!r}"]
    right = isinstance(value, schema) and not (isinstance(value, bool) and schema not in (YES_NO, ANY))
    return [] if right else [f"{path} is {value!r}"]


@pytest.fixture
def copy(tmp_path):
    """A repository with what the command reads."""
    shutil.copytree(FILES, tmp_path / "docs" / "kubernetes")
    for path in [ROOT / "pyproject.toml", *ROOT.glob("requirements*.txt")]:
        shutil.copy(path, tmp_path)
    return tmp_path


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_files_follow_the_pins():
    assert out_of_sync(ROOT) == []


def test_a_pin_that_moved_is_noticed_and_written_where_it_stands(copy, monkeypatch, capsys):
    torch = pinned(ROOT)["torch"]
    replace(copy / "requirements.txt", f"torch=={torch}", "torch==99.1.0")
    replace(copy / "requirements-classroom.txt", "alembic==", "alembic==99")
    monkeypatch.chdir(copy)
    assert cli.main(["author", "cluster", "--check"]) == 1
    said = capsys.readouterr().out
    assert "docs/kubernetes/Dockerfile does not follow" in said
    assert "docs/kubernetes/constraints.txt does not follow" in said
    before = (copy / "docs" / "kubernetes" / "Dockerfile").read_text().splitlines()
    assert cli.main(["author", "cluster"]) == 0
    after = (copy / "docs" / "kubernetes" / "Dockerfile").read_text().splitlines()
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert changed == [(f"ARG TORCH={torch}", "ARG TORCH=99.1.0")]
    assert cli.main(["author", "cluster", "--check"]) == 0
    assert sync(copy) == []


def test_a_pin_that_does_not_exist_and_a_mark_without_a_value_are_said(copy):
    values = copy / "docs" / "kubernetes" / "values.yaml"
    replace(values, "# pinned: onnxlab", "# pinned: numpi")
    with pytest.raises(ClusterFilesBroken, match="'numpi'"):
        sync(copy)
    replace(values, "# pinned: numpi\n", "# pinned: onnxlab\n    # another comment\n")
    with pytest.raises(ClusterFilesBroken, match="has no value"):
        sync(copy)
    values.unlink()
    with pytest.raises(ClusterFilesBroken, match=r"values\.yaml cannot be read"):
        sync(copy)


def test_no_pin_of_the_image_contradicts_another():
    constraints = (FILES / "constraints.txt").read_text()
    assert "jupyterhub==" not in constraints
    assert f"distributed=={pinned(ROOT)['distributed']}" in constraints
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert Version(PYTHON) in SpecifierSet(project["requires-python"])


def test_the_text_names_the_chart_and_the_hub_that_the_files_are_for():
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    assert set(re.findall(r"--version ([\d.]+)", text)) == {CHART}
    assert f"JupyterHub {HUB}" in text


def test_the_image_takes_what_exists_and_no_solutions():
    copied = [
        source
        for line in re.findall(r"^COPY (?:--\S+ )?(.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert "src" in copied
    assert [each for each in copied if not (ROOT / each).exists()] == []
    assert [each for each in copied if re.match(r"solutions|tests|benchmarks|\.", each)] == []
    ignore = (FILES / "Dockerfile.dockerignore").read_text().splitlines()
    assert sorted(line[1:] for line in ignore if line.startswith("!")) == sorted(copied)
    assert "*" in ignore
    assert f"ARG TORCH_INDEX={CPU_INDEX}\n" in DOCKERFILE


def test_the_charts_schema_takes_the_values():
    assert refused(VALUES, SCHEMA) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"singleusr": {}}, "values.singleusr is not in the chart"),
        ({"singleuser": {"memory": {"limits": "2G"}}}, "values.singleuser.memory.limits is not in the chart"),
        ({"cull": {"enabled": "yes"}}, "values.cull.enabled is 'yes'"),
        ({"cull": {"timeout": True}}, "values.cull.timeout is True"),
        ({"singleuser": {"storage": {"type": "shared"}}}, "values.singleuser.storage.type is 'shared'"),
        ({"proxy": "open"}, "values.proxy is no object"),
    ],
)
def test_values_that_the_chart_refuses_would_be_found(change, said):
    assert refused(change, SCHEMA) == [said]


def test_learners_reach_nothing_but_the_hub_and_see_only_their_own_folder():
    policy = VALUES["singleuser"]["networkPolicy"]
    assert policy["enabled"]
    assert {"nonPrivateIPs", "privateIPs", "cloudMetadataServer"} <= policy["egressAllowRules"].keys()
    assert not any(policy["egressAllowRules"].values())
    storage = VALUES["singleuser"]["storage"]
    assert storage["static"]["subPath"] == "learners/{username}"
    mounts = [mount for each in VALUES["singleuser"]["initContainers"] for mount in each["volumeMounts"]]
    assert {mount["subPath"] for mount in mounts} == {"learners/{username}"}
    claims = [each["metadata"]["name"] for each in MANIFESTS if each["kind"] == "PersistentVolumeClaim"]
    assert claims == [storage["static"]["pvcName"]]
    assert storage["homeMountPath"] in VALUES["singleuser"]["extraEnv"]["ONNXLAB_STATE"]
    assert VALUES["hub"]["config"]["NativeAuthenticator"]["open_signup"] is False


def test_one_image_everywhere():
    image = VALUES["singleuser"]["image"]
    named = {f"{image['name']}:{image['tag']}"}
    named |= {each["image"] for each in VALUES["singleuser"]["initContainers"]}
    named |= {container["image"] for _, _, container in CONTAINERS}
    assert named == {pinned(ROOT)["image"]}
    assert f"-t {pinned(ROOT)['image']} ." in DOCKERFILE


def test_the_room_is_the_service_that_the_hub_knows():
    (service,) = (
        each for each in MANIFESTS if each["kind"] == "Service" and each["metadata"]["name"] == "room"
    )
    assert VALUES["hub"]["services"]["room"]["url"] == f"http://room:{service['spec']['ports'][0]['port']}"
    (room,) = (container for name, _, container in CONTAINERS if name == "room/room")
    variables = {each["name"]: each.get("value", "") for each in room["env"]}
    assert variables["JUPYTERHUB_SERVICE_PREFIX"] == "/services/room/"
    assert all(
        isinstance(each, str) for each in ast.literal_eval(variables["JUPYTERHUB_OAUTH_ACCESS_SCOPES"])
    )
    assert room["env"][0]["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "hub.services.room.apiToken"}


@pytest.mark.parametrize(("name", "template", "container"), CONTAINERS, ids=[each[0] for each in CONTAINERS])
def test_a_container_runs_what_exists_with_few_rights(name, template, container):
    command = container["command"]
    if command[0] == "onnxlab":
        cli._parser().parse_args([each for word in command[1:] for each in word.split("=", 1)])
    elif command[:2] == ["python", "-m"]:
        assert find_spec(command[2])
    else:
        assert command[0] in ("dask", "chown")
    pod, own = template["spec"]["securityContext"], container["securityContext"]
    assert not own["allowPrivilegeEscalation"]
    assert own["capabilities"]["drop"] == ["ALL"]
    if name != "grading/own-the-results":  # gives a folder to the others' user, and does nothing else
        assert pod["runAsNonRoot"]
        assert {"runAsUser", "add"}.isdisjoint(own.keys() | own["capabilities"].keys())
    assert not template["spec"]["automountServiceAccountToken"]
    volumes = {each["name"] for each in template["spec"]["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} <= volumes
    assert container["resources"]["limits"].keys() == {"cpu", "memory"}


def test_selectors_find_their_pods():
    labels = {name: template["metadata"]["labels"] for name, template in PODS}
    for each in MANIFESTS:
        if each["kind"] == "Deployment":
            wanted = each["spec"]["selector"]["matchLabels"]
            assert wanted.items() <= labels[each["metadata"]["name"]].items()
        if each["kind"] == "Service":
            wanted = each["spec"]["selector"]
            assert sum(wanted.items() <= have.items() for have in labels.values()) == 1
    restricted = {
        each["spec"]["podSelector"]["matchLabels"]["app"]
        for each in MANIFESTS
        if each["kind"] == "NetworkPolicy"
    }
    assert restricted == {have["app"] for have in labels.values()}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_kubernetes_takes_a_manifest(manifest):
    validate = pytest.importorskip("kubernetes_validate")
    validate.validate(manifest, "1.32", strict=True)
    broken = manifest | {"metdata": {}}
    with pytest.raises(validate.ValidationError):
        validate.validate(broken, "1.32", strict=True)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_a_learners_server_starts_with_the_course_in_its_home(tmp_path):
    home, programs = tmp_path / "home", tmp_path / "programs"
    home.mkdir()
    programs.mkdir()
    (home / "labs").mkdir()
    (home / "labs" / "lab04_asinh.ipynb").write_text("my work")
    for name, does in (
        ("python", f'exec "{sys.executable}" "$@"'),
        ("jupyterhub-singleuser", 'printf "%s\\n" "$@" > "$HOME/arguments"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    environment = {"HOME": str(home), "PATH": f"{programs}:/usr/bin:/bin", "ONNXLAB_FOLDER": str(ROOT)}
    command = [str(FILES / "start-learner"), "--port=1234"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "files added" in done.stdout
    assert (home / "notebooks" / "00_start_here.ipynb").exists()
    assert (home / "labs" / "lab04_asinh.ipynb").read_text() == "my work"
    arguments = (home / "arguments").read_text().splitlines()
    assert "--port=1234" in arguments
    assert f"--ServerApp.root_dir={home}" in arguments
    environment["ONNXLAB_FOLDER"] = str(tmp_path)  # nothing to copy: the server starts all the same
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "was not copied" in done.stderr
