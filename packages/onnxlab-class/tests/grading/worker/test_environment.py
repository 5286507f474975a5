"""A submission finds no variable of the instructor's, wherever it looks. Each test starts its own worker."""

import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from class_support.small_class import LAB
from onnxlab.files import remove_untrusted
from onnxlab_class.grading.worker.client import ForkServerPool, WorkerPool
from onnxlab_class.grading.worker.task import CELLS, Task
from onnxlab_class.sandbox.entry import Level, available
from onnxlab_class.sandbox.users import submission_user
from onnxlab_class.sandbox.watcher import Ending, Limits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a fork server forks, on Linux"),
]
# Reads its memory by writing it to a pipe, which fails where nothing is mapped, but does not crash.
SEARCH = """
import ctypes, hashlib, json, os
FIRST, LENGTH, DIGEST = bytes.fromhex("{first}"), {length}, "{digest}"
libc = ctypes.CDLL(None)
reader, writer = os.pipe()
seen, pages = [], 0

def search(text, where):
    at = text.find(FIRST)
    while at >= 0:
        rest = text[at + len(FIRST) : at + len(FIRST) + LENGTH]
        if hashlib.sha256(rest).hexdigest() == DIGEST:
            seen.append(where)
        at = text.find(FIRST, at + 1)

def scan(start, end, where):
    global pages
    before = b""
    for page in range(start & -4096, end, 4096):
        if libc.write(writer, ctypes.c_void_p(page), 4096) != 4096:
            before = b""
            continue
        pages += 1
        content = os.read(reader, 4096)
        search(before[-200:] + content, where)
        before = content

stack = ctypes.c_void_p.in_dll(libc, "__libc_stack_end").value
scan(stack - (1 << 20), stack + (1 << 18), "stack")
libc.sbrk.restype = ctypes.c_void_p
heap = libc.sbrk(ctypes.c_long(0))
scan(heap - (64 << 20), heap, "heap")
try:
    maps = open("/proc/self/maps").read().splitlines()
except OSError:
    maps = []
for line in maps:
    fields = line.split()
    if "w" in fields[1] and fields[-1] not in ("[stack]", "[heap]"):
        scan(*(int(address, 16) for address in fields[0].split("-")), "memory")
for name in filter(str.isdigit, os.listdir("/proc") if maps else [str(n) for n in range(1, 5000)]):
    for file in ("environ", "cmdline"):
        try:
            search(open(f"/proc/{{name}}/{{file}}", "rb").read(), f"/proc/.../{{file}}")
        except OSError:
            pass
json.dump([seen, pages], open("seen.json", "w"))
"""


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="onnxlab-environment-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def search_for(canary: str) -> str:
    """A cell that searches for a canary without containing it."""
    first, rest = canary[:16].encode(), canary[16:].encode()
    return SEARCH.format(first=first.hex(), length=len(rest), digest=hashlib.sha256(rest).hexdigest())


def found_by(cell: str, pool: WorkerPool, level: Level | None, folder: Path) -> Any:
    """Run a cell as a submission; return what it found and how many pages of memory it read."""
    if level is not None and available()[level]:
        pytest.skip(available()[level])
    user = None if level is None else submission_user(7)
    work = folder / "work"
    work.mkdir(mode=0o700)
    (work / CELLS).write_text(json.dumps([cell]))
    if user:
        for path in (work, work / CELLS):
            os.chown(path, user, user)
    try:
        task = Task(secrets.token_hex(4), "student", str(work), LAB, (), 1, level, Limits(wall=120.0), user)
        assert Ending.of(pool.run(task)) is Ending.FINISHED
        return json.loads((work / "seen.json").read_text())
    finally:
        remove_untrusted(work)


@pytest.mark.parametrize(("kind", "levels"), [(ForkServerPool, [*Level, None]), (WorkerPool, [None])])
def test_no_variable_of_the_instructors_is_in_a_submissions_memory(shared_folder, monkeypatch, kind, levels):
    canary = f"canary-{secrets.token_hex(24)}"
    monkeypatch.setenv("INSTRUCTORS_TOKEN", canary)
    cell = search_for(canary)
    # The search does find it where it is: in a Python that inherits this process's environment.
    control = subprocess.run([sys.executable, "-c", cell], cwd=shared_folder, check=True)
    assert not control.returncode
    seen, _ = json.loads((shared_folder / "seen.json").read_text())
    assert {"stack", "/proc/.../environ"} <= set(seen)
    with kind() as pool:
        for level in levels:
            seen, pages = found_by(cell, pool, level, shared_folder)
            assert pages > 100, level
            assert seen == [], level
