"""Control groups: the kernel's limits on the memory and the threads of what a process starts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onnxlab_class.sandbox import cgroup

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
HYBRID = Path("/sys/fs/cgroup/unified")
USE = """
import ctypes, json, mmap, os, socket, sys, time
from pathlib import Path
from onnxlab_class.sandbox import cgroup
from onnxlab_class.sandbox.libc import prctl
from onnxlab_class.sandbox.watcher import end_all

prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
groups = Path("/proc/self/cgroup").read_text()

def fill_memory():
    return len(bytearray(120 * 2**20))

def fill_sockets():
    pairs = [socket.socketpair() for _ in range(400)]
    for end in (end for pair in pairs for end in pair):
        end.setblocking(False)
        try:
            while True:
                end.send(bytes(1 << 15))
        except BlockingIOError:
            pass

def fork():
    try:
        while True:
            if not os.fork():
                time.sleep(30)
                os._exit(0)
            count.value += 1
    except OSError:
        pass

count = ctypes.c_int.from_buffer(mmap.mmap(-1, 4))
group = cgroup.create(64 * 2**20, 10)
if group is None:
    print("null")
    sys.exit()
process = os.fork()
if not process:
    assert group.join()
    globals()[sys.argv[1]]()
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
exceeded = group.exceeded()
end_all(os.getpid())
group.remove()
left = [str(entry) for place in cgroup.parents(groups) for entry in place.glob(f"*-{os.getpid()}")]
print(json.dumps([status, exceeded, count.value, left]))
"""


def use(how: str) -> list[Any]:
    """What a process did in a group of 64 MB and 10 threads.

    Returns:
        Its exit code, whether it exceeded the memory, how often it forked, which folders are left.
    """
    done = subprocess.run([sys.executable, "-c", USE, how], capture_output=True, text=True, check=True)
    if (result := json.loads(done.stdout)) is None:
        pytest.skip("no control group can be made here")
    return list(result)


@pytest.mark.parametrize("how", ["fill_memory", "fill_sockets"])
def test_the_kernel_ends_who_uses_more_memory(how: str) -> None:
    assert use(how) == [-9, True, 0, []]


def test_the_kernel_lets_nobody_have_more_processes() -> None:
    assert use("fork") == [0, False, 9, []]


def test_groups_of_watchers_that_were_killed_are_removed() -> None:
    places = cgroup.parents(Path("/proc/self/cgroup").read_text())
    ended = subprocess.Popen(["true"])
    ended.wait()
    for place in places:
        (place / f"onnxlab-{ended.pid}").mkdir()
    if (group := cgroup.create(2**30, 10)) is None:
        pytest.skip("no control group can be made here")
    group.remove()
    assert not any((place / f"onnxlab-{ended.pid}").exists() for place in places)


def test_who_cannot_join_is_told() -> None:
    if (group := cgroup.create(2**30, 10)) is None:
        pytest.skip("no control group can be made here")
    for place in cgroup.parents(Path("/proc/self/cgroup").read_text()):
        (place / group._name).rmdir()
    assert not group.join()


@pytest.mark.skipif(not os.access(HYBRID / "cgroup.procs", os.W_OK), reason="needs a tree of version 2")
def test_a_process_is_moved_into_a_group_of_version_2() -> None:
    group = cgroup.Group([HYBRID], 2**30, 10)  # systemd's tree beside version 1, which limits nothing
    process = subprocess.Popen(["sleep", "60"])
    group._write("cgroup.procs", process.pid)
    assert f"0::/{group._name}\n" in Path(f"/proc/{process.pid}/cgroup").read_text()
    process.kill()
    process.wait(10)
    group.remove()
    assert not (HYBRID / group._name).exists()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of version 2 as systemd makes it for an ordinary user."""
    for folder, handed_on in {
        "": "cpu memory pids",
        "user.slice": "cpu memory pids",
        "user.slice/user@1000.service": "memory pids",
        "user.slice/user@1000.service/app.slice": "memory pids",
        "user.slice/user@1000.service/app.slice/run-1.scope": "",
        "user.slice/session-2.scope": "",
        "only-cpu": "cpu",
        "only-cpu/run": "",
    }.items():
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cgroup.subtree_control").write_text(f"{handed_on}\n")
        (tmp_path / folder / "cgroup.procs").touch()
    return tmp_path


def test_version_2_makes_it_in_the_nearest_group_that_hands_controllers_on(tree: Path) -> None:
    scope = "/user.slice/user@1000.service/app.slice/run-1.scope"
    assert cgroup.parents(f"0::{scope}\n", tree) == [(tree / scope[1:]).parent]
    assert cgroup.parents("0::/only-cpu/run\n", tree) == [tree]
    assert cgroup.parents("0::/\n", tree / "only-cpu") == []


def test_a_version_1_without_memory_is_no_limit_on_memory(tmp_path: Path) -> None:
    (tmp_path / "pids").mkdir()
    (tmp_path / "pids" / "cgroup.procs").touch()
    assert cgroup.parents("3:pids:/\n0::/\n", tmp_path) == []


def test_version_1_makes_one_for_each_controller(tmp_path: Path) -> None:
    groups = "3:pids:/\n2:memory:/a/b\n1:cpu:/\n0::/unified\n"
    assert cgroup.parents(groups, tmp_path) == []  # they do not exist
    for folder in ("memory/a/b", "pids"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "cgroup.procs").touch()
    assert cgroup.parents(groups, tmp_path) == [tmp_path / "memory/a/b", tmp_path / "pids"]
