"""What learners leave on the disk and in memory: counted, told, taken away."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from onnxlab.classroom import hub_disk
from onnxlab.classroom.hub_disk import DiskWatcher, taken
from onnxlab.classroom.hub_processes import remove_shared_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a class is served on Linux")


def large(path: Path, kilobytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(1024 * kilobytes))


def test_a_folder_is_counted_with_what_is_in_it_and_no_link_is_followed(tmp_path):
    large(tmp_path / "elsewhere" / "large", 4000)
    home = tmp_path / "ada"
    large(home / "labs" / "model.onnx", 300)
    (home / "link").symlink_to(tmp_path / "elsewhere")
    (home / "labs" / "again").symlink_to(home)
    with (home / "holes").open("wb") as sparse:
        sparse.truncate(2**40)
    assert 300_000 <= taken(home) < 2_000_000
    assert taken(tmp_path / "nobody") == 0


def test_a_folder_made_to_be_counted_for_ever_is_counted_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_disk, "_MOST_ENTRIES", 50)
    deep = tmp_path / "deep"
    deep.mkdir()
    here = Path.cwd()
    try:
        os.chdir(deep)
        for _ in range(300):  # no path may be as long as the way to the last one
            os.mkdir("x" * 15)  # noqa: PTH102
            os.chdir("x" * 15)
    finally:
        os.chdir(here)
    for number in range(200):
        (tmp_path / "wide" / str(number)).mkdir(parents=True)
    assert taken(deep) > 0
    assert taken(tmp_path / "wide") > 0
    monkeypatch.undo()
    assert taken(deep) > 0
    shutil.rmtree(deep)


def test_who_takes_much_is_named_once_and_again_when_it_is_twice_as_much(tmp_path, monkeypatch):
    monkeypatch.setattr(hub_disk, "_MUCH", 500_000)
    monkeypatch.setattr(hub_disk, "_LITTLE", 0)
    said: list[str] = []
    watcher = DiskWatcher(tmp_path, said.append)

    def round_of_all() -> int:
        for _ in range(6):
            watcher.look()
        return len(said)

    large(tmp_path / "ada" / "one", 100)
    large(tmp_path / "bob" / "one", 600)
    assert round_of_all() == 1
    assert said[0].startswith("bob's folder takes")
    large(tmp_path / "bob" / "two", 100)
    assert round_of_all() == 1
    large(tmp_path / "bob" / "three", 900)
    assert round_of_all() == 2
    monkeypatch.setattr(hub_disk, "_LITTLE", 10**18)
    watcher = DiskWatcher(tmp_path / "ada", said.append)
    watcher.look()
    assert "nearly full" in said[-1]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives users")
def test_only_what_a_user_left_is_taken_out_of_shared_memory():
    user = 61_235
    places = [Path("/dev/shm", f"onnxlab-test-{os.getpid()}-{name}") for name in ("left", "roots", "link")]
    left, roots, link = places
    try:
        left.write_text("")
        roots.write_text("")
        link.symlink_to(roots)
        for place in (left, link):
            os.chown(place, user, user, follow_symlinks=False)
        remove_shared_memory({user})
        assert [os.path.lexists(place) for place in places] == [False, True, False]
    finally:
        for place in places:
            place.unlink(missing_ok=True)
