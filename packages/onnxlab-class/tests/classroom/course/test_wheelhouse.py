"""The wheelhouse of a small course: pip takes its packages from a folder on this machine."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from onnxlab.cli import main
from onnxlab_class.classroom.course.wheelhouse import (
    SYSTEMS,
    Target,
    WheelhouseRefused,
    check_wheelhouse,
    make_wheelhouse,
    pins_for,
    this_target,
)
from tests.support.torch_wheel import make_torch

ROOT = Path(__file__).parents[5]
PINS = "built==3.0\nplain==1.17.0\nboth==2.0\nonly-windows==0.4.6 ; sys_platform == 'win32'\n"
HERE = this_target()
WINDOWS = Target("windows", "3.11" if HERE.system == "windows" else "3.12")
NOWHERE = "http://127.0.0.1:9/simple"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small course in git. pip knows one index, a folder with its packages, as a mirror."""
    mirror, root = tmp_path / "mirror", tmp_path / "course"
    mirror.mkdir()
    root.mkdir()
    for target in (HERE, WINDOWS):
        python = f"cp{target.python.replace('.', '')}"
        make_torch(mirror, "3.0", "built", f"{python}-{python}-{target.platforms[0]}")
    for name, version in (
        ("plain", "1.17.0"),
        ("plain", "1.16.0"),
        ("both", "2.0"),
        ("only_windows", "0.4.6"),
    ):
        make_torch(mirror, version, name)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in {"CONFIG_FILE": os.devnull, "NO_INDEX": "1", "FIND_LINKS": str(mirror)}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    pin(root, PINS)
    return root


def pin(root: Path, text: str) -> None:
    (root / "requirements.txt").write_text(text)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)


def make(course: Path, house: Path, *targets: Target) -> dict[Target, list[str]]:
    return make_wheelhouse(course, house, targets, "requirements.txt")


def names(house: Path) -> list[str]:
    return sorted(path.name for path in (house / "wheelhouse").iterdir())


def test_a_laptop_installs_with_the_network_cut(course, tmp_path, monkeypatch, capsys):
    assert make(course, tmp_path / "house", HERE) == {HERE: []}
    assert capsys.readouterr().out == f"{HERE}: 3 of 3 packages to download ...\n"
    laptop = (tmp_path / "house").rename(tmp_path / "laptop")
    monkeypatch.delenv("PIP_FIND_LINKS")
    command = ["--no-index", "--find-links=wheelhouse", "-r", "requirements.txt", "--target=site"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *command], cwd=laptop, check=True)
    assert (laptop / "site" / "built.py").exists()
    assert f"for:\n  - {HERE}\n3. In" in (laptop / "INSTALL-OFFLINE.txt").read_text()


def test_damage_is_found_and_mended_and_the_folder_follows_pins_and_machines(course, tmp_path):
    house = tmp_path / "house"
    make(course, house, HERE)
    damaged, missing, sound = (
        next((house / "wheelhouse").glob(f"{name}-*")) for name in ("both", "plain", "built")
    )
    damaged.write_bytes(damaged.read_bytes()[:-7])
    missing.unlink()
    assert check_wheelhouse(house) == ({HERE: ["plain==1.17.0", "both==2.0"]}, [damaged.name])
    before = sound.stat().st_mtime_ns
    pin(course, PINS.replace("plain==1.17.0", "plain==1.16.0\nonly-linux==1.0"))
    lacking = {HERE: ["only-linux==1.0"], WINDOWS: ["only-linux==1.0"]}
    assert make(course, house, WINDOWS) == lacking
    assert check_wheelhouse(house) == (lacking, [])
    assert sound.stat().st_mtime_ns == before
    assert [name.partition("-py3")[0] for name in names(house) if "-py3-" in name] == [
        "both-2.0",
        "only_windows-0.4.6",
        "plain-1.16.0",
    ]
    assert main(["class", "wheelhouse", str(house), "--check"]) == 1


def test_an_index_that_does_not_answer_is_not_taken_for_packages_that_do_not_exist(
    course, tmp_path, monkeypatch
):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    monkeypatch.delenv("PIP_FIND_LINKS")
    with pytest.raises(
        WheelhouseRefused, match=r"could not be downloaded[\s\S]*the same command then goes on"
    ):
        make(course, tmp_path / "house", HERE)
    assert (tmp_path / "house" / "INSTALL-OFFLINE.txt").exists(), "the same command goes on from here"


@pytest.mark.skipif(not HERE.system.startswith("linux"), reason="only Linux has builds with CUDA")
def test_torch_comes_from_the_index_that_the_variable_names(course, tmp_path, monkeypatch):
    own = tmp_path / "own"
    own.mkdir()
    make_torch(own, "1.2.3")
    pin(course, "torch==1.2.3\n")
    monkeypatch.setenv("ONNXLAB_TORCH_INDEX", own.as_uri())
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)  # configured, and without torch
    assert make(course, tmp_path / "house", HERE) == {HERE: []}
    assert names(tmp_path / "house") == ["torch-1.2.3-py3-none-any.whl"]


def test_what_cannot_become_a_wheelhouse_is_left_alone(course, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("")
    with pytest.raises(WheelhouseRefused, match="is no wheelhouse"):
        make(course, tmp_path / "mine", HERE)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]
    assert main(["class", "wheelhouse", str(tmp_path / "mine"), "--check"]) == 2
    assert "is no wheelhouse" in capsys.readouterr().err
    assert main(["class", "wheelhouse", str(tmp_path / "house"), "--for", "beos", "--python", "3.12"]) == 2
    assert "It runs with Python 3.11, 3.12, 3.13 on linux" in capsys.readouterr().err
    shutil.rmtree(course / ".git")
    with pytest.raises(WheelhouseRefused, match="Run this in a clone"):
        make(course, tmp_path / "house", HERE)


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_machine_gets_the_pins_whose_conditions_hold_there_and_its_own_wheels(system):
    text, target = (ROOT / "requirements.txt").read_text(), Target(system, "3.12")
    pinned = {pin.partition("==")[0] for pin in pins_for(text, target)}
    assert ("colorama" in pinned, "onnxruntime-extensions" in pinned) == (
        system == "windows",
        system != "windows",
    )
    assert ("appnope" in pinned, "overrides" in pinned) == (system == "macos-arm64", False)
    assert "overrides==7.7.0" in pins_for(text, Target(system, "3.11"))
    wheels = {
        "linux": ("manylinux_2_28_x86_64", "manylinux2014_x86_64"),
        "linux-arm64": ("manylinux_2_28_aarch64",),
        "macos-arm64": ("macosx_11_0_arm64", "macosx_14_0_universal2"),
        "windows": ("win_amd64",),
        "": ("manylinux_2_34_x86_64", "macosx_15_0_arm64", "win32"),  # of no machine: too new, or too old
    }
    for of, platforms in wheels.items():
        for platform in platforms:
            for tag in (f"cp312-cp312-{platform}", f"cp39-abi3-{platform}", f"py3-none-{platform}"):
                fits = not target.lacking(["a==1"], [Path(f"a-1+cpu-{tag}.whl")])
                assert fits == (of == system), tag
    assert target.lacking(["a==1"], [Path("a-1-cp313-cp313-any.whl"), Path("a-2-py3-none-any.whl")])


def test_a_wheel_cut_off_or_changed_anywhere_is_damaged(tmp_path):
    (tmp_path / "wheelhouse").mkdir()
    (tmp_path / "INSTALL-OFFLINE.txt").write_text("-r requirements.txt")
    (tmp_path / "requirements.txt").write_text("")
    wheel = tmp_path / "wheelhouse" / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.py", "".join(map(str, range(200))))
    assert check_wheelhouse(tmp_path) == ({}, [])
    content = wheel.read_bytes()
    begin = content.index(b"a.py") + 4
    damages = [content[:cut] for cut in (0, 10, len(content) // 2, len(content) - 1)]
    for at in range(begin, begin + 30):  # of the compressed file
        damages.append(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
    for damage in damages:
        wheel.write_bytes(damage)
        assert check_wheelhouse(tmp_path) == ({}, [wheel.name])
    wheel.write_bytes(content)
    copy = wheel.rename(wheel.with_name(f"Copy of {wheel.name}"))  # pip cannot read its name
    assert check_wheelhouse(tmp_path) == ({}, [copy.name])
